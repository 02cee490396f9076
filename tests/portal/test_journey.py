"""From a link to a table: a customer consents in a browser, the next pull has what is theirs."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect

from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.transactions import transactions_of
from tests.browser.chromium import chromium
from tests.cli.command import nightscreen
from tests.portal.browsing import Served, served

if TYPE_CHECKING:
    from pathlib import Path

USERNAME = "ngozi@customers.example"


def consent(portal: Served, customer: str) -> None:
    """Open the customer's link in a browser, go on and allow."""
    with chromium() as browser, browser.new_context() as context:
        page = context.new_page()
        page.goto(portal.quick_link(customer))
        page.get_by_role("button", name="Go on to sign in").click()
        page.wait_for_url("**/data-share?**")
        page.get_by_label("Signed in as").fill(USERNAME)
        page.get_by_role("button", name="Allow").click()
        page.wait_for_url(re.compile(r"/consent/told$"))
        expect(page.get_by_role("heading", level=1)).to_have_text("Thank you, that is done")


@pytest.mark.browser
@pytest.mark.engine
@pytest.mark.long
def test_from_link_to_parquet(tmp_path: Path) -> None:
    """The table holds every transaction of the customer, under the lender's own id, once."""
    with SandboxProcess() as sandbox, served(tmp_path, sandbox) as portal:
        consent(portal, "CUST-0000004")
        listed = nightscreen("consent", "list", cwd=tmp_path, env=portal.env)
        assert "CUST-0000004" in listed.out
        pulled = nightscreen("transactions", "pull", "--json", cwd=tmp_path, env=portal.env)
    assert pulled.status == 0, pulled.err
    assert pulled.document["state"] == "completed"
    (part,) = (tmp_path / "out" / "transactions").glob("pulled_on=*/*.parquet")
    rows = pq.read_table(part).to_pylist()
    assert {row["customer_id"] for row in rows} == {"CUST-0000004"}
    theirs = transactions_of(USERNAME, 0)
    assert sorted(row["transaction_id"] for row in rows) == sorted(
        str(record["id"]) for record in theirs
    )
    assert {row["transaction_id"]: row["amount"] for row in rows} == {
        str(record["id"]): Decimal(str(record["amount"])) for record in theirs
    }
