"""Keeping: rotation of the data key, backup and restore, while runs go on and after crashes."""

from __future__ import annotations

import base64
import stat
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

from nightscreen.files.keys import encode_key, replace_key
from nightscreen.files.sealing import key_id
from nightscreen.journal import open_journal, rotation
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.engine import reading
from nightscreen.journal.rotation import rotate_key
from nightscreen.journal.tables import answers, meta, seal_keys
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.errors import JournalError, JournalKeyError, OutputError, UsageError
from tests.storage.conftest import Place, ended, reserve, subject

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.journal import Journal

NEW = b"n" * 32


def fill(journal: Journal, first: int, count: int) -> None:
    """Store some answers whose bodies name their subjects."""
    pairs = reserve(journal, *range(first + 1, first + 1 + count))
    outcomes = [ended(pair, body=pair[0].subject) for pair in pairs]
    journal.calls.settle("run-1", outcomes)


def bodies(journal: Journal, count: int) -> list[int]:
    """Open all answers."""
    subjects = [subject(number + 1) for number in range(count)]
    stored = journal.answers.latest("karma", subjects)
    opened = [journal.answers.body("karma", stored[each]) for each in subjects if each in stored]
    return [int.from_bytes(each, "big") - 1 for each in opened]


def seal_ids(journal: Journal) -> set[bytes]:
    """Return under which keys answers are sealed."""
    with reading(journal.engine) as connection:
        return {bytes(body[:4]) for body in connection.execute(select(answers.c.body)).scalars()}


def test_rotation_reseals_everything_and_retires_the_old_key(place: Place) -> None:
    """Only the new key opens the journal; pseudonyms stay; nothing leads from old to new."""
    journal = place.open()
    fill(journal, 0, 20)
    old = (place.home / "data.key").read_text()
    name = journal.pseudonyms.subject("bvn", "1")
    done = rotate_key(journal)
    assert (done.resealed, done.finished) == (20, True)
    journal.close()
    again = place.open()
    assert bodies(again, 20) == list(range(20))
    assert again.pseudonyms.subject("bvn", "1") == name
    assert verify_journal(again) == []
    with pytest.raises(JournalKeyError, match="is not this journal's"):
        place.open(data_key=old)
    with reading(again.engine) as connection:
        assert set(connection.execute(select(meta.c.name)).scalars()) == {
            "journal_id",
            "link_keys",
            "pseudonym_key",
            "schema",
            "seal_key",
        }
        assert len(connection.execute(select(seal_keys)).all()) == 2


def test_runs_go_on_while_the_key_is_rotated(place: Place) -> None:
    """A run that opened before seals under the new key at once, reads both, and is waited for."""
    run, other = place.open(), place.open()
    begin(run)
    fill(run, 0, 5)
    pending = reserve(run, 6)
    done = rotate_key(other)
    assert (done.finished, done.waiting_for) == (False, ("run-1",))
    run.calls.settle("run-1", [ended(pending[0], body=subject(6))])
    assert bodies(run, 6) == list(range(6))
    assert len(seal_ids(run)) == 1
    finish(run)
    last = rotate_key(other)
    assert (last.resealed, last.finished) == (0, True)
    assert bodies(place.open(), 6) == list(range(6))
    assert verify_journal(other) == []


def begin(journal: Journal) -> None:
    """Write a run down as running."""
    journal.runs.begin(
        "run-1",
        flow="f",
        batch="b",
        purpose="portfolio",
        input_digest="",
        folder="",
        cap_micro=None,
        parameters={},
    )


def finish(journal: Journal) -> None:
    """Write the run's end down."""
    journal.runs.finish("run-1", state="completed", stop_reason=None, report={})


