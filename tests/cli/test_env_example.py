"""`.env.example` is the list of settings: complete, with their defaults, each explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nightscreen.config.settings import read_settings, setting_names

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"
LINE = re.compile(r"^#?(NIGHTSCREEN_[A-Z_]+)=(.*)$")


def _values() -> dict[str, str]:
    found = (LINE.match(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines())
    return {match[1]: match[2] for match in found if match}


def test_every_setting_is_listed_and_nothing_else() -> None:
    """In the order of the settings themselves."""
    assert list(_values()) == setting_names()


def test_the_values_are_the_defaults(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting every name to its value changes nothing."""
    monkeypatch.delenv("NIGHTSCREEN_BASE_URL")
    monkeypatch.delenv("NIGHTSCREEN_API_KEY")
    defaults = read_settings()
    for name, value in _values().items():
        if value:
            monkeypatch.setenv(name, value)
    assert read_settings() == defaults


def test_every_setting_stands_under_a_sentence() -> None:
    """No setting is left to be guessed at."""
    for block in EXAMPLE.read_text(encoding="utf-8").strip().split("\n\n"):
        first, *_ = block.splitlines()
        assert first.startswith("# "), block
        assert re.search(r"[.:][^#]*\n#?NIGHTSCREEN|\Z", block), block
