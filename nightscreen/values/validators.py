"""The parts of validation: verdicts, findings, absent words, and the pass over a column.

A column is judged in two strokes: a pattern recognises the cells that are plainly right, all at
once, and a scalar rule judges the few others one by one. The rules themselves live beside their
subject (`bvns`, `accounts`, `banks`, `phones`, `addresses`, `instants`, `amounts`), not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from nightscreen.files.arrow_bytes import Edges, inside, table_of
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import Action, Problem
from nightscreen.schemas.shipped import DATA
from nightscreen.values.columns import (
    Column,
    Mask,
    Places,
    among,
    at,
    matching,
    present,
    put,
    stripped,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


_REPEATED_DIGIT = f"^(?:{'|'.join(f'{digit}+' for digit in range(10))})$"
"""RE2 pattern of one digit over and over."""

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_EDGE_QUOTES = "='\"`‘’"  # noqa: RUF001  # spreadsheets write '0123 and ="0123" to keep zeros
_INVISIBLE = "\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_MARKS = (
    r"[\x{ad}\x{180e}\x{200b}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2060}-\x{2064}"
    r"\x{2066}-\x{2069}\x{feff}]"
)
"""RE2 pattern of marks not to be seen; those that join letters of some scripts stay."""
_FIRST_OF_MARKS = 0xC2
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")
_SPACING = re.compile(rf"[\s\-\u2010-\u2015\u2212{_INVISIBLE}]+")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.0+)?")
_POINT_ZERO = re.compile(r"([0-9]+)\.0+")
_SCIENTIFIC = re.compile(r"[0-9]+(?:[.,][0-9]+)?[eE]\+?[0-9]+")
_DASHES = re.compile(r"[-\u2010-\u2015_]*")
_ZEROS = re.compile(r"0*(?:\.0+)?")
_WIDE_DIGITS = {0xFF10 + digit: str(digit) for digit in range(10)}


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding about a cell, without its position.

    A stable code and a sentence for the analyst.
    """

    code: str
    hint: str
    action: Action
    flaw: Flaw = Flaw.NONE


class Validated(NamedTuple, Generic[T_co]):
    """The value of a cell after judging (None: absent), and what was found on the way."""

    value: T_co | None
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class Notes:
    """The findings of one batch, as they are made: problems by row, and a row's flaws.

    Attributes:
        lines: line number of each row.
        flaws: bits of `Flaw` for each row.
        problems: every finding with its line.
    """

    lines: Sequence[int]
    flaws: npt.NDArray[np.int32]
    problems: list[Problem] = field(default_factory=list)

    @classmethod
    def blank(cls, lines: Sequence[int]) -> Notes:
        """Return notes without a finding for rows at these lines."""
        return cls(lines, np.zeros(len(lines), dtype=np.int32))

    def add(self, row: int, column: str, finding: Finding) -> None:
        """Record a finding about one cell."""
        problem = Problem(self.lines[row], column, finding.code, finding.hint, finding.action)
        self.problems.append(problem)
        if finding.flaw:
            self.flaws[row] |= int(finding.flaw)

    def spot(self, flaw: Flaw) -> Mask:
        """Return which rows have this flaw."""
        spotted: Mask = (self.flaws & int(flaw)) != 0
        return spotted


@cache
def absent_words() -> frozenset[str]:
    """Return the words of `data/absent_words.csv`, upper case.

    Raises:
        SettingsError: the file cannot be read.
    """
    try:
        text = (DATA / "absent_words.csv").read_text(encoding="utf-8-sig")
    except OSError as error:
        message = "The list of absent words cannot be read; restore data/absent_words.csv."
        raise SettingsError(message) from error
    words = {line.strip().upper() for line in text.splitlines() if not line.startswith("# ")}
    return frozenset(words - {"", "WORD"})


def is_absent(text: str, *, zero_is_value: bool = False) -> bool:
    """Return whether a trimmed cell means "absent": blank, dashes, zeros, or a known word."""
    if text.upper() in absent_words() or _DASHES.fullmatch(text):
        return True
    return not zero_is_value and _ZEROS.fullmatch(text) is not None


