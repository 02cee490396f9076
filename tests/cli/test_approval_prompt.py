"""Who is asked on a terminal whether a run may spend."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nightscreen.calling.run import Run
from nightscreen.calling.stops import Stops
from nightscreen.cli.terminal import ask, ask_on_terminal
from nightscreen.desk.accounts import Accounts
from nightscreen.journal import open_journal
from nightscreen.journal.approvals import Approvals
from nightscreen.schemas.users import Role
from nightscreen.tasks.terminal import AT_TERMINAL, Terminal
from tests.operations.bvn_in_a_test import BvnWorld, asked


def test_person_at_the_terminal_sees_how_many_are_asked_and_how_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a run person by person, the quote is shown above the question."""
    world = BvnWorld(tmp_path, settings={"approval_above": "30"})
    rows = [asked(number) for number in range(1, 4)]
    world.request(rows)
    run_id = world.confirm({row["customer_id"]: world.otp(row) or "" for row in rows}).report[
        "run_id"
    ]
    with open_journal(tmp_path / "home") as journal:
        approval = Approvals(journal).newest(run_id)
    assert approval is not None
    terminal, run = Terminal(), SimpleNamespace(settings=world.read_settings(), stops=Stops())
    terminal.run = cast("Run", run)
    monkeypatch.setattr("select.select", lambda *_: ([sys.stdin], [], []))
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    before = AT_TERMINAL.set(terminal)
    try:
        assert ask(approval)
    finally:
        AT_TERMINAL.reset(before)
    said = capsys.readouterr().err
    assert "3 rows, 0 in quarantine: 3 calls to the service" in said
    assert "Spend up to ₦60" in said


def test_nobody_is_asked_on_a_terminal_where_the_desk_has_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sits there did not sign in: the run waits for a user of the desk."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path))
    for stream in ("sys.stdin", "sys.stderr"):
        monkeypatch.setattr(stream, SimpleNamespace(isatty=lambda: True, write=len))
    terminal = Terminal()
    before = AT_TERMINAL.set(terminal)
    try:
        ask_on_terminal()
        assert terminal.ask is ask
        with open_journal(tmp_path) as journal:
            Accounts(journal).add("Ada", [Role.ANALYST])
        ask_on_terminal()
        assert terminal.ask is None
    finally:
        AT_TERMINAL.reset(before)
