"""The doctor where things are broken: each is reported in words, with what to type next."""

from __future__ import annotations

import base64
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.config.settings import read_settings
from nightscreen.files.heartbeat import write_vitals
from nightscreen.journal import open_journal
from nightscreen.ops.doctor import diagnose
from tests.begun import begin_run
from tests.ops.signs import signs_in_a_test
from tests.ops.walk import lines_of

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.ops.doctor import Diagnosis
    from tests.cli.conftest import Here

OTHER_KEY = base64.b64encode(bytes(range(32))).decode()
NOBODY_LISTENS = "postgresql+psycopg://someone:pass-word-7@127.0.0.1:9/journal"


def begun(home: Path) -> str:
    """Make a journal with one run that stopped for want of money; return the run's id."""
    with open_journal(home) as journal:
        begin_run(
            journal,
            "20260301-220000-a1b2c3",
            folder=str(home.parent / "out" / "20260301-220000-a1b2c3"),
        )
        journal.runs.finish(
            "20260301-220000-a1b2c3", state="stopped", stop_reason="balance", report={}
        )
    return "20260301-220000-a1b2c3"


def examined(home: Path, **settings: Any) -> Diagnosis:  # noqa: ANN401 - settings of any kind
    """Ask the doctor with a service that can be reached."""
    given = {"base_url": "http://127.0.0.1:9", "api_key": "made-up", **settings}
    found = diagnose(read_settings(home=home, **given), reaching=lambda _: None)
    assert lines_of(found)[-1].startswith("safe to run again: ")
    return found


def test_an_empty_machine_is_told_what_to_set(here: Here, folder: Path, monkeypatch: Any) -> None:  # noqa: ANN401 - a fixture of pytest
    """No journal, no settings: the two names to set, and how to begin."""
    monkeypatch.delenv("NIGHTSCREEN_BASE_URL")
    monkeypatch.delenv("NIGHTSCREEN_API_KEY")
    ended = here("doctor")
    assert ended.status == 2
    assert "NIGHTSCREEN_BASE_URL and NIGHTSCREEN_API_KEY" in ended.out
    assert "nightscreen quote FILE" in ended.out
    assert ended.out.endswith("no run can start: settings must be fixed\n")
    assert not (folder / ".nightscreen").exists()


def test_a_service_that_cannot_be_reached_is_told_and_nothing_is_asked(here: Here) -> None:
    """Only a connection is tried."""
    ended = here("doctor", "--json")
    by_name = {each["name"]: each for each in ended.document["findings"]}
    assert by_name["service"]["standing"] == "warning"
    assert "127.0.0.1:9 cannot be reached" in by_name["service"]["says"]
    assert (ended.status, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("NIGHTSCREEN_BASE_URL", "http://service.example", "https"),
        ("NIGHTSCREEN_ATTEMPTS", "many", "NIGHTSCREEN_ATTEMPTS"),
        ("NIGHTSCREEN_JOURNAL_URL", "mysql://x", "NIGHTSCREEN_JOURNAL_URL"),
    ],
)
def test_a_wrong_setting_is_named(
    name: str, value: str, word: str, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor itself still works."""
    monkeypatch.setenv(name, value)
    ended = here("doctor", "--json")
    assert (ended.status, ended.document["exit_status"]) == (2, 2)
    wrong = [each for each in ended.document["findings"] if each["standing"] == "wrong"]
    assert word in wrong[0]["says"]
    assert not ended.document["safe_to_run_again"]
    assert ended.document["why_not"].startswith("no run can start: ")


def test_the_wrong_key_is_told_beside_the_run(tmp_path: Path) -> None:
    """The run's state needs no key; its answers do."""
    run_id = begun(tmp_path / "home")
    found = examined(tmp_path / "home", data_key=OTHER_KEY)
    assert found.exit_status == 2
    assert found.remedy is not None
    assert found.remedy.first.startswith("put the right data key back; then top the wallet up")
    assert found.remedy.command == f"nightscreen screen --run {run_id}"
    (tmp_path / "home" / "data.key").unlink()
    missing = examined(tmp_path / "home")
    assert any("key is missing" in each.says for each in missing.findings)


def test_a_damaged_journal_is_left_alone(tmp_path: Path) -> None:
    """The way back is a backup; the file is not touched."""
    begun(tmp_path / "home")
    file = tmp_path / "home" / "journal.sqlite"
    for extra in ("-wal", "-shm"):
        file.with_name(file.name + extra).unlink(missing_ok=True)
    file.write_bytes(b"no database at all" * 999)
    before = file.read_bytes()
    found = examined(tmp_path / "home")
    assert found.exit_status == 2
    assert found.remedy is not None
    assert "mv " in found.remedy.first
    assert found.remedy.command == "nightscreen journal restore BACKUP_DIR"
    assert file.read_bytes() == before


def test_a_vanished_journal_is_no_empty_beginning(tmp_path: Path) -> None:
    """HOME remembers one: a new one would buy everything again."""
    begun(tmp_path / "home")
    for file in (tmp_path / "home").glob("journal.sqlite*"):
        if file.is_file():
            file.unlink()
    found = examined(tmp_path / "home")
    assert found.exit_status == 2
    assert any("not there any more" in each.says for each in found.findings)


def test_a_locked_journal_is_told_after_a_short_wait(tmp_path: Path) -> None:
    """What the run's own signs say is told all the same."""
    run_id = begun(tmp_path / "home")
    write_vitals(tmp_path / "home", run_id, signs_in_a_test(run_id=run_id))
    lock = sqlite3.connect(tmp_path / "home" / "journal.sqlite", isolation_level=None)
    lock.execute("PRAGMA locking_mode=EXCLUSIVE")
    lock.execute("BEGIN EXCLUSIVE")
    lock.execute("CREATE TABLE in_the_way (x)")
    try:
        found = examined(tmp_path / "home")
    finally:
        lock.close()
    assert found.exit_status == 2
    assert found.run is not None
    assert found.run["run_id"] == run_id
    assert any("stayed locked" in each.says for each in found.findings)
    assert found.remedy is not None
    assert found.remedy.command == "nightscreen doctor"


def test_a_database_that_is_down_is_told_without_its_password(tmp_path: Path) -> None:
    """PostgreSQL is not there; settings, disk and service are looked at all the same."""
    found = examined(tmp_path / "home", journal_url=NOBODY_LISTENS)
    assert found.exit_status == 2
    assert found.remedy is not None
    assert found.remedy.first.startswith("start the journal's database")
    told = "\n".join(lines_of(found))
    assert "cannot be reached" in told
    assert "pass-word-7" not in told
    assert "GB free" in told


def test_a_hung_run_is_told_from_a_living_one(tmp_path: Path) -> None:
    """Its lock is held, but its signs are old: the process to end is named."""
    home = tmp_path / "home"
    with open_journal(home) as journal:
        begin_run(journal, "20260301-220000-a1b2c3", folder=str(tmp_path / "out" / "x"))
        old = signs_in_a_test(run_id="20260301-220000-a1b2c3", at=journal.clock() - 300_000_000)
        write_vitals(home, "20260301-220000-a1b2c3", old)
        found = examined(home)
        assert found.run is not None
        assert found.run["state"] == "hung"
        assert (found.exit_status, found.safe) == (3, False)
        assert found.remedy is not None
        assert "kill -TERM" in found.remedy.first
        write_vitals(home, "20260301-220000-a1b2c3", {**old, "at": journal.clock()})
        assert examined(home).exit_status == 0
