"""Opening a journal: a new one is made, an old one is recognised by its key, a strange one refused.

The journal's parts hang on the `Journal` that this module gives; what they do is in their modules.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from sqlalchemy import insert, inspect, select

from schemas.errors import JournalError, JournalKeyError
from storage.clock import Clock, system_clock
from storage.holders import AdvisoryHolders, FileHolders, Holders
from storage.journal import tables
from storage.journal.answers import Answers
from storage.journal.calls import Calls
from storage.journal.engine import make_engine, reading, sqlite_file, writing
from storage.journal.money import Money
from storage.journal.runs import Runs
from storage.keys import KEY_FILE, configured_key, make_key
from storage.private import make_private_folder, write_private
from storage.sealing import Pseudonyms, Sealer, fingerprint

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

JOURNAL_FILE = "journal.sqlite"
_MARKER = "journal.json"
_PSEUDONYM_CONTEXT = b"pseudonym key"


@dataclass(frozen=True, slots=True)
class Journal:
    """An open journal and its parts."""

    engine: Engine = field(repr=False)
    home: Path
    journal_id: str
    sealer: Sealer = field(repr=False)
    pseudonyms: Pseudonyms = field(repr=False)
    holders: Holders = field(repr=False)
    clock: Clock = field(repr=False)
    calls: Calls = field(repr=False)
    answers: Answers = field(repr=False)
    money: Money = field(repr=False)
    runs: Runs = field(repr=False)

    def close(self) -> None:
        """Give back the lock and all connections."""
        self.holders.release()
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def open_journal(
    home: Path, *, url: str = "", data_key: str = "", clock: Clock = system_clock
) -> Journal:
    """Open the journal of a HOME, making it where there never was one.

    Args:
        home: folder for state; made with mode 0700.
        url: SQLAlchemy URL; empty for SQLite under HOME.
        data_key: base64 key of the settings; empty for the one kept under HOME.
        clock: gives the present instant.

    Raises:
        JournalKeyError: the key is missing or is another journal's.
        JournalError: the journal is damaged, locked, from another version, or has vanished.
    """
    make_private_folder(home)
    engine = make_engine(url or f"sqlite:///{(home / JOURNAL_FILE).absolute()}")
    _private_from_birth(engine)
    key = configured_key(home, data_key)
    if _is_new(engine):
        _refuse_vanished(home)
        key = key if key is not None else make_key(home)
        _create(engine, key, clock)
    journal_id, pseudonym_key = _recognise(engine, key, home)
    sealer = Sealer(_present(key))
    holders: Holders = (
        FileHolders(home / "holders")
        if engine.dialect.name == "sqlite"
        else AdvisoryHolders(engine)
    )
    _leave_marker(home, journal_id)
    pseudonyms = Pseudonyms(sealer.open(b64decode(pseudonym_key), _PSEUDONYM_CONTEXT))
    calls = Calls(engine, sealer, holders, clock)
    return Journal(
        engine=engine,
        home=home,
        journal_id=journal_id,
        sealer=sealer,
        pseudonyms=pseudonyms,
        holders=holders,
        clock=clock,
        calls=calls,
        answers=Answers(engine, sealer),
        money=Money(engine, clock),
        runs=Runs(engine, holders, clock),
    )


def journal_exists(home: Path, url: str = "") -> bool:
    """Tell whether there is a journal to look into, without making one."""
    if url and not url.startswith("sqlite"):
        return True
    file = sqlite_file(make_engine(url)) if url else home / JOURNAL_FILE
    return file is not None and file.exists()


def _present(key: bytes | None) -> bytes:
    if key is None:
        raise JournalKeyError("the journal's data key is missing")
    return key


def _private_from_birth(engine: Engine) -> None:
    """Make the journal's file before SQLite does, so that nobody else may ever read it."""
    file = sqlite_file(engine)
    if file is None:
        return
    if not file.parent.is_dir():
        raise JournalError(
            f"the journal's folder {file.parent} does not exist; make it or correct "
            "NIGHTSCREEN_JOURNAL_URL"
        )
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise JournalError(f"cannot open the journal {file}: {error.strerror}") from None


def _is_new(engine: Engine) -> bool:
    with reading(engine) as connection:
        return not inspect(connection).has_table(tables.meta.name)


def _refuse_vanished(home: Path) -> None:
    """Refuse to begin anew where HOME remembers a journal: that would buy everything again."""
    if (home / _MARKER).exists():
        raise JournalError(
            f"{home / _MARKER} remembers a journal that is not there any more; restore it from a "
            "backup, correct NIGHTSCREEN_JOURNAL_URL, or remove that file to begin a new journal "
            "(every answer would then be paid for again)"
        )


def _create(engine: Engine, key: bytes, clock: Clock) -> None:
    pseudonym_key = Sealer(key).seal(secrets.token_bytes(32), _PSEUDONYM_CONTEXT)
    values = {
        "schema_version": str(tables.SCHEMA_VERSION),
        "journal_id": secrets.token_hex(8),
        "pseudonym_key": b64encode(pseudonym_key).decode(),
    }
    with writing(engine) as connection:
        tables.metadata.create_all(connection)
        if connection.execute(select(tables.meta.c.name)).first() is None:
            rows = [{"name": name, "value": value} for name, value in values.items()]
            connection.execute(insert(tables.meta), rows)
            connection.execute(
                insert(tables.seal_keys), {"fingerprint": fingerprint(key), "created_at": clock()}
            )


def _recognise(engine: Engine, key: bytes | None, home: Path) -> tuple[str, str]:
    """Return journal id and sealed pseudonym key, once version and data key are right."""
    with reading(engine) as connection:
        values = dict(connection.execute(select(tables.meta.c.name, tables.meta.c.value)).all())
        known = connection.execute(
            select(tables.seal_keys.c.fingerprint).where(tables.seal_keys.c.retired_at.is_(None))
        ).scalars()
        fingerprints = set(known)
    if int(values["schema_version"]) != tables.SCHEMA_VERSION:
        raise JournalError(
            f"the journal has schema version {values['schema_version']}, this program writes "
            f"{tables.SCHEMA_VERSION}: use the program that wrote it, or a newer one"
        )
    if key is None:
        raise JournalKeyError(
            f"the journal's data key is missing: put it back as {home / KEY_FILE} or set "
            "NIGHTSCREEN_DATA_KEY; without it no stored answer can be read"
        )
    if fingerprint(key) not in fingerprints:
        raise JournalKeyError(
            "the data key is not this journal's: set NIGHTSCREEN_DATA_KEY (or "
            f"{home / KEY_FILE}) to the key it was written with"
        )
    return values["journal_id"], values["pseudonym_key"]


def _leave_marker(home: Path, journal_id: str) -> None:
    marker = home / _MARKER
    if not marker.exists():
        write_private(marker, json.dumps({"journal_id": journal_id}).encode())
