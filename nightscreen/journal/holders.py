"""Holders: the processes that hold intents. Each has a lock that ends with the process.

Under SQLite it is a file lock in a folder beside the journal's file, under PostgreSQL an advisory
lock on a separate connection. An intent without an outcome is in doubt as soon as its holder's lock
is free. `calls` decides what follows.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import socket
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from nightscreen.files.private_files import FileLock, make_private_folder
from nightscreen.schemas.errors import JournalError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from nightscreen.journal.database import Database

SURE_AFTER_S = 2.0
"""How long a lock of the database must stay free before its process counts as dead.

Four times the interval at which living processes renew theirs.
"""
RESTART_GRACE_S = 30.0
"""How long no process counts as dead after a restart of the database."""
_PULSE_S = 0.5  # how soon a process takes its lost lock again; a quarter of `SURE_AFTER_S`
_LOOK_AGAIN_S = 0.1  # twenty looks within `SURE_AFTER_S`


class Holders(ABC):
    """Holds this process's lock, unless it only reads, and knows which others hold theirs.

    Attributes:
        name: this process's name in the journal; empty if it has no lock.
        was_lost: the lock was lost for a while and is held again; the code that handles this resets
            it.
    """

    name = ""
    was_lost = False

    @abstractmethod
    def alive(self, holder: str, connection: Connection | None = None) -> bool:
        """Return whether the process of this name still lives.

        Asked within the transaction under way, if the database has the answer.
        """

    def dead(self, holder: str, connection: Connection | None = None) -> bool:
        """Return whether the process of this name is certainly dead, before its work is taken over.

        Within a transaction the check does not wait long; otherwise as long as needed.
        """
        return not self.alive(holder, connection)

    @abstractmethod
    def assure(self, connection: Connection) -> None:
        """Make sure that this process still holds its own lock.

        Raises:
            JournalError: it is lost for good, so that others treat this process as dead.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the lock."""


def pid_of(holder: str) -> int | None:
    """Return the process id in a lock's name, or None."""
    pid = holder.partition("-")[0]
    return int(pid) if pid.isdecimal() else None


