"""`.env.example` is the list of settings: complete, with their defaults, each explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nightscreen.config.settings import read_settings, setting_names
from tests.cli.conftest import Here

EXAMPLE = Path(__file__).resolve().parents[2] / ".env.example"
LINE = re.compile(r"^#?(NIGHTSCREEN_[A-Z_]+)=(.*)$")


def _values() -> dict[str, str]:
    found = (LINE.match(line) for line in EXAMPLE.read_text(encoding="utf-8").splitlines())
    return {match[1]: match[2] for match in found if match}


def test_every_setting_is_listed_under_a_sentence_with_its_default(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the settings themselves; setting every name to its value changes nothing."""
    assert list(_values()) == setting_names()
    monkeypatch.delenv("NIGHTSCREEN_BASE_URL")
    monkeypatch.delenv("NIGHTSCREEN_API_KEY")
    defaults = read_settings()
    for name, value in _values().items():
        if value:
            monkeypatch.setenv(name, value)
    assert read_settings() == defaults
    for block in EXAMPLE.read_text(encoding="utf-8").strip().split("\n\n"):
        first, *_ = block.splitlines()
        assert first.startswith("# "), block
        assert re.search(r"[.:][^#]*\n#?NIGHTSCREEN|\Z", block), block


def test_init_gives_a_folder_what_it_needs_and_keeps_what_it_has(
    here: Here, tmp_path: Path
) -> None:
    folder = tmp_path / "nights"
    folder.mkdir()
    (folder / ".env").write_text("NIGHTSCREEN_API_KEY=mine\n")
    ended = here("init", "--output", str(folder), "--json")
    assert ended.status == 0
    written = {".env": False, "prefect.yaml": True, "work_pool.json": True}
    assert ended.document == {"written": written}
    assert (folder / ".env").read_text() == "NIGHTSCREEN_API_KEY=mine\n"
    deployments = EXAMPLE.with_name("prefect.yaml")
    assert (folder / "prefect.yaml").read_text() == deployments.read_text()
