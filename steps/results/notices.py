"""Notices: what customers are told of decisions against them, and who must not be told now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.schemas.contests import Contest, ContestState
from nightscreen.storage.journal.records import Records

if TYPE_CHECKING:
    from nightscreen.storage.journal import Journal


def contested(journal: Journal, batch: str) -> frozenset[bytes]:
    """Return the pseudonyms, in a batch, of customers who contest anything in any batch."""
    waiting = Records.of(journal, Contest).all(state=ContestState.OPEN)
    return frozenset(journal.pseudonyms.customer(batch, each.customer_id) for each in waiting)
