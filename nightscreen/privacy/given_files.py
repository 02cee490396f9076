"""Files as the lender gave them: whose rows they hold, and such a file without one person's rows.

They are what is dropped into the inbox, in whatever format, and the quarantine. A text or Parquet
file keeps its place, format and encoding. A workbook that names the person goes whole, and so does
what nobody can read. Which rows are a person's is found out in `erasure`.
"""

from __future__ import annotations

import gzip
import json
import re
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.files.inbox import (
    DONE,
    FAILED,
    NOTE,
    TAKEN,
    WAITING,
    is_being_written,
    is_held,
    note_of,
)
from nightscreen.files.outputs import INBOX_TEXTS, INPUT, QUARANTINE, REPORT
from nightscreen.files.private_files import atomic_write, write_private
from nightscreen.files.quarantine import unescape_formula
from nightscreen.files.run_folder import records
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import (
    FOREIGN,
    OLE_MAGIC,
    PARQUET_MAGIC,
    START_BYTES,
    ZIP_MAGIC,
    open_source,
)
from nightscreen.reading.text import MARKS, TextFile, open_text
from nightscreen.reading.workbook import UNREADABLE
from nightscreen.schemas.columns import CUSTOMERS, KNOWN_COLUMNS, LOAN_DAYS
from nightscreen.schemas.errors import InputError, SettingsError
from nightscreen.schemas.naming import batch_name
from nightscreen.schemas.outcomes import OUTCOMES_FLOW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nightscreen.journal.runs import RunRecord
    from nightscreen.reading.open_file import TableSource

_CELLS, _WORDS = (re.compile(rf'[{blank},;|\t:{{}}"\[\]\n]+') for blank in ("", r"\s"))
_NO_TEXT = (
    *(ZIP_MAGIC, PARQUET_MAGIC, OLE_MAGIC),
    *(magic for magic, _ in FOREIGN if magic not in {b"<", b"{\\rtf"}),
)


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file of the inbox, or a run's quarantine.

    Attributes:
        path: where it lies.
        batch: the batch name that its customers' ids are of.
        run: the run that read it; None where none did.
    """

    path: Path
    batch: str
    run: RunRecord | None = None

    @property
    def place(self) -> str:
        """Return where it lies, without its name, which may hold anything."""
        folder = self.path.parent
        return folder.name if (folder / TAKEN).is_dir() else f"{folder.parent.name}/{folder.name}"


@dataclass(frozen=True, slots=True)
class Theirs:
    """What tells whether something is the person's.

    Attributes:
        by_columns: given the known name of each column, tells it of a row's cells.
        mentions: tells it of cells whose meaning is not known.
    """

    by_columns: Callable[[Sequence[str | None]], Callable[[Sequence[str]], bool]]
    mentions: Callable[[Sequence[str]], bool]


@dataclass(slots=True)
class Going:
    """What goes of a file.

    Attributes:
        rows: the person's rows by the known names of their columns, as far as they can be read.
        spans: first line of each row that goes, and the first that stays after it; None to the end.
        text: the file as text; None where it is Parquet, or goes whole.
        is_workbook: a workbook that names the person goes whole.
        is_unread: nobody can tell whose rows it holds: it goes whole too.
    """

    rows: list[dict[str, str]] = field(default_factory=list, repr=False)
    spans: list[tuple[int, int | None]] = field(default_factory=list)
    text: TextFile | None = None
    is_workbook: bool = False
    is_unread: bool = False

    @property
    def whole(self) -> bool:
        """Return whether the whole file goes."""
        return self.is_workbook or self.is_unread

    @property
    def anything(self) -> bool:
        """Return whether anything goes."""
        return self.whole or bool(self.spans)

    def goes(self, lines: Iterable[int]) -> Iterator[bool]:
        """Tell of line numbers, in order, whether they go."""
        spans = iter([*self.spans, (1 << 62, None)])
        first, end = next(spans)
        for line in lines:
            while end is not None and end <= line:
                first, end = next(spans)
            yield first <= line


def inbox_files(runs: Sequence[RunRecord], inbox: Path | None) -> list[GivenFile]:
    """Return the files in the inboxes that a journal's runs came from, and in the present one."""
    roots = set() if inbox is None else {inbox.absolute()}
    by_path: dict[Path, RunRecord] = {}
    for each in runs:
        folder, given = Path(each.folder), Path(each.parameters.get("input") or "")
        by_path[given] = by_path[folder] = each
        if folder.parent.name == DONE:
            roots.add(folder.parent.parent)
        if given.parent.parent.name in {TAKEN, WAITING, FAILED}:
            roots.add(given.parents[2])
    found = []
    for root in sorted(root for root in roots if (root / TAKEN).is_dir()):
        for path in sorted(_dropped(root)):
            if path.parent in by_path and path.name not in INBOX_TEXTS:
                continue  # what a run wrote, and `outputs` declares
            own = by_path.get(path.parent.parent) if path.parent.name == INPUT else None
            run = own or by_path.get(path)
            batch = batch_name(path)[:80] if run is None else run.batch
            found.append(GivenFile(path, batch, run))
    return found


