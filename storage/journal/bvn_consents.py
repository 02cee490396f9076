"""Requests for BVN consent: one row for each time a customer was asked, the newest counts.

Who the customer is, is sealed; a one-time password is never among it, in no form. How a state
follows from an answer is decided in `steps/bvn/consent.py`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from nightscreen.schemas.bvn import OPEN_STATES, BvnRequest, BvnState, Doubt, HeldCustomer
from nightscreen.storage.journal.engine import reading, writing
from nightscreen.storage.journal.tables import calls, metadata

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row

    from nightscreen.storage.journal import Journal
    from nightscreen.storage.sealing import Sealer

bvn_requests = Table(
    "bvn_requests",
    metadata,
    Column("request_id", LargeBinary, primary_key=True),
    Column("customer", LargeBinary, nullable=False),  # the same in every batch name
    Column("subject", LargeBinary, nullable=False),  # the BVN
    Column("batch", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("consent_reference", Text),
    Column("consent_ends_at", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    Column("requested_at", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),  # who it is, and the masked contact
    Column("doubt", Text),  # start, finish
    Column("trouble", Text),
    Column("attempts", Integer, nullable=False),
    Column("settled_at", BigInteger),
    Column("finish_run_id", Text),
    Column("finishing", Text),  # the run that sends a password on at this moment
    Column("cost_micro", BigInteger, nullable=False),
    Index("bvn_requests_by_customer", "customer", "requested_at"),
    Index("bvn_requests_by_subject", "subject"),
    Index("bvn_requests_by_batch", "batch", "requested_at"),
)

_BLOCK = 500
_OPEN_WORDS = tuple(state.value for state in OPEN_STATES)


@dataclass(frozen=True, slots=True)
class LastCall:
    """How a request's last call ended, as the journal of calls has it."""

    state: str
    trouble: str | None
    cost_micro: int | None
    settled_at: int | None


