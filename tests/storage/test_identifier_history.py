"""Sightings on both databases: found whichever way they are read, kept once, upgraded, verified."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select

from nightscreen.config.settings import Cutoffs
from nightscreen.files.keys import encode_key
from nightscreen.journal.copying import back_up
from nightscreen.journal.engine import reading
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.identifier_history import (
    BLOCK,
    REWRITTEN_AFTER,
    Seen,
    Sightings,
)
from nightscreen.journal.opening import open_journal
from nightscreen.journal.schema import ErasedPseudonyms, sightings
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.clock import DAY_MICROS
from tests.storage.conftest import subject

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.journal import Journal

NOBODY = subject(999_999)


def seen(
    *pairs: tuple[int, int], bvn: int | None = None
) -> list[tuple[bytes, bytes, bytes | None]]:
    """Return sightings of identifiers of customers, by number."""
    under = None if bvn is None else subject(bvn)
    return [(subject(each), subject(customer), under) for each, customer in sorted(pairs)]


def customers(
    journal: Journal, *identifiers: int, before: int | None = None
) -> set[tuple[int, int]]:
    """Return who is known to have some identifiers."""
    wanted = [subject(each) for each in sorted(identifiers)]
    seen_with = Sightings.of(journal).seen_with("phone", wanted, "book", before=before)
    found = {(each.identifier, each.customer) for each in seen_with if each.identifier in wanted}
    return {(int.from_bytes(each), int.from_bytes(customer)) for each, customer in found}


def accounts(journal: Journal, number: int) -> list[tuple[bytes, bytes, str, bytes | None]]:
    """Return account, customer, batch and BVN of what was seen of an account."""
    kept = sightings.c
    query = select(kept.identifier, kept.customer, kept.batch, kept.bvn).where(
        kept.kind == "nuban", kept.identifier == subject(number)
    )
    with reading(journal.engine) as connection:
        return [tuple(row) for row in connection.execute(query)]


def rows(journal: Journal) -> list[tuple[int, int]]:
    """Return when each sighting was first and last seen."""
    query = select(sightings.c.first_at, sightings.c.last_at).order_by(sightings.c.identifier)
    with reading(journal.engine) as connection:
        return [(row[0], row[1]) for row in connection.execute(query)]


@pytest.mark.parametrize("strangers", [0, 50])
def test_they_are_found_by_ranges_and_one_by_one(journal: Journal, strangers: int) -> None:
    """Among few others a range is read, among many each is looked for: the same is found."""
    kept = Sightings.of(journal)
    others = [(number, 7) for number in range(2, 2 + strangers)]
    kept.keep("phone", "book", seen((1, 1), (1, 2), (100, 3), *others), at=10)
    kept.keep("email", "book", seen((1, 9)), at=10)
    assert customers(journal, 1, 100) == {(1, 1), (1, 2), (100, 3)}
    assert customers(journal, 1, 100, before=10) == set()
    assert customers(journal, 1, 100, before=11) == {(1, 1), (1, 2), (100, 3)}
    assert customers(journal, 77_777) == set()


def test_many_are_read_in_blocks(journal: Journal) -> None:
    """More than one block of identifiers, random as pseudonyms are."""
    wanted = sorted(secrets.token_bytes(16) for _ in range(2 * BLOCK + 1))
    kept = Sightings.of(journal)
    kept.keep("phone", "book", ((each, NOBODY, None) for each in wanted), at=10)
    found: set[bytes] = set()
    for start in range(0, len(wanted), BLOCK):
        told = kept.seen_with("phone", wanted[start : start + BLOCK], "book")
        found.update(each.identifier for each in told)
    assert found == set(wanted)


def test_the_same_twice_is_once_and_written_again_after_a_week(journal: Journal) -> None:
    """When it was first seen stays; a corrected BVN is written at once."""
    kept = Sightings.of(journal)
    for at in (10, 20):
        kept.keep("nuban", "book", seen((1, 1), bvn=5), at=at)
    assert rows(journal) == [(10, 10)]
    kept.keep("nuban", "book", seen((1, 1), bvn=6), at=30)
    assert rows(journal) == [(10, 30)]
    kept.keep("nuban", "book", seen((1, 1), bvn=6), at=30 + REWRITTEN_AFTER)
    assert rows(journal) == [(10, 30 + REWRITTEN_AFTER)]
    assert accounts(journal, 1) == [(subject(1), subject(1), "book", subject(6))]


def test_a_person_is_erased_as_customer_and_as_identifier(journal: Journal) -> None:
    """Only in the batch names that are meant; a BVN goes from other people's accounts too."""
    kept = Sightings.of(journal)
    kept.keep("phone", "book", seen((1, 1), (2, 2), (3, 2), (3, 3)), at=10)
    kept.keep("phone", "other", seen((4, 1)), at=10)
    kept.keep("nuban", "book", seen((8, 3), bvn=3), at=10)
    person = ErasedPseudonyms([subject(3)], [], {subject(1): {"book"}})
    erasures = Erasures(journal)
    assert erasures.held_of(person).sightings == 3
    erasures.erase(person)
    assert erasures.audit()[0].sightings == 3
    assert customers(journal, 1, 2, 3, 4) == {(2, 2), (4, 1)}
    assert accounts(journal, 8) == [(subject(8), subject(3), "book", None)]
    assert verify_journal(journal) == []


