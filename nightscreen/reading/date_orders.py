"""The order of the dates in each column of a file: shown by its dates, answered, or unknown.

03/04/2026 can be read in two ways, 13/03/2026 in one. If all dates of a column can be read in
exactly one order, that is its order. Other columns and likelihood do not count. An order declared
in a mapping is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nightscreen.schemas.columns import INSTANT_COLUMNS
from nightscreen.schemas.rows import Action, Problem
from nightscreen.values.dates import InstantProblem, read_moment
from nightscreen.values.issues import as_text, matching, trimmed

if TYPE_CHECKING:
    from nightscreen.reading.open_file import TableSource
    from nightscreen.values.issues import Column

DATE_COLUMNS: Final = ("date_of_birth", *INSTANT_COLUMNS)
ORDERS: Final = {"dmy": "day first", "mdy": "month first", "ymd": "year first"}
SHOWN: Final = "date_order_shown"
ANSWERED: Final = "date_order_answered"
_NUMBERS = r"^(?:\d{1,4}\s*[/.\s]|\d{1,3}-|\d{4}-\d-|\d{4}-\d\d-\d(?:\D|$))"
"""RE2 pattern of numeric dates that are not ISO, whose order must be known."""


@dataclass(slots=True)
class _Column:
    """The dates of a column so far."""

    # orders in which all its dates can be read; none if dates contradict each other
    orders: frozenset[str] = frozenset(ORDERS)
    example: tuple[str, int] | None = None  # the first ambiguous date, and its line
    only: tuple[str, int] | None = None  # the first unambiguous date, and its line

    def take(self, cell: str, line: int) -> None:
        """Add a date at a line."""
        moments = {order: read_moment(cell, order) for order in ORDERS}
        valid = {o: m for o, m in moments.items() if not isinstance(m, InstantProblem)}
        if not valid:
            return
        self.orders &= valid.keys()
        if len(valid) == 1 and (self.only is None or line < self.only[1]):
            self.only = cell, line
        if len(set(valid.values())) > 1 and (self.example is None or line < self.example[1]):
            self.example = cell, line

    @property
    def order(self) -> str | None:
        """Return the order that the dates show, or any if all orders give the same dates."""
        if len(self.orders) == 1 or (self.orders and self.example is None):
            return min(self.orders)
        return None


class DateOrders:
    """The order of each column's dates; the file is read at the first use.

    Args:
        source: the file.
        answered: the order that a user gave for columns that do not show it; empty for none.
    """

    def __init__(self, source: TableSource, answered: str = "") -> None:
        self._source = source
        self._answered = answered or None
        self._used: dict[str, str] = {}

    def of(self, column: str) -> str | None:
        """Return `dmy`, `mdy` or `ymd` for a column's numeric dates; None if unknown."""
        dates = self._columns.get(column)
        order = None if dates is None else dates.order or self._answered
        if order is not None:
            self._used[column] = order
        return order or self._source.header.date_order

    def used(self) -> dict[str, str]:
        """Return the known orders that `of` returned, by column."""
        return dict(self._used)

    def note(self, column: str) -> Problem | None:
        """Return a warning for the analyst about an order that no mapping declares."""
        dates = self._columns.get(column)
        if dates is None:
            return None
        order = dates.order
        if order is not None:
            code, shown = SHOWN, dates.only
            why = (
                "this one has no other reading. If that is wrong, declare date_order in a mapping."
            )
        else:
            code, order, shown = ANSWERED, self._answered, dates.example
            why = "as was answered, for the file itself leaves it open."
        if order is None or shown is None:
            return None
        hint = f"The dates of this column are read {ORDERS[order]}: {why}"
        return Problem(shown[1], column, code, hint, Action.WARNED)

    def open_consent(self) -> tuple[str, str] | None:
        """Return a consent column whose order the file does not show, with an example; else None.

        The user's answer is ignored here.
        """
        for name in INSTANT_COLUMNS:
            dates = self._columns.get(name)
            example = None if dates is None else dates.example or dates.only
            if dates is not None and dates.order is None and example is not None:
                return name, example[0]
        return None

    @cached_property
    def _columns(self) -> dict[str, _Column]:
        """The columns with numeric dates; none if the mapping declares their order."""
        header = self._source.header
        places = [
            (at, column.known)
            for at, column in enumerate(header.columns)
            if column.known in DATE_COLUMNS and header.date_order is None
        ]
        by_column: dict[str, _Column] = {}
        for batch in self._source.batches() if places else ():
            for at, known in places:
                text = trimmed(as_text(batch.columns.column(at)))
                rows = np.flatnonzero(matching(text, _NUMBERS))
                cells = text.take(pa.array(rows)).to_pylist()
                lines = dict(zip(cells[::-1], rows[::-1].tolist(), strict=True))
                for cell, row in lines.items():  # the first row of each distinct date
                    by_column.setdefault(str(known), _Column()).take(cell, batch.lines[row])
        return by_column


def in_numbers(text: Column) -> bool:
    """Return whether a column holds dates whose order must be known."""
    return bool(text.null_count < len(text) and matching(text, _NUMBERS).any())
