"""Requests for BVN consent: a record for each time a customer was asked, the newest counts.

A one-time password is never among what is kept, in no form. How a state follows from an answer is
decided in `operations/bvn/consent.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.records import Records
from nightscreen.journal.schema import calls, records
from nightscreen.schemas.bvn import OPEN_STATES, UNDER_WAY, BvnRequest, BvnState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Engine

    from nightscreen.journal.storage import Storage
    from nightscreen.schemas.clock import Clock


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
    _records: Records[BvnRequest] = field(repr=False)
    _clock: Clock = field(repr=False)

    @classmethod
    def of(cls, journal: Storage) -> BvnConsents:
        """Return the requests of an open journal."""
        return cls(journal.engine, Records.of(journal, BvnRequest), journal.clock)

    def add(self, requests: Sequence[BvnRequest]) -> None:
        """Write new requests down, before anything is sent for them."""
        self._records.add(requests)

    def put(self, request: BvnRequest) -> None:
        """Write a request as it stands now."""
        self._records.put([request], self._clock())

    def drop(self, request: BvnRequest) -> None:
        """Forget a request for which nothing was sent."""
        self._records.drop([request.key])

    def claim(self, request: BvnRequest, run_id: str) -> bool:
        """Take a request for a run's second call; False where another has it or it has changed."""
        with writing(self._engine) as connection:
            for found in self._records.read(connection, records.c.key == request.key):
                same = (found.state, found.attempts) == (request.state, request.attempts)
                if same and found.finishing is None:
                    taken = found.model_copy(update={"finishing": run_id})
                    self._records.update(connection, taken, self._clock())
                    return True
        return False

    def find(self, request_id: bytes) -> BvnRequest | None:
        """Return a request by its id."""
        return self._records.find(request_id.hex())

    def current(self, customers: Collection[bytes]) -> dict[bytes, BvnRequest]:
        """Return the newest request of each customer that has one."""
        return {each.customer: each for each in self.of_customers(customers)}

    def of_batches(self, batches: Collection[str]) -> list[BvnRequest]:
        """Return the newest request of each customer in some batch names, in order of asking."""
        found = self._records.select(records.c.batch.in_(sorted(batches)))
        newest = {each.customer: each for each in found}
        return [each for each in found if newest[each.customer] is each]

    def of_customers(self, customers: Collection[bytes]) -> list[BvnRequest]:
        """Return every request of some customers, oldest first."""
        return self._records.of_customers(customers)

    def open_for(self, subjects: Collection[bytes]) -> list[BvnRequest]:
        """Return the open requests for some BVNs."""
        return [each for each in self._records.of_subjects(subjects) if each.state in OPEN_STATES]

    def under_way(self) -> list[BvnRequest]:
        """Return requests with a call under way, or that was when its process died."""
        return self._records.all(state=UNDER_WAY)

    def abandon(self, before: int, now: int) -> int:
        """Give up requests that have waited since before an instant; return how many."""
        given_up = {"state": BvnState.ABANDONED, "settled_at": now}
        waiting = records.c.state.in_([*OPEN_STATES, UNDER_WAY])
        late = self._records.select(waiting, records.c.created_at < before)
        if not late:
            return 0
        with writing(self._engine) as connection:
            late = [
                each
                for each in self._records.read(connection, waiting, records.c.created_at < before)
                if each.finishing is None
            ]
            for each in late:
                self._records.update(connection, each.model_copy(update=given_up), now)
        return len(late)

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
