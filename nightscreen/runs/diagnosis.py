"""The diagnosis of a file: how its columns and rows are understood, before anything is spent.

It has counts and names only, never a value of a row. `reading` reads the file, `intake` judges it.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.planning.eligibility import consent_column, skip_reasons, slots_of
from nightscreen.reading.columns import looks_like_value
from nightscreen.reading.merge_rows import merge_rows, status_name
from nightscreen.runs.intake import Intake, number_customers
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import SkipReason
from nightscreen.schemas.rows import CUSTOMER, EXTRA_PREFIX
from nightscreen.values.issues import trimmed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.reading.date_orders import DateOrders
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.rows import Problem, RowBatch, SourceBatch

REPEATED = "customer_id_repeated"
MANY_REPEATED = 1 / 3
"""If every customer has two rows, half of the rows repeat an id; if some have one row, fewer do."""
HIDDEN_HEADING = "(heading not shown: it looks like data)"
_WHY = {
    "eligible": SkipReason.ASK,
    "ineligible": SkipReason.INELIGIBLE,
    "invalid": SkipReason.INVALID,
    "refused": SkipReason.REFUSED,
}


def diagnose(source: TableSource, orders: DateOrders, *, merge: bool) -> dict[str, Any]:
    """Read a whole file and return how it is understood, as printed by `inspect --json`.

    `eligible` rows of a check have the identifier it needs and, if required, valid consent. Each
    kind of problem is listed once, with its count and one of its lines.

    Args:
        source: the file, with the meaning of its headings.
        orders: knows the order of its dates.
        merge: whether the rows of one customer id are merged.

    Raises:
        UsageError: the file cannot be used.
    """
    customers = number_customers(source, orders)[0] if merge else None
    intake = Intake(source.header, customers, orders)
    counts, accepted = _Counts(source), list[pa.Table]()
    status = status_name(source.header.columns, source.header.loan_status)
    for batch in source.batches():
        taken = intake.take(batch)
        counts.add(batch, taken)
        if customers is None:
            counts.add_checks(taken.rows)
        else:
            numbers = pa.array(customers.numbers(taken.rows["customer_id"].to_pylist()))
            table = pa.Table.from_batches([taken.rows]).append_column(CUSTOMER, numbers)
            carried = {name for name in table.column_names if name.startswith(EXTRA_PREFIX)}
            accepted.append(table.drop_columns(list(carried - {status})))
    if customers is not None:
        counts.rows["customers"] = 0
    if any(table.num_rows for table in accepted):
        rows, problems = merge_rows(pa.concat_tables(accepted), status)
        counts.rows["customers"] = rows.num_rows
        counts.add_problems(problems)
        for part in rows.combine_chunks().to_batches():
            counts.add_checks(part)
    return counts.document()


class _Counts:
    """Counts over the batches of one file."""

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self.rows = {"read": 0, "screened": 0, "refused": 0}
        self._filled: Counter[int] = Counter()
        self._split = self._consented = 0
        self._problems: dict[tuple[str, str, str], dict[str, Any]] = {}
        kinds = [kind for kind in IdentityKind if kind is not IdentityKind.IMAGE]
        self._slots = {slot: dict.fromkeys(_WHY, 0) for slot in slots_of(tuple(CHECKS), kinds)}
        self._now = datetime.now(UTC)

    def add(self, batch: SourceBatch, taken: RowBatch) -> None:
        """Count one batch, as it came and after intake."""
        self.rows["read"] += taken.read
        self.rows["screened"] += taken.rows.num_rows
        self.rows["refused"] += len(taken.refused)
        self._split += batch.columns.num_rows
        for at, column in enumerate(self._source.header.columns):
            zero_is_value = column.known in (None, "exposure")
            text = trimmed(batch.columns.column(at), zero_is_value=zero_is_value)  # NIL is none
            self._filled[at] += len(text) - text.null_count
        self.add_problems(taken.problems)

    def add_problems(self, problems: Sequence[Problem]) -> None:
        """Count problems by their kind."""
        for problem in problems:
            key = (problem.code, problem.column, problem.action.value)
            named = dict(zip(("code", "column", "action"), key, strict=True))
            view = self._problems.setdefault(
                key, {**named, "hint": problem.hint, "line": problem.line, "count": 0}
            )
            view["count"] += 1

    def add_checks(self, taken: pa.RecordBatch) -> None:
        """Count the rows for which each check can be asked, and why it cannot for the others."""
        consent = consent_column(taken, at=self._now).to_numpy(zero_copy_only=False)
        self._consented += int(consent.sum())
        rows = pa.Table.from_batches([taken])
        for slot, counts in self._slots.items():
            reasons = skip_reasons(rows, slot, consent.astype(bool))
            for name, reason in _WHY.items():
                counts[name] += int((reasons == reason).sum())

    def document(self) -> dict[str, Any]:
        table, header = self._source.table, self._source.header
        karma = {s.kind.value: counts for s, counts in self._slots.items() if s.check == "karma"}
        others = {s.check: counts for s, counts in self._slots.items() if s.check != "karma"}
        return {
            "file": str(self._source.path),
            "format": table.format,
            "encoding": table.encoding,
            "separator": table.separator,
            "sheet": table.sheet,
            "findings": [*self._proposal(), *header.findings],
            "columns": [
                {
                    "heading": HIDDEN_HEADING if hide else column.heading,
                    "meaning": column.known,
                    "output": HIDDEN_HEADING if hide else column.output,
                    "filled_pct": round(100 * self._filled[at] / max(1, self._split), 1),
                }
                for at, column in enumerate(header.columns)
                for hide in [looks_like_value(column.heading)]
            ],
            "rows": self.rows,
            "checks": {name: others.get(name) or karma[IdentityKind.BVN.value] for name in CHECKS},
            "karma_identities": karma,
            "rows_with_valid_consent": self._consented,
            "problems": sorted(self._problems.values(), key=lambda p: (-p["count"], p["line"])),
        }

    def _proposal(self) -> list[str]:
        """Suggest merging if many rows repeat a customer: the file has one row for each loan."""
        repeated = sum(
            each["count"] for each in self._problems.values() if each["code"] == REPEATED
        )
        read = self.rows["read"]
        if read == 0 or repeated < read * MANY_REPEATED:
            return []
        proposal = (
            f"{100 * repeated / read:.0f} % of the rows repeat a customer_id and would be refused. "
            "If the file has a row a loan, give --merge-rows (or write merge_rows = true in the "
            "mapping file): the rows of one customer_id are then one customer, and the exposure of "
            "open loans is summed."
        )
        return [proposal]