def _dropped(root: Path) -> Iterator[Path]:
    """Yield what lies in an inbox, but for what runs wrote and for links."""
    beside = (f"{name}/*/*" for name in (TAKEN, WAITING, FAILED, DONE))
    for pattern in ("*", *beside, f"{DONE}/*/{INPUT}/*"):
        for path in root.glob(pattern):
            is_output = (path.parent / REPORT).exists()
            if path.is_file() and not path.is_symlink() and path.name[0] != "." and not is_output:
                yield path


def what_goes(file: GivenFile, theirs: Theirs) -> Going:
    """Return what goes of a file; nothing is changed."""
    if file.path.name in INBOX_TEXTS:
        return _of_text(file.path, theirs)
    kind = LOAN_DAYS if file.run and file.run.flow == OUTCOMES_FLOW else CUSTOMERS
    mapping = None
    with suppress(SettingsError):  # the lender may have moved it since
        if file.run and (given := file.run.parameters.get("mapping")):
            mapping = read_mapping(Path(given), kind)
    try:
        return _of_table(open_source(file.path, mapping=mapping, kind=kind), theirs)
    except InputError:
        if file.path.name == QUARANTINE:
            return _of_quarantine(file.path, theirs)
        found = _of_text(file.path, theirs)
        arrives = (file.path.parent / TAKEN).is_dir()
        return Going() if found.is_unread and arrives else found  # it may be half a file yet


def _of_table(source: TableSource, theirs: Theirs) -> Going:
    known = [column.known for column in source.header.columns]
    goes, found = theirs.by_columns(known), Going()
    is_open = False
    for batch in source.batches():
        cells = zip(*(column.to_pylist() for column in batch.columns.columns), strict=True)
        rows = [
            (line, [cell or "" for cell in row])
            for line, row in zip(batch.lines, cells, strict=True)
        ]
        theirs_of = {line: goes(row) for line, row in rows}
        for broken in batch.broken:
            theirs_of[broken.line] = any(
                theirs.mentions(_split(each or "")) for each in broken.values
            )
        for line in sorted(theirs_of):
            if is_open:
                found.spans[-1] = (found.spans[-1][0], line)
            is_open = theirs_of[line]
            if is_open:
                found.spans.append((line, None))
        for line, row in rows:
            if theirs_of[line]:
                found.rows.append(_by_name(known, row))
    if source.format == "xlsx":
        found.is_workbook = bool(found.spans) or names_person(source.path, theirs.mentions)
    elif source.format == "csv" and found.spans:
        with source.path.open("rb") as start:
            found.text = open_text(source.path, start.read(START_BYTES))
    return found


