"""A file as a table of text: find its row of headings, match each heading to a known column.

The known headings are in `data/headings.csv`; a mapping file takes precedence (`mapping_file`).
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.quarantine import GUARDED_PATTERN, unescape_formula
from nightscreen.reading.mapping_file import Mapping, nearest
from nightscreen.schemas.columns import CUSTOMERS
from nightscreen.schemas.decisions import QUARANTINE_COLUMNS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import Header, RefusedRow, SourceBatch, SourceColumn
from nightscreen.schemas.shipped import DATA, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from collections.abc import Mapping as Words
    from pathlib import Path

    from nightscreen.schemas.columns import InputKind

BROKEN = "broken"  # code of a row that cannot be read, or split into the file's columns
MOST_COLUMNS = 2000  # of a file; lenders' widest have a few hundred
LONGEST_CELL = 32_767
"""Characters that a workbook's cell can hold; a broken value is cut to this."""
_BATCH_CHARACTERS = 16 << 20  # more than usual rows have
_NUL = "a zero byte inside a value; export the row again"
HEADINGS_FILE = DATA / "headings.csv"
HEADER_SEARCH_ROWS = 30
"""Rows in which to look for the headings; titles and notes take a few rows."""
ID_WEIGHT = 1000
LONGEST_HEADING = 120
"""Characters of a column's name; a longer one is a note or misplaced text."""
OUTPUT_PREFIXES = (*(f"{check}_" for check in CHECKS), "batch_same_", "bvn_", "tx_")
OUTPUT_COLUMNS = frozenset(
    {
        *("name_match", "name_explained", "cost", "decision", "reasons", "policy"),
        *("batch_account_bvns", "customer_row", "customer_exposure"),
        "consent_unreadable",
    }
)
_CURRENCY = re.compile(r"[\[(]?\s*(?:₦|\bngn\b|\bnaira\b)\s*[\])]?", re.IGNORECASE)
_VALUE = re.compile(r"\d{5}|@|\d+[.,]\d{2}$|^\d+$|^\d{1,4}[-/]\d{1,2}[-/]\d{1,4}")
_NO_LETTER = re.compile(r"[\W_]+")
_NEW_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
_CONSENT_WORDS = ("consent", "withdraw", "revok", "optout")
_SHOWN = 40  # a choice: headings that a message lists, so that it stays readable
_ID = ("customer_id",)


def fold(heading: str) -> str:
    """Return a heading without case, blanks, punctuation, accents and currency."""
    bare = _CURRENCY.sub(" ", heading).replace("#", " no ")
    return _NO_LETTER.sub("", unicodedata.normalize("NFKD", bare).casefold())


def looks_like_value(heading: str) -> bool:
    """Return whether a heading may be a person's data, which a message must not show."""
    return _VALUE.search(heading) is not None


def is_output_name(name: str) -> bool:
    """Return whether a name is, or may become, a column that the enriched output adds."""
    folded = name.casefold()
    return folded in OUTPUT_COLUMNS or folded.startswith(OUTPUT_PREFIXES)


