"""Keeping: rotation of the keys of data and links, backup and restore, also after crashes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import stat
from collections import Counter
from pathlib import Path

import pytest
from itsdangerous import Signer
from sqlalchemy import select

from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.journal import Journal, keyset, open_journal
from nightscreen.journal.copying import back_up, restore
from nightscreen.journal.keyset import KEY_FILE, encode_key, link_keys, rotate_key, rotate_link_key
from nightscreen.journal.schema import answers, data_keys
from nightscreen.journal.verify import verify_journal
from nightscreen.operations.consent_links import AskedConsent, ConsentLinks, Refusal
from nightscreen.schemas.errors import JournalError, JournalKeyError, OutputError, UsageError
from tests.begun import begin_run
from tests.journal.conftest import Place, ended, reserve, subject

NEW = b"n" * 32


def fill(journal: Journal, first: int, count: int) -> None:
    """Store some answers whose bodies name their subjects."""
    pairs = reserve(journal, *range(first + 1, first + 1 + count))
    outcomes = [ended(pair, body=pair[0].subject) for pair in pairs]
    journal.calls.settle("run-1", outcomes)


def bodies(journal: Journal, count: int) -> list[int]:
    subjects = [subject(number + 1) for number in range(count)]
    stored = journal.answers.latest("karma", subjects)
    opened = [journal.answers.body("karma", stored[each]) for each in subjects if each in stored]
    return [int.from_bytes(each, "big") - 1 for each in opened]


def seal_ids(journal: Journal) -> list[bytes]:
    """Return under which data keys answers are sealed, in their order."""
    query = select(answers.c.body).order_by(answers.c.answer_id)
    with journal.database.reading() as connection:
        return [bytes(body[:4]) for body in connection.execute(query).scalars()]


def wrapping(journal: Journal) -> Counter[str]:
    with journal.database.reading() as connection:
        return Counter(connection.execute(select(data_keys.c.wrapped_by)).scalars())


def test_rotation_adds_a_data_key_and_leaves_what_was_sealed(place: Place) -> None:
    """Only the new key opens the journal, with all answers; pseudonyms stay; it takes no time."""
    journal = place.open()
    fill(journal, 0, 20)
    old = (place.home / "data.key").read_text()
    name, before = journal.pseudonyms.subject("bvn", "1"), seal_ids(journal)
    assert rotate_key(journal) == ()
    assert seal_ids(journal) == before
    journal.close()
    again = place.open()
    fill(again, 20, 1)
    assert bodies(again, 21) == list(range(21))
    assert again.pseudonyms.subject("bvn", "1") == name
    assert seal_ids(again)[-1] not in before
    assert list(wrapping(again).values()) == [2]
    with pytest.raises(JournalKeyError, match="is not this journal's"):
        place.open(data_key=old)
    assert not list(place.home.glob("data.key.*"))


def test_runs_go_on_while_the_key_is_rotated(place: Place) -> None:
    """A run that began before opens what others seal since; its key opens until it has ended."""
    run, other = place.open(), place.open()
    old = (place.home / "data.key").read_text()
    begin_run(run, "run-1")
    fill(run, 0, 5)
    pending = reserve(run, 6)
    assert rotate_key(other) == ("run-1",)
    run.calls.settle("run-1", [ended(pending[0], body=subject(6))])
    worker = place.open()
    fill(worker, 6, 2)
    assert bodies(run, 8) == bodies(worker, 8) == list(range(8))
    assert len(set(seal_ids(run))) == 2
    assert bodies(place.open(data_key=old), 8) == list(range(8))
    with pytest.raises(JournalError, match="still in use by run-1"):
        rotate_key(worker)
    finish(run)
    assert bodies(place.open(), 8) == list(range(8))
    with pytest.raises(JournalKeyError):
        place.open(data_key=old)


def finish(journal: Journal) -> None:
    journal.runs.finish("run-1", state="completed", stop_reason=None, report={})


@pytest.mark.parametrize("crash_at", ["_prepare_key", "_wrap", "_put_in_force"])
def test_a_rotation_that_crashed_loses_no_key(
    place: Place, monkeypatch: pytest.MonkeyPatch, crash_at: str
) -> None:
    """Wherever it stops, HOME opens the journal and all its answers, and it can be rotated."""
    journal = place.open()
    fill(journal, 0, 12)

    def crash(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(keyset, crash_at, crash)
        with pytest.raises(MemoryError):
            rotate_key(journal)
    journal.close()
    again = place.open()
    assert bodies(again, 12) == list(range(12))
    fill(again, 12, 3)
    rotate_key(again)
    again.close()
    last = place.open()
    assert bodies(last, 15) == list(range(15))


def test_a_key_of_the_settings_opens_until_the_new_one_is_used(place: Place) -> None:
    """Until then both are accepted; HOME gets no key file."""
    old, new = (base64.b64encode(each * 32).decode() for each in (b"o", b"n"))
    journal = place.open(data_key=old)
    fill(journal, 0, 4)
    rotate_key(journal, configured=old, new=NEW)
    assert bodies(place.open(data_key=old), 4) == list(range(4))
    assert bodies(place.open(data_key=new), 4) == list(range(4))
    with pytest.raises(JournalKeyError):
        place.open(data_key=old)
    with pytest.raises(UsageError, match="is the one in force"):
        rotate_key(place.open(data_key=new), configured=new, new=NEW)
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
    key = encode_key(journal.lender_key).decode()
    assert key.strip().encode() not in (folder / "journal.sqlite").read_bytes()
    with open_journal(folder, data_key=key, clock=place.clock) as copy:
        assert copy.journal_id == journal.journal_id
        assert bodies(copy, 40) == list(range(30))
        assert copy.pseudonyms.subject("bvn", "1") == journal.pseudonyms.subject("bvn", "1")
        assert copy.calls.recover() == 1
        assert verify_journal(copy) == []


def test_a_backup_never_replaces_and_leaves_no_part(
    sqlite_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with something in it is refused; a failure leaves nothing.

    Nor does restoring what is no backup leave anything at its target.
    """
    journal = sqlite_place.open()
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
    with pytest.raises(JournalError, match="is no backup"):
        restore(full, tmp_path / "new")
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
        make_private_folder(target.home)
        write_private(target.home / KEY_FILE, encode_key(journal.lender_key))
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