def test_old_ones_are_purged_by_the_clock_of_decisions(journal: Journal) -> None:
    """What was last written before the limit goes, what was written since stays."""
    kept = Sightings.of(journal)
    now = journal.clock()
    kept.keep("phone", "book", seen((1, 1)), at=now - 3 * DAY_MICROS)
    kept.keep("phone", "book", seen((2, 1)), at=now - DAY_MICROS)
    limit = now - 2 * DAY_MICROS
    cutoffs = Cutoffs.all_at(limit)._replace(journal_answers=0)
    assert Erasures(journal).held_before(cutoffs).sightings == 1
    Erasures(journal).purge(cutoffs)
    assert customers(journal, 1, 2) == {(2, 1)}


def test_a_copy_holds_them(journal: Journal, tmp_path: Path) -> None:
    """A backup is a journal of its own that knows the same, from either database."""
    Sightings.of(journal).keep("nuban", "book", seen((1, 1), bvn=5), at=10)
    back_up(journal, tmp_path / "copy")
    key = encode_key(journal.lender_key).decode()
    with open_journal(tmp_path / "copy", data_key=key) as copy:
        assert accounts(copy, 1) == [(subject(1), subject(1), "book", subject(5))]
        assert verify_journal(copy) == []


def test_they_hold_no_identifier(journal: Journal) -> None:
    """Everything but kind and batch name is a pseudonym or an instant."""
    name = journal.pseudonyms.customers_anywhere(["CUST-1"])
    phone = journal.pseudonyms.subjects("phone", ["+2348031234567"])
    assert phone == journal.pseudonyms.subject("phone", "+2348031234567")
    assert name != journal.pseudonyms.customer("", "CUST-1")
    Sightings.of(journal).keep("phone", "book", [(phone, name, None)], at=10)
    with reading(journal.engine) as connection:
        (row,) = connection.execute(select(sightings)).all()
        assert connection.execute(select(func.count()).select_from(sightings)).scalar() == 1
    assert b"8031234567" not in repr(tuple(row)).encode()
    assert b"CUST-1" not in repr(tuple(row)).encode()


@pytest.mark.parametrize("strangers", [0, 50])
def test_one_reading_tells_whose_when_and_under_which_bvn(journal: Journal, strangers: int) -> None:
    """Of another batch name, of this one a week ago, and of this one lately, whichever way read."""
    kept, day = Sightings.of(journal), DAY_MICROS
    kept.keep("nuban", "o'ther", seen((1, 1), bvn=5), at=9 * day)
    kept.keep("nuban", "book", seen((1, 2)), at=day)
    kept.keep("nuban", "book", seen((9, 3), bvn=6), at=9 * day)
    kept.keep("nuban", "book", seen(*((2, 100 + number) for number in range(strangers))), at=day)
    wanted = [subject(1), subject(9)]
    told = kept.seen_with("nuban", wanted, "book", at=10 * day)
    never = kept.seen_with("nuban", wanted, "book")
    lately = Seen(subject(9), subject(3), elsewhere=False, bvn=subject(6), lately=True)
    of_another = Seen(subject(1), subject(1), elsewhere=True, bvn=subject(5), lately=False)
    before = Seen(subject(1), subject(2), elsewhere=False, bvn=None, lately=False)
    assert {each for each in told if each.identifier in wanted} == {lately, of_another, before}
    assert lately._replace(lately=False) in never
