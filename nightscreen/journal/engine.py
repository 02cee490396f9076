"""Engines for the journal: SQLite with write-ahead log and full sync, or PostgreSQL.

Transactions begin here and database errors become ours here, in one place; so do writes of many
rows, in SQLAlchemy Core once and compiled once for each database: SQLAlchemy's own way costs 20 µs
a row more, which is what the journal's own work on a lookup costs. What is read and written belongs
to the modules beside this one.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from nightscreen.schemas.errors import (
    JournalBusyError,
    JournalDamagedError,
    JournalError,
    JournalUnreachableError,
    SettingsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import ColumnElement, Dialect, Executable, Row, Table
    from sqlalchemy.pool import ConnectionPoolEntry
    from sqlalchemy.sql.base import ReadOnlyColumnCollection
    from sqlalchemy.sql.dml import UpdateBase

    Columns: TypeAlias = ReadOnlyColumnCollection[str, Any]

BUSY_TIMEOUT_S = 60.0
_TIMEOUT = "busy_timeout_s"  # execution option that carries an engine's own timeout
_RETRY_TIMEOUT = "retry_timeout"  # and the one that carries how long it waits for its database
_CONNECT_TIMEOUT_S = 10
_RETRY_S = 0.02
_REACH_AGAIN_S = 0.5
_NAMED_EVERY_S = 60.0
_UNACKNOWLEDGED_MS = 30_000
_PAGES_KEPT, _PAGES_AT_ONCE = 1_000, 5_000
"""Free pages left for what is written next, and those given back while others wait: 20 MB."""
_WRITE_LOCK = 0x6E69676874  # names the journal's one writer among PostgreSQL's advisory locks
_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40P01", "40001"}
_AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03", "53300"}
"""PostgreSQL is shut down, starts, ended an idle session, or has no connection left."""
_CONNECTION = "08"  # class of what goes wrong with a connection
_FULL = {"SQLITE_FULL", "53100"}
_DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "XX001", "XX002"}
_READ_ONLY = {"SQLITE_READONLY", "25006"}
_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="_OnEngine")


class Turn(Enum):
    """What one transaction at a time does, by the number of an advisory lock of PostgreSQL."""

    GRANTS = 0x6E69676875
    DESK = 0x6E69676876


def make_engine(url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Engine:
    """Return an engine for a journal URL; no connection is made yet.

    Raises:
        SettingsError: the URL cannot be read or names a database we do not know.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError(
            "NIGHTSCREEN_JOURNAL_URL cannot be read: write sqlite:////path/journal.sqlite or "
            "postgresql+psycopg://user:password@host/database"
        ) from None
    match parsed.get_backend_name():
        case "sqlite":
            engine = _sqlite_engine(parsed, busy_timeout_s)
        case "postgresql":
            engine = _postgresql_engine(parsed, busy_timeout_s)
        case other:
            raise SettingsError(
                f"NIGHTSCREEN_JOURNAL_URL must name SQLite or PostgreSQL, not {other}"
            )
    engine.update_execution_options(**{_TIMEOUT: busy_timeout_s, _RETRY_TIMEOUT: RetryTimeout()})
    return engine


