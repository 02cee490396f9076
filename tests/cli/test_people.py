"""`nightscreen explain`, `subject-access` and `erase`: masked on the terminal, told in numbers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from nightscreen.cli.main import app
from nightscreen.files.run_folder import NOTE, RunFiles
from nightscreen.journal import open_journal
from nightscreen.privacy.erasure import ErasureTarget, erase, find_person_data
from nightscreen.schemas.errors import InputError, JournalError, UsageError
from tests.cli.list_in_a_test import screened

SECRETS = ("22212345678", "0123456789", "Amaka", "0007")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a screened night, HOME set to its journal."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return screened(tmp_path).path


def run(*arguments: str, given: str = "") -> Result:
    """Run the command in this process, with nobody at the terminal."""
    return CliRunner().invoke(app, [*arguments], input=given)


def ids(folder: Path) -> list[str]:
    """Return the customers of the enriched rows."""
    found: list[str] = pq.read_table(folder / "enriched")["customer_id"].to_pylist()
    return found


def test_whom_to_erase_is_typed_or_comes_from_standard_input(folder: Path) -> None:
    """Rows and list are rewritten; what is said is numbers, and holds no identifier.

    From standard input no identifier stands in the command's history; there may be several.
    """
    ended = run("erase", "--customer-id", "0007", "--yes")
    assert ended.exit_code == 0
    assert "1 states and reviews" in ended.output
    assert not [secret for secret in SECRETS if secret in ended.output]
    assert ids(folder) == ["=1+1", "C"]
    assert "0007" not in (folder / "decisions.csv").read_text("utf-8")
    ended = run("erase", "--customer-id", "-", "--yes", given="C\n\n=1+1\nC\n")
    assert ended.exit_code == 0
    assert "2 of 2 erased" in ended.output
    assert "=1+1" not in ended.output
    assert ids(folder) == []


@pytest.mark.parametrize("listed", [False, True])
def test_files_that_go_entirely_are_named_before_they_do(folder: Path, listed: bool) -> None:
    """However the person is named; also a file that cannot be read, and so may name them."""
    (folder / "decisions.xlsx").write_bytes(b"a workbook")
    (folder / "quarantine.csv").write_bytes(b"PK\x03\x04 damaged")
    whom, given = ("-", "0007\n") if listed else ("0007", "")
    ended = run("erase", "--customer-id", whom, "--yes", given=given)
    assert ended.exit_code == 0
    before, _, _ = ended.output.partition("erased" if listed else "Erased:")
    for name in ("decisions.xlsx", "quarantine.csv"):
        assert f"  {folder.name}/{name}" in before
        assert not (folder / name).exists()


MISUSED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("erase", "--bvn", "-"), "22212345678\n", "add --yes"),
    (("erase", "--bvn", "-", "--yes"), "\n", "names nobody"),
    (("erase", "--bvn", "-", "--yes"), "22212345678\n123\n", "no BVN of 11 digits"),
    (("erase", "--bvn", "-", "--customer-id", "-", "--yes"), "1\n", "either customers or BVNs"),
    (("erase", "--yes"), "", "--customer-id"),
    (("erase", "--bvn", "123", "--yes"), "", "11 digits"),
    (("erase", "--bvn", "22212345678", "--batch", "b", "--yes"), "", "--batch narrows"),
    (("erase", "--customer-id", "0007"), "", "add --yes"),
    (("purge", "--older-than", "1", "--hold", "run-1"), "", "--reason"),
    (("purge", "--hold", "run-1", "--release", "run-1"), "", "not both"),
)


def test_bad_usage_and_unknown_people_remove_nothing(folder: Path) -> None:
    """Each is told what to write instead; nobody is named who is not known."""
    for arguments, given, match in MISUSED:
        ended = run(*arguments, given=given)
        assert isinstance(ended.exception, UsageError), arguments
        assert match in str(ended.exception)
    for whom in (("--customer-id", "nobody"), ("--bvn", "22200000000")):
        ended = run("erase", *whom, "--yes")
        assert isinstance(ended.exception, InputError), whom
        assert ended.exception.exit_status == 2, whom
        assert whom[1] not in str(ended.exception)
    assert len(ids(folder)) == 3


def test_an_erasure_that_was_cut_off_is_finished_by_the_next(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is found any more by then, yet a manifest may tell of the files of before."""
    with open_journal(tmp_path / "home") as journal, monkeypatch.context() as patched:
        patched.setattr(RunFiles, "finish", lambda *_: 1 / 0)
        person = find_person_data(journal, ErasureTarget(customer_id="0007"))
        with pytest.raises(ZeroDivisionError):
            erase(journal, person)
    assert (folder / NOTE).exists()
    assert isinstance(run("erase", "--customer-id", "0007", "--yes").exception, InputError)
    assert not (folder / NOTE).exists()


def test_a_purge_removes_nothing_that_is_held_or_only_asked_about(
    folder: Path, tmp_path: Path
) -> None:
    """Neither a hold nor its end removes anything by itself, however old the run is."""
    with closing(sqlite3.connect(tmp_path / "home" / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE runs SET started_at = 0, finished_at = 0")
    aged = ("purge", "--older-than", "1", "--yes")
    for words in (
        ("purge", "--hold", "run-1", "--reason", "claim 7"),
        aged,
        ("purge", "--release", "run-1"),
        (*aged, "--dry-run"),
    ):
        assert run(*words).exit_code == 0, words
        assert len(ids(folder)) == 3, words
    assert run(*aged).exit_code == 0
    assert not list((folder / "enriched").iterdir())


def test_a_decision_is_explained_on_the_terminal(folder: Path) -> None:
    """Decision, evidence and reason in words, no identifier but the id as given.

    Once the row was purged, what the journal has is shown; no cell is a word of the program.
    """
    found = run("explain", "0007")
    assert found.exit_code == 0
    for word in ("0007", "decline", "KARMA_DEFAULT", "Harbour Finance", "lawful basis undeclared"):
        assert word in found.output
    for secret in ("22212345678", "0123456789", "Amaka", "AMAKA"):
        assert secret not in found.output
    assert "list_filter" not in found.output
    assert "0.0 days" not in found.output
    assert "first seen under this batch name" in found.output
    assert "0000," not in found.output  # amounts have two places
    shutil.rmtree(folder / "enriched")
    shown = run("explain", "0007")
    assert shown.exit_code == 0
    assert "it was purged" in shown.output
    assert "None" not in shown.output
    assert "Evidence" not in shown.output


def test_subject_access_writes_two_private_files(tmp_path: Path) -> None:
    """HTML and JSON, for their owner alone, named without the customer."""
    found = run("subject-access", "0007", "--output", str(tmp_path / "access"), "--json")
    assert found.exit_code == 0
    files = sorted((tmp_path / "access").iterdir())
    assert [path.suffix for path in files] == [".html", ".json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert not any("0007" in path.name for path in files)
    assert json.loads(files[1].read_text("utf-8"))["rows"][0]["row"]["bvn"] == "22212345678"
    assert json.loads(found.stdout)["held"]["rows"] == 1


def test_a_journal_that_vanished_is_not_called_one_that_was_never_made(tmp_path: Path) -> None:
    """The next step is to restore it, not to screen a file."""
    (tmp_path / "home" / "journal.sqlite").unlink()
    ended = run("journal", "verify")
    assert isinstance(ended.exception, JournalError)
    assert "remembers a journal that is not there" in str(ended.exception)
