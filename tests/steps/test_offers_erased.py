"""Offers and loans of one person: shown on request, erased everywhere, purged when they are old."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nightscreen.config.settings import Retention
from nightscreen.journal import open_journal
from nightscreen.journal.customers import Customers
from nightscreen.journal.loan_offers import linked_offers
from nightscreen.journal.records import Records
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.erasure import erase, look
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.privacy.person import Whom
from nightscreen.privacy.purging import due, purge
from nightscreen.privacy.subject_access import access_page, gather
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.offers import Offer
from tests.steps.offers_in_a_test import Lender, Offered, borrower

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    """A lender with four customers, one of them twice under the same id in two batch names."""
    return Lender(tmp_path)


def follow(lender: Lender) -> tuple[Offered, Offered]:
    """Screen, offer and follow."""
    night = lender.screen([borrower(number) for number in (1, 2, 4, 5)], batch="borrowers")
    offered = lender.offer(night)
    lender.on_day(6)
    return offered, lender.track()


@pytest.mark.parametrize("whom", [{"customer_id": "C1"}, {"bvn": "22000000001"}])
def test_erased_person_is_nowhere(lender: Lender, whom: dict[str, str]) -> None:
    """Not in journal, lists or what was told; all others stay as they were."""
    offered, followed = follow(lender)
    gone = offered.offers["C1"]
    others = {c: row for c, row in offered.offers.items() if c != "C1"}
    home = lender.folder / "home"
    with open_journal(home) as journal:
        (kept,) = Records.of(journal, Offer).of_customers(
            [journal.pseudonyms.customers_anywhere(["C1"])]
        )
        traces = [kept.subject, kept.customer, kept.loan or b""]
        done = erase(journal, look(journal, Customers.of(journal), Whom(**whom)))
        assert done["rows"] >= 4
        assert verify_journal(journal) == []
        assert len(linked_offers(journal)) == len(others)
    assert offered.offers == others
    assert gone["reference"] not in followed.loans
    told = {each["reference"] for each in followed.changes}
    assert told == {row["reference"] for row in others.values()}
    needles = [gone[name].encode() for name in ("email", "phone", "url", "reference")]
    needles += [each for trace in traces for each in (trace, trace.hex().encode())]
    for path in lender.folder.rglob("*"):
        if path.is_file() and path.name != "customers.csv":
            content = path.read_bytes()
            assert not [each for each in needles if each in content], path


def test_subject_access_shows_offers(lender: Lender) -> None:
    """What the service was told, the link, and each word the loan has had."""
    offered, _ = follow(lender)
    with open_journal(lender.folder / "home") as journal:
        customers = Customers.of(journal)
        people = lookup_subject(journal, customers, "C1")
        found = gather(journal, customers, people, Retention())
        (shown,) = found["loan_offers"]
        assert shown["url"] == offered.offers["C1"]["url"]
        assert shown["email"] == "c1@mail.example.com"
        assert shown["history"]
        assert shown["url"] in access_page(found)


def test_old_lists_and_ended_loans_are_purged(lender: Lender) -> None:
    """Lists go with enriched rows; ended loans with decisions; an open one stays while followed."""
    offered, followed = follow(lender)
    years = [system_clock() + 365 * 8 * DAY_MICROS]
    late = Lender(lender.folder, sandbox=lender.sandbox, clock=lambda: years[0])
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
