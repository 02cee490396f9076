"""The frame: SQL over all rows of a run, with keyed pseudonyms, in one DuckDB connection.

Data beyond its memory limit are written, unsealed, into the run's private folder, because DuckDB
cannot seal them. So nothing may enter that names a person: the frame takes whole numbers, booleans
and pseudonyms, and no text. The rows themselves stay in the sealed workspace and are joined with
the frame's results by row number.
"""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from functools import cache
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
"""With this limit, planning a million rows with all columns (three checks, a first night) peaks at
580 MB for the whole process."""
PSEUDONYM: Final = pa.uuid()
"""Sixteen bytes. DuckDB stores them as one integer that sorts like the bytes: grouping and joining
a million takes 0.7 of the CPU time of sixteen-byte texts."""
_SECTION = "-- name: "
_PORTION = 16_384  # rows fetched at once: as many as a chunk of a run's input
_NO_ROOM = ("Out of Memory", "No space left", "File too large", "quota exceeded")
_IO_ERROR = "IO Error"

_CONFIG: dict[str, str] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "arrow_lossless_conversion": "true",
    "threads": "1",  # leaves the other cores to other processes
}


@cache
def read_queries(file: Path) -> dict[str, list[str]]:
    """Return the statements of each section of an SQL file, by the section's name.

    A section begins with a line `-- name: its name`; each statement ends with a semicolon at the
    end of a line.
    """
    queries: dict[str, list[str]] = {}
    for section in file.read_text("utf-8").split(_SECTION)[1:]:
        name, _, text = section.partition("\n")
        queries[name.strip()] = text.split(";\n")[:-1]  # only comments follow the last one
    return queries


def pseudonym_column(joined: bytes) -> pa.Array:
    """Return joined pseudonyms as a column."""
    texts = pa.Array.from_buffers(
        SUBJECT, len(joined) // SUBJECT_BYTES, [None, pa.py_buffer(joined)]
    )
    return pa.ExtensionArray.from_storage(PSEUDONYM, texts)


def plain(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a result's column in one chunk: pseudonyms as sixteen bytes, booleans as bits."""
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
        spill: folder for data beyond the memory limit, made if needed and removed at the end. It
            is inside the run's workspace, which is swept after a crash. None for no spilling.
        memory: memory limit.
    """

    def __init__(
        self,
        queries: Mapping[str, list[str]],
        spill: Path | None = None,
        *,
        memory: str = MEMORY,
    ) -> None:
        self._queries = queries
        self._spill = spill
        folder = "" if spill is None else str(spill)
        config = {**_CONFIG, "memory_limit": memory}
        self._connection = duckdb.connect(config={**config, "temp_directory": folder})
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Discard all tables and spilled data."""
        self._connection.close()
        if self._spill is not None:
            shutil.rmtree(self._spill, ignore_errors=True)

    def make(self, name: str, block: pa.Table) -> None:
        """Make or replace a table.

        Raises:
            TypeError: a column has a type that could name a person.
        """
        self._enter(f"CREATE OR REPLACE TABLE {name} AS FROM block", name, block)

    def add(self, name: str, block: pa.Table) -> None:
        """Add rows to a table.

        Raises:
            TypeError: a column has a type that could name a person.
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
        """Execute the statements of a section, with values in place of names in braces."""
        for statement in self._queries[section]:
            with self._room():
                self._connection.execute(statement.format_map(values))

    def table(self, section: str, **values: str | int) -> pa.Table:
        """Return the result of a section's only statement."""
        with self._room():
            return self._select(section, values).to_arrow_table()

    def blocks(self, section: str, **values: str | int) -> Iterator[pa.Table]:
        """Yield the result of a section's only statement in portions of some thousand rows.

        The frame must not be used otherwise meanwhile.
        """
        with self._room():
            reader = self._select(section, values).to_arrow_reader(_PORTION)
        while (block := self._next(reader)) is not None:
            yield pa.table(block)

    def pieces(self, section: str, sizes: Iterable[int], **values: str | int) -> Iterator[pa.Table]:
        """Yield the result of a section's only statement in portions of the given sizes.

        The frame must not be used otherwise meanwhile.

        Raises:
            RuntimeError: there are more or fewer rows, so that portions would not fit the rows.
        """
        with self._room():
            reader = self._select(section, values).to_arrow_reader(_PORTION)
        rest = reader.schema.empty_table()
        for size in sizes:
            while rest.num_rows < size:
                block = self._next(reader)
                if block is None:
                    raise RuntimeError(f"{section} has too few rows")
                rest = pa.concat_tables([rest, pa.table(block)])
            yield rest.slice(0, size).combine_chunks()
            rest = rest.slice(size)
        while rest.num_rows == 0 and (block := self._next(reader)) is not None:
            rest = pa.table(block)
        if rest.num_rows:
            raise RuntimeError(f"{section} has too many rows")

    def _next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        """Return the next rows of a result; None at its end."""
        with self._room():
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None

    def row(self, section: str, **values: str | int) -> dict[str, Any]:
        """Return the only row of the result of a section's only statement."""
        row: dict[str, Any] = self.table(section, **values).to_pylist()[0]
        return row

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Raise an OutputError that says what to do if memory and disk are full.

        In the middle of a result DuckDB's errors arrive as Arrow's, which are OSErrors.
        """
        try:
            yield
        except (duckdb.OutOfMemoryException, duckdb.IOException, OSError) as error:
            text = str(error)
            where = "" if self._spill is None else f" below {self._spill.parent.parent}"
            if any(cause in text for cause in _NO_ROOM):
                raise OutputError(
                    f"there is no room{where} for working out what a batch of this size needs: "
                    "free some disk space, a gigabyte for a million rows, then start the run again"
                ) from error
            if _IO_ERROR in text:
                raise OutputError(
                    f"what is worked out cannot be written{where} ({text.splitlines()[0]}): mend "
                    "that, then start the run again"
                ) from error
            raise

    def _select(self, section: str, values: Mapping[str, str | int]) -> duckdb.DuckDBPyRelation:
        (statement,) = self._queries[section]
        return self._connection.sql(statement.format_map(values))
