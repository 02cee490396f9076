"""Engines for the journal: SQLite with write-ahead log and full sync, or PostgreSQL.

Turning database errors into ours happens here too, in one place.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, OperationalError

from schemas.errors import JournalBusyError, JournalDamagedError, JournalError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S = 60
_WRITE_LOCK = 0x6E69676874  # names the journal's one writer among PostgreSQL's advisory locks


def make_engine(url: str) -> Engine:
    """Return an engine for a journal URL; no connection is made yet.

    Raises:
        SettingsError: the URL cannot be read or names a database we do not know.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise SettingsError(
            "NIGHTSCREEN_JOURNAL_URL cannot be read: write sqlite:////path/journal.sqlite or "
            "postgresql+psycopg://user:password@host/database"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(
            parsed, connect_args={"timeout": BUSY_TIMEOUT_S}, hide_parameters=True
        )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    if parsed.get_backend_name() == "postgresql":
        if parsed.drivername == "postgresql":
            parsed = parsed.set(drivername="postgresql+psycopg")
        try:
            return create_engine(parsed, pool_pre_ping=True, hide_parameters=True)
        except NoSuchModuleError:
            raise SettingsError(
                f"NIGHTSCREEN_JOURNAL_URL names a driver that is not installed: {parsed.drivername}"
            ) from None
    raise SettingsError(
        f"NIGHTSCREEN_JOURNAL_URL must name SQLite or PostgreSQL, not {parsed.get_backend_name()}"
    )


def _prepare_sqlite(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    """Make each commit last through a power loss, and leave transactions to us."""
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.execute("PRAGMA cache_size=-16000")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    """Begin a write at once with the write lock, so that it can never fail half way."""
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One serialised write transaction, whichever the database."""
    with _told(engine), engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _WRITE_LOCK})
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One read transaction; never waits for writers."""
    with _told(engine), engine.connect().execution_options(reads=True) as connection:
        yield connection


@contextmanager
def _told(engine: Engine) -> Iterator[None]:
    """Turn a database's error into one of ours that says what to do."""
    where = _place(engine)
    try:
        yield
    except OperationalError as error:
        reason = str(error.orig).splitlines()[0] if error.orig else "no reason given"
        if "locked" in reason or "busy" in reason:
            raise JournalBusyError(
                f"the journal {where} stayed locked by another process for {BUSY_TIMEOUT_S} s; "
                "find and end that process, then run again: nothing is lost"
            ) from None
        if "full" in reason:
            raise JournalError(
                f"the disk of the journal {where} is full; free some space, then resume the run: "
                "nothing is lost"
            ) from None
        raise JournalError(f"the journal {where} cannot be used: {reason}") from None
    except DatabaseError as error:
        reason = str(error.orig).splitlines()[0] if error.orig else "no reason given"
        if "malformed" in reason or "not a database" in reason:
            raise JournalDamagedError(
                f"the journal {where} is damaged ({reason}); it was left untouched: restore it "
                "from a backup (nightscreen journal backup makes one)"
            ) from None
        raise JournalError(f"the journal {where} cannot be used: {reason}") from None


def _place(engine: Engine) -> str:
    """Name a journal without its password."""
    if engine.dialect.name == "sqlite":
        return engine.url.database or "in memory"
    return engine.url.render_as_string(hide_password=True)


def sqlite_file(engine: Engine) -> Path | None:
    """Return the journal's file, or None where it is no SQLite file."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    return Path(engine.url.database)
