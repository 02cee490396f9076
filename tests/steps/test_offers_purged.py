"""Lists of offers and loans that have ended are purged when they are old."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.config.settings import Retention
from nightscreen.journal import open_journal
from nightscreen.journal.loan_offers import linked_offers
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.purging import due, purge
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.steps.offers_in_a_test import Lender, borrower

if TYPE_CHECKING:
    from pathlib import Path


def test_old_lists_and_ended_loans_are_purged(tmp_path: Path) -> None:
    """Lists go with enriched rows; ended loans with decisions; an open one stays while followed."""
    lender = Lender(tmp_path)
    night = lender.screen([borrower(number) for number in (1, 2, 4, 5)], batch="borrowers")
    offered = lender.offer(night)
    lender.on_day(6)
    followed = lender.track()
    later = system_clock() + 365 * 8 * DAY_MICROS
    late = Lender(lender.folder, sandbox=lender.sandbox, clock=lambda: later)
    open_before = [row for row in followed.loans.values() if row["status"] == "RUNNING"]
    assert open_before
    late.track()
    with open_journal(lender.folder / "home", clock=late.clock) as journal:
        purge(journal, due(journal, Retention()))
        left = linked_offers(journal)
        assert {each.status for each in left} <= {"RUNNING", "PENDING"}
        assert len(left) >= len(open_before)
        assert verify_journal(journal) == []
    assert not (offered.folder / "offers.parquet").exists()
    assert not (offered.folder / "offers.csv").exists()
    assert not (followed.folder / "loans.parquet").exists()
