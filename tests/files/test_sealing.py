"""Sealing, opening, pseudonyms."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.sealed_file import MAGIC, seal_file, unsealed
from nightscreen.files.sealing import SUBJECT_BYTES, Pseudonyms, Sealer
from nightscreen.schemas.errors import InputError, JournalDamagedError, JournalKeyError

KEY, OTHER = b"a" * 32, b"b" * 32


@given(plain=st.binary(max_size=200), context=st.binary(max_size=40))
def test_what_is_sealed_opens_in_its_own_context_only(plain: bytes, context: bytes) -> None:
    """A sealed answer cannot stand in for another person's."""
    sealer = Sealer(KEY)
    sealed = sealer.seal(plain, context)
    assert sealer.open(sealed, context) == plain
    with pytest.raises(JournalDamagedError):
        sealer.open(sealed, context + b"x")


@given(at=st.integers(4, 60), bit=st.integers(0, 7))
def test_a_changed_bit_is_noticed(at: int, bit: int) -> None:
    sealer = Sealer(KEY)
    sealed = bytearray(sealer.seal(b"x" * 50, b""))
    sealed[at] ^= 1 << bit
    with pytest.raises(JournalDamagedError):
        sealer.open(bytes(sealed), b"")


def test_another_key_opens_nothing_but_any_of_the_set_does() -> None:
    """Which key is needed is said by the sealed text itself; the newest seals."""
    sealed = Sealer(KEY).seal(b"hello", b"")
    with pytest.raises(JournalKeyError, match="does not have"):
        Sealer(OTHER).open(sealed, b"")
    both = Sealer(KEY, OTHER)
    assert both.open(sealed, b"") == b"hello"
    assert Sealer(OTHER).open(both.seal(b"new", b""), b"") == b"new"


def test_an_unknown_key_rereads_the_set_once() -> None:
    """While a key is rotated a running process finds the new one, and seals under it then."""
    asked: list[int] = []

    def reread() -> list[bytes]:
        asked.append(1)
        return [KEY, OTHER]

    sealer = Sealer(KEY, reread=reread)
    for _ in range(2):
        assert sealer.open(Sealer(OTHER).seal(b"hello", b""), b"") == b"hello"
    assert len(asked) == 1
    assert Sealer(OTHER).open(sealer.seal(b"new", b""), b"") == b"new"
    with pytest.raises(JournalKeyError):
        sealer.open(Sealer(b"c" * 32).seal(b"hello", b""), b"")


def test_keys_are_not_shown() -> None:
    """Neither a sealer nor pseudonyms show their key."""
    shown = repr(Sealer(KEY)) + repr(Pseudonyms(KEY))
    assert "aaaa" not in shown
    assert KEY.hex() not in shown


def test_pseudonyms_are_stable_distinct_and_keyed() -> None:
    """The same identifier has one pseudonym; kind, image and key make another."""
    names = Pseudonyms(KEY)
    seen = {
        names.subject("bvn", "22212345678"),
        names.subject("phone", "22212345678"),
        names.subject("image", "22212345678", "https://x/1"),
        names.subject("image", "22212345678", "https://x/2"),
        names.customer("book", "22212345678"),
        Pseudonyms(OTHER).subject("bvn", "22212345678"),
    }
    assert len(seen) == 6
    assert {len(each) for each in seen} == {SUBJECT_BYTES}
    assert names.subject("bvn", "22212345678") in seen


def test_a_sealed_file_is_whole_or_refused(tmp_path: Path) -> None:
    """Nothing is read of an upload whose end is missing, or whose pieces were exchanged."""
    path, sealer, clear = tmp_path / "upload.sealed", Sealer(KEY), b"customer_id\nC1"
    digest, size = seal_file(path, [clear[:8], clear[8:]], sealer)
    assert (digest, size) == (f"sha256:{sha256(clear).hexdigest()}", 14)
    with unsealed(path, sealer) as plain:
        assert plain.read_bytes() == clear
    whole = path.read_bytes()
    for cut in (1, 40, 80):
        path.write_bytes(whole[:-cut])
        with pytest.raises((InputError, JournalDamagedError)), unsealed(path, sealer):
            pass
    seal_file(path, [b"one", b"two"], sealer)
    start, pieces = path.read_bytes()[: len(MAGIC)], path.read_bytes()[len(MAGIC) :]
    each = 4 + 4 + 12 + 3 + 16  # length, key id, nonce, text, tag
    # numbered from 0, as in the files of earlier versions
    assert sealer.open(pieces[4:each], b"upload\x1fupload\x1f0") == b"one"
    path.write_bytes(start + pieces[each : 2 * each] + pieces[:each] + pieces[2 * each :])
    with pytest.raises(JournalDamagedError), unsealed(path, sealer):
        pass


def test_a_file_that_another_machine_may_have_is_not_called_removed(tmp_path: Path) -> None:
    """Desks share one journal, and each has the files that it took."""
    absent = tmp_path / "absent.sealed"
    with (
        pytest.raises(InputError, match="a desk on another machine has it"),
        unsealed(absent, Sealer(KEY)),
    ):
        pass
