"""Evidence at rest: what answers meant for the rows of a batch's last night, typed and sealed.

A cache under HOME: Arrow pieces sealed under the data key, and one index of their contents. It
may be lost, cut short or distrusted at any time; that costs time and nothing else.
`results/evidence.py` makes evidence and decides which row it belongs to.
"""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.files.sealing import KEY_ID_BYTES, key_id
from nightscreen.schemas.errors import JournalError, OutputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nightscreen.files.sealing import Sealer

FOLDER = "evidence"
KEY_BYTES = 16
_INDEX = "index"
_SUFFIX = ".sealed"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")
_STAMP = b"stamp"
_OPEN_PIECES = 4
_UNREADABLE = (JournalError, OSError, pa.ArrowException, KeyError, ValueError)
_INDEX_SCHEMA = pa.schema(
    [
        pa.field("piece", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("oldest_at", pa.int64()),
        pa.field("keys", pa.binary()),
    ]
)


class Piece(NamedTuple):
    """One piece: its name, what kind of evidence it has, of which keys, resting on answers since.

    `keys` are sixteen bytes each, joined, in the order of the piece's rows.
    """

    name: str
    kind: str
    oldest_at: int
    keys: bytes


def drop_evidence(home: Path, *, before: int | None = None) -> None:
    """Remove the evidence of every batch, as when a person is erased or the data key rotates.

    Args:
        home: the HOME it is under.
        before: only where it may be based on answers older than this instant, in microseconds. A
            file has the instant of its oldest answer, so that no key is needed.
    """
    root = home / FOLDER
    if before is None:
        shutil.rmtree(root, ignore_errors=True)
        return
    for file in root.glob(f"*/*-*{_SUFFIX}"):
        oldest = file.name.partition("-")[0]
        if oldest.isdecimal() and int(oldest) < before:
            file.unlink(missing_ok=True)


@dataclass(slots=True)
class EvidenceFiles:
    """The evidence of one batch name.

    Attributes:
        folder: its path.
        stamp: the stamp that the index must have to be used: versions, and the last erasure.
    """

    folder: Path
    stamp: bytes
    _sealer: Sealer = field(repr=False)
    _opened: dict[str, pa.Table] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, home: Path, name: str, sealer: Sealer, stamp: bytes) -> EvidenceFiles:
        """Return the evidence of a batch, by a name that does not reveal it."""
        return cls(home / FOLDER / name, stamp, sealer)

    def index(self) -> list[Piece]:
        """Return the stored evidence; nothing if it has another stamp or cannot be read."""
        try:
            table = self._read(_INDEX)
            if (table.schema.metadata or {}).get(_STAMP) != self.stamp:
                return []
            columns = (table[name].to_pylist() for name in _INDEX_SCHEMA.names)
            return [Piece(*row) for row in zip(*columns, strict=True)]
        except _UNREADABLE:
            return []

    def piece(self, name: str) -> pa.Table | None:
        """Return a piece, None where it cannot be read; the last few stay open."""
        if name not in self._opened:
            try:
                table = self._get(name)
            except _UNREADABLE:
                return None
            while len(self._opened) >= _OPEN_PIECES:
                del self._opened[next(iter(self._opened))]
            self._opened[name] = table
        return self._opened[name]

    def put(self, kind: str, keys: bytes, oldest_at: int, table: pa.Table) -> Piece | None:
        """Seal evidence as a new piece; None if the disk refuses it."""
        name = f"{oldest_at}-{secrets.token_hex(8)}"
        try:
            make_private_folder(self.folder.parent)
            make_private_folder(self.folder)
            self._put(name, table.schema, table.combine_chunks().to_batches())
        except OutputError:
            return None
        return Piece(name, kind, oldest_at, keys)

    def replace(self, pieces: Sequence[Piece]) -> None:
        """Replace the stored pieces by these."""
        self._opened.clear()
        schema = _INDEX_SCHEMA.with_metadata({_STAMP: self.stamp})
        try:
            make_private_folder(self.folder.parent)
            make_private_folder(self.folder)
            self._put(_INDEX, schema, (_batch_of(piece) for piece in pieces))
        except OutputError:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        kept = {f"{name}{_SUFFIX}" for name in (_INDEX, *(piece.name for piece in pieces))}
        for file in self.folder.iterdir():
            if file.name not in kept:
                file.unlink(missing_ok=True)

    def _context(self, name: str) -> bytes:
        return f"{FOLDER}\x1f{self.folder.name}\x1f{name}".encode()

    def _put(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
            for batch in batches:
                writer.write_batch(batch)
        sealed = self._sealer.seal(memoryview(sink.getvalue()).cast("B"), self._context(name))
        write_private(self.folder / f"{name}{_SUFFIX}", sealed)

    def _get(self, name: str) -> pa.Table:
        return self._read(name).combine_chunks()

    def _read(self, name: str) -> pa.Table:
        sealed = (self.folder / f"{name}{_SUFFIX}").read_bytes()
        if sealed[:KEY_ID_BYTES] != key_id(self._sealer.key):
            raise ValueError("sealed under a key that is no longer the present one")
        return pa.ipc.open_stream(self._sealer.open(sealed, self._context(name))).read_all()


def _batch_of(piece: Piece) -> pa.RecordBatch:
    """Return a line of the index; one at a time, since its keys are long."""
    cells = zip(piece, _INDEX_SCHEMA.types, strict=True)
    return pa.record_batch([pa.array([cell], kind) for cell, kind in cells], schema=_INDEX_SCHEMA)


class EvidencePlaces(NamedTuple):
    """The position of some keys' evidence: numbers of pieces and of rows in them, -1 for none."""

    piece: NDArray[np.int32]
    row: NDArray[np.int32]


class Keys:
    """Finds keys of one kind among pieces, by their first halves, which are found quicker.

    Of two keys with the same first half, one in 10^19, only one is found: the other's evidence is
    computed again.

    Args:
        pieces: the pieces, all of the kind.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        joined = _halves(b"".join(piece.keys for piece in pieces))
        sizes = [len(piece.keys) // KEY_BYTES for piece in pieces]
        order = np.argsort(joined[:, 0], kind="stable")
        self._first, self._second = joined[order].T.copy()
        self._piece = np.repeat(np.arange(len(pieces), dtype=np.int32), sizes)[order]
        rows = [np.arange(size, dtype=np.int32) for size in sizes]
        self._row = np.concatenate(rows)[order] if rows else np.zeros(0, np.int32)

    def places(self, keys: bytes) -> EvidencePlaces:
        """Return the position of the evidence of each of some joined keys."""
        first, second = _halves(keys).T
        nowhere = np.full(len(first), -1, np.int32)
        if not len(self._first) or not len(first):
            return EvidencePlaces(nowhere, nowhere)
        nearest = np.minimum(np.searchsorted(self._first, first), len(self._first) - 1)
        found = (self._first[nearest] == first) & (self._second[nearest] == second)
        return EvidencePlaces(
            np.where(found, self._piece[nearest], np.int32(-1)),
            np.where(found, self._row[nearest], np.int32(-1)),
        )


def _halves(keys: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(keys, np.uint64).reshape(-1, 2)