def _of_text(path: Path, theirs: Theirs) -> Going:
    """Return what goes of a text that is no table: lines that mention the person."""
    with path.open("rb") as file:
        start = file.read(START_BYTES)
    if start.startswith(_NO_TEXT):
        return Going(is_unread=True)
    try:
        text = open_text(path, start)
        found = Going(text=text)
        with text.open() as lines:
            for number, line in enumerate(lines, start=1):
                if theirs.mentions(_split(line)):
                    found.spans.append((number, number + 1))
    except InputError:
        return Going(is_unread=True)
    return found


def _split(text: str) -> list[str]:
    """Return the cells, and the words, that a text may be made of."""
    return [*_CELLS.split(text), *_WORDS.split(text)]


def _of_quarantine(path: Path, theirs: Theirs) -> Going:
    """Return what goes of a quarantine under headings that are not understood any more."""
    found, line = Going(text=TextFile(path, "utf-8")), 1
    lines = records(path)
    head, raw = next(lines, ([], ""))
    known = [name if name in KNOWN_COLUMNS else None for name in head]
    goes = theirs.by_columns(known)
    for cells, after in lines:
        line += raw.count("\n")
        raw = after
        if goes(cells):
            found.spans.append((line, line + raw.count("\n")))
            found.rows.append(_by_name(known, cells))
    return found


def _by_name(known: Sequence[str | None], cells: Sequence[str]) -> dict[str, str]:
    return {name: cell.strip() for name, cell in zip(known, cells, strict=False) if name}


def names_person(workbook: Path, mentions: Callable[[Sequence[str]], bool]) -> bool:
    """Return whether any cell of a workbook names a person.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with closing(openpyxl.load_workbook(workbook, read_only=True, data_only=True)) as book:
            for sheet in book.worksheets:
                sheet.reset_dimensions()  # what a file says of its own size may be wrong
                for row in sheet.iter_rows(values_only=True):
                    if mentions([unescape_formula(str(cell)) for cell in row if cell is not None]):
                        return True
    except UNREADABLE:
        raise InputError("the workbook cannot be read") from None
    return False


def rewrite(file: GivenFile, going: Going) -> None:
    """Take the person out of a file, or the file away where it goes whole."""
    path = file.path
    if going.whole:
        path.unlink(missing_ok=True)
    elif going.text is not None:
        with atomic_write(path) as partial:
            _copy_text(going.text, partial, going)
    else:
        with atomic_write(path) as partial:
            _copy_parquet(path, partial, going)


def forget_dropped_name(file: GivenFile, mentions: Callable[[Sequence[str]], bool]) -> None:
    """Let the note beside a file not keep a name that holds one of the person's identifiers."""
    document = note_of(file.path.parent)
    name = str(document.get("name", ""))
    if mentions([name, *re.split(r"[^0-9]+", name)]):
        fresh: dict[str, Any] = {**document, "name": file.path.name}
        write_private(file.path.parent / NOTE, json.dumps(fresh).encode())


def is_at_work(file: GivenFile) -> bool:
    """Return whether a file of the inbox is being screened, or written by who drops it."""
    return is_held(file.path.parent) or is_being_written(file.path)


def _copy_text(text: TextFile, partial: Path, going: Going) -> None:
    marks = (mark for mark, name in MARKS if name == text.encoding and len(mark) == text.mark_bytes)
    with (
        text.open() as lines,
        gzip.open(partial, "wb") if text.gzipped else partial.open("wb") as written,
    ):
        written.write(next(marks, b""))
        for line, goes in zip(lines, going.goes(count(1)), strict=False):
            if not goes:
                written.write(line.encode(text.encoding))


def _copy_parquet(path: Path, partial: Path, going: Going) -> None:
    with pq.ParquetFile(path) as old:
        goes = going.goes(count(1))
        with pq.ParquetWriter(partial, old.schema_arrow, compression="zstd") as writer:
            for group in range(old.num_row_groups):
                rows = old.read_row_group(group)
                stays = pa.array([not next(goes) for _ in range(rows.num_rows)], pa.bool_())
                writer.write_table(rows.filter(stays))
