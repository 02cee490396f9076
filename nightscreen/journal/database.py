"""The journal's database: SQLite with write-ahead log and full sync, or PostgreSQL.

It begins transactions, waits for a database that is unreachable, and translates its errors. The
other modules of the journal have the queries.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from nightscreen.files.private_files import free_bytes
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

    from sqlalchemy import Column, Executable, Row, Select, Table
    from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 10
_RETRY_S = 0.02
_REACH_AGAIN_S = 0.5
_NAMED_EVERY_S = 60.0
_UNACKNOWLEDGED_MS = 30_000
_PAGES_KEPT, _PAGES_AT_ONCE = 1_000, 5_000
"""Free pages kept for later writes, and pages released at once while others wait: 20 MB."""
_WRITE_LOCK = 0x6E69676874  # PostgreSQL's advisory lock of the journal's one writer
_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED", "55P03", "40P01", "40001"}
_AWAY = {"57P01", "57P02", "57P03", "57P05", "25P03", "53300"}
"""PostgreSQL is shutting down or starting, ended an idle session, or has no connection left."""
_CONNECTION = "08"  # class of connection errors
_FAILED = "SQLITE_IOERR"  # also where a full disk has no room for the files of an open journal
_FULL = {"SQLITE_FULL", "53100"}
_DAMAGED = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "XX001", "XX002"}
_READ_ONLY = {"SQLITE_READONLY", "25006"}
_LOGGER = logging.getLogger(__name__)
T = TypeVar("T")


class Turn(Enum):
    """Kinds of work that one transaction at a time does, by their advisory lock in PostgreSQL."""

    GRANTS = 0x6E69676875
    DESK = 0x6E69676876


class Database:
    """A journal's database; it connects on the first use.

    Args:
        url: an SQLAlchemy URL.
        busy_timeout_s: how long to wait if another process has locked it.

    Attributes:
        engine: SQLAlchemy's.
        on_postgresql: whether it is PostgreSQL, else SQLite.
        file: the journal's SQLite file, with links resolved; None on PostgreSQL.
        give_up_s: how long one call waits for a database that is unreachable or stays locked; 0 by
            default, so that a command reports the problem at once.

    Raises:
        SettingsError: the URL cannot be read or names an unsupported database.
    """

    def __init__(self, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        try:
            parsed = make_url(url)
        except (ArgumentError, ValueError):
            raise SettingsError(
                "NIGHTSCREEN_JOURNAL_URL cannot be read: write sqlite:////path/journal.sqlite or "
                "postgresql+psycopg://user:password@host/database"
            ) from None
        backend = parsed.get_backend_name()
        if backend not in {"sqlite", "postgresql"}:
            raise SettingsError(
                f"NIGHTSCREEN_JOURNAL_URL must name SQLite or PostgreSQL, not {backend}"
            )
        self.on_postgresql = backend == "postgresql"
        make = _postgresql_engine if self.on_postgresql else _sqlite_engine
        self.engine = make(parsed, busy_timeout_s)
        self.file = None if self.on_postgresql else Path(self.engine.url.database or "").resolve()
        self.give_up_s = 0.0
        self._busy_timeout_s = busy_timeout_s
        self._gave_up = False  # a wait failed; the next one starts only after a successful write
        self._named_at = 0.0  # when the log last mentioned a wait, on a monotonic clock

    def close(self) -> None:
        """Close its connections."""
        self.engine.dispose()

    # --- transactions ---

    @contextmanager
    def _transaction(
        self, prepare: Callable[[Connection], object], *, reads: bool = False
    ) -> Iterator[Connection]:
        """Yield a transaction, after waiting for the database and for the locks of `prepare`."""

        def begin() -> tuple[Connection, ExitStack]:
            with self.translate_errors(), ExitStack() as opening:
                begun = self.engine.connect() if reads else self.engine.begin()
                connection = opening.enter_context(begun)
                if reads:
                    connection.execution_options(reads=True)
                prepare(connection)
                return connection, opening.pop_all()

        connection, under_way = self.retry(begin)
        with self.translate_errors(), under_way:
            yield connection
        if not reads:
            self._gave_up = False

    def _lock_whole(self, connection: Connection) -> None:
        if self.on_postgresql:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_WRITE_LOCK})")

    def writing(self) -> AbstractContextManager[Connection]:
        """Return a serialised write transaction, on both databases."""
        return self._transaction(self._lock_whole)

    def recording(
        self, turn: Turn | None = None, *, first: Callable[[Connection], None] | None = None
    ) -> AbstractContextManager[Connection]:
        """Return a write transaction that runs in parallel with others of its kind on PostgreSQL.

        It is for the frequent writes of asking processes: it excludes `writing`, and otherwise
        waits only for transactions that write the same rows or have the same turn. So rows that
        many transactions write are written last and in one order, and decisions based on reads need
        a turn.

        Args:
            turn: work that only one transaction at a time does.
            first: called before waiting for locks.
        """

        def prepare(connection: Connection) -> None:
            if first is not None:
                first(connection)
            if self.on_postgresql:
                take = f"SELECT pg_advisory_xact_lock_shared({_WRITE_LOCK})"
                if turn is not None:
                    take += f", pg_advisory_xact_lock({turn.value})"
                connection.exec_driver_sql(take)

        return self._transaction(prepare)

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a read transaction; it never waits for writers, and writers never wait for it."""
        return self._transaction(lambda _: None, reads=True)

    def reading_settled(self) -> AbstractContextManager[Connection]:
        """Return a read transaction that begins while no write is in progress.

        Numbers are assigned before the commit: with several writers, a lower number may appear
        after a higher one. In this transaction all numbers up to the highest have appeared.
        """
        return self._transaction(self._lock_whole, reads=True)

    def snapshot(self) -> AbstractContextManager[Connection]:
        """Return a read transaction in which every statement sees the same snapshot."""

        def see_one_instant(connection: Connection) -> None:
            if self.on_postgresql:  # SQLite's transactions do so by themselves
                frozen = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
                connection.exec_driver_sql(frozen)

        return self._transaction(see_one_instant, reads=True)

    def run_alone(self, statement: str) -> tuple[Any, ...] | None:
        """Run a statement outside any transaction; return the first row of its result."""
        with self.translate_errors(), self.engine.connect() as connection:
            if self.on_postgresql:
                connection.execution_options(isolation_level="AUTOCOMMIT").exec_driver_sql(
                    statement
                )
                return None
            driver: Any = connection.connection.driver_connection
            found: tuple[Any, ...] | None = driver.execute(statement).fetchone()
        return found

    # --- one query, or statements that are safe to repeat ---

    def fetch(
        self, query: Executable, values: Mapping[str, Any] | None = None
    ) -> Sequence[Row[Any]]:
        """Return the rows of one query, which is repeated if the database became unreachable."""

        def read() -> Sequence[Row[Any]]:
            with self.reading() as connection:
                return connection.execute(query, values).all()

        return self.retry(read)

    def fetch_value(self, query: Executable) -> Any:  # noqa: ANN401 - any column's
        """Return the first value in the result of a query; None if it is empty."""
        rows = self.fetch(query)
        return rows[0][0] if rows else None

    def in_blocks(
        self, query: Select[Any], key: Column[int], *, size: int, after: int = -1
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield the rows of a query in blocks, in the order of a key that they have.

        No transaction is open between two blocks.

        Args:
            query: selects the key too.
            key: a number of its own for each row.
            size: most rows of a block.
            after: rows up to this key are left out.
        """
        ordered = query.order_by(key).limit(size)
        while rows := self.fetch(ordered.where(key > after)):
            yield rows
            after = getattr(rows[-1], key.name)

    def execute(self, *statements: Executable) -> None:
        """Execute statements in one `recording` transaction, which is repeated if interrupted."""

        def write() -> None:
            with self.recording() as connection:
                for each in statements:
                    connection.execute(each)

        self.retry(write)

    # --- an unreachable or faulty database ---

    def retry(self, work: Callable[[], T]) -> T:
        """Do work on the journal, and repeat it if the database became unreachable meanwhile.

        It is then unknown whether the first try was committed: the work must be safe to repeat, or
        find out.
        """
        since: float | None = None
        while True:
            try:
                return work()
            except (JournalBusyError, JournalUnreachableError) as error:
                now = time.monotonic()
                is_due = since is None or now - self._named_at >= _NAMED_EVERY_S
                since = now if since is None else since
                if self._gave_up or now - since >= self.give_up_s:
                    self._gave_up = self.give_up_s > 0
                    raise
                if is_due:
                    self._named_at = now
                    waiting = "waiting for the journal (%.0f of %.0f s): %s"
                    _LOGGER.warning(waiting, now - since, self.give_up_s, error)
                time.sleep(min(_REACH_AGAIN_S, self.give_up_s))

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate a database's error into a `JournalError` that says what to do."""
        try:
            yield
        except DBAPIError as error:
            raise self._ours(error.orig) from None
        except self.engine.dialect.loaded_dbapi.Error as error:
            raise self._ours(error) from None
        except PoolTimeoutError:
            raise self._busy() from None

    def _ours(self, error: BaseException | None) -> JournalError:
        """Return the `JournalError` for a driver's error."""
        where, word = self._place, _word(error)
        lines = str(error).strip().splitlines() if error is not None else []
        reason = lines[0] if lines else "no reason given"
        if word in _BUSY:
            return self._busy()
        if self._is_away(error, word):
            return JournalUnreachableError(
                f"the journal {where} cannot be reached: {reason}; see that its database runs, or "
                "correct NIGHTSCREEN_JOURNAL_URL, then run again"
            )
        if word in _FULL or word == _FAILED:
            free = None if self.file is None else free_bytes(self.file.parent)
            room = "" if free is None else f": {free / 1e6:,.1f} MB are free there"
            state, remedy = "is full", "free some space, then run again: nothing is lost"
            if word == _FAILED:
                state = f"may be full, or faulty ({reason})"
                remedy = "free some space, or mend the disk, then run again"
            return JournalError(f"the disk of the journal {where} {state}{room}; {remedy}")
        if word in _DAMAGED:
            return JournalDamagedError(
                f"the journal {where} is damaged ({reason}); it was left untouched: restore it "
                "from a backup (nightscreen journal backup makes one)"
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

    def _is_away(self, error: BaseException | None, word: str) -> bool:
        """Return whether the database is unreachable, so that the query is not at fault."""
        if not self.on_postgresql:
            return False
        if word:
            return word in _AWAY or word.startswith(_CONNECTION)
        driver: Any = self.engine.dialect.loaded_dbapi
        return isinstance(error, driver.OperationalError | driver.InterfaceError)

    def _busy(self) -> JournalBusyError:
        return JournalBusyError(
            f"the journal {self._place} stayed locked by another process for "
            f"{self._busy_timeout_s:g} s; find and end that process, then run again: nothing is "
            "lost"
        )

    @property
    def _place(self) -> str:
        """Return the journal's address without its password."""
        if self.file is not None:
            return self.engine.url.database or ""
        return self.engine.url.set(query={}).render_as_string(hide_password=True)

    # --- the file of SQLite ---

    @property
    def holders_folder(self) -> Path | None:
        """The folder with the process locks of an SQLite journal; None on PostgreSQL."""
        return None if self.file is None else self.file.with_name(f"{self.file.name}.holders")

    def release_pages(self) -> None:
        """Release free pages of an SQLite file to the disk, in portions."""
        if self.on_postgresql:
            return
        with self.translate_errors(), self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            while driver.execute("PRAGMA freelist_count").fetchone()[0] > _PAGES_KEPT:
                # a script, because the driver executes only the first step of a single statement
                driver.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")

    def require_sound_file(self) -> None:
        """Check an SQLite file read-only, so that damage is not made worse.

        Raises:
            JournalDamagedError: it is not a database, or it is damaged.
        """
        if self.file is None or not self.file.exists() or self.file.stat().st_size == 0:
            return
        try:
            with closing(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True)) as connection:
                connection.execute(f"PRAGMA busy_timeout={int(self._busy_timeout_s * 1000)}")
                for name, made in connection.execute(
                    "SELECT name, sql FROM sqlite_master WHERE type='table'"
                ):
                    last = "" if "WITHOUT ROWID" in made else "ORDER BY rowid DESC"
                    connection.execute(f'SELECT 1 FROM "{name}" {last} LIMIT 1').fetchone()  # noqa: S608 - names of our own tables
        except sqlite3.Error as error:
            raise self._ours(error) from None


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
            isolation_level="READ COMMITTED",  # after waiting for a lock, all commits are visible
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
    """Make commits durable through a power loss, and turn off the driver's own transactions."""
    connection.isolation_level = None
    cursor = connection.cursor()
    if cursor.execute("PRAGMA page_count").fetchone() == (0,):
        cursor.execute(
            "PRAGMA auto_vacuum=INCREMENTAL"
        )  # it writes the header, so only of a new file
    if cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _turn_on_log(connection)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")
    cursor.execute("PRAGMA cache_size=-16000")
    cursor.close()


def _turn_on_log(connection: sqlite3.Connection) -> None:
    """Turn on the write-ahead log; SQLite does not wait if another process does so too.

    Raises:
        JournalError: the file system does not support such a log.
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
    """Begin a write transaction with the write lock, so that it cannot fail halfway."""
    reads = connection.get_execution_options().get("reads", False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _word(error: BaseException | None) -> str:
    """Return a driver's stable error code; SQLite's extended codes are cut to their root."""
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", "") or ""
        return "_".join(name.split("_")[:2])
    return getattr(error, "sqlstate", None) or ""


# --- many values, many rows ---

_BLOCK = 500  # values in one query, far fewer than SQLite's 32,766 parameters


def blocks(found: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield a sequence in blocks that one query can name."""
    for start in range(0, len(found), _BLOCK):
        yield found[start : start + _BLOCK]


def execute_many(
    connection: Connection, statement: Executable, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Execute a statement once for each row, if there are any."""
    if rows:
        connection.execute(statement, rows)


def insert_rows(
    connection: Connection,
    table: Table,
    rows: Sequence[tuple[Any, ...]],
    *,
    changed: str | None = None,
    where: str = "true",
) -> None:
    """Write whole rows through the driver.

    SQLAlchemy takes some 15 µs longer for each row, and its upserts, one for each database, are
    compiled again with each use.

    Args:
        connection: of the transaction.
        table: the table.
        rows: values in the order of the table's columns.
        changed: the update of a row whose key exists; `excluded` is the new row. Empty leaves such
            a row as it is; None makes it an error.
        where: the condition of that update.
    """
    if not rows:
        return
    mark = "%s" if connection.dialect.name == "postgresql" else "?"
    names = ", ".join(f'"{column.name}"' for column in table.c)
    marks = ", ".join([mark] * len(table.c))
    sql = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"  # noqa: S608 - names of our own tables
    if changed is not None:
        key = ", ".join(f'"{column.name}"' for column in table.primary_key)
        action = f"UPDATE SET {changed} WHERE {where}" if changed else "NOTHING"
        sql += f" ON CONFLICT ({key}) DO {action}"
    connection.exec_driver_sql(sql, list(rows))
