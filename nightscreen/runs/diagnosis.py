"""What a file holds and how it is understood, before anything is spent.

Counts and words only: no value of a row is ever part of a diagnosis. Reading belongs to `reading`,
judging to `intake`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.planning.consent import consent_column
from nightscreen.planning.eligibility import slots_of, why_not
from nightscreen.reading.columns import looks_like_value
from nightscreen.reading.merge_rows import merge_rows, status_name
from nightscreen.runs.intake import Intake
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import SkipReason
from nightscreen.schemas.rows import CUSTOMER, EXTRA_PREFIX
from nightscreen.values.identifiers import CustomerNumbers
from nightscreen.values.issues import trimmed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nightscreen.reading.date_orders import DateOrders
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.plan import CheckIdentity
    from nightscreen.schemas.rows import Problem, RowBatch, SourceBatch

REPEATED = "customer_id_repeated"
MANY_REPEATED = 1 / 3
"""Of customers with two rows each, one row in two repeats; with some of one row, fewer do."""
HIDDEN_HEADING = "(heading not shown: it looks like data)"


@dataclass(slots=True)
class ColumnView:
    """One column: its heading, what it is taken for, and how much of it is filled."""

    heading: str
    meaning: str | None
    output: str
    filled_pct: float = 0.0


@dataclass(slots=True)
class ProblemView:
    """One kind of problem: how often it occurs, and a line where it can be looked at."""

    code: str
    column: str
    action: str
    hint: str
    line: int
    count: int = 0


@dataclass(slots=True)
class CheckView:
    """How many rows one check can be asked for, and why it cannot for the others.

    `eligible` rows have the identifier it needs and, where the check requires it, valid consent.
    """

    eligible: int = 0
    ineligible: int = 0
    invalid: int = 0
    refused: int = 0


@dataclass(slots=True)
class FileDiagnosis:
    """All that `inspect` has to say, in the order in which it is said."""

    file: str
    format: str
    encoding: str | None
    separator: str | None
    sheet: str | None
    findings: list[str]
    columns: list[ColumnView]
    rows: dict[str, int] = field(default_factory=dict)
    checks: dict[str, CheckView] = field(default_factory=dict)
    karma_identities: dict[str, CheckView] = field(default_factory=dict)
    rows_with_valid_consent: int = 0
    problems: list[ProblemView] = field(default_factory=list)


def diagnose(source: TableSource, orders: DateOrders, *, merge: bool) -> FileDiagnosis:
    """Read a whole file and say how it is understood.

    Args:
        source: the file, with what its headings mean.
        orders: knows the order of its dates.
        merge: the rows of one customer are one customer.

    Raises:
        UsageError: the file cannot be used.
    """
    customers = CustomerNumbers() if merge else None
    if customers is not None:
        counting = Intake(source.header, customers, orders)
        for batch in source.batches():
            counting.take(batch)
        customers.settle()
    intake = Intake(source.header, customers, orders)
    tally = _Tally(source, customers)
    for batch in source.batches():
        tally.add(batch, intake.take(batch))
    return tally.diagnosis()


class _Tally:
    """Counts over the batches of one file."""

    def __init__(self, source: TableSource, customers: CustomerNumbers | None = None) -> None:
        self._source = source
        self._customers = customers
        self._to_merge: list[pa.Table] = []
        self._merged: int | None = None
        self._filled: Counter[int] = Counter()
        self._read = self._screened = self._refused = self._split = self._consented = 0
        self._problems: dict[tuple[str, str, str], ProblemView] = {}
        self._slots: dict[CheckIdentity, CheckView] = {slot: CheckView() for slot in _slots()}
        self._now = datetime.now(UTC)

    def add(self, batch: SourceBatch, taken: RowBatch) -> None:
        """Count one batch, as it came and after intake."""
        self._read += taken.read
        self._screened += taken.rows.num_rows
        self._refused += len(taken.refused)
        self._split += batch.columns.num_rows
        for at, column in enumerate(self._source.header.columns):
            self._filled[at] += _filled(batch, at, column.known)
        self._add_problems(taken.problems)
        if self._customers is None:
            self._add_checks(taken.rows)
        else:
            self._keep(taken.rows, self._customers)

    def _keep(self, rows: pa.RecordBatch, customers: CustomerNumbers) -> None:
        """Keep rows until all of their customers are there; what is only carried stays out."""
        numbers = customers.numbers(rows["customer_id"].to_pylist())
        table = pa.Table.from_batches([rows]).append_column(CUSTOMER, pa.array(numbers))
        status = self._status()
        kept = [
            name
            for name in table.column_names
            if name == status or not name.startswith(EXTRA_PREFIX)
        ]
        self._to_merge.append(table.select(kept))

    def _status(self) -> str | None:

        return status_name(self._source.header.columns, self._source.header.loan_status)

    def _merge(self) -> None:
        """Count what was kept as customers."""
        self._merged = 0
        if not any(table.num_rows for table in self._to_merge):
            return
        rows, problems = merge_rows(pa.concat_tables(self._to_merge), self._status())
        self._merged = rows.num_rows
        self._add_problems(problems)
        for batch in rows.combine_chunks().to_batches():
            self._add_checks(batch)

    def _add_problems(self, problems: Sequence[Problem]) -> None:
        for found in problems:
            key = (found.code, found.column, found.action.value)
            view = self._problems.setdefault(key, ProblemView(*key, found.hint, found.line))
            view.count += 1

    def _add_checks(self, taken: pa.RecordBatch) -> None:

        consent = consent_column(taken, at=self._now).to_numpy(zero_copy_only=False)
        self._consented += int(consent.sum())
        rows = pa.Table.from_batches([taken])
        for slot, view in self._slots.items():
            _count(why_not(rows, slot, consent.astype(bool)), view)

    def diagnosis(self) -> FileDiagnosis:
        """Return the counts in the shape that is shown."""
        table, header = self._source.table, self._source.header
        if self._customers is not None:
            self._merge()
        rows = {"read": self._read, "screened": self._screened, "refused": self._refused}
        if self._merged is not None:
            rows["customers"] = self._merged
        karma = {s.kind.value: view for s, view in self._slots.items() if s.check == "karma"}
        others = {s.check: v for s, v in self._slots.items() if s.check != "karma"}
        checks = {check: others.get(check) for check in CHECKS}
        return FileDiagnosis(
            file=str(self._source.path),
            format=table.format,
            encoding=table.encoding,
            separator=table.separator,
            sheet=table.sheet,
            findings=[*self._proposal(), *header.findings],
            columns=self._columns(),
            rows=rows,
            checks={name: view or karma[IdentityKind.BVN.value] for name, view in checks.items()},
            karma_identities=karma,
            rows_with_valid_consent=self._consented,
            problems=sorted(self._problems.values(), key=lambda p: (-p.count, p.line)),
        )

    def _proposal(self) -> list[str]:
        """Say what to do where most rows repeat a customer: the file has a row a loan."""
        repeated = sum(
            view.count for (code, *_), view in self._problems.items() if code == REPEATED
        )
        if self._read == 0 or repeated < self._read * MANY_REPEATED:
            return []
        said = (
            f"{100 * repeated / self._read:.0f} % of the rows repeat a customer_id and would be "
            "refused. If the file has a row a loan, give --merge-rows (or write merge_rows = true "
            "in the mapping file): the rows of one customer_id are then one customer, and the "
            "exposure of open loans is summed."
        )
        return [said]

    def _columns(self) -> list[ColumnView]:

        views = []
        for at, column in enumerate(self._source.header.columns):
            hide = looks_like_value(column.heading)
            heading, output = (
                (HIDDEN_HEADING, HIDDEN_HEADING) if hide else (column.heading, column.output)
            )
            share = 100 * self._filled[at] / self._split if self._split else 0.0
            views.append(ColumnView(heading, column.known, output, round(share, 1)))
        return views


def _slots() -> tuple[CheckIdentity, ...]:
    kinds = [kind for kind in IdentityKind if kind is not IdentityKind.IMAGE]
    return slots_of(tuple(CHECKS), kinds)


def _filled(batch: SourceBatch, at: int, known: str | None) -> int:
    """Return how many rows have a value in a column; words such as NIL are none."""
    text = trimmed(batch.columns.column(at), zero_is_value=known in (None, "exposure"))
    return int(len(text) - text.null_count)


def _count(reasons: NDArray[np.int8], view: CheckView) -> None:
    view.eligible += int((reasons == SkipReason.ASK).sum())
    view.ineligible += int((reasons == SkipReason.INELIGIBLE).sum())
    view.invalid += int((reasons == SkipReason.INVALID).sum())
    view.refused += int((reasons == SkipReason.REFUSED).sum())