@dataclass(frozen=True, slots=True)
class BvnConsents:
    """Writes and reads requests."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> BvnConsents:
        """Return the requests of an open journal."""
        return cls(journal.engine, journal.sealer)

    def add(self, requests: Iterable[BvnRequest]) -> None:
        """Write new requests down, before anything is sent for them."""
        rows = [self._row(each) for each in requests]
        for start in range(0, len(rows), _BLOCK):
            with writing(self._engine) as connection:
                connection.execute(insert(bvn_requests), rows[start : start + _BLOCK])

    def put(self, request: BvnRequest) -> None:
        """Write a request as it stands now."""
        row = self._row(request)
        with writing(self._engine) as connection:
            connection.execute(
                update(bvn_requests)
                .where(bvn_requests.c.request_id == row.pop("request_id"))
                .values(row)
            )

    def drop(self, request: BvnRequest) -> None:
        """Forget a request for which nothing was sent."""
        with writing(self._engine) as connection:
            connection.execute(
                delete(bvn_requests).where(bvn_requests.c.request_id == request.request_id)
            )

    def claim(self, request: BvnRequest, run_id: str) -> bool:
        """Take a request for a run's second call; False where another has it or it has changed."""
        kept = bvn_requests.c
        with writing(self._engine) as connection:
            done = connection.execute(
                update(bvn_requests)
                .where(
                    kept.request_id == request.request_id,
                    kept.finishing.is_(None),
                    kept.state == request.state.value,
                    kept.attempts == request.attempts,
                )
                .values(finishing=run_id)
            )
        return bool(done.rowcount)

    def find(self, request_id: bytes) -> BvnRequest | None:
        """Return a request by its id."""
        found = self._read(bvn_requests.c.request_id == request_id)
        return found[0] if found else None

    def current(self, customers: Sequence[bytes]) -> dict[bytes, BvnRequest]:
        """Return the newest request of each customer that has one."""
        found: dict[bytes, BvnRequest] = {}
        for start in range(0, len(customers), _BLOCK):
            block = customers[start : start + _BLOCK]
            rows = self._read(bvn_requests.c.customer.in_(block))
            found.update((each.customer, each) for each in rows)
        return found

    def of_batches(self, batches: Collection[str]) -> list[BvnRequest]:
        """Return the newest request of each customer in some batch names, in order of asking."""
        rows = self._read(bvn_requests.c.batch.in_(sorted(batches)))
        newest = {each.customer: each for each in rows}
        return [each for each in rows if newest[each.customer] is each]

    def of_customers(self, customers: Collection[bytes]) -> list[BvnRequest]:
        """Return every request of some customers, oldest first."""
        return self._read(bvn_requests.c.customer.in_(sorted(customers)))

    def open_for(self, subjects: Sequence[bytes]) -> list[BvnRequest]:
        """Return the open requests for some BVNs."""
        found: list[BvnRequest] = []
        for start in range(0, len(subjects), _BLOCK):
            block = subjects[start : start + _BLOCK]
            is_open = bvn_requests.c.state.in_(_OPEN_WORDS)
            found += self._read(bvn_requests.c.subject.in_(block) & is_open)
        return found

    def under_way(self) -> list[BvnRequest]:
        """Return requests with a call under way, or that was when its process died."""
        kept = bvn_requests.c
        starting = (kept.state == BvnState.REQUESTED.value) & kept.doubt.is_(None)
        return self._read(kept.finishing.is_not(None) | starting)

    def abandon(self, before: int, now: int) -> int:
        """Give up requests that have waited since before an instant; return how many."""
        kept = bvn_requests.c
        with writing(self._engine) as connection:
            done = connection.execute(
                update(bvn_requests)
                .where(
                    kept.state.in_(_OPEN_WORDS),
                    kept.requested_at < before,
                    kept.finishing.is_(None),
                )
                .values(state=BvnState.ABANDONED.value, settled_at=now)
            )
        return int(done.rowcount)

    def last_call(self, request: BvnRequest, check: str, run_id: str) -> LastCall | None:
        """Return how a run's last call about a request's BVN ended; None where it made none."""
        query = (
            select(calls.c.state, calls.c.trouble, calls.c.cost_micro, calls.c.settled_at)
            .where(
                calls.c.run_id == run_id,
                calls.c.check == check,
                calls.c.subject == request.subject,
            )
            .order_by(calls.c.call_id.desc())
            .limit(1)
        )
        with reading(self._engine) as connection:
            row = connection.execute(query).first()
        return None if row is None else LastCall(*row)

    def _read(self, condition: ColumnElement[bool]) -> list[BvnRequest]:
        query = select(bvn_requests).where(condition).order_by(bvn_requests.c.requested_at)
        with reading(self._engine) as connection:
            return [self._request(row) for row in connection.execute(query)]

    def _row(self, request: BvnRequest) -> dict[str, Any]:
        held = asdict(request.held)
        born = request.held.date_of_birth
        held["date_of_birth"] = None if born is None else born.isoformat()
        text = json.dumps(held, separators=(",", ":"), ensure_ascii=False)
        return {
            "request_id": request.request_id,
            "customer": request.customer,
            "subject": request.subject,
            "batch": request.batch,
            "run_id": request.run_id,
            "consent_reference": request.consent_reference,
            "consent_ends_at": request.consent_ends_at,
            "state": request.state.value,
            "requested_at": request.requested_at,
            "sealed": self._sealer.seal(text.encode(), request_context(request.customer)),
            "doubt": None if request.doubt is None else request.doubt.value,
            "trouble": request.trouble,
            "attempts": request.attempts,
            "settled_at": request.settled_at,
            "finish_run_id": request.finish_run_id,
            "finishing": request.finishing,
            "cost_micro": request.cost_micro,
        }

    def _request(self, row: Row[Any]) -> BvnRequest:
        customer = bytes(row.customer)
        held = json.loads(self._sealer.open(bytes(row.sealed), request_context(customer)))
        born = held.pop("date_of_birth")
        return BvnRequest(
            request_id=bytes(row.request_id),
            customer=customer,
            subject=bytes(row.subject),
            batch=row.batch,
            run_id=row.run_id,
            consent_reference=row.consent_reference,
            consent_ends_at=row.consent_ends_at,
            state=BvnState(row.state),
            requested_at=row.requested_at,
            held=HeldCustomer(
                **held, date_of_birth=None if born is None else date.fromisoformat(born)
            ),
            doubt=None if row.doubt is None else Doubt(row.doubt),
            trouble=row.trouble,
            attempts=row.attempts,
            settled_at=row.settled_at,
            finish_run_id=row.finish_run_id,
            finishing=row.finishing,
            cost_micro=row.cost_micro,
        )


def request_context(customer: bytes) -> bytes:
    """Return what a sealed request is bound to."""
    return b"bvn request\x1f" + customer


def make_bvn_tables(connection: Connection) -> None:
    """Add the table to a journal that was made before there was any."""
    metadata.create_all(connection, tables=[bvn_requests], checkfirst=True)
