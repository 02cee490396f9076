"""Offers of loans: one row for each link of a customer and product, and what was seen of the loan.

A row is written before its call may be sent, under a key that only one process can write: that is
what keeps two runs from making two links. Who the customer is, reference and link are sealed. What
a call's end means is decided in `steps/loans/offering.py` and `steps/loans/tracking.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from nightscreen.schemas.offers import HeldOffer, LinkState, LoanNews, LoanSnapshot, Offer
from nightscreen.storage.journal.engine import reading, writing
from nightscreen.storage.journal.statements import insert_into
from nightscreen.storage.journal.tables import calls, metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row

    from nightscreen.storage.journal import Journal
    from nightscreen.storage.journal.erasure import ErasedPseudonyms
    from nightscreen.storage.sealing import Sealer

_Id = BigInteger().with_variant(Integer(), "sqlite")

loan_offers = Table(
    "loan_offers",
    metadata,
    Column("offer_id", LargeBinary, primary_key=True),  # of customer, product and number
    Column("customer", LargeBinary, nullable=False),  # the same in every batch name
    Column("batch", Text, nullable=False),
    Column("product_id", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("source_run_id", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("renewed", Boolean, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("offered_at", BigInteger),
    Column("loan", LargeBinary),  # of the reference
    Column("status", Text),  # the service's word
    Column("status_at", BigInteger),
    Column("followed_at", BigInteger),
    Column("closed_at", BigInteger),
    Column("sealed", LargeBinary, nullable=False),  # who it is, reference, link, what was seen
    Index("loan_offers_by_customer", "customer", "product_id", "number"),
    Index("loan_offers_by_state", "state", "closed_at"),
)

loan_history = Table(
    "loan_history",
    metadata,
    Column("history_id", _Id, primary_key=True, autoincrement=True),
    Column("offer_id", LargeBinary, nullable=False),
    Column("customer", LargeBinary, nullable=False),
    Column("run_id", Text, nullable=False),  # the run that tells it
    Column("seen_at", BigInteger, nullable=False),
    Column("status", Text),
    Column("before_at", BigInteger),
    Column("sealed", LargeBinary, nullable=False),  # what was seen, then and before
    Index("loan_history_by_offer", "offer_id", "history_id"),
    Index("loan_history_by_run", "run_id", "history_id"),
)

LOAN_TABLES = (loan_offers, loan_history)
_BLOCK = 500


@dataclass(frozen=True, slots=True)
class LoanOffers:
    """Writes and reads offers, and what was seen of their loans."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> LoanOffers:
        """Return the offers of an open journal."""
        return cls(journal.engine, journal.sealer)

    # --- making links ---

    def claim(self, offers: Iterable[Offer]) -> set[bytes]:
        """Write offers down before anything is sent for them.

        Returns:
            The ids of those that nobody else has written down: only these may be sent.
        """
        rows = [self._row(each) for each in offers]
        mine: set[bytes] = set()
        if not rows:
            return mine
        statement = (
            insert_into(self._engine.dialect.name, loan_offers)
            .on_conflict_do_nothing(index_elements=[loan_offers.c.offer_id])
            .returning(loan_offers.c.offer_id)
        )
        with writing(self._engine) as connection:
            for row in rows:
                mine.update(bytes(each) for each in connection.execute(statement, row).scalars())
        return mine

    def put(self, offers: Iterable[Offer]) -> None:
        """Write offers as they stand now."""
        rows = [self._row(each) for each in offers]
        if rows:
            with writing(self._engine) as connection:
                for row in rows:
                    same = loan_offers.c.offer_id == row.pop("offer_id")
                    connection.execute(update(loan_offers).where(same).values(row))

    def drop(self, offers: Iterable[Offer]) -> None:
        """Forget offers for which no link can have been made."""
        ids = [each.offer_id for each in offers]
        if ids:
            kept = loan_offers.c
            with writing(self._engine) as connection:
                connection.execute(
                    delete(loan_offers).where(
                        kept.offer_id.in_(ids), kept.state == LinkState.STARTING.value
                    )
                )

    def newest(self, customers: Sequence[bytes], product_id: str) -> dict[bytes, Offer]:
        """Return the newest offer of a product to each customer who has one."""
        found: dict[bytes, Offer] = {}
        for start in range(0, len(customers), _BLOCK):
            block = customers[start : start + _BLOCK]
            mine = loan_offers.c.customer.in_(block) & (loan_offers.c.product_id == product_id)
            found.update((each.customer, each) for each in self._read(mine))
        return found

    def starting(self) -> list[Offer]:
        """Return offers whose call is under way, or was when its process died."""
        return self._read(loan_offers.c.state == LinkState.STARTING.value)

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
        found = self._read(loan_offers.c.state == LinkState.OFFERED.value)
        return sorted(found, key=lambda each: (each.offered_at or 0, each.offer_id))

    def of_customers(self, customers: Collection[bytes]) -> list[Offer]:
        """Return every offer to some customers."""
        return self._read(loan_offers.c.customer.in_(sorted(customers)))

    def follow(self, views: Iterable[tuple[Offer, Offer, LoanNews | None]]) -> set[bytes]:
        """Write down what was seen of loans, and what is new of them.

        Args:
            views: each offer as it was read, as it is now, and what differs, if anything does.

        Returns:
            The ids of those written; others were followed by another process meanwhile, which
            tells what it saw.
        """
        written: set[bytes] = set()
        with writing(self._engine) as connection:
            for before, now, news in views:
                row = self._row(now)
                same = (loan_offers.c.offer_id == row.pop("offer_id")) & (
                    loan_offers.c.followed_at.is_not_distinct_from(before.followed_at)
                )
                if connection.execute(update(loan_offers).where(same).values(row)).rowcount != 1:
                    continue
                written.add(now.offer_id)
                if news is not None:
                    connection.execute(insert(loan_history), self._news_row(news))
        return written

    def news_of(self, run_id: str) -> list[LoanNews]:
        """Return what a run has to tell, in the order it was seen."""
        return self._news(loan_history.c.run_id == run_id)

    def history(self, offer_ids: Collection[bytes] | None = None) -> dict[bytes, list[LoanNews]]:
        """Return what was ever new of some loans, or of all, oldest first."""
        found: dict[bytes, list[LoanNews]] = {}
        if offer_ids is None:
            wanted = loan_history.c.history_id.is_not(None)
        else:
            wanted = loan_history.c.offer_id.in_(sorted(offer_ids))
        for each in self._news(wanted):
            found.setdefault(each.offer_id, []).append(each)
        return found

    def telling(self) -> list[str]:
        """Return the runs that have something to tell."""
        with reading(self._engine) as connection:
            return list(connection.execute(select(loan_history.c.run_id).distinct()).scalars())

    def hand_over(self, run_ids: Collection[str], run_id: str) -> int:
        """Let a run tell what others saw and did not live to tell; return how much that is."""
        if not run_ids:
            return 0
        with writing(self._engine) as connection:
            done = connection.execute(
                update(loan_history)
                .where(loan_history.c.run_id.in_(sorted(run_ids)))
                .values(run_id=run_id)
            )
        return int(done.rowcount)

    # --- rows ---

    def _read(self, condition: ColumnElement[bool]) -> list[Offer]:
        query = select(loan_offers).where(condition).order_by(loan_offers.c.number)
        with reading(self._engine) as connection:
            return [self._offer(row) for row in connection.execute(query)]

    def _news(self, condition: ColumnElement[bool]) -> list[LoanNews]:
        query = select(loan_history).where(condition).order_by(loan_history.c.history_id)
        with reading(self._engine) as connection:
            return [self._one_news(row) for row in connection.execute(query)]

    def _seal(self, value: Any, context: bytes) -> bytes:  # noqa: ANN401 - any JSON
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        return self._sealer.seal(text.encode(), context)

    def _row(self, offer: Offer) -> dict[str, Any]:
        plain = {name: getattr(offer, name) for name in _PLAIN}
        sealed = self._seal(asdict(offer.held), offer_context(offer.customer))
        return {**plain, "state": offer.state.value, "sealed": sealed}

    def _offer(self, row: Row[Any]) -> Offer:
        customer = bytes(row.customer)
        held = json.loads(self._sealer.open(bytes(row.sealed), offer_context(customer)))
        seen = held.pop("seen")
        values = {name: getattr(row, name) for name in _PLAIN}
        values |= {
            "offer_id": bytes(row.offer_id),
            "customer": customer,
            "loan": None if row.loan is None else bytes(row.loan),
            "state": LinkState(row.state),
        }
        return Offer(
            **values, held=HeldOffer(**held, seen=None if seen is None else LoanSnapshot(**seen))
        )

    def _news_row(self, news: LoanNews) -> dict[str, Any]:
        before = None if news.before is None else asdict(news.before)
        return {
            "offer_id": news.offer_id,
            "customer": news.customer,
            "run_id": news.run_id,
            "seen_at": news.seen_at,
            "status": news.now.status,
            "before_at": news.before_at,
            "sealed": self._seal([asdict(news.now), before], news_context(news.customer)),
        }

    def _one_news(self, row: Row[Any]) -> LoanNews:
        customer = bytes(row.customer)
        now, before = json.loads(self._sealer.open(bytes(row.sealed), news_context(customer)))
        return LoanNews(
            offer_id=bytes(row.offer_id),
            customer=customer,
            run_id=row.run_id,
            seen_at=row.seen_at,
            now=LoanSnapshot(**now),
            before=None if before is None else LoanSnapshot(**before),
            before_at=row.before_at,
        )


