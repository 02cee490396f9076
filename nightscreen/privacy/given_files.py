"""The lender's own files: find those that name a person, in any format and under any headings.

They are files in inboxes, and runs' quarantines; `erasure` deletes such a file whole.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import openpyxl

from nightscreen.files.inbox import DONE, FAILED, TAKEN, WAITING
from nightscreen.files.outputs import Whose, declaration_of
from nightscreen.files.quarantine import unescape_formula
from nightscreen.reading.columns import understand
from nightscreen.reading.csv_rows import open_text
from nightscreen.reading.open_file import (
    FOREIGN,
    PARQUET_MAGIC,
    START_BYTES,
    ZIP_MAGIC,
    open_source,
)
from nightscreen.reading.workbook import UNREADABLE
from nightscreen.schemas.columns import CUSTOMERS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import batch_name
from nightscreen.values.phones import NATIONAL_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nightscreen.journal.runs import RunRecord
    from nightscreen.reading.mapping_file import Mapping as ColumnMapping
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.columns import InputKind

ID_COLUMN = Whose.LISTED.value
SEARCHED = ("bvn", "phone", "email", "account_number")
"""The identifiers by which a file names a person."""
_FEWEST_DIGITS = 10
"""Of a BVN, phone or account to search files for: `0` or `NIL` would find other people's."""
_BLANKS = re.compile(r"[\s\-().]")
_NOT_DIGITS = re.compile(r"\D")
_CELLS, _WORDS = (re.compile(rf'[{blank},;|\t:{{}}"\[\]\n]+') for blank in ("", r"\s"))
_NO_TEXT = (
    *(ZIP_MAGIC, PARQUET_MAGIC),
    *(magic for magic, _ in FOREIGN if magic not in {b"<", b"{\\rtf"}),
)


def dropped_files(
    runs: Sequence[RunRecord], inbox: Path | None
) -> Iterator[tuple[Path, str, bool]]:
    """Yield the files of the current inbox and of the inboxes that a journal's runs came from.

    Files in the folders of runs are left out: `files/outputs.py` declares them.

    Yields:
        Each file's path, the batch of its customers' ids, and whether it has been processed; else
        it is being written, waits or is being screened.
    """
    roots = set() if inbox is None else {inbox.absolute()}
    batches: dict[Path, RunRecord] = {}
    for each in runs:
        folder, given = Path(each.folder), Path(each.parameters.get("input") or "")
        batches[folder] = batches[given] = each
        if folder.parent.name == DONE:
            roots.add(folder.parent.parent)
        if given.parent.parent.name in {TAKEN, WAITING, FAILED}:
            roots.add(given.parents[2])
    for root in sorted(root for root in roots if (root / TAKEN).is_dir()):
        for screened, patterns in (
            (False, ("*", f"{TAKEN}/*/*", f"{WAITING}/*/*")),
            (True, (f"{FAILED}/*/*", f"{DONE}/*/*", f"{DONE}/*/*/*")),
        ):
            for path in sorted(chain.from_iterable(map(root.glob, patterns))):
                declared = declaration_of(path.name)
                is_output = declared is not None and declared.whose is not Whose.AS_GIVEN
                is_owned = not batches.keys().isdisjoint(path.parents)
                if path.is_file() and not (path.is_symlink() or is_output or is_owned):
                    run = batches.get(path)
                    batch = batch_name(path)[:80] if run is None else run.batch
                    yield path, batch, screened


@dataclass(slots=True)
class Named:
    """What a file contains about a person."""

    # their readable rows, by the known names of the columns
    rows: list[dict[str, str]] = field(default_factory=list, repr=False)
    anywhere: bool = False  # it names the person, in a row or elsewhere
    unread: bool = False  # it cannot be read


