"""A customer who consented is erased by their BVN, and forgotten in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nightscreen.config.settings import Retention
from nightscreen.journal import Journal
from nightscreen.journal.identifier_history import Sightings
from nightscreen.operations.transactions.records import PullStore
from nightscreen.privacy.erasure import erase, look
from nightscreen.privacy.person import Whom
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


def erased(journal: Journal, **whom: str) -> dict[str, Any]:
    """Erase a person and return what went."""
    return erase(journal, look(journal, Whom(**whom)))


@pytest.mark.parametrize("moved_on", [False, True])
def test_a_bvn_reaches_what_its_customer_consented_to(lender: Lender, moved_on: bool) -> None:
    """Pulls name a customer by the id alone: the BVN says whose they are, the last one seen."""
    with lender.consents() as consents:
        journal = consents.journal
        for bvn, day in (("22212345678", 1), ("22287654321", 2))[: 1 + moved_on]:
            seen = [(journal.pseudonyms.subject("bvn", bvn), consents.customer(GONE), None)]
            Sightings(journal).keep("bvn", "borrowers", seen, at=day * DAY_MICROS)
        erased(journal, bvn="22212345678")
        assert bool(consents.history(GONE)) is moved_on
        assert {row["customer_id"] for row in lender.typed()} == {STAYS, *([GONE] * moved_on)}
        assert len(consents.history(STAYS)) == 1
        if not moved_on:
            assert PullStore(journal).pulls.of_customers([consents.customer(GONE)]) == []


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
