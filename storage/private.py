"""Private files: folders of mode 0700, files of mode 0600, each appearing whole or not at all.

What goes into a file belongs elsewhere; this module only knows how to put it there safely.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING

from schemas.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path
    from collections.abc import Iterator

_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


def make_private_folder(path: Path) -> Path:
    """Make a folder (and its parents) that only its owner can enter.

    Raises:
        OutputError: it cannot be made or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(_FOLDER_MODE)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OutputError(
            f"cannot write to the folder {path}: {error.strerror or error}; "
            "choose another with --output, or change its permissions"
        ) from None
    return path


def write_private(path: Path, data: bytes) -> None:
    """Write a whole file at once; a crash leaves the old file or the new one, never a part."""
    with appearing(path) as partial:
        partial.write_bytes(data)


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; on a clean exit it is synced and takes its place.

    On an exception the temporary file is removed and `path` stays as it was.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    partial.touch(mode=_FILE_MODE)
    partial.chmod(_FILE_MODE)
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}; free some disk or choose another "
            "folder with --output, then resume the run"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