_PLAIN = (
    "offer_id",
    "customer",
    "batch",
    "product_id",
    "number",
    "run_id",
    "source_run_id",
    "decision",
    "state",
    "renewed",
    "started_at",
    "offered_at",
    "loan",
    "status",
    "status_at",
    "followed_at",
    "closed_at",
)


def offer_context(customer: bytes) -> bytes:
    """Return what a sealed offer is bound to."""
    return b"loan offer\x1f" + customer


def news_context(customer: bytes) -> bytes:
    """Return what sealed news of a loan are bound to."""
    return b"loan news\x1f" + customer


def make_loan_tables(connection: Connection) -> None:
    """Add the tables to a journal that was made before there were any."""
    metadata.create_all(connection, tables=list(LOAN_TABLES), checkfirst=True)


def loans_of_person(person: ErasedPseudonyms) -> tuple[tuple[Table, ColumnElement[bool]], ...]:
    """Return which rows are a person's, by the batch names that are meant."""
    kept = loan_offers.c
    mine = or_(
        kept.offer_id.in_(person.subjects),
        *(
            (kept.customer == customer) & kept.batch.in_(batches)
            for customer, batches in person.anywhere.items()
        ),
    )
    theirs = select(kept.offer_id).where(mine)
    return (loan_history, loan_history.c.offer_id.in_(theirs)), (loan_offers, mine)


def loans_before(decided: int) -> tuple[tuple[Table, ColumnElement[bool]], ...]:
    """Return which rows are older than an instant; a loan that is still followed is kept."""
    kept = loan_offers.c
    last = func.coalesce(kept.closed_at, kept.followed_at, kept.offered_at, kept.started_at)
    old = last < decided
    theirs = select(kept.offer_id).where(old)
    return (loan_history, loan_history.c.offer_id.in_(theirs)), (loan_offers, old)