class _Word(NamedTuple):
    """A row of `data/headings.csv`, which explains each use."""

    use: str
    heading: str
    means: str
    unless: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The known columns it may mean, the preferred one first."""
        return tuple(filter(None, self.means.split("|")))


@cache
def _table() -> tuple[_Word, ...]:
    return tuple(_Word(**row) for row in read_rows(HEADINGS_FILE))


@cache
def _short_forms() -> dict[str, str]:
    return {word.heading: word.means for word in _table() if word.use == "short_form"}


def _spelt_out(heading: str) -> str:
    """Return a heading folded, with its short forms spelt out, such as those of `Sal. A/C No`."""
    apart = _NEW_WORD.sub(" ", _CURRENCY.sub(" ", heading).replace("#", " no ")).casefold()
    words = (part.strip(".") for part in apart.replace("_", " ").split())
    parts = (part for word in words for part in ([word] if "/" in word else re.split(r"\W+", word)))
    return fold(" ".join(_short_forms().get(part, part) for part in parts))


def _by_form(words: Iterable[_Word]) -> dict[str, _Word]:
    """Return words by their folded forms; the form as written comes before the spelt-out one."""
    listed = list(words)
    by_form: dict[str, _Word] = {}
    for form in (fold, _spelt_out):
        for word in listed:
            by_form.setdefault(form(word.heading), word)
    return by_form


@cache
def _words_for(use: str) -> dict[str, _Word]:
    return _by_form(word for word in _table() if word.use == use)


def _find(heading: str, words: Words[str, _Word]) -> _Word | None:
    """Return the word that matches a heading, as written or spelt out."""
    return words.get(fold(heading)) or words.get(_spelt_out(heading))


@cache
def heading_words(kind: InputKind = CUSTOMERS) -> dict[str, _Word]:
    """Return the known headings of a kind of file by their folded forms.

    A word without a column is a common heading of lenders' files that is only carried through.
    Headings of a customer's id are the same in every kind of file.
    """
    names = [_Word(kind.headings, name, name) for name in kind.columns]
    own = [word for word in _table() if word.use == kind.headings]
    ids = [word for word in _table() if word.use == CUSTOMERS.headings and word.columns == _ID]
    last = _words_for("last_choice") if kind is CUSTOMERS else {}
    return last | _by_form([*names, *own, *ids])


def meanings(heading: str, kind: InputKind = CUSTOMERS) -> tuple[str, ...]:
    """Return the known columns a heading may mean, the preferred one first; empty if none."""
    word = _find(heading, heading_words(kind))
    return word.columns if word else ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The headings to look for in one file: the known ones and those of its mapping."""

    own: frozenset[str] = frozenset()  # folded headings that the mapping names
    ids: frozenset[str] = frozenset()  # those of them that mean `customer_id`
    kind: InputKind = CUSTOMERS  # of the file's rows

    @classmethod
    def of(cls, mapping: Mapping, kind: InputKind = CUSTOMERS) -> Vocabulary:
        """Return the vocabulary of a file with a mapping."""
        named = [heading for listed in mapping.columns.values() for heading in listed]
        ids = mapping.columns.get("customer_id", ())
        return cls(frozenset(map(fold, (*named, *mapping.drop))), frozenset(map(fold, ids)), kind)

    def header_row(self, rows: Sequence[Sequence[str | None]]) -> tuple[int, int]:
        """Return the index of the row of headings among the first rows, and its score.

        It is the row with most known headings, the earliest among equals; if no row has any, the
        first that is not blank.
        """
        scored = [self._score(row) for row in rows[:HEADER_SEARCH_ROWS]]
        best = max(scored, default=0)
        if best:
            return scored.index(best), best
        not_blank = (
            at for at, row in enumerate(rows) if any(cell and cell.strip() for cell in row)
        )
        return next(not_blank, 0), 0

    def _score(self, cells: Sequence[str | None]) -> int:
        """Return how many cells of a row are known headings, each counted once.

        A heading of `customer_id` outweighs all others: every file has it, and no row of values
        does.
        """
        words = heading_words(self.kind)
        matches = {form: _find(cell, words) for cell in cells if cell and (form := fold(cell))}
        known = sum(1 for form, word in matches.items() if word or form in self.own)
        has_id = any(
            form in self.ids or (word and "customer_id" in word.columns)
            for form, word in matches.items()
        )
        return known + (ID_WEIGHT if has_id else 0)


