"""Validation of values: issues of a cell, absent values, and the pass over a column.

The rules are in `identifiers`, `banks`, `phones`, `addresses`, `dates` and `amounts`; what they
find is in `data/issues.csv`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.rows import Action, Problem
from nightscreen.schemas.shipped import DATA, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Column: TypeAlias = "pa.Array[Any]"
Mask: TypeAlias = npt.NDArray[np.bool_]
Places: TypeAlias = npt.NDArray[np.int64]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ISSUES_FILE = DATA / "issues.csv"
_BLANKS = " \t\r\n\v\f\u00a0\u2007\u200b\u202f\u3000\ufeff"
_EDGE_QUOTES = "='\"`‘’"  # noqa: RUF001  # spreadsheets write '0123 and ="0123" to keep zeros
_MARKS = "\u00ad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
"""Invisible characters, without those that join letters in some scripts."""
_INVISIBLE = f"{_MARKS}\u200c\u200d"
_UNSEEN = re.compile(f"[{_INVISIBLE}]+")
_SPACING = re.compile(rf"[\s\-\u2010-\u2015\u2212{_INVISIBLE}]+")
_GROUPED = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.0+)?")
_POINT_ZERO = re.compile(r"([0-9]+)\.0+")
_SCIENTIFIC = re.compile(r"[0-9]+(?:[.,][0-9]+)?[eE]\+?[0-9]+")
_DASHES = re.compile("[-\u2010-\u2015_]*")
_ZEROS = re.compile(r"0*(?:\.0+)?")
_ONE_DIGIT = f"^(?:{'|'.join(f'{digit}+' for digit in range(10))})$"  # repeated, as RE2
_WIDE_DIGITS = {0xFF10 + digit: str(digit) for digit in range(10)}


@dataclass(frozen=True, slots=True)
class Issue:
    """What is wrong with a cell, without its position."""

    code: str  # of `problems.csv`
    hint: str  # what to do
    action: Action  # what was done
    flaw: Flaw = Flaw.NONE  # the identifier that cannot be used because of it

    def at(self, line: int, column: str) -> Problem:
        """Return the problem with its position."""
        return Problem(line, column, self.code, self.hint, self.action)


class Validated(NamedTuple, Generic[T_co]):
    """The value of a cell after validation (None: absent), and its issues."""

    value: T_co | None
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnRule(Generic[T]):
    """The rule of a column.

    Attributes:
        judge: validates one cell.
        sure: returns the values of cells that are surely as they should be, and null for all
            others. `judge` must give the same value, without an issue. It only saves time.
        kind: the type of the values.
    """

    judge: Callable[[str], Validated[T]]
    sure: Callable[[Column], Column] | None = None
    kind: pa.DataType = field(default_factory=pa.string)


@dataclass(slots=True)
class Issues:
    """The issues of one batch, and the unusable identifiers of each row."""

    lines: Sequence[int]  # line number of each row
    flaws: npt.NDArray[np.int32]  # bits of `Flaw` for each row
    problems: list[Problem] = field(default_factory=list)  # every issue with its line

    @classmethod
    def blank(cls, lines: Sequence[int]) -> Issues:
        """Return an object without issues for rows at these lines."""
        return cls(lines, np.zeros(len(lines), dtype=np.int32))

    def add(self, row: int, column: str, issue: Issue) -> None:
        """Record an issue of one cell."""
        self.problems.append(issue.at(self.lines[row], column))
        self.flaws[row] |= int(issue.flaw)

    def spread(self, places: Places, found: Sequence[Sequence[tuple[str, Issue]]]) -> None:
        """Record, for each row, the (column, issue) pairs found at its place."""
        faulty = np.array([bool(pairs) for pairs in found], np.bool_)
        for row in np.flatnonzero(faulty[places]).tolist() if faulty.any() else ():
            for column, each in found[places[row]]:
                self.add(row, column, each)

    def spot(self, flaw: Flaw) -> Mask:
        """Return which rows have this flaw."""
        rows: Mask = (self.flaws & int(flaw)) != 0
        return rows


@cache
def _issue_table() -> dict[str, Issue]:
    table = {}
    for row in read_rows(ISSUES_FILE):
        code, action, flaw = row["code"], row["action"], (row["flaw"] or "NONE").upper()
        if action not in {*Action} or flaw not in Flaw.__members__:
            flaws = ", ".join(name.lower() for name in Flaw.__members__ if name != "NONE")
            raise SettingsError(
                f"{ISSUES_FILE}, code {code}: the action must be one of {', '.join(Action)}, the "
                f"flaw blank or one of {flaws}"
            )
        table[code] = Issue(code, row["hint"], Action(action), Flaw[flaw])
    return table


def issue(code: str) -> Issue:
    """Return the issue with this code in `data/issues.csv`.

    Raises:
        SettingsError: a row is wrong, or that of the code is missing.
    """
    try:
        return _issue_table()[code]
    except KeyError:
        raise SettingsError(
            f"{ISSUES_FILE}, code {code}: its line is missing; restore it"
        ) from None


def judged(value: T | None, code: str) -> Validated[T]:
    """Return a cell's value with the issue that has this code."""
    return Validated(value, (issue(code),))


