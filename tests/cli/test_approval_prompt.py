"""Who is asked on a terminal whether a run may spend."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nightscreen.cli.terminal import ask, ask_on_terminal
from nightscreen.desk.accounts import Accounts
from nightscreen.journal import open_journal
from nightscreen.schemas.users import Role
from nightscreen.tasks.terminal import AT_TERMINAL, Terminal


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
