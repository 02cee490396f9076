"""Write a run's output folder, each file whole or not at all, and rewrite those of past runs.

`outputs` declares the files; `privacy/` decides which rows and files of past runs are removed.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.files.outputs import INBOX_TEXTS, MANIFEST, PROBLEMS, QUARANTINE, REPORT
from nightscreen.files.places import (
    folder_to_publish,
    is_url,
    publish,
    sha256_of,
    withdraw_manifest,
)
from nightscreen.files.private_files import atomic_write, make_private_folder, write_private
from nightscreen.files.quarantine import PROBLEM_COLUMNS, csv_file, named_records, records
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from nightscreen.schemas.rows import Problem, RefusedRow, SourceColumn

PART_ROWS = 131_072
GROUP_ROWS = 4096
"""Rows of a group, which is read whole for one customer: with 150 columns 16,384 rows take 47 ms of
CPU, 4,096 rows 14 ms; files are 6 % larger."""
NOTE = ".rewriting.part"  # in a run's folder while it is rewritten; holds file names only
_BETWEEN = "\x1f"
_REMAINS = re.compile(r"\..+\.part|(tmp|openpyxl\.)[a-z0-9_]{8}")


@dataclass(slots=True)
class RunFolder:
    """`OUTPUT/RUN_ID/`, with the number of rows of each file written."""

    path: Path
    rows: dict[str, int] = field(default_factory=dict)

    @classmethod
    def at(cls, output: str, run_id: str, home: Path) -> Self:
        """Make the folder of a run in an output folder, or under HOME if the output is a URL.

        Raises:
            OutputError: it cannot be made or written, or the URL cannot be used.
        """
        if is_url(output):
            return cls(folder_to_publish(home, output, run_id))
        return cls.make(Path(output.removeprefix("file://")), run_id)

    @classmethod
    def make(cls, output: Path, run_id: str) -> Self:
        """Make the folder of a run, private to its owner.

        Raises:
            OutputError: it cannot be made or written.
        """
        make_private_folder(output, ours=False)
        return cls(make_private_folder(output / run_id))

    def begin(self) -> None:
        """Remove partial files and an earlier manifest, and keep the earlier report."""
        sweep_partial_files(self.path)
        withdraw_manifest(self.path)
        (self.path / MANIFEST).unlink(missing_ok=True)
        report = self.path / REPORT
        if report.exists():
            number = 1
            while (self.path / f"report-{number}.json").exists():
                number += 1
            report.rename(self.path / f"report-{number}.json")

    def publish(self) -> None:
        """Update the folder's copy at a URL; nothing if it has none.

        Raises:
            OutputError: the URL cannot be used.
        """
        publish(self.path)

    @contextmanager
    def file(self, name: str, rows: int | None = None) -> Iterator[Path]:
        """Yield a temporary path for a file that appears whole on a clean exit."""
        with atomic_write(self.path / name) as partial:
            yield partial
        if rows is not None:
            self.rows[name] = rows

    @contextmanager
    def findings(
        self, columns: Sequence[SourceColumn]
    ) -> Iterator[Callable[[Sequence[RefusedRow], Sequence[Problem]], None]]:
        """Yield a function that writes an input's refused rows and problems.

        Both files appear at the end. The columns of the quarantine are those of the source in their
        order, then `line`, `column`, `code`, `hint`; it holds identifiers in plain text.
        """
        names = [*(each.heading for each in columns), *QUARANTINE_COLUMNS]
        counts = {QUARANTINE: 0, PROBLEMS: 0}
        with (
            csv_file(self.path / QUARANTINE, names) as write_refused,
            csv_file(self.path / PROBLEMS, PROBLEM_COLUMNS) as write_problem,
        ):

            def write(refused: Sequence[RefusedRow], problems: Sequence[Problem]) -> None:
                for row in refused:
                    write_refused(row.cells(len(columns)))
                for problem in problems:
                    write_problem(problem.cells)
                counts[QUARANTINE] += len(refused)
                counts[PROBLEMS] += len(problems)

            yield write
        self.rows |= counts

    def write_text(self, name: str, text: str) -> None:
        """Write a small text file."""
        write_private(self.path / name, text.encode())

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON document."""
        self.write_text(name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")

    def write_parts(self, name: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
        """Write tables as `name/part-*.parquet` in order.

        At least one part is written, so that an empty batch has its columns too.
        """
        folder, written, rest = make_private_folder(self.path / name), list[str](), iter(tables)
        table = next(rest, None)
        while table is not None or not written:
            part, rows = f"{name}/part-{len(written):05d}.parquet", 0
            with self.file(part) as partial, _parquet_writer(partial, schema) as writer:
                while table is not None and rows < PART_ROWS:
                    writer.write_table(table, row_group_size=GROUP_ROWS)
                    rows += table.num_rows
                    table = None  # frees it before the next is made
                    table = next(rest, None)
            self.rows[part] = rows
            written.append(part)
        for stale in sorted(folder.glob("part-*.parquet")):
            if f"{name}/{stale.name}" not in written:
                stale.unlink()

    def write_parquet(self, name: str, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
        """Write tables as one Parquet file; return the number of rows."""
        rows = 0
        with self.file(name) as partial, _parquet_writer(partial, schema) as writer:
            for table in tables:
                writer.write_table(table)
                rows += table.num_rows
        self.rows[name] = rows
        return rows

    def files(self) -> dict[str, dict[str, Any]]:
        """Return bytes, rows and SHA-256 of the folder's files, by name.

        The manifest and the inbox's texts are left out.
        """
        files: dict[str, dict[str, Any]] = {}
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path).as_posix()
            is_output = name not in {MANIFEST, *INBOX_TEXTS} and not path.name.endswith(".part")
            if path.is_file() and is_output:
                files[name] = _entry(path, self.rows.get(name))
        return files


def sweep_partial_files(folder: Path) -> None:
    """Remove the partial files that a killed run left in its folder."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name != NOTE and _REMAINS.fullmatch(file.name):
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Finds rows by their values in one column, or in several together."""

    # columns, and the values of matching rows; a file without these columns has no such row
    any_of: Sequence[tuple[tuple[str, ...], AbstractSet[tuple[str, ...]]]] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """Return all columns that are compared."""
        return [name for names, _ in self.any_of for name in names]

    def of_rows(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return, for each row of a table, whether it matches."""
        matching = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
        for names, values in self.any_of:
            if not values or not {*names} <= {*rows.column_names}:
                continue
            texts = [rows[name].cast(pa.string()) for name in names]
            joined = pc.binary_join_element_wise(*texts, _BETWEEN) if texts[1:] else texts[0]
            value_set = pa.array(sorted(map(_BETWEEN.join, values)), pa.string())
            matching = pc.or_(matching, pc.is_in(joined, value_set=value_set))
        return matching

    def matches(self, row: Mapping[str, str]) -> bool:
        """Return whether a record matches."""
        return any(
            tuple(row.get(name) for name in names) in values for names, values in self.any_of
        )

    def count(self, file: Path) -> int:
        """Return the number of matching rows of a CSV or Parquet file."""
        return sum(1 for _ in self.found(file))

    def found(self, file: Path) -> Iterator[dict[str, Any]]:
        """Yield the matching rows of a CSV or Parquet file."""
        if file.suffix == ".csv":
            yield from (row for row, _ in named_records(file) if self.matches(row))
            return
        with pq.ParquetFile(file) as content:
            names = [name for name in content.schema_arrow.names if name in self.columns]
            for group in range(content.num_row_groups):
                matching = self.of_rows(content.read_row_group(group, columns=names))
                if pc.any(matching).as_py():
                    yield from content.read_row_group(group).filter(matching).to_pylist()


@dataclass(slots=True)
class RunFiles:
    """A past run's folder, being rewritten.

    Each file appears whole. A note in the folder lists the changed files until the manifest is
    written, so that `finish` repairs a crash in between. Remaining rows keep their order.
    """

    path: Path  # the folder
    reason: str  # for the manifest
    # files changed or removed so far, by their path in the folder
    touched: list[str] = field(default_factory=list)
    beside: int = 0  # number of changed files outside the folder, which no manifest lists

    @classmethod
    def of(cls, path: Path, reason: str) -> Self:
        """Return a folder to rewrite; a rewriting interrupted by a crash is resumed."""
        try:
            note = json.loads((path / NOTE).read_text("utf-8"))
        except FileNotFoundError:
            return cls(path, reason)
        return cls(path, note["reason"], note["files"])

    def touch(self, file: Path) -> None:
        """Note a file before it is changed; the manifest gets its new digest."""
        if not file.is_relative_to(self.path):
            self.beside += 1
            return
        name = file.relative_to(self.path).as_posix()
        if name not in self.touched:
            self.touched.append(name)
            note = {"reason": self.reason, "files": self.touched}
            write_private(self.path / NOTE, json.dumps(note).encode())

    def remove(self, files: Iterable[Path]) -> None:
        """Remove whole files."""
        for file in files:
            self.touch(file)
            file.unlink(missing_ok=True)

    def drop(self, file: Path, rows: RowFilter) -> int:
        """Remove rows from a CSV or Parquet file; return how many.

        The other records of a CSV file stay unchanged, byte for byte.
        """
        number = rows.count(file)
        if not number:
            return 0
        self.touch(file)
        if file.suffix == ".parquet":
            _copy(file, lambda group: group.filter(pc.invert(rows.of_rows(group))))
            return number
        with (
            atomic_write(file) as partial,
            partial.open("w", encoding="utf-8", newline="") as written,
        ):
            kept = (text for row, text in named_records(file) if not rows.matches(row))
            written.writelines(kept)
        return number

    def blank(self, file: Path, rows: RowFilter, values: Mapping[str, str | None]) -> int:
        """Replace values of some rows of a Parquet file, by column; return how many rows."""
        number = rows.count(file)
        if not number:
            return 0

        def blanked(group: pa.Table) -> pa.Table:
            matching = rows.of_rows(group)
            for name, value in values.items():
                index = group.schema.get_field_index(name)
                kind = group.schema.field(index)
                column = pc.if_else(matching, pa.scalar(value, kind.type), group[name])
                group = group.set_column(index, kind, column)
            return group

        self.touch(file)
        _copy(file, blanked)
        return number

    def finish(self, at: int) -> int:
        """Update the manifest, and a copy at a URL, from the files; return how many changed."""
        if not self.touched:
            return self.beside
        manifest = self.path / MANIFEST
        if manifest.exists():
            document = json.loads(manifest.read_text("utf-8"))
            document["files"] = self._files_now(document["files"])
            note = {"at": instant_text(at), "reason": self.reason, "files": sorted(self.touched)}
            document["rewritten"] = [*document.get("rewritten", []), note]
            RunFolder(self.path).write_json(MANIFEST, document)
        publish(self.path)
        (self.path / NOTE).unlink(missing_ok=True)
        return len(self.touched) + self.beside

    def _files_now(self, files: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the manifest's list of files with the changed ones updated."""
        updated = {}
        for name in [*files, *(each for each in self.touched if each not in files)]:
            path = self.path / name
            if name not in self.touched:
                updated[name] = files[name]
            elif path.exists():
                has_rows = name not in files or files[name]["rows"] is not None
                updated[name] = _entry(path, rows_in(path) if has_rows else None)
        return updated


def _entry(path: Path, rows: int | None) -> dict[str, Any]:
    """Return a file's entry in a manifest."""
    return {"bytes": path.stat().st_size, "rows": rows, "sha256": sha256_of(path)}


def _copy(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite a Parquet file, row group by row group."""
    with (
        pq.ParquetFile(file) as old,
        atomic_write(file) as partial,
        _parquet_writer(partial, old.schema_arrow) as writer,
    ):
        for group in range(old.num_row_groups):
            changed = change(old.read_row_group(group))
            if changed.num_rows:
                writer.write_table(changed)


def read_columns(file: Path, columns: Sequence[str]) -> pa.Table:
    """Return a Parquet file's columns among those named."""
    with pq.ParquetFile(file) as content:
        present = [name for name in content.schema_arrow.names if name in columns]
        return content.read(columns=present)


def rows_in(path: Path) -> int | None:
    """Return the number of rows of a CSV or Parquet file; None for another file."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as content:
            return int(content.metadata.num_rows)
    return sum(1 for _ in records(path)) - 1 if path.suffix == ".csv" else None


def _parquet_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    encoded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    return pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, use_dictionary=encoded
    )