@cache
def absent_words() -> frozenset[str]:
    """Return the words of `data/absent_words.csv` in upper case."""
    words = (row["word"].strip().upper() for row in read_rows(DATA / "absent_words.csv"))
    return frozenset(words) - {""}


def is_absent(text: str, *, zero_is_value: bool = False) -> bool:
    """Return whether a trimmed cell means "absent": blank, dashes, zeros, or a known word."""
    if text.upper() in absent_words() or _DASHES.fullmatch(text):
        return True
    return not zero_is_value and _ZEROS.fullmatch(text) is not None


@cache
def _absent_pattern(*, zero_is_value: bool) -> str:
    """Return the RE2 pattern of cells that are absent, as in `is_absent`."""
    forms = [*map(re.escape, sorted(absent_words())), _DASHES.pattern]
    forms += [] if zero_is_value else [_ZEROS.pattern]
    return f"(?i)^(?:{'|'.join(forms)})$"


def trimmed(text: Column, *, zero_is_value: bool = False) -> Column:
    """Return a column without outer blanks and invisible characters; absent cells are null."""
    bare = text
    if not pc.all(pc.string_is_ascii(text)).as_py():
        bare = pc.replace_substring_regex(text, pattern=f"[{_MARKS}]", replacement="")
    bare = pc.call_function("utf8_trim", [bare], pc.TrimOptions(_BLANKS))
    return where(~matching(bare, _absent_pattern(zero_is_value=zero_is_value)), bare)


def judge_column(text: Column, rule: ColumnRule[T], column: str, issues: Issues) -> Column:
    """Validate a column.

    Cells that are surely as they should be are recognised together; each distinct value of the
    others is validated once.

    Args:
        text: the cells, as `trimmed` returns them.
        rule: the column's rule.
        column: the column's name in issues.
        issues: issues are added to it.
    """
    sure = rule.sure(text) if rule.sure else pa.nulls(len(text), rule.kind)
    encoded = where(~present(sure), text).dictionary_encode(null_encoding="encode")
    cells = encoded.dictionary.to_pylist()
    verdicts = [Validated(None) if cell is None else rule.judge(cell) for cell in cells]
    issues.spread(
        encoded.indices.to_numpy(),
        [[(column, each) for each in verdict.issues] for verdict in verdicts],
    )
    values = pa.array([verdict.value for verdict in verdicts], rule.kind)
    return first_present([sure, values.take(encoded.indices)])


def without_unseen(text: str) -> str:
    """Return text without invisible characters, surrounding blanks and quotes."""
    return _UNSEEN.sub("", text).strip().strip(_EDGE_QUOTES).strip()