@pytest.mark.parametrize("crash_at", ["_reseal", "replace_key", "_running", "end_rotation"])
def test_a_rotation_that_crashed_is_finished_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch, crash_at: str
) -> None:
    """Wherever it stops, the key under HOME opens the journal and all its answers."""
    journal = place.open()
    fill(journal, 0, 12)

    def crash(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(rotation, crash_at, crash)
        with pytest.raises(MemoryError):
            rotate_key(journal)
    journal.close()
    again = place.open()
    assert bodies(again, 12) == list(range(12))
    fill(again, 12, 3)
    assert rotate_key(again).finished
    again.close()
    last = place.open()
    assert bodies(last, 15) == list(range(15))
    assert len(seal_ids(last)) == 1
    assert verify_journal(last) == []


def test_a_crash_between_blocks_leaves_both_keys_accepted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half resealed, the journal opens with the old key and with the new one."""
    journal = place.open()
    fill(journal, 0, 12)
    old = (place.home / "data.key").read_text()
    monkeypatch.setattr(rotation, "_BLOCK", 5)
    write = rotation._RESEAL.run
    blocks: list[int] = []

    def fail_later(connection: object, rows: list[tuple[bytes, int]]) -> None:
        blocks.append(len(rows))
        if len(blocks) == 2:
            raise MemoryError
        write(connection, rows)  # type: ignore[arg-type]  # a Connection

    monkeypatch.setattr(rotation, "_RESEAL", type("Failing", (), {"run": staticmethod(fail_later)}))
    with pytest.raises(MemoryError):
        rotate_key(journal, new=NEW)
    assert len(seal_ids(journal)) == 2
    new = base64.b64encode(NEW).decode()
    for key in (old, new):
        assert bodies(place.open(data_key=key), 12) == list(range(12))


def test_a_key_of_the_settings_is_retired_once_the_settings_hold_the_new_one(place: Place) -> None:
    """Until then both are accepted; HOME gets no key file."""
    old, new = (base64.b64encode(each * 32).decode() for each in (b"o", b"n"))
    journal = place.open(data_key=old)
    fill(journal, 0, 4)
    assert not rotate_key(journal, configured=old, new=NEW).finished
    assert bodies(place.open(data_key=old), 4) == list(range(4))
    assert rotate_key(place.open(data_key=new), configured=new).finished
    with pytest.raises(JournalKeyError):
        place.open(data_key=old)
    assert seal_ids(place.open(data_key=new)) == {key_id(NEW)}
    assert not (place.home / "data.key").exists()


def test_a_backup_made_while_a_run_goes_on_is_a_home_of_its_own(
    place: Place, tmp_path: Path
) -> None:
    """It holds what was committed, and what was in flight is in doubt; the key is not in it."""
    journal = place.open()
    fill(journal, 0, 30)
    reserve(journal, 90)
    folder = tmp_path / "backups" / "one"
    back_up(journal, folder)
    fill(journal, 30, 5)
    assert sorted(each.name for each in folder.iterdir()) == [
        "journal.json",
        "journal.sqlite",
    ]
    modes = {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()}
    assert (modes, stat.S_IMODE(folder.stat().st_mode)) == ({0o600}, 0o700)
    with pytest.raises(JournalKeyError, match="data key is missing"):
        open_journal(folder, clock=place.clock)
    key = encode_key(journal.sealer.key).decode()
    assert key.strip().encode() not in (folder / "journal.sqlite").read_bytes()
    with open_journal(folder, data_key=key, clock=place.clock) as copy:
        assert copy.journal_id == journal.journal_id
        assert bodies(copy, 40) == list(range(30))
        assert copy.pseudonyms.subject("bvn", "1") == journal.pseudonyms.subject("bvn", "1")
        assert copy.calls.recover() == 1
        assert verify_journal(copy) == []


def test_a_backup_never_replaces_and_leaves_no_part(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with something in it is refused; a failure leaves nothing."""
    journal = place.open()
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    with pytest.raises(OutputError, match="holds something already"):
        back_up(journal, full)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nightscreen.journal.copying.write_private", fail)
    with pytest.raises(OutputError, match="No space left"):
        back_up(journal, tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "home") == ["full"]


def test_a_backup_is_restored_into_either_database(
    place: Place, tmp_path: Path, schema_url: str
) -> None:
    """Answers, money and ids go on where the backup was made."""
    journal = place.open()
    fill(journal, 0, 10)
    back_up(journal, tmp_path / "copy")
    for number, url in enumerate(("", schema_url if not place.url else "")):
        target = Place(tmp_path / f"new-{number}", url)
        with pytest.raises(JournalKeyError, match="holds no data key: put yours back as"):
            restore(tmp_path / "copy", target.home, url=target.url)
        replace_key(target.home, journal.sealer.key)
        restore(tmp_path / "copy", target.home, url=target.url)
        found = target.open()
        assert bodies(found, 20) == list(range(10))
        fill(found, 10, 5)
        assert bodies(found, 20) == list(range(15))
        assert found.money.of_run("run-1").calls == 15
        assert verify_journal(found) == []
        target.close()
        with pytest.raises(JournalError, match="there is a journal already"):
            restore(tmp_path / "copy", target.home, url=target.url)


def test_a_backup_with_a_passphrase_brings_its_key_along(place: Place, tmp_path: Path) -> None:
    """The key is in it, but only the passphrase opens it; another, a short or none does not."""
    journal = place.open()
    fill(journal, 0, 10)
    folder = tmp_path / "copy"
    with pytest.raises(UsageError, match="under 12 characters"):
        back_up(journal, folder, passphrase="too short")
    back_up(journal, folder, passphrase="a walk by the lagoon")
    everything = b"".join(each.read_bytes() for each in folder.iterdir())
    assert encode_key(journal.sealer.key).strip() not in everything
    assert journal.sealer.key not in everything
    target = Place(tmp_path / "new", "")
    for given, words in (("", "--passphrase-file"), ("a walk by the sea", "does not open")):
        with pytest.raises(JournalKeyError, match=words):
            restore(folder, target.home, passphrase=given)
    restore(folder, target.home, passphrase="a walk by the lagoon")
    assert bodies(target.open(), 20) == list(range(10))
    target.close()


def test_what_is_no_backup_is_not_restored(place: Place, tmp_path: Path) -> None:
    """Nothing is made at the target."""
    with pytest.raises(JournalError, match="is no backup"):
        restore(tmp_path, place.home, url=place.url)
    assert not place.home.exists()
