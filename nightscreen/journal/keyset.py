"""The keyset: the lender's key, the data keys that it wraps, and the journal's other keys.

The lender's key is in the settings, or made once under HOME for a new journal.

A rotation adds a data key and wraps all data keys with a new key of the lender, which takes no
longer for a large journal. Older data stay sealed under their data key. A person with the lender's
old key and an old copy of the journal can read that copy, but nothing that is sealed later. The key
of pseudonyms is sealed like data and never changes. The key that signs links is separate, so it
reveals no pseudonym.
"""

from __future__ import annotations

import binascii
import json
import secrets
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from nightscreen.files.private_files import sync_folder, write_private, write_private_once
from nightscreen.files.sealing import Sealer, fingerprint
from nightscreen.journal.audit import ENDS, NO_ENTRIES
from nightscreen.journal.runs import living_runs
from nightscreen.journal.schema import (
    LINK_KEYS,
    data_keys,
    meta,
    open_text,
    put_meta,
    read_meta,
    sealed_text,
)
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import JournalError, JournalKeyError, SettingsError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sqlalchemy import Connection

    from nightscreen.journal.database import Database
    from nightscreen.journal.holders import Holders
    from nightscreen.journal.storage import Storage

KEY_BYTES = 32
KEY_FILE = "data.key"
LENDER_KEY = "lender_key"
"""Name in `meta` of the fingerprint of the lender's current key."""
PSEUDONYM_KEY = "pseudonym_key"
LINKS_LAST = timedelta(days=90)
"""How long a link may be valid, and so how long the previous key is accepted."""
_WRAPPED = b"data key"


# --- the lender's key, from the settings or under HOME ---


def decode_key(text: str, source: str) -> bytes:
    """Return the 32 bytes of a base64 key.

    Raises:
        SettingsError: it is not base64 of 32 bytes; `source` says where it came from.
    """
    try:
        key = b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"{source} is not a data key: it must be {KEY_BYTES} bytes in base64; "
            "put the right one back (for a new journal make one with: openssl rand -base64 32)"
        )
    return key


def encode_key(key: bytes) -> bytes:
    """Return the content of a key file."""
    return b64encode(key) + b"\n"


def read_key(file: Path) -> bytes | None:
    """Return the key of a file; None if there is no such file.

    Raises:
        JournalKeyError: the file cannot be read.
        SettingsError: it holds no key.
    """
    try:
        return decode_key(file.read_text("ascii"), str(file))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        return decode_key("", str(file))
    except OSError as error:
        raise JournalKeyError(
            f"cannot read the data key in {file} ({error.strerror or type(error).__name__}); "
            "correct its permissions or set NIGHTSCREEN_DATA_KEY"
        ) from None


def configured_key(home: Path, configured: str) -> bytes | None:
    """Return the key of the settings, else the one under HOME, else None."""
    if configured:
        return decode_key(configured, "NIGHTSCREEN_DATA_KEY")
    return read_key(home / KEY_FILE)


def new_key() -> bytes:
    """Return a new random key, without saving it."""
    return secrets.token_bytes(KEY_BYTES)


def make_key(home: Path) -> bytes:
    """Return the key under HOME; if there is none, make one (mode 0600).

    Two processes that do so at the same time get the same key.
    """
    write_private_once(home / KEY_FILE, encode_key(new_key()))
    key = read_key(home / KEY_FILE)
    if key is None:
        raise JournalKeyError(f"the data key just made in {home / KEY_FILE} is gone; run again")
    return key


def _prepared_file(home: Path, key_fingerprint: str) -> Path:
    """Return the file of a rotation's new key until it replaces the old one.

    Each key has its own file, so that two rotations never overwrite each other's key.
    """
    return home / f"{KEY_FILE}.{key_fingerprint[:16]}"


def _prepare_key(home: Path, key: bytes) -> None:
    """Save a new key next to the one under HOME, before anything is wrapped with it."""
    write_private(_prepared_file(home, fingerprint(key)), encode_key(key))


def _put_in_force(home: Path, key: bytes) -> None:
    """Replace the key under HOME with a prepared key."""
    _prepared_file(home, fingerprint(key)).replace(home / KEY_FILE)
    sync_folder(home)


# --- data keys ---