def bare_digits(text: str) -> str:
    """Return a number's text without what people and spreadsheets add to its digits.

    Blanks, dashes, invisible characters, a leading apostrophe, thousands commas and a trailing `.0`
    are removed; full-width digits become plain ones. Letters stay: O is never read as a digit.
    """
    if is_all_digits(text):  # nearly all are
        return text
    bare = without_unseen(text).translate(_WIDE_DIGITS)
    bare = _SPACING.sub("", bare)
    if _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "")
    whole = _POINT_ZERO.fullmatch(bare)
    return whole[1] if whole else bare


def is_scientific(text: str) -> bool:
    """Return whether text is a number in scientific notation, such as 2.21E+10."""
    return _SCIENTIFIC.fullmatch(without_unseen(text)) is not None


def is_one_digit_repeated(text: str) -> bool:
    """Return whether a number is one repeated digit, which people type to fill a field."""
    return len(set(text)) == 1 and is_all_digits(text)


def is_all_digits(text: str) -> bool:
    """Return whether text is plain digits, at least one."""
    return text.isascii() and text.isdigit()


def judge_digits(text: str, name: str, length: int) -> Validated[str]:
    """Validate an identifier of so many digits, which are never invented.

    A malformed cell keeps its text; the codes of its issues begin with the identifier's name.
    """
    digits = bare_digits(text)
    if is_absent(digits):
        return Validated(None)
    if is_scientific(text):
        wrong = "scientific"
    elif not is_all_digits(digits):
        wrong = "letters" if any(character.isalpha() for character in digits) else "characters"
    elif len(digits) != length:
        wrong = "length"
    elif is_one_digit_repeated(digits):
        return judged(None, f"{name}_placeholder")
    elif digits == text:
        return Validated(digits)
    else:
        return judged(digits, f"{name}_characters_removed")
    return judged(text, f"{name}_{wrong}")


def sure_digits(text: Column, length: int) -> Column:
    """Return the cells of `judge_digits` that are surely as they should be."""
    return where(matching(text, f"^[0-9]{{{length}}}$") & ~matching(text, _ONE_DIGIT), text)


def as_text(column: Column) -> Column:
    """Return a column as strings."""
    text: Column = pc.cast(column, pa.string())
    return text


def matching(text: Column, pattern: str) -> Mask:
    """Return which cells match an RE2 pattern; an absent cell does not."""
    if text.null_count == len(text):
        return np.zeros(len(text), dtype=np.bool_)
    options = pc.MatchSubstringOptions(pattern)
    return as_mask(pc.call_function("match_substring_regex", [text], options))


def as_mask(column: Column) -> Mask:
    """Return a boolean column as a new mask; null is False."""
    filled = column.fill_null(False)  # noqa: FBT003  # Arrow takes the value by position
    return np.array(filled.to_numpy(zero_copy_only=False), dtype=np.bool_)


def present(column: Column) -> Mask:
    """Return which cells hold a value."""
    if column.null_count == 0:
        return np.ones(len(column), dtype=np.bool_)
    return as_mask(column.is_valid())


def where(mask: Mask, column: Column, other: Column | None = None) -> Column:
    """Return a column's cells where a mask is true; elsewhere those of another column, or null."""
    if mask.all():
        return column
    rest = pa.scalar(None, column.type) if other is None else other
    chosen: Column = pc.call_function("if_else", [pa.array(mask), column, rest])
    return chosen


def at(column: Column, places: Places) -> list[Any]:
    """Return the cells at these rows as Python values."""
    cells: list[Any] = column.take(pa.array(places, pa.int64())).to_pylist()
    return cells


def joined(columns: Sequence[Column], separator: str) -> Column:
    """Return several text columns joined; absent cells are left out, null if all are absent."""
    text, *others = columns
    for other in others:
        # Arrow's own skipping of nulls loses rows
        options = pc.JoinOptions(null_handling="emit_null")
        inputs = [text, other, pa.scalar(separator)]
        both = pc.call_function("binary_join_element_wise", inputs, options)
        text = first_present([both, text, other])
    return text


def first_present(columns: Sequence[Column]) -> Column:
    """Return, for each row, the first cell of these columns that is not null."""
    result: Column = pc.call_function("coalesce", list(columns))
    return result
