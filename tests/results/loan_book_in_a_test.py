"""A lender's year for tests: monthly nights of applicants, their loans, and the book of them.

All of it is made up. Who has past due loans elsewhere pays worse, which the policy of the year does
not look at: a policy that does would have been better.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from nightscreen.operations.loan_book import import_outcomes
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


def year(book: Book, *, months: int = 12, applicants: int = 80) -> list[Path]:
    """Live through a year: nights of applicants, loans of those approved, their books taken in.

    Every third applicant has loans past due elsewhere; of these half do not pay, of others few.
    """
    folders, days = [], []
    for month in range(months):
        rows = [
            enriched_row(
                f"M{month:02d}-{number:03d}",
                ecosystem_status="found",
                ecosystem_past_due_loans=int(number % 3 == 0),
                decision="decline" if number % 10 == 9 else "approve",
                reasons=["PAST_DUE"] if number % 3 == 0 else [],
                policy=POLICY,
            )
            for number in range(applicants)
        ]
        folders.append(book.night(f"2026{month:04d}-220000-a1b2c3", rows))
        start, due = book.today, book.today + timedelta(days=30)
        for number, row in enumerate(rows):
            if row["decision"] == "approve":
                new = loan(row["customer_id"], start)
                days.append(new)
                if number % 2 == 0 if row["ecosystem_past_due_loans"] else number % 16 == 1:
                    late = {"status": "Overdue", "days_past_due": 35}
                    days.append({**new, **late, "as_of": due + timedelta(days=35)})
                else:
                    paid = {"status": "Fully Paid", "paid": "110000", "outstanding": "0"}
                    days.append({**new, **paid, "as_of": due})
        book.nights.now += 30 * DAY
    book.nights.now += 120 * DAY
    book.take(days)
    return folders
