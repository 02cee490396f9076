"""The data keys a journal accepts: recognised by fingerprint, found again while one is rotated.

While a key is rotated, the journal holds the new key sealed under the old one and the old one
sealed under the new, so that whoever has either can read everything. Rotating itself is in
`rotation`, keys on disk are in `files.keys`. The key that signs links is a third, of its own: it
can be replaced without touching pseudonyms, and whoever learns it learns no pseudonym.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from nightscreen.files.keys import KEY_FILE, new_key, read_key
from nightscreen.files.sealing import Sealer, fingerprint
from nightscreen.journal.calls import SEAL_KEY
from nightscreen.journal.engine import reading, writing
from nightscreen.journal.tables import meta, seal_keys
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError, SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from nightscreen.journal.opening import Journal

PSEUDONYM_KEY = "pseudonym_key"
LINK_KEYS = "link_keys"
LINKS_LAST = timedelta(days=90)
"""How long a link may be valid, and so how long the key before the present one is accepted."""
_NEXT, _PREVIOUS = "next_key", "previous_key"


def sealed_text(sealer: Sealer, value: bytes, name: str) -> str:
    """Return bytes sealed for `meta`, bound to their name there."""
    return b64encode(sealer.seal(value, _context(name))).decode()


def open_text(sealer: Sealer, value: str, name: str) -> bytes:
    """Return bytes that `sealed_text` sealed."""
    return sealer.open(b64decode(value), _context(name))


def _context(name: str) -> bytes:
    return f"meta\x1f{name}".encode()


def read_meta(connection: Connection) -> dict[str, str]:
    """Return the journal's own facts by name."""
    rows = connection.execute(select(meta.c.name, meta.c.value)).all()
    return {row.name: row.value for row in rows}


def put_meta(connection: Connection, name: str, value: str | None) -> None:
    """Write one of the journal's own facts; None removes it."""
    connection.execute(delete(meta).where(meta.c.name == name))
    if value is not None:
        connection.execute(insert(meta), {"name": name, "value": value})


def new_link_keys(key: bytes, before: bytes | None, until: int) -> bytes:
    """Return what `meta` keeps of the keys of links, not sealed yet.

    Args:
        key: signs links from now on.
        before: is accepted too, until the instant `until`.
        until: microseconds.
    """
    kept = {"key": b64encode(key).decode(), "until": until}
    return json.dumps(kept | ({"before": b64encode(before).decode()} if before else {})).encode()


def link_keys(journal: Journal) -> list[bytes]:
    """Return the keys whose signatures on links are accepted; the first signs."""
    with reading(journal.engine) as connection:
        sealed = read_meta(connection)[LINK_KEYS]
    kept = json.loads(open_text(journal.sealer, sealed, LINK_KEYS))
    found = [b64decode(kept["key"])]
    if "before" in kept and journal.clock() < kept["until"]:
        found.append(b64decode(kept["before"]))
    return found


def rotate_link_key(journal: Journal, *, at_once: bool = False) -> None:
    """Sign links with a new key from now on.

    Args:
        journal: whose links.
        at_once: links that are out end now; else the key before is accepted until they have ended.
    """
    with writing(journal.engine) as connection:
        sealed = read_meta(connection)[LINK_KEYS]
        before = b64decode(json.loads(open_text(journal.sealer, sealed, LINK_KEYS))["key"])
        until = journal.clock() + int(LINKS_LAST.total_seconds()) * MICROS
        kept = new_link_keys(new_key(), None if at_once else before, until)
        put_meta(connection, LINK_KEYS, sealed_text(journal.sealer, kept, LINK_KEYS))


def make_sealer(engine: Engine, key: bytes | None, home: Path) -> Sealer:
    """Return a sealer for a journal once the key is known to be the journal's.

    Raises:
        JournalKeyError: the key is missing, or another journal's.
    """
    if key is None:
        raise JournalKeyError(
            f"the journal's data key is missing: put it back as {home / KEY_FILE} or set "
            "NIGHTSCREEN_DATA_KEY; without it no stored answer can be read"
        )
    with reading(engine) as connection:
        query = select(seal_keys.c.fingerprint).where(seal_keys.c.retired_at.is_(None))
        accepted = set(connection.execute(query).scalars())
        current = read_meta(connection).get(SEAL_KEY, "")
    if fingerprint(key) not in accepted:
        raise JournalKeyError(
            "the data key is not this journal's: set NIGHTSCREEN_DATA_KEY (or "
            f"{home / KEY_FILE}) to the key it was written with"
        )
    sealer = Sealer(key, seek=lambda asking: _seek(engine, asking, home))
    if current != sealer.fingerprint:
        sealer.switch(current)
    return sealer


def follow_rotation(journal: Journal) -> bool:
    """Seal under the journal's present key from now on; tell whether it was another until now.

    Portal and desk live longer than a rotation of the data key, and hold none up as runs do: they
    ask before they seal, since what is sealed under a retired key is lost.

    Raises:
        JournalKeyError: the new key is not at hand.
    """
    with reading(journal.engine) as connection:
        wanted = read_meta(connection)[SEAL_KEY]
    if wanted == journal.sealer.fingerprint:
        return False
    journal.sealer.switch(wanted)
    return True


def _seek(engine: Engine, sealer: Sealer, home: Path) -> list[bytes]:
    """Return keys that the journal or HOME holds for whoever has one of them."""
    found: list[bytes] = []
    with reading(engine) as connection:
        values = read_meta(connection)
    # a sealer of its own: one that could seek would come back here without end
    at_hand = Sealer(sealer.key)
    for name in (_NEXT, _PREVIOUS):
        with suppress(JournalKeyError, JournalDamagedError, KeyError):
            found.append(open_text(at_hand, values[name], name))
    with suppress(JournalKeyError, SettingsError):
        kept = read_key(home / KEY_FILE)
        found.extend([kept] if kept is not None else [])
    return found


def begin_rotation(connection: Connection, old: bytes, new: bytes, now: int) -> None:
    """Accept a new key beside the old one, and seal under it from now on."""
    connection.execute(
        insert(seal_keys), {"fingerprint": fingerprint(new), "created_at": now, "retired_at": None}
    )
    put_meta(connection, _NEXT, sealed_text(Sealer(old), new, _NEXT))
    put_meta(connection, _PREVIOUS, sealed_text(Sealer(new), old, _PREVIOUS))
    put_meta(connection, SEAL_KEY, fingerprint(new))


def under_way(connection: Connection) -> bool:
    """Return whether a rotation was begun and not finished."""
    return _NEXT in read_meta(connection)


def end_rotation(connection: Connection, sealer: Sealer, pseudonym_key: bytes, now: int) -> None:
    """Accept the new key alone; nothing in the journal leads from one key to the other any more."""
    put_meta(connection, PSEUDONYM_KEY, sealed_text(sealer, pseudonym_key, PSEUDONYM_KEY))
    links = read_meta(connection).get(LINK_KEYS)
    if links is not None:
        opened = open_text(sealer, links, LINK_KEYS)
        put_meta(connection, LINK_KEYS, sealed_text(sealer, opened, LINK_KEYS))
    put_meta(connection, _NEXT, None)
    put_meta(connection, _PREVIOUS, None)
    connection.execute(
        seal_keys.update()
        .where(seal_keys.c.fingerprint != sealer.fingerprint, seal_keys.c.retired_at.is_(None))
        .values(retired_at=now)
    )
