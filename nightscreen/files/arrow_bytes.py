"""The bytes of a column of text, as Arrow keeps them: a look at them is cheaper than a pattern.

The first and last bytes of each cell. The caller knows what they mean; nothing here changes a text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]


def inside(texts: pa.Array) -> tuple[NDArray[np.int32], Bytes]:
    """Return where each text of a column begins, where the last ends, and the bytes of all."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return ends, np.frombuffer(data or b"", np.uint8)


class Edges(NamedTuple):
    """First and last byte and length in bytes of each text; zeros where it is empty or absent."""

    first: Bytes
    last: Bytes
    lengths: NDArray[np.int32]

    @classmethod
    def of(cls, texts: pa.Array) -> Edges:
        """Return those of a column."""
        ends, data = inside(texts)
        lengths = np.diff(ends)
        if not len(data):
            blank = np.zeros(len(texts), np.uint8)
            return cls(blank, blank, lengths)
        filled = lengths > 0
        first = np.where(filled, data[np.minimum(ends[:-1], len(data) - 1)], 0)
        last = np.where(filled, data[np.maximum(ends[1:] - 1, 0)], 0)
        return cls(first.astype(np.uint8), last.astype(np.uint8), lengths)


def table_of(*groups: Iterable[str]) -> Bytes:
    """Return a table of all bytes: bit 0 for those that letters of the first group begin with."""
    return _table((letter.encode()[0] for letter in letters) for letters in groups)


def table_of_ends(letters: Iterable[str]) -> Bytes:
    """Return a table of all bytes: 1 for those that some letters end with."""
    return _table([letter.encode()[-1] for letter in letters] for _ in range(1))


def _table(groups: Iterable[Iterable[int]]) -> Bytes:
    table = np.zeros(256, np.uint8)
    for bit, group in enumerate(groups):
        for byte in group:
            table[byte] |= 1 << bit
    return table
