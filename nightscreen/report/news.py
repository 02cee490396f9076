"""News: what is new since each customer's last answered state, in rows and in naira.

Reads decision, exposure and listing of the enriched parts beside what the comparison noted of each
row, in the same order. `changes` defines what a change is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.report.coverage import ExposureTotal, kobo_text, together, weigh
from nightscreen.results.customer_rows import customer_batches
from nightscreen.schemas.decisions import ChangeKind
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from nightscreen.results.changes import ChangeSet

NIGHTS = 14
"""How many nights the report shows side by side."""
_BLOCK_ROWS = 65_536
_KINDS, _DECISIONS = tuple(ChangeKind), tuple(Decision)
_NEW_LISTING = _KINDS.index(ChangeKind.NEW_LISTING)
_NEW = _KINDS.index(ChangeKind.NEW)
_COLUMNS = ("decision", "karma_status", "karma_amount_in_contention")
_LISTED = "listed"

_Key = tuple[str, int, int, bool]
"""Decision now, number of the decision before (-1: none), number of the kind, listed."""


@dataclass(slots=True)
class News:
    """Rows and exposure by decision now, decision before, most telling change and listing."""

    cells: dict[_Key, ExposureTotal] = field(default_factory=lambda: defaultdict(ExposureTotal))
    in_contention_kobo: int = 0

    def take(self, table: pa.Table, compared: ChangeSet, start: int) -> None:
        """Enter a block of enriched rows, the first of which is row `start` of the run."""
        part = slice(start, start + table.num_rows)
        kinds = compared.change[part]
        listed = pc.equal(table["karma_status"].cast("string"), _LISTED)
        keys = {
            "decision": table["decision"].cast("string").combine_chunks(),
            "before": compared.previous[part],
            "kind": kinds,
            "listed": listed.combine_chunks(),
        }
        exposure = table["exposure"] if "exposure" in table.column_names else None
        for key, weight in weigh(keys, exposure, table.num_rows):
            self.cells[key].add(weight)
        claimed = pc.filter(table["karma_amount_in_contention"], pa.array(kinds == _NEW_LISTING))
        total = pc.sum(claimed.cast(pa.decimal128(38, 2))).as_py()
        self.in_contention_kobo += 0 if total is None else int(total.scaleb(2))

    def report(self) -> dict[str, Any]:
        """Return the part `news` of the report."""
        return {
            "known_before_rows": self._rows(lambda key: key[2] != _NEW),
            "new_listings": {
                **self._sum(lambda key: key[2] == _NEW_LISTING),
                "in_contention": kobo_text(self.in_contention_kobo),
            },
            "listed_at_first_sight": self._sum(lambda key: key[2] == _NEW and key[3]),
            "decisions": {word.value: self._decision(word) for word in _DECISIONS},
        }

    def _decision(self, word: Decision) -> dict[str, Any]:
        """Return all rows so decided, those decided otherwise before, and those without before."""
        decision, number = word.value, _DECISIONS.index(word)
        return {
            **self._sum(lambda key: key[0] == decision),
            "turned": self._sum(lambda key: key[0] == decision and key[1] not in (number, -1)),
            "first": self._sum(lambda key: key[0] == decision and key[1] == -1),
        }

    def _rows(self, of: Callable[[_Key], bool]) -> int:
        return sum(weight.rows for key, weight in self.cells.items() if of(key))

    def _sum(self, of: Callable[[_Key], bool]) -> dict[str, Any]:
        return together(weight for key, weight in self.cells.items() if of(key)).report()


def news_of(parts: Sequence[Path], compared: ChangeSet) -> News:
    """Read the enriched parts, in order, and return what is new in them."""
    news, start = News(), 0
    for part in parts:
        with pq.ParquetFile(part) as file:
            for customers in customer_batches(file, {*_COLUMNS, "exposure"}, _BLOCK_ROWS):
                news.take(customers, compared, start)
                start += customers.num_rows
    if start != len(compared.change):
        raise ValueError(f"{start} enriched rows, but {len(compared.change)} were compared")
    return news


def nights_of(
    report: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the last nights of a batch, tonight's included and last: decisions, listings, cost.

    Args:
        report: tonight's.
        earlier: reports of the batch's other runs, newest first; of these only finished nights
            count that were published or could be.
    """
    before = report["started_at"]
    kept = [night for night in earlier if night["publishable"] and night["started_at"] < before]
    return [_night(night) for night in [*reversed(kept[: NIGHTS - 1]), report]]


def _night(report: Mapping[str, Any]) -> dict[str, Any]:
    listings = (report.get("news") or {}).get("new_listings")
    return {
        "run_id": report["run_id"],
        "started_at": report["started_at"],
        "decisions": dict(report["decisions"]),
        "new_listings": None if listings is None else listings["rows"],
        "cost": report["cost"]["total"],
    }
