"""Importing a lender's loan book: days of loans become outcomes, tied to decisions.

An import is a separate run, so that erasure and purge find its quarantine; it makes no call and
spends nothing. The same file again changes nothing. `loan_days` says what a row must have;
`results/outcomes` reports outcomes.
"""

from __future__ import annotations

import secrets
from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import PROBLEMS, QUARANTINE, REPORT
from nightscreen.files.quarantine import ProblemsWriter, QuarantineWriter
from nightscreen.files.run_folder import RunFolder
from nightscreen.journal.records import Records
from nightscreen.operations.loans.loan_days import LoanDayIntake
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import file_digest, open_source
from nightscreen.results.final_decision import decisions_as_of
from nightscreen.results.outcomes import customers_of, loan_key
from nightscreen.schemas.clock import LAGOS, instant_text, to_instant
from nightscreen.schemas.columns import LOAN_DAYS
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.naming import new_run_id
from nightscreen.schemas.outcomes import (
    OUTCOMES_BATCH,
    OUTCOMES_FLOW,
    LoanOutcome,
    OutcomeSource,
    with_arrears,
)
from nightscreen.schemas.stops import COMPLETED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nightscreen.journal import Journal
    from nightscreen.operations.loans.loan_days import GivenLoan
    from nightscreen.reading.open_file import TableSource
    from nightscreen.schemas.outcomes import Arrears

BLOCK = 20_000
"""Rows whose decisions are looked up and whose outcomes are written down at once."""


def import_outcomes(
    journal: Journal, path: Path, *, mapping: Path | None = None, output: Path
) -> dict[str, Any]:
    """Import a loan book; return the report, which is stored with the run.

    Args:
        journal: the journal.
        path: the file.
        mapping: what the user says about its headings.
        output: where the run's folder is made, with quarantine and problems.

    Raises:
        UsageError: the file, the mapping or the folder cannot be used; nothing was taken in.
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
    taken = _Taken(journal, now)
    rows = _take_rows(source, LoanDayIntake(source.header, today.date()), taken, folder)
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
        "rows": dict(rows),
        "checks": {},
        "cost": {"total": naira_text(0)},
        "loans": dict(taken.counts),
        "notices": list(source.header.findings),
        "files": {name: folder.rows[name] for name in sorted(folder.rows)},
    }
    folder.write_json(REPORT, report)
    journal.runs.finish(run_id, state=COMPLETED, stop_reason=None, report=report)
    if not rows["screened"]:
        raise InputError(
            f"{path}: no row could be taken in; see {folder.path / QUARANTINE}, which says why"
        )
    return report


def _take_rows(
    source: TableSource, intake: LoanDayIntake, taken: _Taken, folder: RunFolder
) -> Counter[str]:
    """Take the rows in, those that are refused into the quarantine; return how many were which."""
    rows: Counter[str] = Counter(read=0, screened=0, quarantined=0)
    quarantine = QuarantineWriter(folder.path / QUARANTINE, source.header.columns)
    problems = ProblemsWriter(folder.path / PROBLEMS)
    number = 0
    with quarantine, problems:
        for batch in source.batches(BLOCK):
            found = intake.take(batch)
            quarantine.write(found.refused)
            problems.write(found.problems)
            rows.update(read=found.read, screened=len(found.given), quarantined=len(found.refused))
            number += len(found.problems)
            taken.add(found.given)
    folder.rows |= {QUARANTINE: rows["quarantined"], PROBLEMS: number}
    return rows


class _Taken:
    """Writes outcomes down, a block of rows at a time, and counts them."""

    def __init__(self, journal: Journal, now: int) -> None:
        self._journal = journal
        self._now = now
        self._store = Records.of(journal, LoanOutcome)
        self._tied: dict[str, bool] = {}
        self.counts: Counter[str] = Counter(new=0, changed=0, decided=0, never_decided=0)

    def add(self, given: Sequence[GivenLoan]) -> None:
        """Write down what some rows say; of one loan a later day replaces an earlier one."""
        loans: dict[str, list[GivenLoan]] = {}
        for loan_day in given:
            loans.setdefault(loan_day.loan_id, []).append(loan_day)
        newest = [max(days, key=lambda loan_day: loan_day.day.as_of) for days in loans.values()]
        customers = customers_of(self._journal, [loan_day.customer_id for loan_day in newest])
        found = [
            self._outcome(days, last, customer)
            for days, last, customer in zip(loans.values(), newest, customers, strict=True)
        ]
        stood = decisions_as_of(
            self._journal, [(outcome.customer_id, outcome.disbursed_at) for outcome in found]
        )
        tied = [
            outcome
            if decision is None
            else outcome.model_copy(
                update={"stood": decision, "batch": decision.batch, "run_id": decision.run_id}
            )
            for outcome, decision in zip(found, stood, strict=True)
        ]
        new, changed = self._store.merge(tied, LoanOutcome.joined, self._now)
        self._tied.update((outcome.key, outcome.stood is not None) for outcome in tied)
        self.counts.update(new=new, changed=changed)
        self.counts["decided"] = sum(self._tied.values())
        self.counts["never_decided"] = len(self._tied) - self.counts["decided"]

    def _outcome(self, days: list[GivenLoan], last: GivenLoan, customer: bytes) -> LoanOutcome:
        """Return what the days of one loan come to, as the newest of them has it."""
        earlier: tuple[Arrears, ...] = ()
        for loan_day in days:
            if loan_day is not last:
                earlier = with_arrears(earlier, loan_day.day)
        return LoanOutcome(
            key=loan_key(self._journal, last.loan_id),
            customer=customer,
            batch=OUTCOMES_BATCH,
            at=self._now,
            customer_id=last.customer_id,
            loan_id=last.loan_id,
            source=OutcomeSource.FILE,
            disbursed_at=last.disbursed_at,
            last=last.day,
            earlier=earlier,
            ever_restructured=any(loan_day.day.restructured for loan_day in days),
        )
