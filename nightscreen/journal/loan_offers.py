"""Offers that became loans, and what was seen of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.journal.records import Records
from nightscreen.schemas.offers import LinkState, LoanNews, Offer

if TYPE_CHECKING:
    from collections.abc import Collection

    from nightscreen.journal.storage import Storage


def linked_offers(journal: Storage) -> list[Offer]:
    """Return every offer that has a reference, in the order they were made."""
    found = Records(journal, Offer).all(state=LinkState.OFFERED.value)
    return sorted(found, key=lambda each: (each.offered_at or 0, each.subject))


def loan_history(
    journal: Storage, offers: Collection[bytes] | None = None
) -> dict[bytes, list[LoanNews]]:
    """Return what was ever new of some loans, or of all, by their offers; oldest first."""
    kept = Records(journal, LoanNews)
    found: dict[bytes, list[LoanNews]] = {}
    for each in kept.all() if offers is None else kept.of_subjects(offers):
        found.setdefault(each.subject, []).append(each)
    return found