class FileHolders(Holders):
    """Lock files in a folder that all processes of a journal share."""

    def __init__(self, folder: Path, *, takes_lock: bool = True) -> None:
        self._folder = folder
        if takes_lock:
            self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
            lock = None
            while lock is None:  # another process may look at the file while it is new
                make_private_folder(folder)
                lock = FileLock.take(self._path(self.name))
            self._lock = lock

    def _path(self, holder: str) -> Path:
        return self._folder / f"{holder}.lock"

    def alive(self, holder: str, connection: Connection | None = None) -> bool:  # noqa: ARG002 - as of all holders
        """Return whether the process of this name still holds its lock.

        The check takes a shared lock for an instant, so that two checks at once do not mistake each
        other for the holder. A process with a lock removes the files of dead processes.
        """
        if holder == self.name or self._is_locked(holder):
            return True
        if self.name:
            self._path(holder).unlink(missing_ok=True)
        return False

    def _is_locked(self, holder: str) -> bool:
        try:  # read-only: a look makes no file, and works where this user may not write
            handle = os.open(self._path(holder), os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(handle)

    def living(self) -> list[str]:
        """Return all processes that hold a lock."""
        return [file.stem for file in self._folder.glob("*.lock") if self.alive(file.stem)]

    def assure(self, connection: Connection) -> None:  # noqa: ARG002 - as of all holders
        """Make sure that the lock's file still exists for other processes."""
        if not self._path(self.name).exists():
            raise JournalError(
                f"the lock of this process under {self._folder} was removed, so that others take "
                "its calls for lost; resume the run"
            )

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self.name:
            self._lock.release()


class AdvisoryHolders(Holders):
    """A PostgreSQL advisory lock for each process, on a separate connection.

    The database drops the lock with the connection, and when it restarts, while the process lives
    on. So a thread takes the lock again at once, no process counts as dead at the first check, and
    after a restart every process has some time. The name includes the start time of the database
    that first gave the lock. The lock is shared, so that it can be taken again while the database
    still has an old session of the same process.
    """

    def __init__(self, database: Database, *, takes_lock: bool = True) -> None:
        self._database = database
        self._number = secrets.randbits(62)
        self._guard = threading.Lock()
        self._released = threading.Event()
        self._dead: set[str] = set()
        self._connection: Connection | None = None
        if takes_lock:
            self._connection = self._locked()
            self.name = f"pg-{self._number}.{self._connection.execute(_STARTED).scalar()}"
            threading.Thread(target=self._keep, name="journal-lock", daemon=True).start()

    def _locked(self) -> Connection:
        """Return a connection that holds this process's lock."""
        connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()
        me = f"nightscreen {os.getpid()} {socket.gethostname()}"  # for administrators of the server
        connection.execute(text("SELECT set_config('application_name', :me, false)"), {"me": me})
        connection.execute(text("SELECT pg_advisory_lock_shared(:n)"), {"n": self._number})
        return connection

    def _keep(self) -> None:
        """Renew the lock until it is released."""
        while not self._released.wait(_PULSE_S):
            with suppress(DBAPIError, PoolTimeoutError):
                self._renew()

    def _renew(self) -> None:
        """Take the lock again if its connection is lost."""
        with self._guard:
            if self._released.is_set():
                return
            if self._connection is not None:
                try:
                    self._connection.execute(_PULSE)
                except DBAPIError:
                    self._drop()
                else:
                    return
            self.was_lost = True
            self._connection = self._locked()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):
                connection.close()

    def alive(self, holder: str, connection: Connection | None = None) -> bool:
        """Return whether a session holds the process's lock, or may soon hold it again."""
        itself = bool(self.name) and holder == self.name
        return itself or self._look(holder, connection) is not _Lock.FREE

    def _look(self, holder: str, connection: Connection | None) -> _Lock:
        if connection is not None:
            return _look_at(connection, holder)
        with self._database.reading() as own:
            return _look_at(own, holder)

    def dead(self, holder: str, connection: Connection | None = None) -> bool:
        """Return whether a lock stays free; it is checked repeatedly unless known to be dead.

        Shortly after a restart of the database the state is unknown: within a transaction, which
        others may wait for, that counts as alive; otherwise this waits.
        """
        if holder == self.name:
            return False
        free_since: float | None = None
        while True:
            found = self._look(holder, connection)
            if found is _Lock.HELD or (found is _Lock.AWAITED and connection is not None):
                return False
            if found is _Lock.FREE:
                now = time.monotonic()
                free_since = now if free_since is None else free_since
                if holder in self._dead or now - free_since >= SURE_AFTER_S:
                    self._dead.add(holder)
                    return True
            time.sleep(_LOOK_AGAIN_S)

    def assure(self, connection: Connection) -> None:
        """Make sure that the database has this process's lock; take it again if not.

        `was_lost` means that others may have counted this process as dead meanwhile.

        Raises:
            JournalError: it was released, so that others treat this process as dead.
        """
        if self._released.is_set():
            raise JournalError(
                "this process gave back the lock that marks it as living, so that others take its "
                "calls for lost; resume the run"
            )
        if _look_at(connection, self.name) is not _Lock.HELD:
            self.was_lost = True
            self._renew()

    def release(self) -> None:
        """Release the lock, and close the connection.

        Closing alone is not enough: the server notices it late, and others would see the lock held.
        """
        self._released.set()
        with self._guard:
            if self._connection is not None:
                with suppress(DBAPIError):
                    self._connection.execute(_UNLOCK, {"n": self._number})
            self._drop()


_PULSE = text("SELECT 1")
_UNLOCK = text("SELECT pg_advisory_unlock_shared(:n)")
_STARTED = text("SELECT CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint)")
_NAME = re.compile(r"pg-(\d+)(?:\.(\d+))?")
_LOOK = text(
    "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted "
    "AND classid = CAST(:high AS bigint)::oid AND objid = CAST(:low AS bigint)::oid "
    "AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), "
    "CAST(extract(epoch FROM pg_postmaster_start_time()) * 1000000 AS bigint), "
    "extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())"
)


class _Lock(Enum):
    """The state of a process's lock."""

    HELD = 1
    AWAITED = 2
    """Free since a restart of the database: its process has some time to take it again."""
    FREE = 3


def _look_at(connection: Connection, holder: str) -> _Lock:
    """Return the state of the advisory lock of a process of this name."""
    name = _NAME.fullmatch(holder)
    if name is None:
        return _Lock.FREE
    number, taken_under = int(name[1]), int(name[2] or 0)
    halves = {"high": number >> 32, "low": number & 0xFFFFFFFF}
    held, started, up_s = connection.execute(_LOOK, halves).one()
    if held:
        return _Lock.HELD
    restarted = taken_under not in (0, started)
    return _Lock.AWAITED if restarted and float(up_s) < RESTART_GRACE_S else _Lock.FREE
