"""`nightscreen explain` and `subject-access`: on the terminal masked, in private files whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from nightscreen.cli.main import app
from tests.cli.list_in_a_test import screened

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a screened night, HOME set to its journal."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return screened(tmp_path).path


def test_a_decision_is_explained_on_the_terminal() -> None:
    """Decision, evidence and reason in words, no identifier but the id as given."""
    found = CliRunner().invoke(app, ["explain", "0007"])
    assert found.exit_code == 0
    for word in ("0007", "decline", "KARMA_DEFAULT", "Harbour Finance", "lawful basis undeclared"):
        assert word in found.output
    for secret in ("22212345678", "0123456789", "Amaka", "AMAKA"):
        assert secret not in found.output
    assert "list_filter" not in found.output
    assert "0.0 days" not in found.output
    assert "first seen under this batch name" in found.output
    assert "0000," not in found.output  # amounts have two places


def test_subject_access_writes_two_private_files(tmp_path: Path) -> None:
    """HTML and JSON, for their owner alone, named without the customer."""
    found = CliRunner().invoke(
        app, ["subject-access", "0007", "--output", str(tmp_path / "access"), "--json"]
    )
    assert found.exit_code == 0
    files = sorted((tmp_path / "access").iterdir())
    assert [path.suffix for path in files] == [".html", ".json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert not any("0007" in path.name for path in files)
    assert json.loads(files[1].read_text("utf-8"))["rows"][0]["row"]["bvn"] == "22212345678"
    assert json.loads(found.stdout)["held"]["rows"] == 1
