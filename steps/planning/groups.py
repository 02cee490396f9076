"""Groups: the rows of a batch that name the same identifier, and what they named saved.

Sixteen bytes for each identifier, never the identifier itself. Pseudonyms are saved sealed, chunk
by chunk, until they are used, so that one kind of identity at a time is in memory.
`shared_identifiers` counts the groups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.steps.planning.distinct import ascending, first_of_each

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nightscreen.storage.workspace import Workspace

BYTES = 16
SIXTEEN = pa.binary(BYTES)
ABSENT = -1
_PIECE = "named-{}-{:05d}"
_PSEUDONYM = "pseudonym"


@dataclass(slots=True)
class Named:
    """The pseudonyms of one kind of identity, chunk by chunk; null where a row has none.

    Attributes:
        kind: the kind.
        space: where they are saved; None keeps them in memory.
        chunks: how many there are.
    """

    kind: str
    space: Workspace | None
    chunks: int = 0
    _held: list[pa.Array] = field(default_factory=list)

    def add(self, present: NDArray[np.bool_], pseudonyms: bytes) -> None:
        """Take the next chunk: which rows have one, and the pseudonyms of those, joined."""
        position = np.cumsum(present, dtype=np.int32) - 1
        texts = pa.Array.from_buffers(
            SIXTEEN, len(pseudonyms) // BYTES, [None, pa.py_buffer(pseudonyms)]
        )
        column = texts.take(pa.array(position, mask=~present))
        if self.space is None:
            self._held.append(column)
        else:
            name = _PIECE.format(self.kind, self.chunks)
            self.space.put(name, pa.table({_PSEUDONYM: column}), packed=False)
        self.chunks += 1

    def chunk(self, number: int) -> pa.Array:
        """Return the pseudonyms of a chunk's rows."""
        if self.space is None:
            return self._held[number]
        found = self.space.get(_PIECE.format(self.kind, number))
        return found[_PSEUDONYM].combine_chunks()

    def __iter__(self) -> Iterator[pa.Array]:
        return (self.chunk(number) for number in range(self.chunks))

    def forget(self) -> None:
        """Remove the saved pseudonyms."""
        self._held.clear()
        if self.space is not None:
            for number in range(self.chunks):
                self.space.drop(_PIECE.format(self.kind, number))
        self.chunks = 0


def sixteens(joined: bytes | bytearray | pa.Buffer) -> NDArray[np.uint8]:
    """Return texts of sixteen bytes as an array."""
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, BYTES)


def sixteens_of(column: pa.Array) -> NDArray[np.uint8]:
    """Return a column of sixteen bytes as an array; a null has any value."""
    found = sixteens(column.buffers()[1] or b"")
    return found[column.offset : column.offset + len(column)]


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows grouped by identifier.

    Attributes:
        group: each row's group, -1 where it has none; groups ascend with their identifiers.
        sizes: how many rows each group has.
        rows: the rows that have an identifier, in its order.
        identifiers: the pseudonym of each group.
    """

    group: NDArray[np.int32]
    sizes: NDArray[np.int32]
    rows: NDArray[np.int32]
    identifiers: NDArray[np.uint8]

    @classmethod
    def of(cls, named: Named) -> Groups:
        """Group the rows whose pseudonyms are equal."""
        joined, parts, size = bytearray(), [np.zeros(0, np.int32)], 0
        for column in named:
            valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
            joined += sixteens_of(column.drop_null()).tobytes()
            parts.append((np.flatnonzero(valid) + size).astype(np.int32))
            size += len(column)
        halves = np.frombuffer(joined, dtype=">u8").reshape(-1, 2)
        order = ascending(halves)
        first = first_of_each(halves, order)
        rows = np.concatenate(parts)[order]
        group = np.full(size, ABSENT, dtype=np.int32)
        group[rows] = np.cumsum(first, dtype=np.int32) - 1
        begins = np.flatnonzero(first).astype(np.int32)
        sizes = np.diff(begins, append=np.int32(len(order))).astype(np.int32)
        return cls(group, sizes, rows, sixteens(joined)[order[first]])

    def __len__(self) -> int:
        return len(self.sizes)

    def of_rows(self, counts: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return each row's count, given those of the groups; -1 where it has none."""
        found = np.full(len(self.group), ABSENT, dtype=np.int32)
        grouped = self.group >= 0
        found[grouped] = counts[self.group[grouped]]
        return found

    def distinct(self, inner: Groups) -> NDArray[np.int64]:
        """Return for each group how many groups of `inner` meet it."""
        both = (self.group >= 0) & (inner.group >= 0)
        width = len(inner) + 1
        pairs = self.group[both].astype(np.int64) * width
        pairs += inner.group[both]
        pairs.sort()
        new = np.ones(len(pairs), dtype=bool)
        new[1:] = pairs[1:] != pairs[:-1]
        return np.bincount(pairs[new] // width, minlength=len(self))
