"""Sightings on both databases: found whichever way they are read, kept once, upgraded, verified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import func, select

from nightscreen.journal.engine import reading
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.identifier_history import (
    Sightings,
)
from nightscreen.journal.schema import ErasedPseudonyms, sightings
from nightscreen.journal.verify import verify_journal
from tests.storage.conftest import subject

if TYPE_CHECKING:
    from nightscreen.journal import Journal


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
