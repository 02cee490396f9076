"""Erasing from files that were dropped into an inbox, in whatever format they came.

A file keeps its place, format and encoding without the person's rows. Which rows are theirs is
found out in `erasure`. A run that stopped cannot be resumed from a file that was rewritten.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.files.inbox import (
    DONE,
    FAILED,
    INPUT,
    NOTE,
    OURS,
    TAKEN,
    WAITING,
    is_being_written,
    is_held,
    note_of,
)
from nightscreen.files.outputs import REPORT
from nightscreen.files.private_files import atomic_write, write_private
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import (
    OLE_MAGIC,
    PARQUET_MAGIC,
    START_BYTES,
    ZIP_MAGIC,
    open_source,
)
from nightscreen.reading.text import MARKS, open_text
from nightscreen.results.run_files import copy_sheets
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nightscreen.journal.runs import RunRecord
    from nightscreen.reading.open_file import TableSource
    from nightscreen.reading.text import TextFile

Goes = Callable[[Sequence[str]], bool]
"""Returns from a row's cells whether it is the person's."""
_NO_TEXT = (
    ZIP_MAGIC,
    PARQUET_MAGIC,
    OLE_MAGIC,
    b"%PDF",
    b"\x89PNG",
    b"\xff\xd8\xff",
    b"Rar!",
    b"7z",
)
_BETWEEN = re.compile(r'[,;|\t:{}"\[\]\n]+')
_WORDS = re.compile(r"[\s,;|:{}\"\[\]]+")


@dataclass(frozen=True, slots=True)
class DroppedFile:
    """A file in an inbox.

    Attributes:
        path: where it lies now.
        batch: the batch name that its customers' ids are of.
        run: the run that read it; None where none did.
    """

    path: Path
    batch: str
    run: RunRecord | None = None


@dataclass(slots=True)
class Going:
    """What goes of a file.

    Attributes:
        rows: number of rows that go.
        spans: first line of each, and the first that stays after it; None to the end.
        source: the file as it is understood; None where it is not.
        text: a text file that is not understood as a table.
        is_lost: nobody can tell whose rows it holds: it goes whole.
        of_sheet: of a workbook, what tells of a sheet's row whether it goes.
    """

    rows: int = 0
    spans: list[tuple[int, int | None]] = field(default_factory=list)
    source: TableSource | None = None
    text: TextFile | None = None
    is_lost: bool = False
    of_sheet: Callable[[str, int, Sequence[object]], bool] | None = None

    def goes(self, lines: Iterable[int]) -> Iterator[bool]:
        """Tell of line numbers, in order, whether they go."""
        at = 0
        for line in lines:
            while at < len(self.spans) and self._ended(at, line):
                at += 1
            yield at < len(self.spans) and self.spans[at][0] <= line

    def _ended(self, at: int, line: int) -> bool:
        end = self.spans[at][1]
        return end is not None and end <= line


def dropped_files(runs: Sequence[RunRecord], inbox: Path | None) -> list[DroppedFile]:
    """Return the files in the inboxes that a journal's runs came from, and in the present one."""
    roots = set() if inbox is None else {inbox.absolute()}
    by_input: dict[Path, RunRecord] = {}
    by_folder: dict[Path, RunRecord] = {}
    for each in runs:
        folder, given = Path(each.folder), Path(each.parameters.get("input") or "")
        by_input[given] = by_folder[folder] = each
        if folder.parent.name == DONE:
            roots.add(folder.parent.parent)
        if given.parent.parent.name in {TAKEN, WAITING, FAILED}:
            roots.add(given.parents[2])
    found = []
    for root in sorted(root for root in roots if (root / TAKEN).is_dir()):
        for path in sorted(_files_in(root)):
            if path.parent in by_folder and path.name not in OURS:
                continue  # what a run wrote, and `erasure` rewrites
            own = by_folder.get(path.parent.parent) if path.parent.name == INPUT else None
            run = own or by_input.get(path)
            batch = batch_name(path)[:80] if run is None else run.batch
            found.append(DroppedFile(path, batch, run))
    return found


def _files_in(root: Path) -> Iterator[Path]:
    beside = (f"{name}/*/*" for name in (TAKEN, WAITING, FAILED, DONE))
    for pattern in ("*", *beside, f"{DONE}/*/{INPUT}/*"):
        for path in root.glob(pattern):
            is_result = (path.parent / REPORT).exists() and path.parent.name != INPUT
            if path.is_file() and not path.is_symlink() and path.name[0] != "." and not is_result:
                yield path