@dataclass(frozen=True, slots=True)
class GivenFileMatcher:
    """Finds a person's rows under a lender's headings, and files that name the person."""

    ids: set[str] = field(repr=False)  # the person's customer ids
    own_bvn: Mapping[str, set[str]] = field(repr=False)  # every row with it is erased
    values: Mapping[str, set[str]] = field(repr=False)  # identifiers by column
    kind: InputKind = CUSTOMERS  # the kind of the file's rows
    mapping: ColumnMapping | None = None  # the lender's meaning of the headings

    def _is_theirs(self, cells: Sequence[str], places: Sequence[int]) -> bool:
        """Return whether a row, with customer ids in these columns, is the person's.

        A row without a customer id is the person's if it has one of their identifiers.
        """
        given = {cells[place].strip() for place in places if place < len(cells)} - {""}
        if given & self.ids or _mention(cells, self.own_bvn):
            return True
        return not given and _mention(cells, self.values)

    def _mentions(self, cells: Sequence[str]) -> bool:
        """Return whether cells of unknown meaning name the person."""
        return any(cell.strip() in self.ids for cell in cells) or _mention(cells, self.values)

    def _known(self, head: Sequence[str]) -> list[str | None]:
        """Return the known names of headings, None for unknown ones."""
        try:
            header = understand(Path(), head, self.mapping, kind=self.kind)
        except InputError:
            return [name if name in self.kind.columns else None for name in head]
        known = {column.place: column.known for column in header.columns}
        return [known.get(at) for at in range(len(head))]

    def scan(self, path: Path) -> Named:
        """Return what a file in any format contains about the person."""
        try:
            source = open_source(path, mapping=self.mapping, kind=self.kind)
            found = Named(list(self._rows(source)))
            found.anywhere = bool(found.rows)
            if source.format == "xlsx" and not found.anywhere:
                found.anywhere = self._in_cells(path)
        except InputError:
            return self._in_text(path)
        return found

    def _rows(self, source: TableSource) -> Iterator[dict[str, str]]:
        """Yield the person's rows; a broken row that names the person is yielded empty."""
        known = self._known(source.table.headings)
        places = [place for place, name in enumerate(known) if name == ID_COLUMN]
        for row in source.table.rows():
            cells = [unescape_formula(cell) for cell in row.texts]
            if row.fault:
                if self._mentions([part for cell in cells for part in _split(cell)]):
                    yield {}
            elif self._is_theirs(cells, places):
                named = zip(known, cells, strict=False)
                yield {name: cell.strip() for name, cell in named if name}

    def _in_cells(self, workbook: Path) -> bool:
        """Return whether any cell of any sheet names the person."""
        try:
            with closing(openpyxl.load_workbook(workbook, read_only=True, data_only=True)) as book:
                for sheet in book.worksheets:
                    sheet.reset_dimensions()  # the file's own dimensions may be wrong
                    for row in sheet.iter_rows(values_only=True):
                        cells = [unescape_formula(str(cell)) for cell in row if cell is not None]
                        if self._mentions(cells):
                            return True
        except UNREADABLE:
            raise InputError("the workbook cannot be read") from None
        return False

    def _in_text(self, path: Path) -> Named:
        """Search a text that is not a table, line by line."""
        with path.open("rb") as file:
            start = file.read(START_BYTES)
        if start.startswith(_NO_TEXT):
            return Named(unread=True)
        try:
            with open_text(path, start).open() as lines:
                return Named(anywhere=any(self._mentions(_split(line)) for line in lines))
        except InputError:
            return Named(unread=True)


def is_searchable(name: str, value: str) -> bool:
    """Return whether a cell of a person's row, as it was typed, can name only them."""
    if name == "email":
        return "@" in value
    digits = _NOT_DIGITS.sub("", value)
    return len(digits) >= _FEWEST_DIGITS and bool(digits.strip("0"))


def _split(text: str) -> list[str]:
    """Return a text's possible cells, and its words."""
    return [*_CELLS.split(text), *_WORDS.split(text)]


def _mention(cells: Sequence[str], values: Mapping[str, set[str]]) -> bool:
    """Return whether any cell has one of some identifiers."""
    bvns, emails = values.get("bvn", set()), values.get("email", set())
    accounts = values.get("account_number", set())
    phones = {each[-NATIONAL_DIGITS:] for each in values.get("phone", set())}
    for cell in cells:
        text = _BLANKS.sub("", cell)
        digits = _NOT_DIGITS.sub("", cell)
        if any(bvn in text for bvn in bvns) or text in accounts:
            return True
        if digits[-NATIONAL_DIGITS:] in phones or cell.strip().casefold() in emails:
            return True
    return False
