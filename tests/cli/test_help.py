"""Every command explains itself, and shells can complete it."""

from __future__ import annotations

import re

import pytest

from nightscreen.cli.main import COMMANDS
from tests.cli.conftest import Here


def test_the_list_of_commands_is_told_in_whole_sentences(here: Here) -> None:
    """Nothing is cut off with dots in a terminal of 80 columns."""
    ended = here("--help")
    assert ended.status == 0
    ours = set(COMMANDS)
    listed = [line.split() for line in ended.out.split("Commands:")[1].splitlines()]
    told = {words[0]: words for words in listed if words and words[0] in ours}
    assert set(told) == ours
    assert not [words for words in told.values() if words[-1].endswith("...")]


def test_the_version_can_be_asked_for(here: Here) -> None:
    """Bug reports need it."""
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", here("--version").out)


def test_a_shell_is_offered_what_fits(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also below a group, by the script that was installed."""
    monkeypatch.setenv("_NIGHTSCREEN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "nightscreen journal in")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert "in-doubt" in here().out.split()
