"""A week at the desk in a real browser, as four users, and the one chained audit of it."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from nightscreen.journal.records import Records
from nightscreen.schemas.cases import OpenCase
from tests.browser.chromium import chromium
from tests.cli.command import nightscreen, surroundings
from tests.desk.furnished import furnished, opened, places
from tests.desk.office import Office
from tests.screening import Night, World

pytestmark = [pytest.mark.browser, pytest.mark.long]
WIDE = 1280
REFUSED = "CUST-9990001"
"""The id that the customer gets whose row came with another's."""
STEPS = (
    *(("Ada", "work shared out"), ("Ada", "case taken"), ("Ada", "case given back")),
    ("Bem", "case taken"),
    ("Bem", "review saved"),
    *(("Tari", "contest recorded"), ("Bem", "contest answered")),
    ("Ada", "quarantine screened again"),
    *(("Ada", "policy tried"), ("Ada", "policy proposed"), ("Bem", "policy approved")),
)
"""What the auditor must find, in the order in which it was done."""


def test_a_week_of_four_users_stands_in_the_audit(tmp_path: Path) -> None:
    """A contest answered, a quarantine fixed, a threshold in force; one changed line is seen."""
    with furnished(tmp_path) as office, chromium() as browser:
        before = office.context.audit.find(limit=1)[0]["number"]
        _work(office, browser)
        office.clock.forward(days=1)
        _contest(office, browser)
        office.clock.forward(days=1)
        _fix(office, browser)
        office.clock.forward(days=1)
        _put_in_force(office, browser)
        office.clock.forward(days=2)
        _audit(office, browser, before)


def _night(office: Office, **options: Any) -> Night:  # noqa: ANN401 - as a run is given them
    """Screen in a thread what the desk starts in a process: this one's loop is the browser's."""
    world = World(office.folder, clock=office.clock)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(world.screen, **options).result()


def _at(office: Office, browser: Browser, name: str, address: str) -> Page:
    page = opened(office, browser, name, width=WIDE)
    page.goto(office.origin + address)
    return page


def _work(office: Office, browser: Browser) -> None:
    """A branch is shared out; of two people on one case one saves, and the next case opens."""
    cases = Counter(each.branch for each in Records(office.journal, OpenCase).all())
    (branch, _), (other, _) = cases.most_common(2)
    ada = _at(office, browser, "Ada", "/decisions")
    ada.get_by_label("Which cases").select_option(label=f"Branch: {branch}")
    ada.get_by_label("Bem").check()
    ada.get_by_role("button", name="Share out").click()
    bem = _at(office, browser, "Bem", f"/decisions?branch={branch}")
    shared = bem.get_by_role("region", name="Cases").get_by_role("row").nth(1)  # below the heads
    expect(shared).to_contain_text("you, shared out")
    ada.goto(f"{office.origin}/decisions?branch={other}")
    rows = ada.get_by_role("region", name="Cases").get_by_role("row")
    left = rows.filter(has_text="nobody").first
    link = left.get_by_role("rowheader").get_by_role("link")
    customer, address = link.inner_text(), f"{office.origin}{link.get_attribute('href')}"
    left.get_by_role("button", name="Take").click()
    bem.goto(address)
    expect(bem.get_by_role("region", name="Whose case")).to_contain_text("Ada, taken")
    _review(bem)
    expect(bem.get_by_text("Ada has this case")).to_be_visible()
    ada.get_by_role("row", name=customer).get_by_role("button", name="Give back").click()
    expect(ada.get_by_role("row", name=customer)).to_contain_text("nobody")
    bem.goto(address)
    bem.get_by_role("region", name="Whose case").get_by_role("button", name="Take").click()
    expect(bem.get_by_role("region", name="Whose case")).to_contain_text("you, taken")
    _review(bem)
    expect(bem.get_by_text("The review is saved.")).to_be_visible()
    expect(bem.get_by_role("heading", level=1)).not_to_have_text(customer)


def _review(page: Page) -> None:
    page.get_by_label("Decision", exact=True).select_option("decline")
    page.get_by_label("Reason", exact=True).select_option(index=1)
    page.get_by_label("Note", exact=True).fill("seen with the branch")
    page.get_by_role("button", name="Save review").click()


def _contest(office: Office, browser: Browser) -> None:
    """One records what a customer says, another who did not decide answers."""
    address = places(office)["customer"]
    customer = address.removeprefix("/customers/").partition("?")[0]
    tari = _at(office, browser, "Tari", address)
    tari.get_by_label("What the customer says").fill("I paid them in May.")
    tari.get_by_role("button", name="Record contest").click()
    bem = _at(office, browser, "Bem", "/contests")
    case = bem.get_by_role("region", name=customer)
    expect(case).to_contain_text("I paid them in May.")
    expect(case).to_contain_text("recorded by Tari")
    case.get_by_label("What becomes of it").select_option("stands")
    case.get_by_label("What the customer is told").fill("The lender still reports it unpaid.")
    case.get_by_role("button", name="Answer").click()
    expect(bem.get_by_role("row", name=customer)).to_contain_text("Bem")