class _Headings:
    """The headings of a file, tidied and made unique; without those a quarantine file adds.

    Attributes:
        path: the file, for messages.
        tidied: in one line, without invisible characters, cut to `LONGEST_HEADING`.
        unique: tidied, with blank ones named by position and repeated ones numbered.
        places: positions of the file's own columns.
        findings: what was changed.
    """

    def __init__(self, path: Path, raw: Sequence[str]) -> None:
        if len(raw) > MOST_COLUMNS:
            raise InputError(
                f"{path}: {len(raw)} columns, over {MOST_COLUMNS}; leave out what is not needed"
            )
        self.path = path
        self.findings: list[str] = []
        printable = ("".join(c for c in text if c.isprintable() or c.isspace()) for text in raw)
        tidied = [" ".join(heading.split()) for heading in printable]
        long = sum(1 for heading in tidied if len(heading) > LONGEST_HEADING)
        if long:
            self.findings.append(f"{_count(long, 'heading')} cut to {LONGEST_HEADING} characters.")
            tidied = [heading[:LONGEST_HEADING].rstrip() for heading in tidied]
        self.places = list(range(len(tidied)))
        ours = len(QUARANTINE_COLUMNS)
        starts = (at for at in self.places if tuple(tidied[at : at + ours]) == QUARANTINE_COLUMNS)
        quarantine = max(starts, default=None)
        self.guarded = quarantine is not None
        if quarantine is not None:
            del self.places[quarantine : quarantine + ours]
            self.findings.append(
                "This is a quarantine file: its columns line, column, code and hint are left out, "
                "and the guard against formulas is taken off."
            )
            tidied = [unescape_formula(heading) for heading in tidied]
        if not self.places:
            raise InputError(f"{path}: no headings; the first line must name the columns")
        self.tidied, self.unique = tidied, list(tidied)
        blank = sum(1 for at in self.places if not tidied[at])
        if blank:
            self.findings.append(f"{_count(blank, 'column')} without a heading: named column_N.")
        taken = {tidied[at].casefold() for at in self.places if tidied[at]}
        seen: set[str] = set()
        for at in self.places:
            name = tidied[at]
            if name and name.casefold() in seen and not looks_like_value(name):
                self.findings.append(f'The heading "{name}" is there more than once.')
            if not name or name.casefold() in seen:
                name = _free(name or "column", taken, first=2 if name else at + 1)
            self.unique[at] = name
            seen.add(name.casefold())
            taken.add(name.casefold())

    def find(self, heading: str) -> int | None:
        """Return the position of a heading: the exact one, or the only one equal when folded."""
        for at in self.places:
            if heading in (self.unique[at], self.tidied[at]):
                return at
        similar = [at for at in self.places if fold(self.tidied[at]) == fold(heading)]
        return similar[0] if len(similar) == 1 else None

    def shown(self) -> list[str]:
        """Return the headings for a message; none if one may be a person's data."""
        names = [self.unique[at] for at in self.places]
        return [] if any(map(looks_like_value, names)) else names

    def listed(self) -> str:
        """Return the list of headings for a message."""
        names = self.shown()
        if not names:
            return "they look like data; does the file have a line of headings?"
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _free(stem: str, taken: set[str], *, first: int) -> str:
    number = first
    while f"{stem}_{number}".casefold() in taken:
        number += 1
    return f"{stem}_{number}"


def unique_headings(path: Path, raw: Sequence[str]) -> list[str]:
    """Return a file's headings, tidied and unique, for use in a mapping."""
    headings = _Headings(path, raw)
    return [headings.unique[at] for at in headings.places]


def understand(
    path: Path,
    raw: Sequence[str],
    mapping: Mapping | None = None,
    findings: Sequence[str] = (),
    *,
    kind: InputKind = CUSTOMERS,
) -> Header:
    """Match each column of a file to a known column, and decide which columns are read.

    Args:
        path: the file, for messages.
        raw: its headings.
        mapping: its mapping, if any.
        findings: earlier findings about reading the file.
        kind: of its rows.

    Raises:
        InputError: a required column is missing, two columns match the same known one, or the
            mapping names a heading that the file lacks.
    """
    headings = _Headings(path, raw)
    mapping = mapping or Mapping()
    meaning = _Meaning(headings, mapping, kind)
    meaning.work_out()
    matched = meaning.matched
    columns: list[SourceColumn] = []
    taken = set(matched.values())
    for at in meaning.kept:
        name, known = headings.unique[at], matched.get(at)
        output = known or name
        if known is None and (name.casefold() in kind.columns or is_output_name(name)):
            output = f"input_{name}"
        if known is None and output.casefold() in taken:
            output = _free(output, taken, first=2)
        taken.add(output.casefold())
        columns.append(SourceColumn(name, known, output, at))
    unused = [known for known in mapping.defaults if known in matched.values()]
    return Header(
        columns=tuple(columns),
        findings=(
            *meaning.carried(),
            *(
                f"The default for {known} is not used: the file has a column of that meaning."
                for known in unused
            ),
            *findings,
            *headings.findings,
        ),
        defaults={name: text for name, text in mapping.defaults.items() if name not in unused},
        date_order=mapping.date_order,
        fed_back=headings.guarded,
        loan_status=meaning.loan_status(),
    )