def first_keys(connection: Connection, lender: bytes) -> None:
    """Write the keys of a new journal: data key, key of pseudonyms, key of links.

    The initial end of the audit is sealed with them.
    """
    put_meta(connection, LENDER_KEY, fingerprint(lender))
    data_key = new_key()
    _wrap(connection, lender, {1: data_key})
    sealer = Sealer(data_key)
    for name, value in ((PSEUDONYM_KEY, new_key()), (ENDS, NO_ENTRIES)):
        put_meta(connection, name, sealed_text(sealer, value, name))
    _keep_link_keys(connection, sealer, {new_key(): None})


def _wrap(connection: Connection, lender: bytes, keys: dict[int, bytes]) -> None:
    """Write data keys, by their numbers, wrapped with a lender's key."""
    wrapping = Sealer(lender)
    rows = [
        {
            "number": number,
            "wrapped_by": fingerprint(lender),
            "wrapped": wrapping.seal(key, _WRAPPED),
        }
        for number, key in keys.items()
    ]
    connection.execute(insert(data_keys), rows)


def _unwrapped(connection: Connection, lender: bytes) -> dict[int, bytes]:
    """Return the data keys wrapped with a lender's key, by their numbers, the newest last."""
    query = select(data_keys.c.number, data_keys.c.wrapped).order_by(data_keys.c.number)
    rows = connection.execute(query.where(data_keys.c.wrapped_by == fingerprint(lender))).all()
    wrapping = Sealer(lender)
    return {row.number: wrapping.open(bytes(row.wrapped), _WRAPPED) for row in rows}


def lender_key_of(database: Database, key: bytes | None, home: Path) -> bytes:
    """Return the lender's key after checking that it opens the journal.

    A rotation that was interrupted after its commit is completed: its key is prepared under HOME.

    Raises:
        JournalKeyError: the key is missing, or of another journal.
    """
    if key is None:
        raise JournalKeyError(
            f"the journal's data key is missing: put it back as {home / KEY_FILE} or set "
            "NIGHTSCREEN_DATA_KEY; without it no stored answer can be read"
        )
    with database.reading() as connection:
        in_force = read_meta(connection, LENDER_KEY).get(LENDER_KEY, "")
        wrapping = set(connection.execute(select(data_keys.c.wrapped_by)).scalars())
    prepared = read_key(_prepared_file(home, in_force))
    if prepared is not None and key != prepared:
        _put_in_force(home, prepared)
        return prepared
    if fingerprint(key) not in wrapping:
        raise JournalKeyError(
            "the data key is not this journal's: set NIGHTSCREEN_DATA_KEY (or "
            f"{home / KEY_FILE}) to the key it was written with, or to the newer one if it was "
            "rotated"
        )
    return key


def make_sealer(database: Database, lender: bytes, home: Path) -> Sealer:
    """Return the sealer of a journal, given a lender's key that opens it."""

    def read(key: bytes) -> list[bytes]:
        with database.reading() as connection:
            return list(_unwrapped(connection, key).values())

    def reread() -> list[bytes]:
        if found := read(lender):
            return found
        with suppress(JournalKeyError, SettingsError):
            kept = read_key(home / KEY_FILE)
            if kept is not None and (found := read(kept)):
                return found
        raise JournalKeyError(
            "the journal's data key was rotated: set NIGHTSCREEN_DATA_KEY to the new one, then "
            "start again"
        )

    return Sealer(*read(lender), reread=reread)