def _sqlite_engine(url: URL, busy_timeout_s: float) -> Engine:
    database = url.database or ""
    if not database or ":memory:" in database or database.startswith("file:"):
        raise SettingsError(
            "NIGHTSCREEN_JOURNAL_URL must name a file that lasts: sqlite:////path/journal.sqlite"
        )
    engine = create_engine(
        url, connect_args={"timeout": busy_timeout_s}, max_overflow=-1, hide_parameters=True
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(url: URL, busy_timeout_s: float) -> Engine:
    if url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")
    milliseconds = int(busy_timeout_s * 1000)
    arguments = {
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": _UNACKNOWLEDGED_MS,
        "options": f"-c lock_timeout={milliseconds} -c synchronous_commit=on",
    }
    given = url.query.get("options", "")
    if given:
        arguments["options"] = f"{arguments['options']} {given}"
    try:
        engine = create_engine(
            url.difference_update_query(["options"]),
            connect_args=arguments,
            isolation_level="READ COMMITTED",  # a lock is waited for, then all committed is seen
            pool_pre_ping=True,
            pool_timeout=busy_timeout_s,
            max_overflow=20,
            hide_parameters=True,
        )
    except (NoSuchModuleError, ModuleNotFoundError):
        raise SettingsError(
            f"NIGHTSCREEN_JOURNAL_URL names a driver that is not installed: {url.drivername}; "
            "write postgresql+psycopg://user:password@host/database"
        ) from None
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
    """Make each commit last through a power loss, and leave transactions to us."""
    connection.isolation_level = None
    cursor = connection.cursor()
    if cursor.execute("PRAGMA page_count").fetchone() == (0,):
        cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")  # it would write the header of another
    if cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _turn_on_log(connection)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.execute("PRAGMA cache_size=-16000")
    cursor.close()


def _turn_on_log(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log; SQLite itself does not wait where another process does the same.

    Raises:
        JournalError: the file system cannot keep such a log.
    """
    cursor = connection.cursor()
    (timeout_ms,) = cursor.execute("PRAGMA busy_timeout").fetchone()
    give_up_at = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            (found,) = cursor.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError as error:
            if _word(error) not in _BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(_RETRY_S)
            continue
        if found != "wal":
            raise JournalError(
                f"the journal's disk cannot keep a write-ahead log (it offers {found}): put "
                "NIGHTSCREEN_HOME on a local disk"
            )
        return


def _begin_sqlite(connection: Connection) -> None:
    """Begin a write at once with the write lock, so that it can never fail half way."""
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


# --- a database that is away ---


@dataclass(slots=True)
class RetryTimeout:
    """How long a database that is away, or stays locked, is waited for.

    Attributes:
        give_up_s: the longest one call to the journal waits; nothing by default, so that a command
            says at once what is wrong.
        gave_up: a wait came to nothing; no other is begun until something was written again.
        named_at: when the log named a wait last, by a clock that nobody sets.
    """

    give_up_s: float = 0.0
    gave_up: bool = False
    named_at: float = 0.0

    def wait(self, since: float | None, error: JournalError) -> float:
        """Wait a moment; return since when that goes on, by a clock that nobody sets.

        Raises:
            JournalError: the error, where it has gone on for too long.
        """
        now = time.monotonic()
        is_due = since is None or now - self.named_at >= _NAMED_EVERY_S
        since = now if since is None else since
        waited_s = now - since
        if self.gave_up or waited_s >= self.give_up_s:
            self.gave_up = self.give_up_s > 0
            raise error
        if is_due:
            self.named_at = now
            waiting = "waiting for the journal (%.0f of %.0f s): %s"
            _LOGGER.warning(waiting, waited_s, self.give_up_s, error)
        time.sleep(min(_REACH_AGAIN_S, self.give_up_s))
        return since


def set_retry_timeout(engine: Engine, give_up_s: float) -> None:
    """Have an engine wait for its database, as a run does that has paid for what it writes."""
    _retry_timeout(engine).give_up_s = give_up_s


def _retry_timeout(engine: Engine) -> RetryTimeout:
    found: RetryTimeout = engine.get_execution_options()[_RETRY_TIMEOUT]
    return found


def run_with_retries(engine: Engine, work: Callable[[], T]) -> T:
    """Do work on the journal again where its database went away in the middle.

    Whether the first try was committed is not known then: the work must be one that may be done
    twice, or find out.
    """
    since: float | None = None
    while True:
        try:
            return work()
        except (JournalBusyError, JournalUnreachableError) as error:
            since = _retry_timeout(engine).wait(since, error)


class _OnEngine(Protocol):
    @property
    def _engine(self) -> Engine: ...


def with_retries(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], T]:
    """Have a method run again where the database broke it off, as `run_with_retries` does."""

    @wraps(method)
    def again(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_with_retries(self._engine, lambda: method(self, *args, **kwargs))

    return again


@contextmanager
def _transaction(
    engine: Engine, prepare: Callable[[Connection], object], *, reads: bool = False
) -> Iterator[Connection]:
    """One transaction, begun once the database can be reached and gives what it waits for."""

    def begin() -> tuple[Connection, ExitStack]:
        with translate_errors(engine), ExitStack() as opening:
            connection = opening.enter_context(engine.connect() if reads else engine.begin())
            if reads:
                connection.execution_options(reads=True)
            prepare(connection)
            return connection, opening.pop_all()

    connection, under_way = run_with_retries(engine, begin)
    with translate_errors(engine), under_way:
        yield connection
    if not reads:
        _retry_timeout(engine).gave_up = False


def writing(engine: Engine) -> AbstractContextManager[Connection]:
    """Give one serialised write transaction, whichever the database."""
    return _transaction(engine, _lock_whole)


def _lock_whole(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")


def recording(
    engine: Engine,
    turn: Turn | None = None,
    *,
    first: Callable[[Connection], None] | None = None,
) -> AbstractContextManager[Connection]:
    """Give one write transaction beside others of its kind, where the database can bear that.

    For what processes that ask write all the time: it waits for `writing` and makes it wait, and
    else for nobody but who writes the very rows, or has the same turn. So rows that many write are
    written last and in one order, and what is decided by reading needs a turn.

    Args:
        engine: the journal's.
        turn: what only one transaction at a time does.
        first: called before anything is waited for.
    """

    def prepare(connection: Connection) -> None:
        if first is not None:
            first(connection)
        if engine.dialect.name == "postgresql":
            take = f"SELECT pg_advisory_xact_lock_shared({_WRITE_LOCK})"
            if turn is not None:
                take += f", pg_advisory_xact_lock({turn.value})"
            connection.exec_driver_sql(take)

    return _transaction(engine, prepare)


def reading(engine: Engine) -> AbstractContextManager[Connection]:
    """Give one read transaction; it never waits for writers, and never makes them wait."""
    return _transaction(engine, lambda _: None, reads=True)


def reading_settled(engine: Engine) -> AbstractContextManager[Connection]:
    """Give one read transaction that begins when nobody is in the middle of writing.

    Numbers are given out before they are committed: where several write beside each other, a lower
    one may appear after a higher. Seen from here all up to the highest have appeared.
    """
    return _transaction(engine, _lock_whole, reads=True)


def snapshot(engine: Engine) -> AbstractContextManager[Connection]:
    """Give one read transaction in which every statement sees the same instant of the journal."""
    return _transaction(engine, _see_one_instant, reads=True)


def _see_one_instant(connection: Connection) -> None:
    if connection.dialect.name == _POSTGRESQL:  # SQLite's transactions do so by themselves
        frozen = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        connection.exec_driver_sql(frozen)


# --- one query, or statements that bear being carried out twice ---


def fetch(
    engine: Engine, query: Executable, values: Mapping[str, Any] | None = None
) -> Sequence[Row[Any]]:
    """Return the rows of one query; a database that went away meanwhile is asked again."""

    def read() -> Sequence[Row[Any]]:
        with reading(engine) as connection:
            return connection.execute(query, values).all()

    return run_with_retries(engine, read)


def fetch_value(engine: Engine, query: Executable) -> Any:  # noqa: ANN401 - any column's
    """Return the first value that one query finds; None where it finds nothing."""
    rows = fetch(engine, query)
    return rows[0][0] if rows else None


def execute_all(engine: Engine, *statements: Executable) -> None:
    """Carry out statements in one transaction beside others, again where it broke off."""

    def write() -> None:
        with recording(engine) as connection:
            for each in statements:
                connection.execute(each)

    run_with_retries(engine, write)


@contextmanager
def translate_errors(engine: Engine) -> Iterator[None]:
    """Turn a database's error into one of ours that says what to do."""
    try:
        yield
    except DBAPIError as error:
        raise _ours(engine, error.orig) from None
    except engine.dialect.loaded_dbapi.Error as error:
        raise _ours(engine, error) from None
    except PoolTimeoutError:
        raise _busy(engine) from None


def _ours(engine: Engine, error: BaseException | None) -> JournalError:
    """Return our error for a driver's."""
    where, word = _place(engine), _word(error)
    lines = str(error).strip().splitlines() if error is not None else []
    reason = lines[0] if lines else "no reason given"
    if word in _BUSY:
        return _busy(engine)
    if _is_away(engine, error, word):
        return JournalUnreachableError(
            f"the journal {where} cannot be reached: {reason}; see that its database runs, or "
            "correct NIGHTSCREEN_JOURNAL_URL, then run again"
        )
    if word in _FULL:
        return JournalError(
            f"the disk of the journal {where} is full; free some space, then resume the run: "
            "nothing is lost"
        )
    if word in _DAMAGED:
        return JournalDamagedError(
            f"the journal {where} is damaged ({reason}); it was left untouched: restore it from a "
            "backup (nightscreen journal backup makes one)"
        )
    if word in _READ_ONLY:
        return JournalError(
            f"the journal {where} cannot be written ({reason}); mend its permissions, then run "
            "again: nothing is lost"
        )
    return JournalError(
        f"the journal {where} cannot be used: {reason}; mend that, or correct "
        "NIGHTSCREEN_JOURNAL_URL, then run again"
    )


def _is_away(engine: Engine, error: BaseException | None, word: str) -> bool:
    """Return whether the database is not there at present: nothing is wrong with what was asked."""
    if engine.dialect.name != "postgresql":
        return False
    if word:
        return word in _AWAY or word.startswith(_CONNECTION)
    driver: Any = engine.dialect.loaded_dbapi
    return isinstance(error, driver.OperationalError | driver.InterfaceError)


def _busy(engine: Engine) -> JournalBusyError:
    timeout_s = engine.get_execution_options().get(_TIMEOUT, BUSY_TIMEOUT_S)
    return JournalBusyError(
        f"the journal {_place(engine)} stayed locked by another process for {timeout_s:g} s; "
        "find and end that process, then run again: nothing is lost"
    )


def _word(error: BaseException | None) -> str:
    """Return the stable word by which a driver names its error, extended codes cut to the root."""
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "") or ""
        return "_".join(name.split("_")[:2])
    return getattr(error, "sqlstate", None) or ""


def _place(engine: Engine) -> str:
    """Name a journal without its password."""
    if engine.dialect.name == "sqlite":
        return engine.url.database or "in memory"
    return engine.url.set(query={}).render_as_string(hide_password=True)


def release_pages(engine: Engine) -> None:
    """Give pages of an SQLite file that hold nothing any more back to the disk, some at a time."""
    if engine.dialect.name != "sqlite":
        return
    with translate_errors(engine), engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        while driver.execute("PRAGMA freelist_count").fetchone()[0] > _PAGES_KEPT:
            # as a script: of a single statement the driver makes the first step alone, a page
            driver.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")


def sqlite_file(engine: Engine) -> Path | None:
    """Return the journal's file with links followed, or None where it is no SQLite file."""
    if engine.dialect.name != "sqlite" or not engine.url.database:
        return None
    return Path(engine.url.database).resolve()


def holders_folder(engine: Engine) -> Path | None:
    """Return where the processes of an SQLite journal have their locks."""
    file = sqlite_file(engine)
    return None if file is None else file.with_name(f"{file.name}.holders")


def require_sound_file(engine: Engine) -> None:
    """Look into an SQLite file without being able to write it, so that damage stays as it is.

    Raises:
        JournalDamagedError: it is no database, or not whole.
    """
    file = sqlite_file(engine)
    if file is None or not file.exists() or file.stat().st_size == 0:
        return
    try:
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            timeout_s = engine.get_execution_options()[_TIMEOUT]
            connection.execute(f"PRAGMA busy_timeout={int(timeout_s * 1000)}")
            for name, made in connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type='table'"
            ):
                last = "" if "WITHOUT ROWID" in made else "ORDER BY rowid DESC"
                connection.execute(f'SELECT 1 FROM "{name}" {last} LIMIT 1').fetchone()  # noqa: S608 - names of our own tables
    except sqlite3.Error as error:
        raise _ours(engine, error) from None