def trimmed(text: Column, *, zero_is_value: bool = False) -> Column:
    """Return a column without outer blanks, and with null where a cell means "absent".

    Marks that turn the direction of writing, and others not to be seen, are no part of a value.
    """
    bare = stripped(_without_marks(text))
    edges, begins = Edges.of(bare), _absent_begins()
    looks = begins.table[edges.first]
    worded = (looks & begins.WORD > 0) & (edges.lengths <= begins.longest)
    absent = among(bare, begins.words, worded)
    absent |= matching(bare, r"^[-\x{2010}-\x{2015}_]*$", looks & begins.DASH > 0)
    if not zero_is_value:
        absent |= matching(bare, r"^0*(?:\.0+)?$", looks & begins.ZERO > 0)
    return where(~absent, bare)


def _without_marks(text: Column) -> Column:
    ends, data = inside(text)
    if not (data[ends[0] : ends[-1]] >= _FIRST_OF_MARKS).any():
        return text
    if not pc.any(pc.match_substring_regex(text, _MARKS)).as_py():
        return text
    return cast("Column", pc.replace_substring_regex(text, pattern=_MARKS, replacement=""))


@dataclass(frozen=True, slots=True)
class _AbsentBegins:
    """The first characters of cells that mean "absent".

    Attributes:
        words: the absent words, upper case.
        longest: bytes of the longest.
        table: for each first byte, 0 of an empty cell, what may begin so: the bits below.
    """

    WORD: ClassVar = 1
    DASH: ClassVar = 2
    ZERO: ClassVar = 4

    words: list[str]
    longest: int
    table: npt.NDArray[np.uint8]


@cache
def _absent_begins() -> _AbsentBegins:
    words = sorted(absent_words())
    letters = {letter for word in words for letter in (word[0], word[0].lower())}
    dashes = ["\0", "-", "_", *map(chr, range(0x2010, 0x2016))]
    longest = max((len(word.encode()) for word in words), default=0)
    return _AbsentBegins(words, longest, table_of(letters, dashes, "\x000."))


def one_digit_repeated(text: Column) -> Mask:
    """Return which cells are one digit over and over; such a one begins as it ends."""
    edges = Edges.of(text)
    return matching(text, _REPEATED_DIGIT, edges.first == edges.last)


def judge_cells(
    text: Column,
    rows: Places,
    judge: Callable[[str], Validated[T]],
    column: str,
    notes: Notes,
) -> list[T | None]:
    """Judge these cells one by one, note what is found, and return their values in order."""
    values: list[T | None] = []
    for row, cell in zip(rows.tolist(), at(text, rows), strict=True):
        verdict = judge(cell)
        values.append(verdict.value)
        for finding in verdict.findings:
            notes.add(row, column, finding)
    return values


def judge_text(
    text: Column,
    plain: Mask,
    judge: Callable[[str], Validated[str]],
    column: str,
    notes: Notes,
) -> Column:
    """Return a text column after judging every cell that is present and not plain."""
    rows = np.flatnonzero(~plain & present(text))
    return put(text, rows, judge_cells(text, rows, judge, column, notes))


def without_unseen(text: str) -> str:
    """Return text without zero-width and direction characters, and outer blanks and quotes."""
    return _UNSEEN.sub("", text).strip().strip(_EDGE_QUOTES).strip()


def bare_digits(text: str) -> str:
    """Return a number's text freed of what people and spreadsheets put round its digits.

    Blanks, dashes, invisible characters, an apostrophe in front, thousands commas and a trailing
    `.0` go; full-width digits become plain ones. Letters stay: O and I are never read as digits.
    """
    bare = without_unseen(text).translate(_WIDE_DIGITS)
    bare = _SPACING.sub("", bare)
    if _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    whole = _POINT_ZERO.fullmatch(bare)
    return whole[1] if whole else bare


def is_scientific(text: str) -> bool:
    """Return whether a spreadsheet has put a number into scientific notation, such as 2.21E+10."""
    return _SCIENTIFIC.fullmatch(without_unseen(text)) is not None


def is_one_digit_repeated(text: str) -> bool:
    """Return whether a number is one digit over and over, as people type to fill a field."""
    return len(set(text)) == 1 and is_all_digits(text)


def is_all_digits(text: str) -> bool:
    """Return whether text is plain digits, at least one."""
    return text.isascii() and text.isdigit()
