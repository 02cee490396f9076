"""Versions of the journal: made new at the present one, brought up from an earlier one.

A migration is a plain function over a connection, or a store whose rows become records. Each runs
in one write transaction together with the new version number, so that a crash leaves a whole older
journal, and of several processes that open at once one migrates. Change `tables` and add a
migration here, never one without the other.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from sqlalchemy import inspect, select, text

from nightscreen.schemas.errors import JournalDamagedError, JournalError, JournalNewerError
from nightscreen.storage.files import atomic_write
from nightscreen.storage.journal.approvals import make_approvals
from nightscreen.storage.journal.customer_tables import add_marks, erasures, make_customer_tables
from nightscreen.storage.journal.earlier import (
    BVN_REQUESTS,
    LOAN_HISTORY,
    LOAN_OFFERS,
    REVIEWS,
    Store,
)
from nightscreen.storage.journal.engine import reading, sqlite_file, writing
from nightscreen.storage.journal.grant_tables import add_kinds, make_grant_tables
from nightscreen.storage.journal.identifier_history import sightings
from nightscreen.storage.journal.keyring import put_meta, read_meta
from nightscreen.storage.journal.records import make_records
from nightscreen.storage.journal.runs import RUNNING
from nightscreen.storage.journal.tables import metadata, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from nightscreen.storage.sealing import Sealer

    Step = Callable[[Connection], object] | Store
    Migration = tuple[int, Step]

VERSION = "schema_version"


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
        JournalError: the journal was written by a newer program, or a run of an earlier one is
            under way; nothing was changed.
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
    opener = sealer() if found < newest else None
    for version, step in migrations:
        if version > found:
            _migrate(engine, version, step, opener, copied=found)


def _migrate(
    engine: Engine, version: int, step: Step, sealer: Sealer | None, *, copied: int
) -> None:
    """Take one step, unless another process has taken it; a journal of version `copied` is kept."""
    with writing(engine) as connection:
        found = _version(connection)
        if found < version and isinstance(step, Store):
            _refuse_under_way(engine, connection)
        if found == copied:
            _copy(engine, found)
        if found < version:
            if isinstance(step, Store):
                step.move(connection, sealer)
            else:
                step(connection)
            put_meta(connection, VERSION, str(version))


def _refuse_under_way(engine: Engine, connection: Connection) -> None:
    """Refuse to take a table from under a run: it is an earlier program's, and would fail."""
    from nightscreen.storage.journal.read_only import ReadOnlyJournal  # noqa: PLC0415 - it needs us

    look = ReadOnlyJournal(engine)
    query = select(runs.c.run_id, runs.c.holder).where(runs.c.state == RUNNING)
    for run_id, holder in connection.execute(query).all():
        if holder and look.alive(holder, connection):
            raise JournalError(
                f"run {run_id} is under way with an earlier version of the program: let it end, "
                "or stop it, and try again; the journal was left as it is"
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
