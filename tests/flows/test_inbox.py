"""Watchers of the inbox that die, share and are refused, on a real engine against the sandbox."""

from __future__ import annotations

import asyncio
import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.config.parameters import WatchInbox
from nightscreen.flows.watch_inbox import keep_watch
from nightscreen.journal import open_journal
from nightscreen.journal.approvals import Approvals
from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.approvals import ApprovalDecision

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.sandbox.process import SandboxProcess

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 20


@pytest.fixture
def inbox(at_home: Path, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inbox whose files settle quickly, and a sandbox that answers at once."""
    sandbox.post("/_sandbox/latency", {"kind": "none"})
    folder = at_home / "inbox"
    folder.mkdir()
    monkeypatch.setenv("NIGHTSCREEN_INBOX", str(folder))
    monkeypatch.setenv("NIGHTSCREEN_INBOX_SETTLE_S", "0.2")
    return folder


def customers(inbox: Path, name: str, seed: int = 5, rows: int = ROWS) -> Path:
    """Make a file of customers beside the inbox."""
    path = inbox.parent / name
    make_batch(path, rows=rows, seed=seed)
    return path


def drop(inbox: Path, path: Path, name: str = "") -> None:
    """Copy a file into the inbox, as a file manager does."""
    shutil.copy(path, inbox / (name or path.name))


def watch(**options: Any) -> dict[str, int]:  # noqa: ANN401 - as the form has them
    """Watch the inbox for what lies there now; return what its files came to."""
    told: list[str] = []
    return asyncio.run(keep_watch(WatchInbox(**options), tell=told.append)).fates


def reports(inbox: Path) -> list[dict[str, Any]]:
    """Return the reports of the inbox's runs, oldest first."""
    found = sorted((inbox / "done").glob("*/report.json"))
    return [json.loads(path.read_text()) for path in found]


def requests(sandbox: SandboxProcess) -> int:
    """Return how many calls the sandbox saw."""
    return int(sandbox.totals()["totals"]["requests"])


def decide(inbox: Path, run_id: str, decision: ApprovalDecision) -> None:
    """Write an approver's decision down."""
    with open_journal(inbox.parent / "home") as journal:
        Approvals.of(journal).decide(run_id, decision, by="chief")


def test_a_file_that_waits_for_approval_blocks_no_other(
    inbox: Path, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies aside with its quote; the next is screened; approved, it is screened too."""
    monkeypatch.setenv("NIGHTSCREEN_APPROVAL_ABOVE", "100")
    drop(inbox, customers(inbox, "book.csv", rows=60))
    drop(inbox, customers(inbox, "small.csv", seed=6, rows=2))
    assert watch() == {"waiting": 1, "screened": 1}
    spent = requests(sandbox)
    (folder,) = (inbox / "waiting").iterdir()
    said = (folder / "waits-for-approval.txt").read_text()
    assert f"nightscreen approve {folder.name}" in said
    assert (folder / "quote.txt").exists()
    drop(inbox, inbox.parent / "book.csv")
    assert watch() == {"repeated": 1}
    assert requests(sandbox) == spent
    decide(inbox, folder.name, ApprovalDecision.APPROVED)
    assert watch() == {"screened": 1}
    done = inbox / "done" / folder.name
    assert json.loads((done / "report.json").read_text())["state"] == "completed"
    assert (done / "input" / "book.csv").exists()
    assert not (done / "waits-for-approval.txt").exists()
    assert list((inbox / "waiting").iterdir()) == []
