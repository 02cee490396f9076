"""The order of the dates in each column of a file: shown by its dates, answered, or open.

03/04/2026 has two readings, 13/03/2026 one. Where every date of a column can be read in one order
and in no other, that is its order. Nothing else is concluded: not from other columns, not from what
is likely. What a mapping declares is not looked at again.
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
"""RE2 pattern of dates in numbers that are not ISO, whose order must be known."""


@dataclass(slots=True)
class _Column:
    """The dates of a column so far."""

    # those in which every date of it can be read; none where dates contradict each other
    orders: frozenset[str] = frozenset(ORDERS)
    example: tuple[str, int] | None = None  # the first date with several readings, and its line
    only: tuple[str, int] | None = None  # the first date with one reading, and its line

    def take(self, cell: str, line: int) -> None:
        """Enter a date at a line."""
        moments = {order: read_moment(cell, order) for order in ORDERS}
        read = {o: m for o, m in moments.items() if not isinstance(m, InstantProblem)}
        if not read:
            return
        self.orders &= read.keys()
        if len(read) == 1 and (self.only is None or line < self.only[1]):
            self.only = cell, line
        if len(set(read.values())) > 1 and (self.example is None or line < self.example[1]):
            self.example = cell, line

    @property
    def order(self) -> str | None:
        """Return the order that the dates show; any one where all mean the same in each."""
        if len(self.orders) == 1 or (self.orders and self.example is None):
            return min(self.orders)
        return None


class DateOrders:
    """Knows the order of each column's dates; reads the file for it when first asked.

    Args:
        source: the file.
        answered: the order that a person named for what the file leaves open; empty if nobody did.
    """

    def __init__(self, source: TableSource, answered: str = "") -> None:
        self._source = source
        self._answered = answered or None
        self._used: dict[str, str] = {}

    def of(self, column: str) -> str | None:
        """Return `dmy`, `mdy` or `ymd` for a column's dates in numbers; None where it is open."""
        if self._source.header.date_order is not None:
            return self._source.header.date_order
        found = self._columns.get(column)
        order = None if found is None else found.order or self._answered
        if order is not None:
            self._used[column] = order
        return order

    def used(self) -> dict[str, str]:
        """Return the orders that were asked for and are known, by column."""
        return dict(self._used)

    def note(self, column: str) -> Problem | None:
        """Return what the analyst is told of an order that no mapping declares."""
        found = self._columns.get(column)
        if found is None or self._source.header.date_order is not None:
            return None
        order = found.order
        if order is not None:
            code, shown = SHOWN, found.only
            why = (
                "this one has no other reading. If that is wrong, declare date_order in a mapping."
            )
        else:
            code, order, shown = ANSWERED, self._answered, found.example
            why = "as was answered, for the file itself leaves it open."
        if order is None or shown is None:
            return None
        hint = f"The dates of this column are read {ORDERS[order]}: {why}"
        return Problem(shown[1], column, code, hint, Action.WARNED)

    def open_consent(self) -> tuple[str, str] | None:
        """Return a consent column whose order is open, with an example of it; None: all are known.

        An answer does not count here: it is what is asked for.
        """
        if self._source.header.date_order is not None:
            return None
        for name in INSTANT_COLUMNS:
            found = self._columns.get(name)
            example = None if found is None else found.example or found.only
            if found is not None and found.order is None and example is not None:
                return name, example[0]
        return None

    @cached_property
    def _columns(self) -> dict[str, _Column]:
        header = self._source.header
        places = [
            (at, column.known)
            for at, column in enumerate(header.columns)
            if column.known in DATE_COLUMNS
        ]
        found: dict[str, _Column] = {}
        if not places:
            return found
        for batch in self._source.batches():
            for at, known in places:
                text = trimmed(as_text(batch.columns.column(at)))
                rows = np.flatnonzero(matching(text, _NUMBERS))
                cells = text.take(pa.array(rows)).to_pylist()
                lines = dict(zip(cells[::-1], rows[::-1].tolist(), strict=True))
                for cell, row in lines.items():  # of dates written alike the first one's line
                    found.setdefault(str(known), _Column()).take(cell, batch.lines[row])
        return found


def in_numbers(text: Column) -> bool:
    """Return whether a column holds dates whose order must be known."""
    return bool(text.null_count < len(text) and matching(text, _NUMBERS).any())