def rotate_key(
    journal: Storage, *, configured: str = "", new: bytes | None = None
) -> tuple[str, ...]:
    """Add a data key, and wrap all data keys with a new key of the lender.

    The lender's old key opens the journal until the runs under way have ended; an old key of the
    settings until the journal is first opened with the new one.

    Args:
        journal: the open journal.
        configured: the lender's key in the settings; empty if it is under HOME, where it is then
            replaced.
        new: the new key; a random one by default.

    Returns:
        The runs under way, until whose end the old key opens the journal too.

    Raises:
        UsageError: the new key is the old one.
        JournalError: another process rotated the key meanwhile, or a run still holds the key that
            the last rotation replaced; nothing was changed.
    """
    old = decode_key(configured, "the data key") if configured else journal.lender_key
    fresh = new if new is not None else new_key()
    if fresh == old:
        raise UsageError("the new key is the one in force; make another")
    if not configured:
        _prepare_key(journal.home, fresh)
    with journal.database.writing() as connection:
        waiting = _retire(connection, journal.holders)
        wrapping = set(connection.execute(select(data_keys.c.wrapped_by)).scalars())
        if read_meta(connection, LENDER_KEY)[LENDER_KEY] == fingerprint(old) and len(wrapping) > 1:
            raise JournalError(
                f"the key before this one is still in use by {', '.join(waiting)}: nothing was "
                "changed; rotate again once that has ended"
            )
        # if another process commits first, nothing is left to replace
        replaced = (
            update(meta)
            .where(meta.c.name == LENDER_KEY, meta.c.value == fingerprint(old))
            .values(value=fingerprint(fresh))
        )
        if not connection.execute(replaced).rowcount:
            _prepared_file(journal.home, fingerprint(fresh)).unlink(missing_ok=True)
            raise JournalError(
                "another process rotated the key meanwhile; nothing was changed: rotate again with "
                "the newer key"
            )
        keys = _unwrapped(connection, old)
        added = {max(keys) + 1: new_key()}
        _wrap(connection, fresh, keys | added)
        _wrap(connection, old, added)
        waiting = () if configured else _retire(connection, journal.holders)
    if not configured:
        _put_in_force(journal.home, fresh)
    return waiting


def require_in_force(journal: Storage) -> None:
    """Refuse to pass on a lender's key that was rotated since the journal was opened.

    Raises:
        JournalKeyError: another key is current.
    """
    with journal.database.reading() as connection:
        in_force = read_meta(connection, LENDER_KEY)[LENDER_KEY]
    if in_force != fingerprint(journal.lender_key):
        raise JournalKeyError("the journal's data key was rotated meanwhile; run this again")


def retire_old_key(database: Database, holders: Holders, lender: bytes) -> None:
    """Delete data keys wrapped with an old key, if no run that may use it is left.

    A journal that was opened with the old key deletes nothing.
    """
    with database.reading() as connection:
        wrapping = set(connection.execute(select(data_keys.c.wrapped_by)).scalars())
        in_force = read_meta(connection, LENDER_KEY)[LENDER_KEY]
    if len(wrapping) > 1 and fingerprint(lender) == in_force:
        with database.writing() as connection:
            _retire(connection, holders)


def _retire(connection: Connection, holders: Holders) -> tuple[str, ...]:
    """Delete data keys wrapped with old keys; return the runs that still need them."""
    under_way = living_runs(connection, holders).items()
    living = tuple(run_id for run_id, holder in under_way if holder != holders.name)
    if not living:
        in_force = select(meta.c.value).where(meta.c.name == LENDER_KEY).scalar_subquery()
        connection.execute(delete(data_keys).where(data_keys.c.wrapped_by != in_force))
    return living


# --- the keys of links ---


def _keep_link_keys(
    connection: Connection, sealer: Sealer, keys: Mapping[bytes, int | None]
) -> None:
    """Save the keys of links, each with the instant until which it is accepted, microseconds.

    The first signs and has none.
    """
    text = json.dumps([(b64encode(key).decode(), until) for key, until in keys.items()])
    put_meta(connection, LINK_KEYS, sealed_text(sealer, text.encode(), LINK_KEYS))


def _link_keys(connection: Connection, journal: Storage) -> list[bytes]:
    sealed = read_meta(connection, LINK_KEYS)[LINK_KEYS]
    kept = json.loads(open_text(journal.sealer, sealed, LINK_KEYS))
    now = journal.clock()
    return [b64decode(key) for key, until in kept if until is None or now < until]


def link_keys(journal: Storage) -> list[bytes]:
    """Return the keys whose signatures on links are accepted; the first signs."""
    with journal.database.reading() as connection:
        return _link_keys(connection, journal)


def rotate_link_key(journal: Storage, *, at_once: bool = False) -> None:
    """Replace the key that signs links.

    Existing links end `at_once`, or the previous key is accepted until they have expired.
    """
    with journal.database.writing() as connection:
        until = journal.clock() + int(LINKS_LAST.total_seconds()) * MICROS
        before = {} if at_once else {_link_keys(connection, journal)[0]: until}
        _keep_link_keys(connection, journal.sealer, {new_key(): None, **before})
