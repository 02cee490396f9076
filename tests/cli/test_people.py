"""`explain`, `subject-access`, `erase`, `purge`, `privacy`: masked on the terminal, in numbers."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from nightscreen.files.run_folder import NOTE, RunFiles
from tests.cli.conftest import Here

SECRETS = ("22212345678", "0123456789", "Amaka", "0007")


def ids(folder: Path) -> list[str]:
    """Return the customers of the enriched rows."""
    found: list[str] = pq.read_table(folder / "enriched")["customer_id"].to_pylist()
    return found


def test_whom_to_erase_is_typed_or_comes_from_standard_input(listed: Path, here: Here) -> None:
    """Rows and list are rewritten; what is said is numbers, and holds no identifier.

    From standard input no identifier stands in the command's history; there may be several.
    """
    ended = here("erase", "--customer-id", "0007", "--yes")
    assert ended.status == 0
    assert "1 states and reviews" in ended.out
    assert not [secret for secret in SECRETS if secret in ended.out + ended.err]
    assert ids(listed) == ["=1+1", "C"]
    assert "0007" not in (listed / "decisions.csv").read_text("utf-8")
    ended = here("erase", "--customer-id", "-", "--yes", given="C\n\n=1+1\nC\n")
    assert ended.status == 0
    assert "2 of 2 erased" in ended.out
    assert "=1+1" not in ended.out + ended.err
    assert ids(listed) == []


@pytest.mark.parametrize("several", [False, True])
def test_files_that_go_entirely_are_named_before_they_do(
    listed: Path, here: Here, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    """However the person is named; also a file that cannot be read, and so may name them."""
    files = [listed / name for name in ("decisions.xlsx", "quarantine.csv")]
    files[0].write_bytes(b"a workbook")
    files[1].write_bytes(b"PK\x03\x04 damaged")
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        assert all(file.exists() for file in files)

    monkeypatch.setattr("nightscreen.cli.people.say", say)
    whom, given = ("-", "0007\n") if several else ("0007", "")
    assert here("erase", "--customer-id", whom, "--yes", given=given).status == 0
    for file in files:
        assert f"  {listed.name}/{file.name}" in told[0]
        assert not file.exists()


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


def test_bad_usage_and_unknown_people_remove_nothing(listed: Path, here: Here) -> None:
    for arguments, given, says in MISUSED:
        ended = here(*arguments, given=given)
        assert (ended.status, says in ended.err) == (2, True), (arguments, ended.err)
    for whom in (("--customer-id", "nobody"), ("--bvn", "22200000000")):
        ended = here("erase", *whom, "--yes")
        assert (ended.status, whom[1] in ended.err) == (2, False), whom
    assert len(ids(listed)) == 3


def test_an_erasure_that_was_cut_off_is_finished_by_the_next(
    listed: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is found any more, and yet the note of what was to be rewritten goes."""

    def crash(self: RunFiles, _at: int) -> int:
        if self.touched:
            raise KeyboardInterrupt
        return 0

    words = ("erase", "--customer-id", "0007", "--yes")
    with monkeypatch.context() as patched:
        patched.setattr(RunFiles, "finish", crash)
        assert here(*words).status == 3
    assert (listed / NOTE).exists()
    assert here(*words).status == 2
    assert not (listed / NOTE).exists()


def test_a_purge_removes_nothing_that_is_held_or_only_asked_about(
    listed: Path, here: Here, folder: Path
) -> None:
    """Neither a hold nor its end removes anything by itself, however old the run is."""
    with closing(sqlite3.connect(folder / "home" / "journal.sqlite")) as journal, journal:
        journal.execute("UPDATE runs SET started_at = 0, finished_at = 0")
    aged = ("purge", "--older-than", "1", "--yes")
    for words in (
        ("purge", "--hold", "run-1", "--reason", "claim 7"),
        aged,
        ("purge", "--release", "run-1"),
        (*aged, "--dry-run"),
    ):
        assert here(*words).status == 0, words
        assert len(ids(listed)) == 3, words
    assert here(*aged).status == 0
    assert not list((listed / "enriched").iterdir())


def test_a_decision_is_explained_on_the_terminal(listed: Path, here: Here) -> None:
    """Decision, evidence and reason in words, no identifier but the id as given.

    Of a customer whose row was purged what the journal has is shown; no cell is a word of the
    program.
    """
    found = here("explain", "0007")
    assert found.status == 0
    for word in ("0007", "decline", "KARMA_DEFAULT", "Harbour Finance", "lawful basis undeclared"):
        assert word in found.out
    for secret in ("22212345678", "0123456789", "Amaka", "AMAKA"):
        assert secret not in found.out + found.err
    assert "list_filter" not in found.out
    assert "0.0 days" not in found.out
    assert "first seen under this batch name" in found.out
    assert "0000," not in found.out  # amounts have two places
    shutil.rmtree(listed / "enriched")
    shown = here("explain", "0007")
    assert shown.status == 0
    assert "it was purged" in shown.out
    assert "None" not in shown.out
    assert "Evidence" not in shown.out


@pytest.mark.usefixtures("listed")
def test_subject_access_writes_two_private_files(tmp_path: Path, here: Here) -> None:
    found = here("subject-access", "0007", "--output", str(tmp_path / "access"), "--json")
    assert found.status == 0
    files = sorted((tmp_path / "access").iterdir())
    assert [path.suffix for path in files] == [".html", ".json"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    assert not any("0007" in path.name for path in files)
    assert json.loads(files[1].read_text("utf-8"))["rows"][0]["row"]["bvn"] == "22212345678"
    assert found.document["held"]["rows"] == 1


@pytest.mark.usefixtures("listed")
def test_a_journal_that_vanished_is_not_called_one_that_was_never_made(
    tmp_path: Path, here: Here
) -> None:
    """The next step is to restore it, not to screen a file."""
    (tmp_path / "home" / "journal.sqlite").unlink()
    assert "remembers a journal that is not there" in here("journal", "verify").err


def test_the_papers_are_printed_or_written(here: Here, folder: Path) -> None:
    printed = here("privacy", "record")
    assert printed.status == 0
    assert printed.out.startswith("# Record of processing")
    assert "# Impact assessment (draft)" in printed.out
    written = here("privacy", "record", "--output", "papers", "--json")
    assert written.document["kept"]
    papers = sorted((folder / "papers").iterdir())
    assert [each.name for each in papers] == ["impact-assessment.md", "processing-record.md"]
    assert {each.stat().st_mode & 0o777 for each in papers} == {0o600}
