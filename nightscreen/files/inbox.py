"""The inbox on disk: find dropped files, claim each for one process, move it to its final folder.

People drop files into `INBOX/`. `taken/` holds files being screened, each in its own folder (a
*ticket*); `waiting/` those whose run waits for approval, in a folder named by the run's id; `done/`
and `failed/` finished ones. `inbox.file_intake` decides whether a file has arrived, and what to do
with it.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import signal
import stat
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from nightscreen.files.outputs import INBOX_TEXTS
from nightscreen.files.private_files import FileLock, make_private_folder, write_private
from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

TAKEN, WAITING, DONE, FAILED = "taken", "waiting", "done", "failed"
QUOTE, RESULT, WRONG, REPEATED, WAITS = INBOX_TEXTS
_LOCK, NOTE = ".lock", ".ticket.json"
_UNFINISHED = (
    *(".part", ".partial", ".filepart", ".crdownload", ".download", ".opdownload", ".tmp", ".temp"),
    *(".swp", ".lock", ".lck", ".bak", "~"),
)
_NOT_OURS = ("thumbs.db", "desktop.ini", "ehthumbs.db")
_PARQUET = b"PAR1"
_PARQUET_LEAST = 12  # bytes: the magic at both ends, and the length of the footer
_ZIP = b"PK\x03\x04"
_LINE_ENDS = (b"\n", b"\r", b"\0")
_F_SETSIG = 10  # fcntl's F_SETSIG on Linux, which not every build of Python defines


class Stamp(NamedTuple):
    """Properties of a file that change while it is being copied."""

    size: int
    changed_at: int
    node: int


@dataclass(slots=True)
class Ticket:
    """A claimed file, alone in its folder, locked by this process until it is released."""

    folder: Path  # `taken/ID/`
    # the file's name as dropped; may hold anything, so it is shown only inside the inbox
    name: str
    file: Path  # the file, under a name that may be shown
    lock: FileLock
    attempts: int = 0  # how often screening it was begun

    @property
    def renamed(self) -> bool:
        """Return whether the file's name was changed."""
        return self.name != self.file.name

    def count_attempt(self) -> int:
        """Save that screening begins, and return how often it did."""
        self.attempts += 1
        _save_note(self.folder, self.name, self.attempts)
        return self.attempts

    def write(self, name: str, text: str) -> None:
        """Write a text into the file's folder."""
        write_private(self.folder / name, text.encode())

    def release(self) -> None:
        """Let other processes claim the file."""
        self.lock.release()

    def move(self, folder: Path, file: Path) -> None:
        """Move the file to `file` and its texts into `folder`, and remove the ticket."""
        make_private_folder(file.parent, ours=False)
        make_private_folder(folder, ours=False)
        for name in INBOX_TEXTS:
            with suppress(FileNotFoundError):
                (self.folder / name).replace(folder / name)
        with suppress(FileNotFoundError):  # moved already, before a crash
            self.file.replace(file)
        _clear(self.folder, self.lock)


