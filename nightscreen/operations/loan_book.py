"""Import of a lender's loan book, one row per loan and day, linked to the decisions.

Headings, mapping, amounts and dates are read as in every file (`runs/intake`). This module says
what a row must have, and what is derived if a value is missing. An import is a run, so that erasure
and purge find its quarantine; it makes no calls and is free. Importing the same file again changes
nothing. `results/outcomes` reports outcomes.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import QUARANTINE, REPORT
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.records import Records
from nightscreen.reading.columns import fold
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.merge_rows import standing_of
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.results.final_decision import decisions_as_of
from nightscreen.results.outcomes import loan_key
from nightscreen.runs.intake import known_text, refused_rows
from nightscreen.schemas.clock import LAGOS, instant_text, to_instant, to_micros
from nightscreen.schemas.columns import LOAN_DAY_COLUMNS, LOAN_DAYS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.naming import new_run_id
from nightscreen.schemas.outcomes import (
    OUTCOMES_BATCH,
    OUTCOMES_FLOW,
    LoanDay,
    LoanOutcome,
    LoanStanding,
    OutcomeSource,
)
from nightscreen.schemas.rows import Action, Problem
from nightscreen.schemas.stops import COMPLETED
from nightscreen.values.amounts import amounts
from nightscreen.values.dates import InstantProblem, dates, instants
from nightscreen.values.identifiers import judge_customer_id
from nightscreen.values.issues import Issue, Issues, issue, judge_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nightscreen.journal import Journal
    from nightscreen.schemas.rows import Header, RefusedRow, SourceBatch


_REFUSED = partial(Issue, action=Action.REFUSED)
LOAN_MISSING = _REFUSED("loan_id_missing", "The row has no loan id; add one and import it again.")
DAY_MISSING = _REFUSED(
    "as_of_missing", "The row does not say which day it describes; write as_of as 2026-03-31."
)
DISBURSED_MISSING = _REFUSED(
    "disbursed_at_missing",
    "The row does not say when the loan was disbursed, so no decision can be linked to it.",
)
DAY_TOO_EARLY = _REFUSED(
    "as_of_before_disbursal", "The day is before the disbursal; correct one of the dates."
)
DAY_AHEAD = _REFUSED("as_of_ahead", "The day is more than a year ahead; correct the date.")
DAY_REPEATED = _REFUSED(
    "loan_day_repeated", "An earlier row of the file has the same loan and day; keep one of them."
)
_WARNED = partial(Issue, action=Action.WARNED)
DAY_AHEAD_TAKEN = _WARNED(
    "as_of_ahead", "The day is in the future; it is accepted, but check the date."
)
DAYS_UNREADABLE = _WARNED(
    "days_past_due_unreadable", "The days past due cannot be read as a number; taken as unknown."
)
STATUS_UNKNOWN = _WARNED(
    "loan_status_unknown",
    "The loan's status is not known: only the row's days and amounts count. Add the status to "
    "data/loan_statuses.csv.",
)
_AHEAD_DAYS = 366  # a year, a leap year too: a date beyond it is a typing error
_DAYS = re.compile(r"(-?)(\d{1,5})(?:\.0+)?\s*(?:d|days?)?", re.IGNORECASE)
_YES = frozenset({"yes", "y", "true", "t", "1", "restructured", "rescheduled"})
_AMOUNTS = ("principal", "due", "paid", "outstanding")
_DATES = ("maturity_date", "written_off_at", "as_of")
_ENDED = (LoanStanding.CLOSED, LoanStanding.NOT_LENT)


class LoanBook:
    """Checks and imports the rows of one file, a block at a time.

    Attributes:
        rows: number of rows `read`, imported (`screened`) and `quarantined`.
        counts: number of loans that are `new` or `changed`, and of those linked to a decision.
    """

    def __init__(self, journal: Journal, header: Header, now: int) -> None:
        self._journal, self._header, self._now = journal, header, now
        self._today = to_instant(now).astimezone(LAGOS).date()
        self._store = Records(journal, LoanOutcome)
        self._seen: set[int] = set()  # hashes of loan and day
        self._has_decision: dict[str, bool] = {}  # by the loan's key
        self.rows: Counter[str] = Counter(read=0, screened=0, quarantined=0)
        self.counts: Counter[str] = Counter(new=0, changed=0, decided=0, never_decided=0)

    def import_batch(self, batch: SourceBatch) -> tuple[list[RefusedRow], list[Problem]]:
        """Import the valid rows of a batch; return the refused rows, and all problems by line."""
        issues = Issues.blank(batch.lines)
        refusals: dict[int, tuple[str, Issue]] = {}
        loans: dict[str, LoanOutcome] = {}
        for number, row in enumerate(self._rows(batch, issues)):
            warnings = self._complete(row)
            refusal = next(self._refusals(row), None)
            for column, found in warnings if refusal is None else [refusal]:
                issues.add(number, column, found)
            if refusal is None:
                loan = self._loan(row)
                known = loans.get(loan.key)
                loans[loan.key] = loan if known is None else known.joined(loan)
            else:
                refusals[number] = refusal
        self._save_outcomes(list(loans.values()))
        refused = [*batch.broken, *refused_rows(batch, refusals)]
        broken = [each.problem for each in batch.broken]
        read = len(batch.lines) + len(batch.broken)
        self.rows.update(read=read, screened=read - len(refused), quarantined=len(refused))
        refused.sort(key=lambda row: row.line)
        return refused, sorted([*issues.problems, *broken], key=lambda problem: problem.line)

    def _rows(self, batch: SourceBatch, issues: Issues) -> Iterator[dict[str, Any]]:
        """Yield the rows, amounts and dates parsed; days past due and status are still text."""

        def undated(trouble: InstantProblem) -> Issue:
            code, hint = trouble.value
            hint = f"{hint} Without it no decision can be linked to the loan."
            return Issue(code, hint, Action.WARNED)

        order = self._header.date_order
        columns = known_text(batch.columns, self._header, LOAN_DAY_COLUMNS)
        for name in _AMOUNTS:
            columns[name] = judge_column(columns[name], amounts(name), name, issues)
        for name in _DATES:
            columns[name] = judge_column(columns[name], dates(order), name, issues)
        disbursed = instants(order, ends=True, issue=undated)
        columns["disbursed_at"] = judge_column(
            columns["disbursed_at"], disbursed, "disbursed_at", issues
        )
        for cells in zip(*(columns[name].to_pylist() for name in LOAN_DAY_COLUMNS), strict=True):
            yield dict(zip(LOAN_DAY_COLUMNS, cells, strict=True))

    def _complete(self, row: dict[str, Any]) -> list[tuple[str, Issue]]:
        """Read a row's days past due and status, and derive what is missing from the rest.

        Returns:
            The warnings, with their columns, if the row is accepted.
        """
        as_of, status, text = row["as_of"], row["status"], row["days_past_due"]
        match = _DAYS.fullmatch((text or "").replace(",", ""))
        known = standing_of(status) if status else None
        days = None
        if match is not None:  # a negative number means not yet due
            days = 0 if match[1] else int(match[2])
        row["days_past_due"], row["standing"] = days, known or _standing(row, days)
        if known is LoanStanding.NOT_LENT and row["disbursed_at"] is None and as_of is not None:
            row["disbursed_at"] = datetime.combine(as_of, datetime.min.time(), LAGOS)
        warnings = (
            ("as_of", DAY_AHEAD_TAKEN, as_of is not None and as_of > self._today),
            ("days_past_due", DAYS_UNREADABLE, text is not None and days is None),
            ("status", STATUS_UNKNOWN, status is not None and known is None),
        )
        return [(column, issue) for column, issue, is_so in warnings if is_so]

    def _refusals(self, row: Mapping[str, Any]) -> Iterator[tuple[str, Issue]]:
        """Yield the column and the issue that a row is refused for; none if it is accepted."""
        customer, loan, as_of = row["customer_id"], row["loan_id"], row["as_of"]
        missing = issue("customer_id_missing") if customer is None else None
        if refused := missing or judge_customer_id(customer):
            yield "customer_id", refused
        if loan is None:
            yield "loan_id", LOAN_MISSING
        if as_of is None:
            yield "as_of", DAY_MISSING
        if as_of > self._today + timedelta(days=_AHEAD_DAYS):
            yield "as_of", DAY_AHEAD
        if row["disbursed_at"] is None:
            yield "disbursed_at", DISBURSED_MISSING
        if row["disbursed_at"].astimezone(LAGOS).date() > as_of:
            yield "as_of", DAY_TOO_EARLY
        seen = hash((loan, as_of))
        if seen in self._seen:
            yield "loan_id", DAY_REPEATED
        self._seen.add(seen)

    def _loan(self, row: Mapping[str, Any]) -> LoanOutcome:
        """Return the loan of an accepted row."""
        day = _day(row)
        return LoanOutcome(
            key=loan_key(self._journal, row["loan_id"]),
            customer=self._journal.pseudonyms.customers_anywhere([row["customer_id"]]),
            batch=OUTCOMES_BATCH,
            at=self._now,
            customer_id=row["customer_id"],
            loan_id=row["loan_id"],
            source=OutcomeSource.FILE,
            disbursed_at=to_micros(row["disbursed_at"]),
            last=day,
            ever_restructured=day.restructured,
        )

    def _save_outcomes(self, loans: list[LoanOutcome]) -> None:
        """Link loans to the decisions that were in force at disbursement, and save them."""
        disbursed = [(each.customer_id, each.disbursed_at) for each in loans]
        linked = []
        for each, decision in zip(loans, decisions_as_of(self._journal, disbursed), strict=True):
            self._has_decision[each.key] = decision is not None
            run = {} if decision is None else {"batch": decision.batch, "run_id": decision.run_id}
            linked.append(each.model_copy(update={"stood": decision, **run}))
        new, changed = self._store.merge(linked, LoanOutcome.joined, self._now)
        self.counts.update(new=new, changed=changed)
        self.counts["decided"] = sum(self._has_decision.values())
        self.counts["never_decided"] = len(self._has_decision) - self.counts["decided"]


def _day(row: Mapping[str, Any]) -> LoanDay:
    """Return a loan's status on the row's day."""
    standing, days, restructured = row["standing"], row["days_past_due"], row["restructured"]
    if days is None:  # the days since maturity, if anything is still owed
        due, paid, owed = row["due"], row["paid"], row["outstanding"]
        is_settled = owed is not None and not owed
        is_settled |= owed is None and due is not None and paid is not None and paid >= due
        matured = row["as_of"] if is_settled else row["maturity_date"] or row["as_of"]
        days = max(0, (row["as_of"] - matured).days)
    return LoanDay(
        **{name: row[name] for name in (*_DATES, *_AMOUNTS)},
        standing=standing,
        status=row["status"] or "",
        days_past_due=0 if standing in _ENDED else days,
        restructured=fold(restructured or "") in _YES or standing is LoanStanding.RESTRUCTURED,
    )


def _standing(row: Mapping[str, Any], days: int | None) -> LoanStanding:
    """Return a loan's standing from its amounts and days past due."""
    if row["written_off_at"] is not None:
        return LoanStanding.WRITTEN_OFF
    if row["outstanding"] is not None and not row["outstanding"] and row["paid"]:
        return LoanStanding.CLOSED
    return LoanStanding.PAST_DUE if days else LoanStanding.OPEN


