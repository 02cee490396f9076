"""A customer who consented is erased by their BVN, and forgotten in time."""

from __future__ import annotations

from pathlib import Path

import pytest

from nightscreen.config.settings import Retention
from nightscreen.journal.identifier_history import Sightings
from nightscreen.operations.transactions.records import PullStore
from nightscreen.privacy.erasure import erase, find_person_data
from nightscreen.privacy.person import ErasureTarget
from nightscreen.privacy.purging import due, purge
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from tests.operations.pulls_in_a_test import Lender

GONE, STAYS = "GONE-77812", "STAYS-1"


@pytest.fixture
def lender(tmp_path: Path) -> Lender:
    """A lender who pulled two customers on two days."""
    found = Lender(tmp_path)
    found.consent([GONE, STAYS])
    found.pull()
    found.sandbox.day = 3
    found.pull()
    return found


def test_a_bvn_reaches_what_the_last_customer_seen_with_it_consented_to(lender: Lender) -> None:
    """Pulls name a customer by the id alone; who has another BVN by now is somebody else."""
    with lender.consents() as consents:
        journal, gone = consents.journal, consents.customer(GONE)
        for bvn, day in (("22212345678", 1), ("22287654321", 2)):
            seen = [(journal.pseudonyms.subject("bvn", bvn), gone, None)]
            Sightings(journal).keep("bvn", "borrowers", seen, at=day * DAY_MICROS)
        for bvn, left in (("22212345678", True), ("22287654321", False)):
            erase(journal, find_person_data(journal, ErasureTarget(bvn=bvn)))
            assert bool(consents.history(GONE)) is left
            assert {row["customer_id"] for row in lender.typed()} == {STAYS, *([GONE] * left)}
        assert PullStore(journal).pulls.of_customers([gone]) == []
        assert len(consents.history(STAYS)) == 1


def test_purge_keeps_what_a_live_consent_rests_on(lender: Lender) -> None:
    """Replaced versions and typed files go by age; live records, and live grants, stay."""
    live = sum(each.ended_at is None for block in lender.kept(STAYS) for each in block)
    ended = sum(each.ended_at is not None for block in lender.kept(STAYS) for each in block)
    assert ended
    lender.clock = lambda: system_clock() + 3000 * DAY_MICROS
    with lender.consents() as consents:
        consents.revoke(GONE, "customer asked")
        purge(consents.journal, due(consents.journal, Retention()))
    assert sum(len(block) for block in lender.kept(STAYS)) == live
    assert lender.typed() == []
    lender.clock = lambda: system_clock() + 6000 * DAY_MICROS
    with lender.consents() as consents:
        purge(consents.journal, due(consents.journal, Retention()))
        assert consents.history(GONE) == []
        assert len(consents.history(STAYS)) == 1
    assert lender.kept(GONE) == []
