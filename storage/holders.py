"""Who holds an intent: each process has a lock that dies with it.

Under SQLite it is a file lock in a folder beside the journal's file, under PostgreSQL an advisory
lock on a connection of its own. An intent without an outcome is in doubt as soon as its holder's
lock is free. What follows from that is decided in `journal`.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import threading
import weakref
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Protocol

from sqlalchemy import text

from nightscreen.schemas.errors import JournalError
from nightscreen.storage.private import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection, Engine

_OPEN: weakref.WeakSet[FileHolders] = weakref.WeakSet()


class Holders(Protocol):
    """Takes a lock in this process's name and tells which others are still held."""

    name: str

    def alive(self, holder: str, connection: Connection | None = None) -> bool:
        """Tell whether the process of this name still lives.

        Args:
            holder: the name.
            connection: the transaction under way, where the answer lies in the database.
        """

    def describe(self, holder: str, connection: Connection | None = None) -> str:
        """Return process and machine of a holder in words, as far as they are known."""

    def assure(self, connection: Connection) -> None:
        """Make sure that this process still holds its own lock.

        Raises:
            JournalError: it was lost, so that others take this process for dead.
        """

    def release(self) -> None:
        """Give the lock back."""


class FileHolders:
    """A lock file for each process under a folder that all processes of a journal share."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_private_folder(folder)
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._file = self._lock(self.name)
        _OPEN.add(self)

    def _path(self, holder: str) -> Path:
        return self._folder / f"{holder}.lock"

    def _lock(self, holder: str) -> IO[bytes]:
        file = os.fdopen(os.open(self._path(holder), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(socket.gethostname().encode())
        file.flush()
        return file

    def alive(self, holder: str, connection: Connection | None = None) -> bool:  # noqa: ARG002 - as the protocol has it
        """Tell whether the process of this name still holds its lock.

        Askers share the lock for an instant, so that two who ask at once do not see each other.
        """
        if holder == self.name:
            return True
        try:
            handle = os.open(self._path(holder), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self._path(holder).unlink(missing_ok=True)
            return False
        finally:
            os.close(handle)

    def describe(self, holder: str, connection: Connection | None = None) -> str:  # noqa: ARG002 - as the protocol has it
        """Return process and machine of a holder: its name has the one, its file the other."""
        try:
            host = self._path(holder).read_text("utf-8", errors="replace")
        except OSError:
            host = ""
        return _words(holder.partition("-")[0], host)

    def assure(self, connection: Connection) -> None:  # noqa: ARG002 - as the protocol has it
        """Make sure that the lock's file is still there for others to see.

        Raises:
            JournalError: somebody removed it.
        """
        if not self._path(self.name).exists():
            raise JournalError(
                f"the lock of this process under {self._folder} was removed, so that others take "
                "its calls for lost; resume the run"
            )

    def release(self) -> None:
        """Give the lock back and remove its file."""
        _OPEN.discard(self)
        self._path(self.name).unlink(missing_ok=True)
        self._file.close()

    def forget_inherited(self) -> None:
        """Close the lock in a forked child, so that it dies with its own process alone."""
        with suppress(OSError):
            os.close(self._file.fileno())


def _forget_inherited() -> None:
    for holders in list(_OPEN):
        holders.forget_inherited()


os.register_at_fork(after_in_child=_forget_inherited)


class AdvisoryHolders:
    """A PostgreSQL advisory lock for each process, on a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        self._number = secrets.randbits(62)
        self.name = f"pg-{self._number}"
        self._guard = threading.Lock()
        self._connection: Connection = engine.connect()
        self._connection.detach()
        me = f"{_WORKER}{os.getpid()} {socket.gethostname()}"
        self._connection.execute(
            text("SELECT set_config('application_name', :me, false)"), {"me": me}
        )
        self._connection.execute(text("SELECT pg_advisory_lock(:n)"), {"n": self._number})
        self._connection.commit()

    def alive(self, holder: str, connection: Connection | None = None) -> bool:
        """Tell whether some session still holds this process's lock."""
        if holder == self.name:
            return True
        number = holder.removeprefix("pg-")
        if not (holder.startswith("pg-") and number.isdecimal()):
            return False
        if connection is not None:
            return is_held(connection, int(number))
        with self._guard:
            found = is_held(self._connection, int(number))
            self._connection.commit()
        return found

    def describe(self, holder: str, connection: Connection | None = None) -> str:
        """Return process and machine of a holder, as its connection names itself."""
        number = holder.removeprefix("pg-")
        if not number.isdecimal():
            return _words("", "")
        if connection is not None:
            return _named(connection, int(number))
        with self._guard:
            found = _named(self._connection, int(number))
            self._connection.commit()
        return found

    def assure(self, connection: Connection) -> None:
        """Make sure that the database still knows this process's lock.

        Raises:
            JournalError: the connection that held it was lost.
        """
        if not is_held(connection, self._number):
            raise JournalError(
                "the database dropped the connection that marks this process as living; others "
                "take its calls for lost: resume the run"
            )

    def release(self) -> None:
        """Close the connection, and with it the lock."""
        self._connection.close()


_HELD = text(
    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted "
    "AND classid = CAST(:high AS bigint)::oid AND objid = CAST(:low AS bigint)::oid "
    "AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def is_held(connection: Connection, number: int) -> bool:
    """Tell whether some session holds the advisory lock of this number."""
    return connection.execute(_HELD, _halves(number)).first() is not None


def _halves(number: int) -> dict[str, int]:
    return {"high": number >> 32, "low": number & 0xFFFFFFFF}


_WORKER = "nightscreen "
"""How the connection that marks a process begins its name, before process and machine."""

_NAME = text(
    "SELECT a.application_name FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid "
    "WHERE l.locktype = 'advisory' AND l.granted "
    "AND l.classid = CAST(:high AS bigint)::oid AND l.objid = CAST(:low AS bigint)::oid "
    "AND l.objsubid = 1 "
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def _named(connection: Connection, number: int) -> str:
    """Return process and machine of the session that holds an advisory lock."""
    name = str(connection.execute(_NAME, _halves(number)).scalar() or "")
    pid, _, host = name.removeprefix(_WORKER).partition(" ")
    return _words(pid if name.startswith(_WORKER) else "", host)


def _words(pid: str, host: str) -> str:
    which = f"process {pid}" if pid.isdecimal() else "another process"
    return f"{which} on {host}" if host else which
