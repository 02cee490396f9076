"""Coverage: which rows are fully screened, which are not and why, and how old their evidence is.

Enriched rows are counted as they are written, a chunk at a time, each in one cell only, with the
naira at risk behind it. Nothing here names a customer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.clock import DAY_MICROS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

CAUSES = (
    NoAnswer.TEST_MODE.value,
    NoAnswer.PENDING.value,
    NoAnswer.FAILED.value,
    NoAnswer.UNREADABLE.value,
    NoAnswer.IN_DOUBT.value,
    NoAnswer.REFUSED.value,
    NoAnswer.INVALID.value,
)
"""Why a row is not fully screened; the first that applies to any of its checks is the row's."""

OPEN = frozenset(CAUSES[:5])
"""Causes of which the answer was due: the row needs it and may have it."""

AGE_DAYS = (1, 7, 30, 90)
"""Upper ends of the classes of age of a row's oldest evidence, in days."""

_WIDE = pa.decimal128(38, 2)
_NO_CAUSE, _NO_AGE = -1, -1


@dataclass(slots=True)
class ExposureTotal:
    """Some rows, and the naira at risk in them, in kobo; of some rows it is unknown."""

    rows: int = 0
    kobo: int = 0
    unknown_rows: int = 0

    def add(self, other: ExposureTotal) -> None:
        """Add other rows."""
        self.rows += other.rows
        self.kobo += other.kobo
        self.unknown_rows += other.unknown_rows

    def report(self) -> dict[str, Any]:
        """Return rows and decimal naira, as `report.json` has them."""
        return {
            "rows": self.rows,
            "exposure": kobo_text(self.kobo),
            "unknown_rows": self.unknown_rows,
        }


def kobo_text(kobo: int) -> str:
    """Return kobo as decimal text in naira."""
    return f"{Decimal(kobo).scaleb(-2):.2f}"


def together(weights: Iterable[ExposureTotal]) -> ExposureTotal:
    """Return the sum of weights."""
    total = ExposureTotal()
    for weight in weights:
        total.add(weight)
    return total


def weigh(
    keys: Mapping[str, pa.ChunkedArray | NDArray[Any]], exposure: pa.ChunkedArray | None, rows: int
) -> list[tuple[tuple[Any, ...], ExposureTotal]]:
    """Return rows and exposure of each combination of keys.

    Args:
        keys: columns of equal length.
        exposure: decimal naira, null where unknown; None if the batch has no such column.
        rows: their length.
    """
    naira = pa.nulls(rows, _WIDE) if exposure is None else exposure.cast(_WIDE)
    table = pa.table({**keys, "naira": naira})
    counted = table.group_by(list(keys), use_threads=False).aggregate(
        [("naira", "sum"), ("naira", "count"), ([], "count_all")]
    )
    found = []
    for row in counted.to_pylist():
        known, number = row["naira_count"], row["count_all"]
        kobo = 0 if row["naira_sum"] is None else int(row["naira_sum"].scaleb(2))
        key = tuple(row[name] for name in keys)
        found.append((key, ExposureTotal(number, kobo, number - known)))
    return found


