"""Rewriting past runs' folders: rows and files removed, the manifest updated.

Each file appears whole. A note beside the files names the changed ones until the manifest is
written, so that `finish` repairs a crash in between. Rows that stay keep their order and their
bytes. `privacy/` decides which rows and files go; `outputs` writes a run's folder in the first
place.
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import tempfile
import zipfile
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import openpyxl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from openpyxl.cell import WriteOnlyCell
from openpyxl.styles import Font
from openpyxl.utils.cell import get_column_letter
from openpyxl.worksheet.datavalidation import DataValidation

from nightscreen.files.outputs import MANIFEST
from nightscreen.files.private_files import atomic_write, write_private
from nightscreen.files.publishing import publish
from nightscreen.files.quarantine import unescape_formula
from nightscreen.reading.columns import HEADER_SEARCH_ROWS
from nightscreen.reading.workbook import UNREADABLE
from nightscreen.results.decision_files import WORKBOOK_ROWS, column_of
from nightscreen.schemas.pulls import PulledKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from nightscreen.journal.runs import RunRecord

    Mask = Callable[[pa.Table], pa.ChunkedArray]
    """Returns for each row whether it goes."""

NOTE = ".rewriting.part"
"""Beside a run's files while they are rewritten; holds file names only."""
_REMAINS = re.compile(r"\..+\.part|(tmp|openpyxl\.)[a-z0-9_]{8}")
_UNREADABLE = (*UNREADABLE, zipfile.LargeZipFile)
_WIDTH = 16
ID_COLUMN = "customer_id"