class _Meaning:
    """Matches the columns of one file to known columns, step by step."""

    def __init__(self, headings: _Headings, mapping: Mapping, kind: InputKind) -> None:
        self.headings = headings
        self.mapping = mapping
        self.kind = kind
        self.kept: list[int] = []  # positions of the columns that are read, in order
        self.matched: dict[int, str] = {}  # known columns by position
        self.findings: list[str] = []

    def work_out(self) -> None:
        """Match columns by the mapping, then by known headings.

        Raises:
            InputError: as in `understand`.
        """
        dropped = {self._place(heading, "drop") for heading in self.mapping.drop}
        self.kept = [at for at in self.headings.places if at not in dropped]
        self._take_mapped()
        self._recognise()
        for required in self.kind.required:
            if required not in self.matched.values() and required not in self.mapping.defaults:
                raise self._missing(required)

    def _place(self, heading: str, key: str) -> int:
        """Return the position of a heading that the mapping names under a key."""
        at = self.headings.find(heading)
        if at is None:
            names = self.headings.shown()
            listed = f"; it has {', '.join(names[:_SHOWN])}" if names else ""
            hint = nearest(heading, names) or listed
            where = f"{self.mapping.path}: {key}"
            raise InputError(f'{where}: no heading "{heading}" in {self.headings.path}{hint}')
        return at

    def _take_mapped(self) -> None:
        """Match by the mapping; merged columns are in the order in which it names them."""
        ordered = list(self.kept)
        for known, listed in self.mapping.columns.items():
            key = f"[columns] {known}"
            places = [self._place(heading, key) for heading in listed]
            for heading, at in zip(listed, places, strict=True):
                if at not in self.kept:
                    trouble = "is dropped at drop = [...]"
                elif at in self.matched:
                    trouble = f"is given twice, first to {self.matched[at]}"
                else:
                    self.matched[at] = known
                    continue
                raise InputError(f'{self.mapping.path}: {key}: "{heading}" {trouble}')
            slots = sorted(self.kept.index(at) for at in places)
            for slot, at in zip(slots, places, strict=True):
                ordered[slot] = at
        self.kept = ordered

    def _recognise(self) -> None:
        """Match by known headings, except columns that the mapping has.

        First headings with one meaning; then headings with several, which take a free one; then
        the last choices.
        """
        mapped, tidied = self.mapping.columns, self.headings.tidied
        claims: dict[str, list[int]] = {}
        several: list[tuple[int, tuple[str, ...]]] = []
        last: list[tuple[_Word, int]] = []
        for at in sorted(set(self.kept) - self.matched.keys()):
            possible = meanings(tidied[at], self.kind)
            choice = _find(tidied[at], _words_for("last_choice"))
            if choice is not None and self.kind is CUSTOMERS:
                last.append((choice, at))
            elif len(possible) > 1:
                several.append((at, possible))
            elif possible:
                claims.setdefault(possible[0], []).append(at)
        for at, possible in several:
            free = [name for name in possible if name not in claims and name not in mapped]
            claims.setdefault(free[0] if free else possible[-1], []).append(at)
        self._choose_last(last, {*claims, *mapped})
        for known, places in claims.items():
            if known not in mapped:
                at = self._only(known, places)
                self.matched[at] = known
                others = [f'"{self.headings.unique[place]}"' for place in places if place != at]
                if others:
                    carried = f"{', '.join(others)} is only carried through."
                    self.findings.append(f'"{known}" is taken for {known}; {carried}')

    def _choose_last(self, last: Sequence[tuple[_Word, int]], taken: set[str]) -> None:
        """Match known columns that no other heading matches to headings of last choice."""
        book = _words_for("loan_book")
        matches = (_find(self.headings.tidied[at], book) for at in self.headings.places)
        present = {word.means for word in matches if word}
        for word, at in sorted(last, key=lambda choice: _table().index(choice[0])):
            if word.means not in taken and (not word.unless or word.unless not in present):
                taken.add(word.means)
                self.matched[at] = word.means
                self.findings.append(f'"{self.headings.unique[at]}" is taken for {word.means}.')

    def _only(self, known: str, places: Sequence[int]) -> int:
        """Return the only position that matches a known column, or the one with its exact name."""
        tidied = self.headings.tidied
        exact = [at for at in places if tidied[at] == known] if len(places) > 1 else places
        if len(exact) == 1:
            return exact[0]
        names = [f'"{self.headings.unique[at]}"' for at in places]
        raise InputError(
            f"{self.headings.path}: {' and '.join(names)} both mean {known}; say which in a "
            f"mapping file, under [columns]: {known} = {names[0]} (or [{', '.join(names)}] to "
            "merge them)"
        )

    def carried(self) -> list[str]:
        """Return the findings about matches, those about consent first."""
        names = (self.headings.unique[at] for at in self.kept if at not in self.matched)
        about_consent = [
            f'"{name}" seems to be about consent but is not understood: it is only carried '
            "through. If consent depends on it, name it in a mapping file."
            for name in names
            if any(word in fold(name) for word in _CONSENT_WORDS)
        ]
        return [*about_consent, *self.findings]

    def loan_status(self) -> int | None:
        """Return the index, among the columns that are read, of the loan's status, if any."""
        if self.mapping.loan_status:
            at = self._place(self.mapping.loan_status, "loan_status")
            return self.kept.index(at) if at in self.kept else None
        tidied = [self.headings.tidied[at] for at in self.kept]
        words = [_find(name, _words_for("loan_book")) for name in tidied]
        statuses = [at for at, word in enumerate(words) if word and word.means == "status"]
        specific = [at for at in statuses if fold(tidied[at]) != "status"]
        return next(iter(specific or statuses), None)

    def _missing(self, required: str) -> InputError:
        text = (
            f"{self.headings.path}: no {required} column; the headings are: "
            f"{self.headings.listed()} - name the column in a mapping file: "
            f'[columns] {required} = "Their Heading"'
        )
        if required not in self.kind.personal:
            text += f", or one value for all rows: [defaults] {required} = ..."
        return InputError(text)