def test_a_backup_with_a_passphrase_brings_its_key_along(
    sqlite_place: Place, tmp_path: Path
) -> None:
    """The key is in it, but only the passphrase opens it; another, a short or none does not."""
    journal = sqlite_place.open()
    fill(journal, 0, 10)
    folder = tmp_path / "copy"
    with pytest.raises(UsageError, match="under 12 characters"):
        back_up(journal, folder, passphrase="too short")
    back_up(journal, folder, passphrase="a walk by the lagoon")
    everything = b"".join(each.read_bytes() for each in folder.iterdir())
    assert encode_key(journal.lender_key).strip() not in everything
    assert journal.lender_key not in everything
    target = Place(tmp_path / "new", "")
    for given, words in (("", "--passphrase-file"), ("a walk by the sea", "does not open")):
        with pytest.raises(JournalKeyError, match=words):
            restore(folder, target.home, passphrase=given)
    restore(folder, target.home, passphrase="a walk by the lagoon")
    assert bodies(target.open(), 20) == list(range(10))
    target.close()


def test_links_are_signed_with_no_key_of_pseudonyms(sqlite_place: Place) -> None:
    """Whoever learns the one cannot make the other."""
    journal = sqlite_place.open()
    token = ConsentLinks(journal).make("C1", ["transaction:list"]).token
    keys = link_keys(journal)
    assert len(keys) == 1
    assert keys[0] != journal.pseudonyms.key
    derived = hmac.digest(journal.pseudonyms.key, b"nightscreen portal signing key", "sha256")
    forged = Signer(
        derived,
        salt="consent link",
        key_derivation="hmac",
        digest_method=staticmethod(hashlib.sha256),
    ).sign(token.rpartition(".")[0])
    assert ConsentLinks(journal).resolve_link(forged.decode()) is Refusal.TAMPERED
    assert isinstance(ConsentLinks(journal).resolve_link(token), AskedConsent)


def test_a_new_key_lets_links_go_on_or_ends_them_at_once(sqlite_place: Place) -> None:
    """Links in somebody's mail work on after a rotation; after a leak none does."""
    journal = sqlite_place.open()
    pseudonym = journal.pseudonyms.subject("bvn", "22212345678")
    links = ConsentLinks(journal)
    token = links.make("C1", ["transaction:list"]).token
    rotate_link_key(journal)
    newer = links.make("C1", ["transaction:list"]).token
    assert isinstance(links.resolve_link(token), AskedConsent)
    assert isinstance(links.resolve_link(newer), AskedConsent)
    rotate_link_key(journal, at_once=True)
    assert links.resolve_link(token) is Refusal.TAMPERED
    assert links.resolve_link(newer) is Refusal.TAMPERED
    assert journal.pseudonyms.subject("bvn", "22212345678") == pseudonym