@dataclass(frozen=True, slots=True)
class Inbox:
    """The inbox with its subfolders."""

    path: Path
    _digests: Path = field(repr=False)

    @classmethod
    def open(cls, path: Path, home: Path) -> Self:
        """Open the inbox; make missing folders.

        Args:
            path: the inbox; an existing folder keeps its permissions, because others drop files.
            home: HOME, with the locks on contents, which all watches of a journal share.

        Raises:
            OutputError: it cannot be made or written.
        """
        make_private_folder(path, ours=False)
        for name in (TAKEN, WAITING, DONE, FAILED):
            make_private_folder(path / name, ours=False)
        return cls(path.absolute(), make_private_folder(home / "inbox"))

    @property
    def waiting(self) -> Path:
        """Files whose run waits for approval, each in a folder named by the run's id."""
        return self.path / WAITING

    @property
    def done(self) -> Path:
        """The folders of runs of dropped files."""
        return self.path / DONE

    @property
    def failed(self) -> Path:
        """Files that could not be screened."""
        return self.path / FAILED

    def look(self) -> dict[str, Stamp]:
        """Return the files that were dropped for screening."""
        files: dict[str, Stamp] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if not is_dropped(entry.name):
                        continue
                    with suppress(FileNotFoundError):
                        info = entry.stat(follow_symlinks=False)
                        if stat.S_ISREG(info.st_mode):
                            files[entry.name] = Stamp(info.st_size, info.st_mtime_ns, info.st_ino)
        except OSError as error:
            raise OutputError(
                f"the inbox {self.path} cannot be read: {error.strerror}; fix it and watch again"
            ) from None
        return files

    def claim(self, name: str, safe_name: str, ticket: str) -> Ticket | None:
        """Claim a file by an atomic rename; None if another process was quicker.

        Args:
            name: the file's name in the inbox.
            safe_name: its new name, which paths show; none of `INBOX_TEXTS`.
            ticket: a new id.
        """
        folder = make_private_folder(self.path / TAKEN / f"{ticket}-{secrets.token_hex(3)}")
        lock = FileLock.take(folder / _LOCK)
        if lock is None:  # another watch removed the folder in between
            return None
        _save_note(folder, name)
        file = folder / safe_name
        try:
            (self.path / name).rename(file)
        except OSError as error:
            _clear(folder, lock)
            if isinstance(error, FileNotFoundError):
                return None
            raise OutputError(
                f"a file cannot be taken from the inbox {self.path}: {error.strerror}; let the "
                "user who watches it write there"
            ) from None
        return Ticket(folder, name, file, lock)

    def orphaned_tickets(self) -> Iterable[Ticket]:
        """Yield files claimed by a process that is gone, oldest first."""
        for folder in sorted((self.path / TAKEN).iterdir()):
            ticket = _take_again(folder)
            if ticket is not None:
                yield ticket

    def move_to_waiting(self, ticket: Ticket, run_id: str) -> None:
        """Move a file to `waiting` until its run is approved or refused; its lock is released."""
        folder = self.waiting / run_id
        ticket.move(folder, folder / ticket.file.name)
        _save_note(folder, ticket.name)

    def waiting_runs(self) -> list[str]:
        """Return the runs whose files wait for approval, oldest first."""
        return sorted(folder.name for folder in self.waiting.iterdir() if folder.is_dir())

    def take_waiting(self, run_id: str) -> Ticket | None:
        """Claim a file that waited; None if another process has it, or it is not there."""
        return _take_again(self.waiting / run_id)

    def lock_content(self, digest: str) -> FileLock | None:
        """Lock a content, so that two processes never screen it at the same time."""
        return FileLock.take(self._digests / f"{digest.rpartition(':')[2]}.lock")


def is_dropped(name: str) -> bool:
    """Return whether a file with this name was dropped for screening.

    Hidden files, locks of office programs and unfinished copies were not.
    """
    lower = name.casefold()
    return not (lower.startswith((".", "~")) or lower.endswith(_UNFINISHED) or lower in _NOT_OURS)


def is_whole(path: Path) -> bool:
    """Return whether a file seems to be complete.

    Workbooks and Parquet files have a directory at the end; text ends with a line end. A text
    without one may still be complete, and so may other files.
    """
    try:
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
            file.seek(0, os.SEEK_END)
            size = file.tell()
            file.seek(max(0, size - _PARQUET_LEAST))
            end = file.read()
        if start == _ZIP:
            return zipfile.is_zipfile(path)
        if start == _PARQUET:
            return size >= _PARQUET_LEAST and end.endswith(_PARQUET)
    except OSError:
        return False
    return end.endswith(_LINE_ENDS)


def is_being_written(path: Path) -> bool:
    """Return whether some process of this machine has a file open for writing.

    Linux gives a read lease only on a file that no process writes. If that cannot be known (another
    owner, a network share), the answer is False.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        # a process that opens the file during the lease causes a signal, which is ignored
        fcntl.fcntl(handle, _F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False
    finally:
        os.close(handle)
    return False


def _take_again(folder: Path) -> Ticket | None:
    """Claim the file in a ticket's folder; a folder without a file is removed."""
    lock = FileLock.take(folder / _LOCK) if folder.is_dir() else None
    if lock is None:
        return None
    note = _note_of(folder)
    files = [path for path in folder.iterdir() if not _is_ours(path.name)]
    if len(files) != 1:
        _clear(folder, lock)
        return None
    name, attempts = note.get("name", files[0].name), note.get("attempts", 0)
    return Ticket(folder, name, files[0], lock, attempts)


def _save_note(folder: Path, name: str, attempts: int = 0) -> None:
    write_private(folder / NOTE, json.dumps({"name": name, "attempts": attempts}).encode())


def _note_of(folder: Path) -> dict[str, Any]:
    """Return a ticket's note; empty if there is none or it cannot be read."""
    try:
        note = json.loads((folder / NOTE).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def _is_ours(name: str) -> bool:
    """Return whether a file in a ticket's folder is ours, not the dropped one."""
    return name.startswith(".") or name in INBOX_TEXTS


def _clear(folder: Path, lock: FileLock) -> None:
    """Remove a ticket's folder without a dropped file."""
    for name in (NOTE, *INBOX_TEXTS):
        (folder / name).unlink(missing_ok=True)
    lock.release()
    with suppress(OSError):
        folder.rmdir()
