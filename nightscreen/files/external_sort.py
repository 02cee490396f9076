"""Rows laid out in a private file and put into another order, some at a time.

For lists that are ordered as a whole and may be larger than memory: rows are written as they come,
sorted by way of groups, and fetched by their places. Nothing is mapped into memory, because pages
once read would stay there. The caller knows what the rows are.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

BLOCK_ROWS = 8192
GROUP_ROWS = 3 * BLOCK_ROWS
"""Rows in memory while they are put into order."""


@dataclass(frozen=True, slots=True)
class SortedFile:
    """Rows in a file, in record batches.

    Attributes:
        path: the file.
        ends: number of the first row after each batch.
    """

    path: Path
    ends: NDArray[np.int64]

    @classmethod
    def of(cls, path: Path) -> SortedFile:
        """Return the rows of a file."""
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            sizes = [reader.get_batch(n).num_rows for n in range(reader.num_record_batches)]
        return cls(path, np.cumsum(np.array(sizes, dtype=np.int64)))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def having(self, name: str, word: str) -> NDArray[np.int64]:
        """Return the places of the rows that have a word in a column."""
        found = [np.zeros(0, dtype=np.int64)]
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source) as reader:
            for number in range(reader.num_record_batches):
                same = pc.equal(reader.get_batch(number)[name], word)
                group_rows = np.flatnonzero(same.to_numpy(zero_copy_only=False).astype(bool))
                found.append(group_rows + (self.ends[number - 1] if number else 0))
        return np.concatenate(found)

    def take(self, places: NDArray[np.int64], rows: int = BLOCK_ROWS) -> Iterator[pa.Table]:
        """Yield rows at some ascending places, some at a time."""
        with pa.OSFile(str(self.path)) as source, pa.ipc.open_file(source) as reader:
            at_hand, batch = -1, None
            for start in range(0, len(places), rows):
                part, found = places[start : start + rows], []
                batches = np.searchsorted(self.ends, part, side="right")
                for number in np.unique(batches).tolist():
                    if number != at_hand or batch is None:
                        at_hand, batch = number, reader.get_batch(number)
                    begin = self.ends[number - 1] if number else 0
                    positions = pa.array(part[batches == number] - begin)
                    found.append(batch.take(positions))
                yield pa.Table.from_batches(found, reader.schema)

    def sorted_into(self, path: Path, order: NDArray[np.int64]) -> SortedFile:
        """Write the rows once more in an order, and return them.

        Args:
            path: the file to write; groups of rows are beside it meanwhile.
            order: number of the row that comes first, and so on.
        """
        position = np.empty(len(order), dtype=np.int64)
        position[order] = np.arange(len(order))
        with (
            pa.OSFile(str(self.path)) as source,
            pa.ipc.open_file(source) as reader,
            pa.OSFile(str(path), "wb") as sink,
            pa.ipc.new_file(sink, reader.schema) as writer,
            ExitStack() as open_,
        ):
            names = [
                open_.enter_context(
                    NamedTemporaryFile(dir=path.parent, prefix=".sorting.", suffix=".part")
                ).name
                for _ in range(0, len(order), GROUP_ROWS)
            ]
            self._into_groups(reader, position // GROUP_ROWS, names)
            for number, name in enumerate(names):
                first = number * GROUP_ROWS
                rows = np.sort(order[first : first + GROUP_ROWS])
                with pa.OSFile(name) as file:
                    table = pa.ipc.open_stream(file).read_all().combine_chunks()
                back = np.argsort(position[rows])
                for start in range(0, len(back), BLOCK_ROWS):
                    block = table.take(pa.array(back[start : start + BLOCK_ROWS]))
                    writer.write_table(block.combine_chunks())
        return SortedFile.of(path)

    def _into_groups(
        self, reader: pa.RecordBatchFileReader, group: NDArray[np.int64], names: list[str]
    ) -> None:
        """Write each row into the file of its group."""
        with ExitStack() as open_:
            sinks = [open_.enter_context(pa.OSFile(name, "wb")) for name in names]
            writers = [
                open_.enter_context(pa.ipc.new_stream(sink, reader.schema)) for sink in sinks
            ]
            begin = 0
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                groups = group[begin : begin + batch.num_rows]
                for chosen in np.unique(groups).tolist():
                    writers[chosen].write_batch(
                        batch.take(pa.array(np.flatnonzero(groups == chosen)))
                    )
                begin += batch.num_rows
