"""The commands about loans: what they print, and what they say to mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nightscreen.client.prices import PRICES
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.stops import REFUSALS
from tests.cli.command import nightscreen, surroundings
from tests.cli.conftest import Here
from tests.cli.test_refused import RECORDED, answering_as_in
from tests.operations.offers_in_a_test import Lender, borrower
from tests.services import EngineServer


def test_products_are_a_table_for_people(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    products = RECORDED["loan_products_listed"]
    with answering_as_in(products) as (address, sent):
        monkeypatch.setenv("NIGHTSCREEN_BASE_URL", address)
        head, first, *rest = here("loans", "products").out.splitlines()
    assert head.split() == ["product_id", "name", "amount", "length", "interest"]
    assert "LP1001" in first
    assert "₦5,000 to ₦150,000" in first
    assert "1 to 3 months" in first
    assert len(rest) == len(products.response["body"]["data"]) - 1 > 0
    assert len(sent) == 1


@pytest.mark.engine
@pytest.mark.long
def test_offered_and_followed_by_hand(engine_server: EngineServer, folder: Path) -> None:
    """Approved by command, offers are made; `track --json` shows each reference with its status.

    A refused key ends with 3.
    """
    lender = Lender(folder)
    night = lender.screen([borrower(number) for number in (1, 2, 4)])
    with SandboxProcess(api_key="sandbox-key") as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "none"})
        env = {
            **surroundings(folder),
            **engine_server.client,
            "NIGHTSCREEN_BASE_URL": sandbox.url,
            "NIGHTSCREEN_API_KEY": "sandbox-key",
            "NIGHTSCREEN_HOME": str(folder / "home"),
            "NIGHTSCREEN_APPROVAL_ABOVE": "1",
        }
        free, prices = 'loan_start = "0"', PRICES.read_text()
        dear = prices.replace(free, free.replace("0", "5"))
        (folder / "home" / "prices.toml").write_text(dear)
        offer = ("loans", "offer", str(night.folder), "--product", "LP1001")
        waiting = nightscreen(*offer, "--json", cwd=folder, env=env)
        assert waiting.status == 3, waiting.err
        approved = nightscreen("approve", waiting.document["run_id"], cwd=folder, env=env)
        assert approved.status == 0, approved.err
        assert "offered 3" in approved.out
        sandbox.post("/_sandbox/world", {"day": 6})
        tracked = nightscreen("loans", "track", "--json", cwd=folder, env=env)
        loans = tracked.document["loans"]
        shown = {one["reference"]: one["status"] for one in sandbox.get("/_sandbox/loans")["loans"]}
        assert {one["reference"]: one["status"] for one in loans} == shown
        assert "mail.example" not in json.dumps(tracked.document)
        sandbox.post("/_sandbox/manners", {"distributor": False})
        refused = nightscreen("loans", "track", "--json", cwd=folder, env=env)
    assert refused.status == 3
    assert refused.err.count(REFUSALS["distributor"]) == 1
    assert refused.document["notices"] == [REFUSALS["distributor"]]