BLOCK = 20_000  # rows imported at once: bounds memory


def import_outcomes(
    journal: Journal, path: Path, *, mapping: Path | None = None, output: Path
) -> dict[str, Any]:
    """Import a loan book; return the report, which is stored with the run.

    Raises:
        UsageError: the file, the mapping or the folder cannot be used; nothing was imported.
        JournalError: the journal cannot be used.
    """
    headings = None if mapping is None else read_mapping(mapping, LOAN_DAYS)
    source = open_source(path, mapping=headings, kind=LOAN_DAYS)
    now = journal.clock()
    today = to_instant(now).astimezone(LAGOS)
    folder = RunFolder.make(output, new_run_id(today, secrets.token_hex(3)))
    run_id = folder.path.name
    journal.runs.begin(
        run_id,
        flow=OUTCOMES_FLOW,
        batch=OUTCOMES_BATCH,
        purpose=OUTCOMES_FLOW,
        input_digest=file_digest(path),
        folder=str(folder.path.absolute()),
        cap_micro=None,
        parameters={"mapping": "" if mapping is None else str(mapping.absolute())},
    )
    book = LoanBook(journal, source.header, now)
    with folder.findings(source.header.columns) as write:
        for batch in source.batches(BLOCK):
            write(*book.import_batch(batch))
    report = {
        "schema_version": 1,
        "run_id": run_id,
        "flow": OUTCOMES_FLOW,
        "batch": OUTCOMES_BATCH,
        "purpose": OUTCOMES_FLOW,
        "state": COMPLETED,
        "stop_reason": None,
        "publishable": True,
        "started_at": instant_text(now),
        "finished_at": instant_text(journal.clock()),
        "rows": dict(book.rows),
        "checks": {},
        "cost": {"total": naira_text(0)},
        "loans": dict(book.counts),
        "notices": list(source.header.findings),
        "files": {name: folder.rows[name] for name in sorted(folder.rows)},
    }
    folder.write_json(REPORT, report)
    journal.runs.finish(run_id, state=COMPLETED, stop_reason=None, report=report)
    if not book.rows["screened"]:
        raise InputError(
            f"{path}: no row could be imported; see {folder.path / QUARANTINE}, which says why"
        )
    return report