def what_goes(
    file: DroppedFile, theirs: Callable[[Sequence[str | None]], Goes], mentions: Goes
) -> Going:
    """Return what goes of a file; nothing is changed.

    Args:
        file: the file.
        theirs: given what each column is, returns what tells whose a row is.
        mentions: tells it of cells whose meaning is not known.
    """
    if file.path.name in OURS:
        return _of_text(file.path, lambda line: mentions(_WORDS.split(line)))
    given = file.run.parameters.get("mapping") if file.run is not None else None
    try:
        mapping = read_mapping(Path(given)) if given else None
        source = open_source(file.path, mapping=mapping)
        found = _of_table(source, theirs, mentions)
    except InputError:
        found = _of_text(file.path, lambda line: mentions(_WORDS.split(line)))
        arrives = (file.path.parent / TAKEN).is_dir()
        return Going() if found.is_lost and arrives else found  # it may be half a file yet
    if source.format == "xlsx":  # other sheets may hold the person too
        found.of_sheet = _of_sheet(found, mentions)
        found.rows = copy_sheets(file.path, None, found.of_sheet)
    return found


def _of_table(
    source: TableSource, theirs: Callable[[Sequence[str | None]], Goes], mentions: Goes
) -> Going:
    goes, found = theirs([column.known for column in source.header.columns]), Going(source=source)
    is_open = False
    for batch in source.batches():
        cells = zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
        rows = [
            (line, goes([cell or "" for cell in row]))
            for line, row in zip(batch.lines, cells, strict=True)
        ]
        for row in batch.broken:
            parts = [part for cell in row.values for part in _BETWEEN.split(cell or "")]
            rows.append((row.line, mentions(parts)))
        for line, is_theirs in sorted(rows):
            if is_open:
                found.spans[-1] = (found.spans[-1][0], line)
            is_open = is_theirs
            if is_theirs:
                found.spans.append((line, None))
    found.rows = len(found.spans)
    return found


def _of_text(path: Path, goes: Callable[[str], bool]) -> Going:
    """Return what goes of a text that is no table: lines that mention the person."""
    with path.open("rb") as file:
        start = file.read(START_BYTES)
    if start.startswith(_NO_TEXT):
        return Going(is_lost=True)
    try:
        text = open_text(path, start)
        found = Going(text=text)
        with text.open() as lines:
            for number, line in enumerate(lines, start=1):
                if goes(line):
                    found.spans.append((number, number + 1))
    except InputError:
        return Going(is_lost=True)
    found.rows = len(found.spans)
    return found


def _of_sheet(found: Going, mentions: Goes) -> Callable[[str, int, Sequence[object]], bool]:
    numbers = {first for first, _ in found.spans}
    table = found.source.table.sheet if found.source is not None else None

    def goes(sheet: str, number: int, cells: Sequence[object]) -> bool:
        if sheet == table and numbers:
            return number in numbers
        return sheet != table and mentions(["" if cell is None else str(cell) for cell in cells])

    return goes


def require_at_rest(file: DroppedFile) -> None:
    """Refuse to change a file that is being screened, or dropped.

    Raises:
        InputError: it is.
    """
    if is_held(file.path.parent) or is_being_written(file.path):
        raise InputError(
            "a file in the inbox that may hold this person is being written or screened; erase "
            "again after it"
        )


def rewrite_dropped(file: DroppedFile, found: Going) -> None:
    """Take the person out of a file; one that nobody can read goes whole."""
    path = file.path
    if found.is_lost:
        path.unlink(missing_ok=True)
        return
    if not found.rows:
        return
    form = "" if found.source is None else found.source.format
    if found.of_sheet is not None:
        with atomic_write(path) as partial:
            copy_sheets(path, partial, found.of_sheet)
    elif form == "parquet":
        with atomic_write(path) as partial:
            _copy_parquet(path, partial, found)
    else:
        with path.open("rb") as start:
            text = found.text or open_text(path, start.read(START_BYTES))
        with atomic_write(path) as partial:
            _copy_text(text, partial, found)


def forget_dropped_name(file: DroppedFile, mentions: Goes) -> None:
    """Let the note beside a file not keep a name that holds one of the person's identifiers."""
    document = note_of(file.path.parent)
    if document:
        note = file.path.parent / NOTE
        name = str(document.get("name", ""))
        if mentions([name, *re.split(r"[^0-9]+", name)]):
            write_private(note, json.dumps({**document, "name": file.path.name}).encode())


def _copy_text(text: TextFile, partial: Path, found: Going) -> None:
    marks = (mark for mark, name in MARKS if name == text.encoding and len(mark) == text.mark_bytes)
    going = found.goes(range(1, 1 << 62))
    with (
        text.open() as lines,
        gzip.open(partial, "wb") if text.gzipped else partial.open("wb") as written,
    ):
        written.write(next(marks, b""))
        for line, goes in zip(lines, going, strict=False):
            if not goes:
                written.write(line.encode(text.encoding))


def _copy_parquet(path: Path, partial: Path, found: Going) -> None:
    with pq.ParquetFile(path) as old:
        going = found.goes(range(1, old.metadata.num_rows + 1))
        with pq.ParquetWriter(partial, old.schema_arrow, compression="zstd") as writer:
            for group in range(old.num_row_groups):
                rows = old.read_row_group(group)
                stays = pa.array([not next(going) for _ in range(rows.num_rows)], pa.bool_())
                writer.write_table(rows.filter(stays))