def _fix(office: Office, browser: Browser) -> None:
    """A row that came with another's customer id gets its own and is screened with its batch."""
    ada = _at(office, browser, "Ada", places(office)["fix"])
    ada.get_by_label("customer_id, line 3", exact=True).fill(REFUSED)
    ada.get_by_role("button", name="Screen again").click()
    ada.wait_for_url("**/new/*")
    (parameters,) = office.starts.started
    night = _night(office, **parameters.model_dump(exclude={"run", "yes", "quote_only"}))
    assert night.column("customer_id") == [REFUSED]
    assert night.report["batch"] == "portfolio"
    ada.goto(f"{office.origin}/runs/{night.report['run_id']}/decisions")
    expect(ada.get_by_role("table")).to_contain_text(REFUSED)


def _put_in_force(office: Office, browser: Browser) -> None:
    """A threshold is tried, proposed and approved; the next night decides by it."""
    ada = _at(office, browser, "Ada", "/policy")
    ada.get_by_label("past_due_naira").fill("300,000")
    ada.get_by_role("button", name="Try on past runs").click()
    tried = ada.get_by_role("region", name="Who would move", exact=True)
    expect(tried).to_contain_text("nothing was asked and nothing spent")
    moved = tried.get_by_role("region", name="Customers who would move").get_by_role("rowheader")
    customers = moved.all_inner_texts()
    assert customers
    ada.get_by_label("Version").fill("after the committee")
    ada.get_by_label("Note").fill("Small arrears pay as others do.")
    ada.get_by_role("button", name="Propose", exact=True).click()
    own = ada.get_by_role("region", name="after the committee")
    expect(own.get_by_role("button", name="Approve")).to_have_count(0)
    bem = _at(office, browser, "Bem", "/")
    bem.get_by_role("listitem").filter(has_text="after the committee").get_by_role("link").click()
    waiting = bem.get_by_role("region", name="after the committee")
    expect(waiting.get_by_role("row", name="past_due_naira")).to_contain_text("300000")
    waiting.get_by_role("button", name="Approve").click()
    expect(bem.locator("main")).to_contain_text("version after the committee, is in force since")
    before = [run for run in office.journal.runs.newest(limit=9) if run.batch == "portfolio"][-1]
    night = _night(office, input=str(office.folder / "customers.csv"), batch="portfolio")
    manifest = json.loads((night.folder / "manifest.json").read_text())
    assert manifest["policy"]["version"] == "after the committee"
    assert before.report is not None
    assert night.report["provenance"]["policy"] != before.report["provenance"]["policy"]
    assert night.report["provenance"]["policy_approval"]["approved_by"] == "Bem"
    ada.goto(f"{office.origin}/customers/{customers[0]}?run={night.report['run_id']}")
    decided = ada.get_by_role("region", name="What was decided").get_by_role("heading")
    expect(decided).not_to_contain_text("decline")


def _audit(office: Office, browser: Browser, before: int) -> None:
    """The auditor finds each step, takes the log out; one line changed in the file is named."""
    aud = _at(office, browser, "Tari", "/audit")
    for user, action in STEPS:
        aud.get_by_label("Search", exact=True).fill(f"{user} {action}")
        aud.get_by_role("button", name="Find").click()
        entries = aud.get_by_role("region", name="Entries")
        expect(entries.get_by_role("row", name=action).first).to_contain_text(user)
    aud.goto(f"{office.origin}/audit")
    with aud.expect_download() as download:
        aud.get_by_role("button", name="Export").click()
    lines = list(csv.DictReader(io.StringIO(download.value.path().read_text("utf-8-sig"))))
    kept = [line for line in reversed(lines) if line["user"]]  # not what the file says of itself
    done = [(each["user"], each["action"]) for each in kept if int(each["number"]) > before]
    assert [step for step in dict.fromkeys(done) if step in STEPS] == list(STEPS)
    env = surroundings(office.folder, NIGHTSCREEN_HOME=str(office.folder / "home"))
    whole = nightscreen("journal", "verify", cwd=office.folder, env=env)
    assert whole.status == 0, whole.out + whole.err
    with closing(sqlite3.connect(office.folder / "home" / "journal.sqlite")) as file, file:
        file.execute("UPDATE audit SET user = 'Ada' WHERE action = 'policy approved'")
    broken = nightscreen("journal", "verify", cwd=office.folder, env=env)
    assert broken.status == 1
    number = next(line["number"] for line in lines if line["action"] == "policy approved")
    assert f"entry {number} of the desk's audit was changed" in broken.out + broken.err