# --- writes of many rows ---


_POSTGRESQL = "postgresql"


_BLOCK = 500  # values of one query: far fewer parameters than the 32,766 that SQLite takes


def blocks(found: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield so many of something at a time as one query names."""
    for start in range(0, len(found), _BLOCK):
        yield found[start : start + _BLOCK]


class Many:
    """A write that is executed with many rows at once.

    Args:
        make: gives the statement for a dialect's name.
        names: the statement's parameters, in the order in which rows give them.
    """

    def __init__(self, make: Callable[[str], UpdateBase], names: Sequence[str]) -> None:
        self._make = make
        self._names = tuple(names)
        self._compiled: dict[str, tuple[str, tuple[int, ...]]] = {}

    def run(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute the statement once for each row; PostgreSQL's driver sends them all at once."""
        if not rows:
            return
        dialect = connection.dialect.name
        if dialect not in self._compiled:
            self._compiled[dialect] = self._compile(dialect)
        sql, order = self._compiled[dialect]
        connection.exec_driver_sql(sql, [tuple(row[index] for index in order) for row in rows])

    def _compile(self, name: str) -> tuple[str, tuple[int, ...]]:
        """Return SQL with positional parameters, and where they lie in a row."""
        dialect: Dialect = sqlite.dialect()
        if name == _POSTGRESQL:
            dialect = psycopg.dialect(paramstyle="format")  # type: ignore[no-untyped-call]  # there
        compiled = self._make(name).compile(dialect=dialect, column_keys=list(self._names))
        order = tuple(map(self._names.index, compiled.positiontup or ()))
        return compiled.string, order


def insert_into(dialect: str, table: Table) -> Any:  # noqa: ANN401 - two dialects' own types
    """Return an insert that may say what happens on conflict, in a dialect's own form."""
    return (postgresql if dialect == _POSTGRESQL else sqlite).insert(table).inline()


def inserting(table: Table, names: Sequence[str]) -> Many:
    """Return a plain write of rows."""
    return Many(lambda dialect: insert_into(dialect, table), names)


def upserting(
    table: Table,
    changed: Callable[[Columns], Mapping[str, Any]],
    where: Callable[[Columns], ColumnElement[bool]] | None = None,
) -> Many:
    """Return a write of whole rows; of a row whose key is there, only what changes is written.

    Args:
        table: where to.
        changed: the values that such a row gets, given the columns of the new one.
        where: whether it gets them; always where this is left out.
    """

    def upsert(dialect: str) -> UpdateBase:
        statement = insert_into(dialect, table)
        new = statement.excluded
        made: UpdateBase = statement.on_conflict_do_update(
            index_elements=list(table.primary_key.columns),
            set_=changed(new),
            where=None if where is None else where(new),
        )
        return made

    return Many(upsert, table.c.keys())
