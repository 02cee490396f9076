"""Who holds an intent: each process has a lock that dies with it.

Under SQLite it is a file lock under HOME, under PostgreSQL an advisory lock on a connection of its
own. An intent without an outcome is in doubt as soon as its holder's lock is free.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from typing import IO, TYPE_CHECKING, Protocol

from sqlalchemy import text

from storage.private import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path
    from sqlalchemy import Connection, Engine


class Holders(Protocol):
    """Takes a lock in this process's name and tells which others are still held."""

    name: str

    def alive(self, holder: str) -> bool:
        """Tell whether the process of this name still lives."""

    def release(self) -> None:
        """Give the lock back."""


class FileHolders:
    """A lock file for each process under a folder that all processes of a journal share."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_private_folder(folder)
        self.name = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._file = self._lock(self.name)

    def _path(self, holder: str) -> Path:
        return self._folder / f"{holder}.lock"

    def _lock(self, holder: str) -> IO[bytes]:
        file = os.fdopen(os.open(self._path(holder), os.O_RDWR | os.O_CREAT, 0o600), "r+b")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def alive(self, holder: str) -> bool:
        """Tell whether the process of this name still holds its lock."""
        if holder == self.name:
            return True
        try:
            handle = os.open(self._path(holder), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            self._path(holder).unlink(missing_ok=True)
            return False
        finally:
            os.close(handle)

    def release(self) -> None:
        """Give the lock back and remove its file."""
        self._path(self.name).unlink(missing_ok=True)
        self._file.close()


class AdvisoryHolders:
    """A PostgreSQL advisory lock for each process, on a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        number = secrets.randbits(62)
        self.name = f"pg-{number}"
        self._engine = engine
        self._connection: Connection = engine.connect()
        self._connection.execute(text("SELECT pg_advisory_lock(:n)"), {"n": number})
        self._connection.commit()

    def alive(self, holder: str) -> bool:
        """Tell whether some session still holds this process's lock."""
        if holder == self.name:
            return True
        number = int(holder.removeprefix("pg-")) if holder.startswith("pg-") else -1
        with self._engine.connect() as connection:
            found = connection.execute(
                text(
                    "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
                    "AND (classid::bigint << 32 | objid::bigint) = :n"
                ),
                {"n": number},
            ).first()
        return found is not None

    def release(self) -> None:
        """Close the connection, and with it the lock."""
        self._connection.close()
