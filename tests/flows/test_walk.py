"""An analyst's walk in a real browser, against a real server and worker, from file to decisions.

The pictures on the way lie under the test's temporary folder.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import openpyxl
import pytest

from nightscreen.sandbox.batch import make_batch
from tests.browser.chromium import chromium
from tests.cli.command import COMMAND
from tests.flows.analyst_in_a_test import Analyst
from tests.flows.engine_in_a_test import BLOCK, until
from tests.services import LOGIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

    from nightscreen.sandbox.process import SandboxProcess
    from tests.flows.engine_in_a_test import Engine

pytestmark = [pytest.mark.engine, pytest.mark.browser, pytest.mark.long]

ROWS = 40
FIRST = [
    *("Input file", "Checks", "Purpose", "Spend at most (naira)", "Deadline", "Quote only"),
    *("Resume run", "Batch name"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium for both walks."""
    with chromium() as found:
        yield found


@pytest.fixture
def analyst(browser: Browser, engine: Engine, tmp_path: Path) -> Iterator[Analyst]:
    """An analyst with a fresh page, whose clock is in Lagos."""
    page = browser.new_page(timezone_id="Africa/Lagos")
    analyst = Analyst(page, engine.url.removesuffix("/api"), tmp_path)
    analyst.sign_in(LOGIN)
    yield analyst
    page.close()


@pytest.fixture
def inbox(engine: Engine, sandbox: SandboxProcess, tmp_path: Path) -> Path:
    """An inbox of the worker's, whose files need approval from a hundred naira."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    folder = tmp_path / "inbox"
    folder.mkdir()
    env = {
        "NIGHTSCREEN_API_KEY": f"{{{{ prefect.blocks.secret.{BLOCK} }}}}",
        "NIGHTSCREEN_APPROVAL_ABOVE": "100",
        "NIGHTSCREEN_INBOX": str(folder),
        "NIGHTSCREEN_INBOX_SETTLE_S": "0.5",
        "NIGHTSCREEN_HOME": str(tmp_path / "home"),
    }
    once = {"parameters": {"minutes": 0}}
    engine.change_deployment(
        "watch-inbox/inbox", {"job_variables": {"env": env}, "parameters": once}
    )
    return folder


def make_spreadsheet(path: Path) -> None:
    """Write customers as an office program does."""
    make_batch(path.with_suffix(".csv"), rows=ROWS, seed=77)
    book = openpyxl.Workbook()
    assert book.active is not None
    with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        for row in csv.reader(file):
            book.active.append(row)
    book.save(path)


def listed(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a decision list as somebody sees them who opens it, sheet by sheet."""
    found = {}
    book = openpyxl.load_workbook(path)
    for name in {"Decline", "Review"} & set(book.sheetnames):
        head, *rows = book[name].iter_rows(values_only=True)
        found[name] = [dict(zip(map(str, head), row, strict=True)) for row in rows]
    return found


def test_from_a_dropped_spreadsheet_to_the_decision_list(
    analyst: Analyst, engine: Engine, inbox: Path, sandbox: SandboxProcess, tmp_path: Path
) -> None:
    """Dropped, quoted, approved, watched to its end, read; then the list is opened."""
    make_spreadsheet(tmp_path / "walkers-20260301.xlsx")
    shutil.copy(tmp_path / "walkers-20260301.xlsx", inbox)
    analyst.open_form("inbox")
    analyst.field("Watch for (minutes)").fill("0")
    analyst.picture("inbox-form")
    assert not analyst.submit()

    note = until(lambda: next(inbox.glob("waiting/*/waits-for-approval.txt"), None), "the note")
    assert sandbox.totals()["totals"]["requests"] == 0, "nothing is spent before it is approved"
    expected = (note.parent / "quote.txt").read_text().split("expected")[1].split()[0]
    assert f"expected to cost {expected}" in note.read_text()
    analyst.open_run("walkers-portfolio", "Completed")
    analyst.picture("waits")
    watching = {"flow_runs": {"name": {"any_": ["inbox"]}}, "sort": "START_TIME_DESC", "limit": 1}
    ended = ("COMPLETED", "FAILED", "CRASHED")  # another watch is cancelled until then
    until(
        lambda: engine.post("/flow_runs/filter", watching)[0]["state_type"] in ended,
        "the end of the first watch",
    )
    home = {"NIGHTSCREEN_HOME": str(tmp_path / "home"), "NIGHTSCREEN_INBOX": str(inbox)}
    approve = [COMMAND, "approve", note.parent.name, "--note", "as every month"]
    done = subprocess.run(
        approve, env={**engine.env, **home}, check=False, capture_output=True, text=True
    )
    assert "the deployment watch-inbox/inbox" in done.stdout, done.stderr

    folder = until(lambda: next(inbox.glob("done/*/result.txt"), None), "the result").parent
    analyst.open_run(f"resume-{folder.name}", "Completed")
    analyst.picture("run")

    report = json.loads((folder / "report.json").read_text())
    summary = analyst.open_artifact("walkers-summary")
    screened = report["rows"]["screened"]
    assert f"Complete: {screened} customers checked" in summary, summary
    assert "publishable: yes." in summary
    assert f"{float(report['cost']['total']):,.2f}" in summary
    assert str(folder) in summary

    sheets = listed(folder / "decisions.xlsx")
    assert sheets["Review"]
    for sheet, customers in sheets.items():
        assert len(customers) == report["decisions"].get(sheet.lower(), 0)
        assert {row["Decision"] for row in customers} <= {sheet.lower()}
        assert all(row["Why"] for row in customers)
    assert (folder / "input" / "walkers-20260301.xlsx").exists()
    assert list((inbox / "taken").iterdir()) == []


def test_the_form_asks_in_words_and_takes_no_nonsense(
    analyst: Analyst, engine: Engine, tmp_path: Path
) -> None:
    """What matters most comes first; a wrong amount is reported at once; then there is a quote."""
    make_batch(tmp_path / "ledger-20260301.csv", rows=ROWS, seed=78)
    analyst.open_form("adhoc")
    titles = [title for title in analyst.titles() if title != "parameters"]
    assert titles[: len(FIRST)] == FIRST
    assert "Spending is approved" in titles[-2:]
    analyst.field("Input file").fill(str(tmp_path / "ledger-20260301.csv"))
    analyst.field("Spend at most (naira)").fill("ten thousand")
    assert "'ten thousand' does not match" in analyst.submit()
    analyst.page.get_by_text("'ten thousand' does not match").first.wait_for()
    analyst.field("Spend at most (naira)").fill("5000")
    analyst.switch("Quote only")
    analyst.picture("form")
    assert not analyst.submit()
    analyst.open_run("ledger-portfolio", "Completed")
    quote = analyst.open_artifact("ledger-quote")
    assert "expected for" in quote
    assert "₦5,000.00" in quote
