"""Private files: folders of mode 0700, files of mode 0600, each appearing whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Self

from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# for the owner only: they hold customers' data
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


def make_private_folder(path: Path, *, ours: bool = True) -> Path:
    """Make a folder, and missing parents, that only the owner can enter.

    With `ours`, an existing folder is made private too.

    Raises:
        OutputError: it cannot be made or written.
    """
    try:
        for missing in reversed([folder for folder in path.parents if not folder.exists()]):
            missing.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        existed = path.is_dir()
        path.mkdir(exist_ok=True)
        if ours or not existed:
            path.chmod(_FOLDER_MODE)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to the folder {path}: {error.strerror or error}; "
            "choose another, or change its permissions"
        ) from None
    return path


def write_private(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Write a whole file; a crash leaves the old file or the new one, never a part.

    So do other processes see it. A file that is not needed after a power loss is not `lasting`.
    """
    with atomic_write(path, lasting=lasting) as partial:
        partial.write_bytes(data)


def write_private_once(path: Path, data: bytes) -> bool:
    """Write a whole file unless it exists; return whether it was written.

    If several processes do so at the same time, exactly one succeeds.
    """
    try:
        with atomic_write(path, replaces=False) as partial:
            partial.write_bytes(data)
    except FileExistsError:
        return False
    return True


@contextmanager
def atomic_write(path: Path, *, lasting: bool = True, replaces: bool = True) -> Iterator[Path]:
    """Yield a temporary path that becomes `path` on a clean exit; it is synced if `lasting`.

    On an exception the temporary file is removed and `path` is unchanged.

    Raises:
        FileExistsError: there is a file, and it is not to be replaced.
        OutputError: the file cannot be written.
    """
    # a name in the same folder that no other process or thread uses
    partial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        partial.touch(mode=_FILE_MODE)
        partial.chmod(_FILE_MODE)
        yield partial
        if lasting:
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        if replaces:
            partial.replace(path)
        else:
            path.hardlink_to(partial)
        if lasting:
            sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, FileExistsError) and not replaces:
            raise
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; free some disk or choose another "
            "folder with --output, then resume the run"
        ) from None
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a rename in it survives a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class FileLock:
    """A file lock that ends with its process; releasing an exclusive one removes the file."""

    def __init__(self, path: Path, file: IO[bytes], *, shared: bool = False) -> None:
        self._path = path
        self._file = file
        self._shared = shared

    @classmethod
    def take(cls, path: Path, *, shared: bool = False) -> Self | None:
        """Take the lock, or return None if another holds it; `shared` locks do not conflict."""
        while True:
            try:
                file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE), "r+b")
            except FileNotFoundError:  # the folder itself is gone: its file was processed
                return None
            try:
                fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                if os.fstat(file.fileno()).st_ino == path.stat().st_ino:
                    return cls(path, file, shared=shared)
            except BlockingIOError:
                file.close()
                return None
            except FileNotFoundError:
                pass
            file.close()  # its holder has just removed it: the lock is now another file

    def release(self) -> None:
        """Release the lock; safe to repeat."""
        if not self._file.closed:
            if not self._shared:
                self._path.unlink(missing_ok=True)
            self._file.close()


LEAST_FREE_BYTES = 500_000_000
"""Free bytes below which a disk counts as nearly full: a large run writes about as much."""


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes of the disk a folder is on or would be made on; None if unknown."""
    absolute = folder.absolute()
    for existing in (absolute, *absolute.parents):
        try:
            return shutil.disk_usage(existing).free
        except OSError:
            continue
    return None