@dataclass(slots=True)
class RunFiles:
    """One run's folder, being rewritten.

    Attributes:
        path: the folder.
        reason: why, as the manifest will say.
        touched: the files changed or removed so far.
        rows: rows taken out.
        lost: files that could not be read and were removed whole.
    """

    path: Path
    reason: str
    touched: list[str] = field(default_factory=list)
    rows: int = 0
    lost: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, path: Path, reason: str) -> Self:
        """Return a folder to rewrite; what a crash left unfinished there is resumed."""
        try:
            note = json.loads((path / NOTE).read_text("utf-8"))
        except FileNotFoundError:
            return cls(path, reason)
        return cls(path, note["reason"], note["files"])

    def _touch(self, file: Path) -> None:
        """Note a file before it is changed."""
        name = file.relative_to(self.path).as_posix()
        if name not in self.touched:
            self.touched.append(name)
            note = {"reason": self.reason, "files": self.touched}
            write_private(self.path / NOTE, json.dumps(note).encode())

    @contextmanager
    def replaced(self, file: Path) -> Iterator[None]:
        """Let a file be written again; the manifest gets its new digest."""
        self._touch(file)
        yield

    def remove(self, files: Iterable[Path]) -> None:
        """Remove whole files."""
        for file in files:
            self._touch(file)
            file.unlink(missing_ok=True)

    def drop_rows(self, file: Path, columns: Sequence[str], goes: Mask) -> int:
        """Take rows out of a Parquet file; return how many.

        Args:
            file: the file; left as it is where no row goes.
            columns: those that `goes` looks at, as far as the file has them.
            goes: which rows go.
        """
        number = self.change_rows(
            file, columns, goes, lambda rows, going: rows.filter(pc.invert(going))
        )
        self.rows += number
        return number

    def change_rows(
        self,
        file: Path,
        columns: Sequence[str],
        goes: Mask,
        change: Callable[[pa.Table, pa.ChunkedArray], pa.Table],
    ) -> int:
        """Change rows of a Parquet file, row group by row group; return how many were meant."""
        number = matching_rows(file, columns, goes)
        if not number:
            return 0
        self._touch(file)
        with pq.ParquetFile(file) as old, atomic_write(file) as partial:
            schema = old.schema_arrow
            words = [field.name for field in schema if pa.types.is_dictionary(field.type)]
            with pq.ParquetWriter(
                partial, schema, compression="zstd", compression_level=1, use_dictionary=words
            ) as writer:
                for group in range(old.num_row_groups):
                    rows = old.read_row_group(group)
                    kept = change(rows, goes(rows))
                    if kept.num_rows:
                        writer.write_table(kept)
        return number

    def drop_records(self, file: Path, goes: Callable[[Sequence[str]], bool]) -> int:
        """Take records out of a CSV file, the rest byte for byte as it was; return how many.

        Args:
            file: the file; its first record is the headings and stays.
            goes: returns from a record's cells, without guards, whether it goes.
        """
        number = sum(1 for cells, _ in islice(records(file), 1, None) if goes(cells))
        if not number:
            return 0
        self._touch(file)
        with (
            atomic_write(file) as partial,
            partial.open("w", encoding="utf-8", newline="") as written,
        ):
            for index, (cells, raw) in enumerate(records(file)):
                if index == 0 or not goes(cells):
                    written.write(raw)
        self.rows += number
        return number

    def drop_from_workbook(self, file: Path, ids: Collection[str]) -> int:
        """Take customers' rows out of a decision list's workbook; return how many.

        Reviewers' entries in other rows stay. A workbook that cannot be read any more is
        removed whole, because nobody can know which customers it holds.
        """
        try:
            number = _listed(file, ids)
        except _UNREADABLE:
            self.remove([file])
            self.lost.append(file.relative_to(self.path).as_posix())
            return 0
        if number:
            self._touch(file)
            with atomic_write(file) as partial, _temporary_files_in(self.path):
                _copy_workbook(file, partial, ids)
            self.rows += number
        return number

    def sweep(self) -> None:
        """Remove parts of files that a killed run left."""
        for file in sorted(self.path.rglob("*")):
            if file.is_file() and file.name != NOTE and _REMAINS.fullmatch(file.name):
                file.unlink(missing_ok=True)

    def finish(self, at: str) -> int:
        """Update the manifest, and a copy at a URL, from the files; return how many changed.

        Args:
            at: the instant, as text.
        """
        if not self.touched:
            return 0
        manifest = self.path / MANIFEST
        if manifest.exists():
            document = json.loads(manifest.read_text("utf-8"))
            document["files"] = self._files_now(document["files"])
            note = {"at": at, "reason": self.reason, "files": sorted(self.touched)}
            document["rewritten"] = [*document.get("rewritten", []), note]
            text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
            write_private(manifest, text.encode())
        publish(self.path)
        (self.path / NOTE).unlink(missing_ok=True)
        return len(self.touched)

    def _files_now(self, files: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the manifest's list of files, the touched ones as they are now."""
        found = {}
        new: dict[str, dict[str, Any]] = {name: {} for name in self.touched if name not in files}
        for name, rows in (files | new).items():
            path = self.path / name
            if name not in self.touched:
                found[name] = rows
            elif path.exists():
                content = path.read_bytes()
                found[name] = {
                    "bytes": len(content),
                    "rows": _rows_of(path, rows.get("rows")),
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
        return found


def matching_rows(file: Path, columns: Sequence[str], goes: Mask) -> int:
    """Return how many rows of a Parquet file a mask means, reading only some of its columns."""
    rows = read_columns(file, columns)
    return int(pc.sum(goes(rows)).as_py() or 0) if rows.num_rows else 0


def read_columns(file: Path, columns: Sequence[str]) -> pa.Table:
    """Return those of some columns that a Parquet file has."""
    with pq.ParquetFile(file) as content:
        present = [name for name in columns if name in content.schema_arrow.names]
        return content.read(columns=present)


def typed_parts(run: RunRecord) -> list[Path]:
    """Return the typed records that a pull wrote, beside its folder."""
    folder = Path(run.folder)
    return sorted(
        part
        for kind in PulledKind
        for part in folder.parent.glob(f"{kind.folder}/pulled_on=*/{folder.name}.parquet")
    )


def records(file: Path) -> Iterator[tuple[list[str], str]]:
    """Yield the cells of each record of a CSV file, without guards, and its text unchanged."""
    with file.open(encoding="utf-8", newline="") as content:
        consumed: list[str] = []

        def lines() -> Iterator[str]:
            for line in content:
                consumed.append(line)
                yield line

        for cells in csv.reader(lines()):
            yield list(map(unescape_formula, cells)), "".join(consumed)
            consumed.clear()


def _rows_of(path: Path, rows: int | None) -> int | None:
    """Return the rows of a file; a workbook has those of the CSV where it holds them all."""
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as content:
            return int(content.metadata.num_rows)
    if path.suffix == ".xlsx":
        beside = path.with_suffix(".csv")
        if rows is not None and rows >= WORKBOOK_ROWS:
            return _rows_in_workbook(path)
        return _rows_of(beside, rows) if beside.exists() else rows
    return sum(1 for _ in records(path)) - 1 if path.suffix == ".csv" else rows


def _rows_in_workbook(path: Path) -> int:
    """Return how many rows of the list a workbook has, read a sheet at a time."""
    number = 0
    with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as workbook:
        for sheet in workbook.worksheets:
            places = _id_places(sheet)
            if places is not None:
                rows = sheet.iter_rows(min_row=places[0] + 1, values_only=True)
                number += sum(len(row) > places[1] and row[places[1]] is not None for row in rows)
    return number


def _id_places(sheet: Any) -> tuple[int, int] | None:  # noqa: ANN401 - openpyxl's streamed sheet
    """Return number of the row of headings and place of the customer's id; None if none is."""
    rows = sheet.iter_rows(values_only=True, max_row=HEADER_SEARCH_ROWS)
    for number, cells in enumerate(rows, start=1):
        names = [column_of(str(cell)) for cell in cells]
        if ID_COLUMN in names:
            return number, names.index(ID_COLUMN)
    return None


def _going(sheet: Any, ids: Collection[str]) -> set[int]:  # noqa: ANN401 - openpyxl's streamed sheet
    """Return the numbers of a sheet's rows that go."""
    places = _id_places(sheet)
    if places is None:
        return set()
    head, column = places
    rows = sheet.iter_rows(min_row=head + 1, values_only=True)
    return {
        head + 1 + number
        for number, cells in enumerate(rows)
        if len(cells) > column and cells[column] is not None
        if unescape_formula(str(cells[column])).strip() in ids
    }


def _listed(file: Path, ids: Collection[str]) -> int:
    with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as workbook:
        return sum(len(_going(sheet, ids)) for sheet in workbook.worksheets)


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Have openpyxl write its sheets, which hold names, nowhere but in the run's own folder."""
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _copy_workbook(file: Path, partial: Path, ids: Collection[str]) -> None:
    """Copy a workbook cell by cell without some customers' rows; no cell becomes a formula."""
    fresh = openpyxl.Workbook(write_only=True)
    with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as workbook:
        for sheet in workbook.worksheets:
            going = _going(sheet, ids)
            places = _id_places(sheet)
            head = places[0] if places is not None else 0
            copy: Any = fresh.create_sheet(sheet.title)
            for number in range(1, (sheet.max_column or 0) + 1):
                copy.column_dimensions[get_column_letter(number)].width = _WIDTH
            if head:
                copy.freeze_panes = f"C{head + 1}"
            written = 0
            for number, cells in enumerate(sheet.iter_rows(), start=1):
                if number not in going:
                    copy.append([_copied(copy, cell, bold=number == head) for cell in cells])
                    written += 1
            if head:
                _make_workable(copy, _names(sheet, head), head, max(written, head + 1))
    fresh.save(partial)


def copy_sheets(
    file: Path, partial: Path | None, goes: Callable[[str, int, Sequence[object]], bool]
) -> int:
    """Copy a workbook cell by cell without some rows; return how many they are.

    Args:
        file: the workbook.
        partial: where it is copied to; None to count alone.
        goes: tells of a sheet's name, a row's number and its values whether the row goes.
    """
    number, fresh = 0, openpyxl.Workbook(write_only=True)
    with closing(openpyxl.load_workbook(file, read_only=True, data_only=True)) as workbook:
        for sheet in workbook.worksheets:
            sheet.reset_dimensions()  # what a file says of its own size may be wrong
            copy: Any = None if partial is None else fresh.create_sheet(sheet.title)
            for at, cells in enumerate(sheet.iter_rows(), start=1):
                if goes(sheet.title, at, [cell.value for cell in cells]):
                    number += 1
                elif copy is not None:
                    copy.append([_copied(copy, cell, bold=False) for cell in cells])
    if partial is not None:
        with _temporary_files_in(partial.parent):
            fresh.save(partial)
    return number


def _names(sheet: Any, head: int) -> list[str]:  # noqa: ANN401 - openpyxl's streamed sheet
    """Return the columns that a sheet's headings mean."""
    (cells,) = sheet.iter_rows(min_row=head, max_row=head, values_only=True)
    return [column_of(str(cell or "")) for cell in cells]


def _make_workable(sheet: Any, names: Sequence[str], head: int, last: int) -> None:  # noqa: ANN401 - openpyxl's sheet
    """Set the filter, and the words a reviewer can choose from, as a new list has them."""
    sheet.auto_filter.ref = f"A{head}:{get_column_letter(max(len(names), 1))}{last}"
    if "reviewer_decision" in names:
        column = get_column_letter(names.index("reviewer_decision") + 1)
        words = DataValidation("list", formula1='"approve,decline,review"', allow_blank=True)
        words.add(f"{column}{head + 1}:{column}{last}")
        sheet.data_validations.append(words)


def _copied(sheet: Any, cell: Any, *, bold: bool) -> Any:  # noqa: ANN401 - openpyxl's cells
    if cell.value is None:
        return None
    copy = WriteOnlyCell(sheet, cell.value)
    if isinstance(cell.value, str):
        copy.data_type = "s"
    copy.number_format = cell.number_format
    if bold:
        copy.font = Font(bold=True)
    return copy