# --- the table ---


class SourceRow(NamedTuple):
    """A row of a file."""

    line: int  # its first line in the text, or its row in the sheet, from 1
    cells: Sequence[str | None]  # as many as the file has columns
    fault: str = ""  # why it cannot be read and what to do; empty if it can
    taken: int = 1  # number of its lines

    @property
    def texts(self) -> list[str]:
        """The values; absent ones are empty."""
        return [cell or "" for cell in self.cells]


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table of text whose columns are not matched yet."""

    format: str  # `csv`, `xlsx` or `parquet`
    headings: tuple[str, ...]  # of the file
    rows: Callable[[], Iterator[SourceRow]]  # yields all rows, from the beginning at every call
    findings: tuple[str, ...] = ()  # about reading the file
    encoding: str | None = None  # of a text file
    separator: str | None = None  # of a CSV file, in words
    sheet: str | None = None  # of a workbook

    def batches(self, header: Header, size: int) -> Iterator[SourceBatch]:
        """Yield the columns of a header, up to `size` rows at a time; fewer if they are long.

        Blank rows are left out; broken rows count and stay in the batch of their neighbours. A row
        with a zero byte is broken: other programs take it for the end of a text.
        """
        pending: list[SourceRow] = []
        characters = 0
        for row in self.rows():
            text = "".join(row.texts)
            if not text or text.isspace():
                continue
            pending.append(row._replace(fault=_NUL) if "\0" in text and not row.fault else row)
            characters += len(text)
            if len(pending) == size or characters >= _BATCH_CHARACTERS:
                yield _batch(header, pending)
                pending, characters = [], 0
        if pending:
            yield _batch(header, pending)


def _batch(header: Header, rows: list[SourceRow]) -> SourceBatch:
    readable = [row for row in rows if not row.fault]
    cells = list(zip(*(row.cells for row in readable), strict=True))
    arrays = [
        pa.array(cells[column.place] if readable else [], pa.string()) for column in header.columns
    ]
    if header.fed_back:
        arrays = [
            pc.replace_substring_regex(array, pattern=GUARDED_PATTERN, replacement=r"\1")
            for array in arrays
        ]
    names = [column.heading for column in header.columns]
    return SourceBatch(
        lines=[row.line for row in readable],
        columns=pa.RecordBatch.from_arrays(arrays, names=names),
        broken=[_refused(header, row) for row in rows if row.fault],
    )


def _refused(header: Header, row: SourceRow) -> RefusedRow:
    values = [row.cells[column.place] for column in header.columns]
    values = [cell and cell.replace("\0", "\N{REPLACEMENT CHARACTER}") for cell in values]
    if header.fed_back:
        values = [cell and unescape_formula(cell) for cell in values]
    return RefusedRow(row.line, "", BROKEN, row.fault, tuple(values))
