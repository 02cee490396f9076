"""Files sealed under the data key: uploads, and a run's workspace.

An upload stays sealed until its run is over. A reader gets an anonymous file in memory, with a path
of this process, so that no plain text outlives the process. A run's workspace under HOME holds rows
and lookups between stations as Arrow tables; tasks pass their names, never rows. It is removed when
the run completes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from nightscreen.files.private_files import atomic_write, make_private_folder, write_private
from nightscreen.schemas.errors import InputError, JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from nightscreen.files.sealing import Sealer

SUFFIX: Final = ".sealed"
RESUMABLE_DAYS: Final = 7  # how long a sealed input is kept after its run was stopped
MAGIC: Final = b"nightscreen sealed 1\n"
_LENGTH_BYTES = 4  # of the length before each piece
_END = 0xFFFFFFFF
"""Marks the end in place of a length, as no piece is so long; a file without it was cut short."""


def seal_file(path: Path, pieces: Iterable[bytes], sealer: Sealer) -> tuple[str, int]:
    """Seal data, each piece by itself, into a file that appears whole.

    Returns:
        `sha256:` and the digest of the plain data, and their number of bytes.
    """
    digest, size, count = hashlib.sha256(), 0, 0
    with atomic_write(path) as partial, partial.open("wb") as file:
        file.write(MAGIC)
        for count, piece in enumerate(pieces, start=1):
            sealed = sealer.seal(piece, _context(path.stem, count - 1))
            file.write(len(sealed).to_bytes(_LENGTH_BYTES, "big") + sealed)
            digest.update(piece)
            size += len(piece)
        end = sealer.seal(b"", _context(path.stem, _END - count))
        file.write(_END.to_bytes(_LENGTH_BYTES, "big") + end)
    return f"sha256:{digest.hexdigest()}", size


def is_sealed(path: Path) -> bool:
    """Return whether a file was sealed here."""
    if path.suffix != SUFFIX:
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextmanager
def unsealed(path: Path, sealer: Sealer) -> Iterator[Path]:
    """Yield a path at which this process can read a sealed file's plain text.

    Raises:
        InputError: it is gone, or cut short.
        JournalError: it was sealed under another key, or changed.
    """
    with _anonymous_file() as (sink, plain_path):
        try:
            with path.open("rb") as file:
                _unseal(file, sink, path, sealer)
        except FileNotFoundError:
            raise InputError(
                "the uploaded file is not here: it was removed, as it is once its run is over, or "
                "a desk on another machine has it: upload it again"
            ) from None
        sink.flush()
        yield plain_path


@contextmanager
def in_memory(data: bytes) -> Iterator[Path]:
    """Yield a path at which this process can read data that are on no disk in plain text."""
    with _anonymous_file() as (sink, plain_path):
        sink.write(data)
        sink.flush()
        yield plain_path


@contextmanager
def _anonymous_file() -> Iterator[tuple[BinaryIO, Path]]:
    """Yield a file without a name on any disk, and this process's path to it."""
    in_memory = hasattr(os, "memfd_create")
    with (
        os.fdopen(os.memfd_create("input", os.MFD_CLOEXEC), "wb")
        if in_memory
        else tempfile.TemporaryFile() as file
    ):
        place = Path("/proc/self/fd")
        yield file, (place if place.is_dir() else Path("/dev/fd")) / str(file.fileno())


def unsealed_input(path: Path, sealer: Sealer) -> AbstractContextManager[Path]:
    """Give a path at which an input can be read; a sealed one as in `unsealed`."""
    return unsealed(path, sealer) if is_sealed(path) else nullcontext(path)


def drop_sealed(folder: Path) -> None:
    """Remove sealed inputs of a folder that are older than `RESUMABLE_DAYS`.

    Other files there, such as a mapping, are removed at the same age.
    """
    before = time.time() - RESUMABLE_DAYS * 86_400
    for path in folder.glob("*"):
        if path.is_file() and path.stat().st_mtime < before:
            path.unlink(missing_ok=True)


def _unseal(file: BinaryIO, sink: BinaryIO, path: Path, sealer: Sealer) -> None:
    if file.read(len(MAGIC)) != MAGIC:
        raise InputError("this is no sealed upload")
    number = 0
    while (length := int.from_bytes(file.read(_LENGTH_BYTES), "big")) != _END:
        sealed = file.read(length) if length else b""
        if not sealed or len(sealed) < length:
            raise InputError("the uploaded file was cut short: upload it again")
        sink.write(sealer.open(sealed, _context(path.stem, number)))
        number += 1
    sealer.open(file.read(), _context(path.stem, _END - number))


def _context(name: str, number: int) -> bytes:
    return f"upload\x1f{name}\x1f{number}".encode()


# --- a run's workspace ---


_PACKED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)  # fast: soon removed
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


def sweep_workspaces(home: Path, alive: Callable[[str], bool]) -> None:
    """Remove the workspaces and quotes of killed runs.

    Folders of workspaces and of quotes are named `<run id>@<holder>`.
    """
    for pattern in ("work/*@*", "quotes/*@*"):
        for folder in home.glob(pattern):
            if not alive(folder.name.rpartition("@")[2]):
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Sealed tables of one run."""

    folder: Path
    run_id: str  # a table cannot be opened for another run
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, home: Path, run_id: str, sealer: Sealer) -> Workspace:
        """Return the workspace of a run, making its folder."""
        work = make_private_folder(home / "work")
        return cls(make_private_folder(work / run_id), run_id, sealer)

    def _context(self, name: str) -> bytes:
        return f"workspace\x1f{self.run_id}\x1f{name}".encode()

    def put(self, name: str, table: pa.Table | pa.RecordBatch) -> None:
        """Seal a table under a name; replace an earlier one."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_PACKED) as writer:
            writer.write(table)
        sealed = self._sealer.seal(memoryview(sink.getvalue()).cast("B"), self._context(name))
        write_private(self.folder / f"{name}.sealed", sealed, lasting=False)

    def get(self, name: str) -> pa.Table:
        """Return the table with a name.

        Raises:
            JournalError: it is missing, or cannot be opened.
        """
        try:
            sealed = (self.folder / f"{name}.sealed").read_bytes()
        except FileNotFoundError:
            raise JournalError(
                f"the workspace of run {self.run_id} lacks {name}; start the run again from its "
                "input: what was answered is in the journal and is not paid for again"
            ) from None
        opened = self._sealer.open(sealed, self._context(name))
        return pa.ipc.open_stream(opened, options=_ONE_THREAD).read_all()

    def has(self, name: str) -> bool:
        """Return whether there is a table with a name."""
        return (self.folder / f"{name}.sealed").exists()

    def clear(self) -> None:
        """Remove all tables."""
        shutil.rmtree(self.folder, ignore_errors=True)
