"""Offers of loans, one for each link of a customer and product, and what was seen of the loans.

An offer is written before its call may be sent, under a key that only one process can write: that
is what keeps two runs from making two links. What a call's end means is decided in
`operations/loans/offering.py` and `operations/loans/tracking.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.records import Records
from nightscreen.journal.schema import calls, records
from nightscreen.schemas.offers import LinkState, LoanNews, Offer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Engine

    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.clock import Clock


@dataclass(frozen=True, slots=True)
class LoanOffers:
    """Writes and reads offers, and what was seen of their loans."""

    _engine: Engine = field(repr=False)
    _offers: Records[Offer] = field(repr=False)
    _news: Records[LoanNews] = field(repr=False)
    _clock: Clock = field(repr=False)

    @classmethod
    def of(cls, journal: Storage) -> LoanOffers:
        """Return the offers of an open journal."""
        offers, news = Records.of(journal, Offer), Records.of(journal, LoanNews)
        return cls(journal.engine, offers, news, journal.clock)

    # --- making links ---

    def claim(self, offers: Iterable[Offer]) -> set[bytes]:
        """Write offers down before anything is sent for them.

        Returns:
            The ids of those that nobody else has written down: only these may be sent.
        """
        return {bytes.fromhex(key) for key in self._offers.claim(list(offers))}

    def put(self, offers: Iterable[Offer]) -> None:
        """Write offers as they stand now."""
        self._offers.put(offers, self._clock())

    def drop(self, offers: Iterable[Offer]) -> None:
        """Forget offers for which no link can have been made."""
        self._offers.drop([each.key for each in offers], state=LinkState.STARTING.value)

    def newest(self, customers: Sequence[bytes], product_id: str) -> dict[bytes, Offer]:
        """Return the newest offer of a product to each customer who has one."""
        found = [each for each in self.of_customers(customers) if each.product_id == product_id]
        return {each.customer: each for each in sorted(found, key=lambda each: each.number)}

    def starting(self) -> list[Offer]:
        """Return offers whose call is under way, or was when its process died."""
        return self._offers.all(state=LinkState.STARTING.value)

    def call_state(self, offer: Offer, check: str) -> str | None:
        """Return how an offer's last call ended; None where none was begun."""
        query = (
            select(calls.c.state)
            .where(
                calls.c.run_id == offer.run_id,
                calls.c.check == check,
                calls.c.subject == offer.offer_id,
            )
            .order_by(calls.c.call_id.desc())
            .limit(1)
        )
        with reading(self._engine) as connection:
            found: str | None = connection.execute(query).scalar()
        return found

    # --- following loans ---

    def linked(self) -> list[Offer]:
        """Return every offer that has a reference, in the order they were made."""
        found = self._offers.all(state=LinkState.OFFERED.value)
        return sorted(found, key=lambda each: (each.offered_at or 0, each.offer_id))

    def of_customers(self, customers: Collection[bytes]) -> list[Offer]:
        """Return every offer to some customers."""
        return self._offers.of_customers(customers)

    def follow(self, views: Iterable[tuple[Offer, Offer, LoanNews | None]]) -> set[bytes]:
        """Write down what was seen of loans, and what is new of them.

        Args:
            views: each offer as it was read, as it is now, and what differs, if anything does.

        Returns:
            The ids of those written; others were changed by another process meanwhile, which
            reports what it saw.
        """
        written: set[bytes] = set()
        now = self._clock()
        with writing(self._engine) as connection:
            for before, after, news in views:
                if self._offers.swap(connection, after, before, now):
                    written.add(after.offer_id)
                    self._news.insert(connection, [] if news is None else [news])
        return written

    def news_of(self, run_id: str) -> list[LoanNews]:
        """Return what a run has to report, in the order it was seen."""
        return self._news.of_run(run_id)

    def history(self, offer_ids: Collection[bytes] | None = None) -> dict[bytes, list[LoanNews]]:
        """Return what was ever new of some loans, or of all, oldest first."""
        news = self._news.all() if offer_ids is None else self._news.of_subjects(offer_ids)
        found: dict[bytes, list[LoanNews]] = {}
        for each in news:
            found.setdefault(each.offer_id, []).append(each)
        return found

    def telling(self) -> list[str]:
        """Return the runs that have something to report."""
        return self._news.run_ids()

    def hand_over(self, run_ids: Collection[str], run_id: str) -> int:
        """Let a run report what others saw and did not live to report; return how much that is."""
        now = self._clock()
        with writing(self._engine) as connection:  # of two that take over, one has each of them
            left = self._news.read(connection, records.c.run_id.in_(run_ids))
            for each in left:
                self._news.update(connection, each.model_copy(update={"run_id": run_id}), now)
        return len(left)
