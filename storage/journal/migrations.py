"""Versions of the journal: made new at the present one, brought up from an earlier one.

A migration is a plain function over a connection, or a store whose rows become records. All that a
journal lacks run in one write transaction together with the new version number, so that a crash
leaves a whole older journal, and of several processes that open at once one migrates. Change
`tables` and add a migration here, never one without the other.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import inspect, text

from nightscreen.schemas.errors import JournalDamagedError, JournalError, JournalNewerError
from nightscreen.storage.files import atomic_write
from nightscreen.storage.holders import SURE_AFTER_S, at_work
from nightscreen.storage.journal.approvals import make_approvals
from nightscreen.storage.journal.customer_tables import add_marks, erasures, make_customer_tables
from nightscreen.storage.journal.disputes import make_disputes
from nightscreen.storage.journal.earlier import (
    BVN_REQUESTS,
    LOAN_HISTORY,
    LOAN_OFFERS,
    REVIEWS,
    Store,
)
from nightscreen.storage.journal.engine import holders_folder, reading, sqlite_file, writing
from nightscreen.storage.journal.grant_tables import add_kinds, make_grant_tables
from nightscreen.storage.journal.identifier_history import sightings
from nightscreen.storage.journal.keyring import put_meta, read_meta
from nightscreen.storage.journal.records import make_records
from nightscreen.storage.journal.tables import metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from nightscreen.storage.sealing import Sealer

    Step = Callable[[Connection], object] | Store
    Migration = tuple[int, Step]

VERSION = "schema_version"
_LOOK_AGAIN_S = 0.1


def _add_sightings(connection: Connection) -> None:
    """Make the table of sightings, and the column that counts those that were erased.

    A backup of version 1 is restored into tables of the present version: then both are there.
    """
    make_customer_tables(connection)
    metadata.create_all(connection, tables=[sightings], checkfirst=True)
    there = {column["name"] for column in inspect(connection).get_columns(erasures.name)}
    if "sightings" not in there:
        added = "ALTER TABLE erasures ADD COLUMN sightings BIGINT DEFAULT 0 NOT NULL"
        connection.execute(text(added))


MIGRATIONS: tuple[Migration, ...] = (
    (2, _add_sightings),
    (3, make_grant_tables),
    (6, add_marks),
    (7, make_approvals),
    (8, make_grant_tables),  # cash_flows
    (9, make_records),
    (10, add_kinds),
    (11, REVIEWS),
    (12, LOAN_OFFERS),
    (13, LOAN_HISTORY),
    (14, BVN_REQUESTS),
    (15, make_customer_tables),
    (16, make_records),  # two indexes
    (17, make_disputes),
)
"""The version each leads to, and the step, in order; one that made what is no more has gone."""


def newest_version(migrations: Sequence[Migration] = MIGRATIONS) -> int:
    """Return the version this program writes."""
    return migrations[-1][0] if migrations else 1


def bring_up(
    engine: Engine,
    migrations: Sequence[Migration] = MIGRATIONS,
    *,
    sealer: Callable[[], Sealer | None] = lambda: None,
) -> None:
    """Bring an older journal up to this program's version.

    An SQLite journal is copied first, to `journal.sqlite.v6` and the like beside it: with the
    program of that version it can be put back in its place. A server's journal is its owner's to
    back up; there the step is one transaction.

    Args:
        engine: the journal's.
        migrations: the steps.
        sealer: opens what is sealed in the journal; asked for where there is a step to take.

    Raises:
        JournalKeyError: the data key is missing or is another journal's; nothing was changed.
        OutputError: the copy cannot be written; nothing was changed.
        JournalError: the journal was written by a newer program, or an earlier one has it open;
            nothing was changed.
        JournalDamagedError: its version cannot be read.
    """
    with reading(engine) as connection:
        found = _version(connection)
    newest = newest_version(migrations)
    if found > newest:
        raise JournalNewerError(
            f"the journal has schema version {found}, this program knows up to {newest}: use the "
            "program that wrote it, or a newer one"
        )
    if found == newest:
        return
    opener = sealer()
    with writing(engine) as connection:
        found = _version(connection)  # another process may have been first
        steps = [each for each in migrations if each[0] > found]
        if not steps:
            return
        if any(isinstance(step, Store) for _, step in steps):
            _refuse_at_work(engine, connection)
        _copy(engine, found)
        for _, step in steps:
            if isinstance(step, Store):
                step.move(connection, opener)
            else:
                step(connection)
        put_meta(connection, VERSION, str(newest))


def _refuse_at_work(engine: Engine, connection: Connection) -> None:
    """Refuse to take a table from under a program of an earlier version.

    It would fail, or make the table again, and what it then wrote there would be lost. A process
    that has just ended may still be seen for a moment.
    """
    until = time.monotonic() + SURE_AFTER_S
    where = holders_folder(engine) or connection
    while (found := at_work(where)) and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)
    if found:
        raise JournalError(
            "the journal is to be brought up to this version of the program, and an earlier one "
            f"has it open ({', '.join(found)}): end runs, nightscreen up, desk, portal and "
            "workers, and try again; the journal was left as it is"
        )


def _copy(engine: Engine, version: int) -> None:
    """Copy an SQLite journal before a step, in the place of a copy of an earlier version."""
    file = sqlite_file(engine)
    if file is None:
        return
    new = file.with_name(f"{file.name}.v{version}")
    with (
        atomic_write(new) as partial,
        closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(partial)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")
    for older in set(copies_of(file)) - {new}:
        older.unlink(missing_ok=True)


def copies_of(file: Path) -> list[Path]:
    """Return the copies of an SQLite journal that were made before it was brought up."""
    return sorted(file.parent.glob(f"{file.name}.v[0-9]*"))


def _version(connection: Connection) -> int:
    text = read_meta(connection).get(VERSION, "")
    if not text.isdecimal():
        raise JournalDamagedError(
            "the journal does not say which version it has; it was left untouched: restore it from "
            "a backup"
        )
    return int(text)
