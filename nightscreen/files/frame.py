"""Frame: what is worked out about all rows of a run, as SQL over keyed pseudonyms.

One DuckDB connection in memory. What does not fit its limit is written, unsealed, into the run's
private folder, because DuckDB cannot seal what it writes. So nothing may enter that names a
person: the frame takes whole numbers, truth values and pseudonyms, and no text at all. Rows in
clear stay in the sealed workspace and meet the frame's results by their number.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb
import pyarrow as pa

from nightscreen.files.sealing import SUBJECT_BYTES
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.plan import SUBJECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

MEMORY: Final = "200MB"
"""With it the plan of a million rows peaks at 550 MB of the whole process: three checks, two
identities of karma, a first night. That is what it took before by hand."""
PSEUDONYM: Final = pa.uuid()
"""Sixteen bytes. DuckDB has them as one whole number that sorts as the bytes do: groups and joins
of a million take 0.7 of the CPU that texts of sixteen bytes take."""
_SECTION = "-- name: "
_PORTION = 16_384  # rows fetched at once: as many as a chunk of a run's input, so that few wait
_NO_ROOM = ("Out of Memory", "No space left", "File too large", "quota exceeded")
_IO_ERROR = "IO Error"

_CONFIG: dict[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "arrow_lossless_conversion": "true",
}


def read_queries(file: Path) -> dict[str, list[str]]:
    """Return the statements of each section of an SQL file, by the section's name.

    A section begins with a line `-- name: its name`; each statement ends with a semicolon that
    ends its line.
    """
    found: dict[str, list[str]] = {}
    for section in file.read_text("utf-8").split(_SECTION)[1:]:
        name, _, text = section.partition("\n")
        found[name.strip()] = text.split(";\n")[:-1]  # behind the last are comments alone
    return found


def pseudonym_column(joined: bytes) -> pa.Array:
    """Return pseudonyms, joined, as a column."""
    texts = pa.Array.from_buffers(
        SUBJECT, len(joined) // SUBJECT_BYTES, [None, pa.py_buffer(joined)]
    )
    return pa.ExtensionArray.from_storage(PSEUDONYM, texts)


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column of a result in one piece: pseudonyms as sixteen bytes, truth as a bit."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if whole.type == PSEUDONYM:
        return whole.storage
    return whole.cast(pa.bool_()) if whole.type == pa.bool8() else whole


def joined_bytes(column: pa.ChunkedArray | pa.Array) -> bytes:
    """Return the bytes of a column of pseudonyms, joined; none of them is null."""
    texts = plain(column)
    if texts.null_count:
        raise ValueError("a pseudonym is missing")
    data = memoryview(texts.buffers()[1] or b"")
    start = SUBJECT_BYTES * texts.offset
    return bytes(data[start : start + SUBJECT_BYTES * len(texts)])


class Frame:
    """Tables over pseudonyms, and the SQL that makes one from another.

    Args:
        queries: the statements of each section (`read_queries`).
        spill: folder for what does not fit the memory, made where it is needed and removed at
            the end; inside the run's workspace, which is swept after a crash. None writes nothing.
        memory: most that it may use.
        threads: one leaves the other cores to the run's neighbours.
    """

    def __init__(
        self,
        queries: Mapping[str, list[str]],
        spill: Path | None = None,
        *,
        memory: str = MEMORY,
        threads: int = 1,
    ) -> None:
        self._queries = queries
        self._spill = spill
        place = "" if spill is None else str(spill)
        config = {**_CONFIG, "memory_limit": memory, "threads": str(threads)}
        self._connection = duckdb.connect(config={**config, "temp_directory": place})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget everything, and what was spilled."""
        self._connection.close()
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)

    def make(self, name: str, block: pa.Table) -> None:
        """Make a table of some rows, in place of one of that name.

        Raises:
            TypeError: a column could hold what names a person.
        """
        self._enter(f"CREATE OR REPLACE TABLE {name} AS FROM block", name, block)

    def add(self, name: str, block: pa.Table) -> None:
        """Add rows to a table.

        Raises:
            TypeError: a column could hold what names a person.
        """
        self._enter(f"INSERT INTO {name} BY NAME FROM block", name, block)

    def _enter(self, statement: str, name: str, block: pa.Table) -> None:
        for column in block.schema:
            kind = column.type
            if not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or kind == PSEUDONYM):
                raise TypeError(f"{name}.{column.name} is {kind}: the frame takes no such column")
        self._connection.register("block", block)
        with self._room():
            self._connection.execute(statement)
        self._connection.unregister("block")

    def run(self, section: str, **values: str | int) -> None:
        """Carry out the statements of a section, with values in place of their names in braces."""
        for statement in self._queries[section]:
            with self._room():
                self._connection.execute(statement.format_map(values))

    def table(self, section: str, **values: str | int) -> pa.Table:
        """Return what the only statement of a section selects."""
        with self._room():
            return self._select(section, values).to_arrow_table()

    def pieces(self, section: str, sizes: Iterable[int], **values: str | int) -> Iterator[pa.Table]:
        """Yield what the only statement of a section selects, in portions of the given sizes.

        Nothing else may be asked of the frame meanwhile.

        Raises:
            RuntimeError: there are more or fewer rows: the portions would be those of other rows.
        """
        with self._room():
            reader = self._select(section, values).to_arrow_reader(_PORTION)
        held = reader.schema.empty_table()
        for size in sizes:
            while held.num_rows < size:
                block = self._next(reader)
                if block is None:
                    raise RuntimeError(f"{section} has too few rows")
                held = pa.concat_tables([held, pa.table(block)])
            yield held.slice(0, size).combine_chunks()
            held = held.slice(size)
        while held.num_rows == 0 and (block := self._next(reader)) is not None:
            held = pa.table(block)
        if held.num_rows:
            raise RuntimeError(f"{section} has too many rows")

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        """Return the next rows of a result, None at its end."""
        with self._room():
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None

    def row(self, section: str, **values: str | int) -> dict[str, Any]:
        """Return the only row that the only statement of a section selects."""
        found: dict[str, Any] = self.table(section, **values).to_pylist()[0]
        return found

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Say what to do where neither memory nor disk has room for what is worked out.

        In the middle of a result DuckDB's errors arrive as Arrow's, which are the system's.
        """
        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException, OSError) as error:
            said = str(error)
            where = "" if self._spill is None else f" below {self._spill.parent.parent}"
            if any(word in said for word in _NO_ROOM):
                raise OutputError(
                    f"there is no room{where} for working out what a batch of this size needs: "
                    "free some disk space, a gigabyte for a million rows, then start the run again"
                ) from error
            if _IO_ERROR in said:
                raise OutputError(
                    f"what is worked out cannot be written{where} ({said.splitlines()[0]}): mend "
                    "that, then start the run again"
                ) from error
            raise

    def _select(self, section: str, values: Mapping[str, str | int]) -> duckdb.DuckDBPyRelation:
        (statement,) = self._queries[section]
        return self._connection.sql(statement.format_map(values))
