"""A lender's year for tests: monthly nights of applicants, their loans, and the book of them.

All of it is made up by a seeded generator. Who has past due loans elsewhere pays worse, which the
policy of the year does not look at: a policy that does would have been better.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from nightscreen.operations.loans.loan_book import import_outcomes
from nightscreen.results.outcomes import known_outcomes, outcomes_report
from nightscreen.schemas.clock import LAGOS, instant_text, to_instant
from nightscreen.schemas.outcomes import BadLoan
from tests.begun import begin_run
from tests.results.enriched_in_a_test import enriched_row
from tests.results.nights_in_a_test import BATCH, DAY, Nights

POLICY = "plain@111111111111"
HEADINGS = {
    "loan_id": "Loan Account No",
    "customer_id": "Customer ID",
    "disbursed_at": "Disbursement Date",
    "principal": "Loan Amount",
    "maturity_date": "Maturity Date",
    "paid": "Total Paid",
    "outstanding": "Outstanding Balance",
    "days_past_due": "DPD",
    "status": "Loan Status",
    "as_of": "Report Date",
}
"""The columns of a book and what a usual loan system calls them."""


@dataclass
class Book:
    """A journal with nights, and the loan books that are taken into it."""

    folder: Path
    nights: Nights = field(init=False)
    books: int = 0

    def __post_init__(self) -> None:
        self.nights = Nights(self.folder)

    @property
    def today(self) -> date:
        """The day of the journal's clock, in Lagos."""
        return to_instant(self.nights.now).astimezone(LAGOS).date()

    def night(
        self,
        run_id: str,
        rows: Sequence[Mapping[str, Any]],
        policy: str = POLICY,
        **report: object,
    ) -> Path:
        """Decide about customers as a run does: rows, states, report; a day goes by."""
        nights = self.nights
        folder = nights.folder(run_id)
        begin_run(
            nights.journal,
            run_id,
            batch=BATCH,
            purpose="origination",
            input_digest=run_id,
            folder=str(folder.path),
        )
        at = instant_text(nights.now)
        nights.night(run_id, *rows)
        found: dict[str, Any] = {
            "run_id": run_id,
            "batch": BATCH,
            "purpose": "origination",
            "finished_at": at,
        }
        found |= {"provenance": {"policy": policy}, **report}
        folder.write_text("report.json", json.dumps(found))
        nights.journal.runs.finish(run_id, state="completed", stop_reason=None, report=found)
        return folder.path

    def write(self, rows: Iterable[Mapping[str, Any]], headings: Mapping[str, str]) -> Path:
        self.books += 1
        path = self.folder / f"book-{self.books}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(headings.values())
            lines.writerows([row.get(name, "") for name in headings] for row in rows)
        return path

    def take(
        self, rows: Iterable[Mapping[str, Any]], headings: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Import a loan book and return the report of it."""
        path = self.write(rows, headings or HEADINGS)
        return import_outcomes(self.nights.journal, path, output=self.folder / "out")

    def report(self, bad: BadLoan | None = None) -> dict[str, Any]:
        found = outcomes_report(known_outcomes(self.nights.journal), bad or BadLoan())
        assert found is not None
        return found


def loan(customer: str, disbursed: date, **cells: object) -> dict[str, Any]:
    """Return a row of a book: a loan of N100,000 over thirty days, open, on its first day."""
    return {
        "loan_id": f"LN-{customer}",
        "customer_id": customer,
        "disbursed_at": disbursed,
        "principal": "100,000.00",
        "maturity_date": disbursed + timedelta(days=30),
        "paid": "0",
        "outstanding": "110,000.00",
        "days_past_due": "0",
        "status": "Active",
        "as_of": disbursed,
        **cells,
    }


def year(book: Book, *, months: int = 12, applicants: int = 80, seed: int = 7) -> list[Path]:
    """Live through a year: nights of applicants, loans of those approved, their books taken in."""
    chance = random.Random(seed)
    folders, loans = [], []
    for month in range(months):
        rows = []
        for number in range(applicants):
            owes = chance.random() < 0.3
            decision = "approve" if chance.random() < 0.9 else "decline"
            rows.append(
                enriched_row(
                    f"M{month:02d}-{number:03d}",
                    ecosystem_status="found",
                    ecosystem_past_due_loans=int(owes),
                    decision=decision,
                    reasons=["PAST_DUE"] if owes else [],
                    policy=POLICY,
                )
            )
        folders.append(book.night(f"2026{month:04d}-220000-a1b2c3", rows))
        loans += [_life(chance, row, book.today) for row in rows if row["decision"] == "approve"]
        book.nights.now += 30 * DAY
    book.nights.now += 120 * DAY
    book.take(day for life in loans for day in life)
    return folders


def _life(chance: random.Random, row: Mapping[str, Any], start: date) -> list[dict[str, Any]]:
    """Return a loan's days in the book: paid at maturity, or days past due that grow."""
    due = start + timedelta(days=30)
    fails = chance.random() < (0.5 if row["ecosystem_past_due_loans"] else 0.06)
    customer = row["customer_id"]
    if not fails:
        paid = {"status": "Fully Paid", "paid": "110000", "outstanding": "0", "as_of": due}
        return [loan(customer, start), loan(customer, start, **paid)]
    late = [
        loan(
            customer,
            start,
            status="Overdue",
            days_past_due=days,
            as_of=due + timedelta(days=days),
        )
        for days in (5, 35, 90)
    ]
    return [loan(customer, start), *late]