@dataclass(slots=True)
class Coverage:
    """Counts enriched rows by cause, by whether answers were due, and by age of the evidence.

    Attributes:
        at: instant that age is counted from, microseconds.
        cells: weight by cause, due, open, whether a check has no identifier to ask by, and class
            of age.
    """

    at: int = 0
    cells: dict[tuple[int, bool, bool, bool, int], ExposureTotal] = field(default_factory=dict)

    def take(self, table: pa.Table) -> None:
        """Enter a chunk of enriched rows."""
        statuses = [table[f"{check}_status"].combine_chunks() for check in CHECKS]
        cause, due, open_, lacks = _standing(statuses, table.num_rows)
        keys = {
            "cause": cause,
            "due": due,
            "open": open_,
            "lacks": lacks,
            "age": self._ages(table),
        }
        exposure = table["exposure"] if "exposure" in table.column_names else None
        for key, weight in weigh(keys, exposure, table.num_rows):
            self.cells.setdefault(key, ExposureTotal()).add(weight)

    def _ages(self, table: pa.Table) -> NDArray[np.int8]:
        """Return the class of age of each row's oldest evidence; -1 where it has none."""
        times = [table[f"{check}_checked_at"].cast(pa.int64()) for check in CHECKS]
        oldest = pc.min_element_wise(*times, skip_nulls=True)
        known = pc.is_valid(oldest).to_numpy()
        days = (self.at - pc.fill_null(oldest, 0).to_numpy()) / DAY_MICROS
        classes = np.searchsorted(np.array(AGE_DAYS), days, side="left")
        return np.where(known, classes, _NO_AGE).astype(np.int8)

    def _sum(
        self,
        *,
        cause: int | None = None,
        due: bool | None = None,
        open_: bool | None = None,
        whole: bool | None = None,
        age: int | None = None,
    ) -> ExposureTotal:
        return together(
            weight
            for (why, is_due, is_open, lacks, how_old), weight in self.cells.items()
            if (cause is None or why == cause)
            and (due is None or is_due is due)
            and (open_ is None or is_open is open_)
            and (whole is None or (is_due and not lacks) is whole)
            and (age is None or how_old == age)
        )

    @property
    def due_rows(self) -> int:
        """Return how many rows need at least one answer and may have it."""
        return self._sum(due=True).rows

    @property
    def answered_rows(self) -> int:
        """Return how many of them have every answer they need."""
        return self._sum(due=True, open_=False).rows

    def not_screened(self) -> dict[str, Any]:
        """Return rows and exposure not fully screened, in all and by cause."""
        causes = {word: self._sum(cause=index) for index, word in enumerate(CAUSES)}
        return {
            **together(causes.values()).report(),
            "causes": {word: weight.report() for word, weight in causes.items() if weight.rows},
        }

    def nothing_to_ask(self) -> dict[str, Any]:
        """Return rows that lack the identifier of a check and are not counted for another cause."""
        return self._sum(cause=_NO_CAUSE, whole=False).report()

    def fresh(self) -> dict[str, Any]:
        """Return the rows with an answer of every check, on evidence within its age limits.

        `exposure_pct` is their share of the known exposure, `rows_pct` that of the rows; None if
        there is nothing to share.
        """
        fresh = self._sum(cause=_NO_CAUSE, whole=True)
        total = self._sum()
        return {
            **fresh.report(),
            "exposure_pct": share_pct(fresh.kobo, total.kobo),
            "rows_pct": share_pct(fresh.rows, total.rows),
        }

    def ages(self) -> list[dict[str, Any]]:
        """Return rows and exposure by age of a row's oldest evidence, youngest first.

        `days` is the upper end of the class; None of the oldest class, and of rows without any
        evidence, which come last with `evidence` false.
        """
        ends: list[int | None] = [*AGE_DAYS, None]
        found = [
            {"days": end, "evidence": True, **self._sum(age=index).report()}
            for index, end in enumerate(ends)
        ]
        return [*found, {"days": None, "evidence": False, **self._sum(age=_NO_AGE).report()}]


def share_pct(part: int, whole: int) -> float | None:
    """Return a share in percent to two places, rounded.

    Less than all is never shown as 100, and more than nothing never as 0.
    """
    if whole <= 0:
        return None
    rounded = (2 * 10_000 * part + whole) // (2 * whole)
    if 0 < part < whole:
        rounded = min(max(rounded, 1), 9_999)
    return rounded / 100


def _standing(
    statuses: list[pa.Array], rows: int
) -> tuple[NDArray[np.int8], NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    """Return what stands against each row: cause (-1: none), due, open, and lacking an identifier.

    Due: an answer is needed and may be had; open: one of them is still to come.
    """
    cause = np.full(rows, len(CAUSES), dtype=np.int8)
    due, open_, lacks = (np.zeros(rows, bool) for _ in range(3))
    for status in statuses:
        words = status.dictionary.to_pylist()
        codes = status.indices.to_numpy(zero_copy_only=False)
        place = [CAUSES.index(word) if word in CAUSES else len(CAUSES) for word in words]
        waits = np.array([word in OPEN for word in words], bool)
        cause = np.minimum(cause, np.array(place, np.int8)[codes])
        open_ |= waits[codes]
        lacks |= np.array([word == NoAnswer.INELIGIBLE.value for word in words], bool)[codes]
        due |= (waits | np.array([word in ANSWERED for word in words], bool))[codes]
    cause = np.where(cause == len(CAUSES), _NO_CAUSE, cause).astype(np.int8)
    return cause, due, open_, lacks
