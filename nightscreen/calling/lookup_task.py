"""One lookup, or API call, on its way through a lane, and how an attempt at it is written down.

Plain values without a clock or a task; moving them along is `lane`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.planning.freshness import is_closed
from nightscreen.schemas.calls import (
    CallResult,
    CallState,
    LookupStatus,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable

    from nightscreen.calling.writer import Change
    from nightscreen.client.classify import CallOutcome
    from nightscreen.schemas.requests import Request

RELEASED = "released"
"""Trouble of an intent that was given back unsent: the run stopped, or the price rose."""

CALL_STATES = {
    ChargeStatus.ANSWERED: CallState.ANSWERED,
    ChargeStatus.UNREADABLE: CallState.UNREADABLE,
    ChargeStatus.NOT_SENT: CallState.NOT_SENT,
    ChargeStatus.NOT_CHARGED: CallState.NOT_CHARGED,
    ChargeStatus.IN_DOUBT: CallState.IN_DOUBT,
    ChargeStatus.TEST_MODE: CallState.TEST_MODE,
    ChargeStatus.STOP: CallState.NOT_CHARGED,
}
_ENDS = frozenset({LookupStatus.FAILED, LookupStatus.IN_DOUBT})
SAID_OF_CUSTOMER = frozenset(
    {
        FailureReason.UNREACHABLE,
        FailureReason.WRONG_CONTACT,
        FailureReason.OTP_WRONG,
        FailureReason.OTP_EXPIRED,
        FailureReason.OTP_UNASKED,
    }
)
"""Refusals that tell something of the customer, as a miss does: they are no failures of calls."""


@dataclass(slots=True, eq=False)
class LookupTask:
    """One lookup of a screening run, or one API call: a token, a consent, a pull, an offer."""

    check: str  # the check or operation
    # gives the call as it will be written, which may hold secrets and identifiers
    request: Callable[[], Request] = field(repr=False)
    kind: str  # what its subject is the pseudonym of
    subject: bytes  # whom or what it is about, as a pseudonym
    worst_micro: int  # the most an attempt may cost
    # the identifier that it is asked by; empty of an API call that has none
    asked: str = field(default="", repr=False)
    keeps_body: bool = True  # the journal keeps the answer, sealed; not a secret
    consent_reference: str | None = None  # the consent that authorises it
    # instant from which it does not any more; None where none is needed
    consent_ends_at: int | None = None
    lookup_id: int | None = None  # its number among the lookups of runs; None of an API call
    row: int | None = None  # the batch's row in whose name it is asked; None for an API call
    status: LookupStatus = LookupStatus.WAITING  # what became of it
    attempts: int = 0  # attempts made in this run
    # answers the run had when it was first sent in this session; -1 before
    answered_before: int = -1
    doubted: bool = False  # an attempt may have been charged without our knowing
    doubts: int = 0  # attempts that may have been, over all runs of its age
    unread: int = 0  # those of them whose response came and could not be read
    was_unread: bool = False  # a response could not be read before, in this run or an earlier one
    # what the attempt under way was granted
    grant: Reservation = field(default=Reservation(ReservationStatus.LATER))
    # is set once it has come to an end; only API calls are waited for
    done: asyncio.Future[None] | None = None
    # what the last attempt of an API call came to; of a lookup the journal tells
    reading: CallOutcome | None = None

    @property
    def bound_micro(self) -> int:
        """Return the worst cost that the attempt under way is reserved with."""
        return self.grant.reserved_micro

    @property
    def is_api_call(self) -> bool:
        """Return whether it is no lookup of a screening run, which has a number."""
        return self.lookup_id is None

    @property
    def witness(self) -> Hashable:
        """Return who speaks where its answer makes further calls useless.

        Identifiers of one customer are one witness: a record that is broken is so by each of them.
        """
        return self.subject if self.row is None else self.row

    @property
    def key(self) -> bytes | int:
        """Return what no two tasks of a lane share while they are under way."""
        return self.subject if self.lookup_id is None else self.lookup_id

    def becomes(self, status: LookupStatus) -> Change | None:
        """Return what is to be written of its lookup; None of an API call, which has none.

        Who claims it again begins with fresh attempts.
        """
        attempts = 0 if status is LookupStatus.WAITING else self.attempts
        return None if self.lookup_id is None else (self.lookup_id, status, attempts)

    def ask(self, price_micro: int = 0) -> ReserveRequest:
        """Return the wish to make the next attempt; it may cost no less than the price seen."""
        return ReserveRequest(
            check=self.check,
            kind=self.kind,
            subject=self.subject,
            worst_micro=max(self.worst_micro, price_micro),
            consent_reference=self.consent_reference,
            attempt=self.attempts + 1,
        )

    def record_attempt(self, reading: CallOutcome) -> None:
        """Count an attempt that may have been charged without our knowing."""
        if reading.verdict is ChargeStatus.IN_DOUBT:
            self.doubts += 1
            self.unread += reading.is_unread
        self.was_unread = self.was_unread or reading.is_unread

    def is_used_up(self, reading: CallOutcome, attempts: int) -> bool:
        """Return whether a lookup whose attempt is in doubt may not be sent again in its age."""
        if reading.verdict is not ChargeStatus.IN_DOUBT:
            return False
        return is_closed(self.doubts, self.unread, attempts)

    def ends_as(
        self, reading: CallOutcome, delay_s: float | None, *, stops: bool
    ) -> LookupStatus | None:
        """Return how the lookup ends with this attempt; None where it goes on or was not reached.

        Args:
            reading: what the attempt came to.
            delay_s: wait before the next attempt; None where there is to be none.
            stops: enough lookups said the same for the check or the run to stop.
        """
        if reading.verdict is ChargeStatus.ANSWERED:
            return LookupStatus.FREE if reading.cost_micro == 0 else LookupStatus.PAID
        if reading.verdict is ChargeStatus.UNREADABLE:
            # nobody knows what an API call did, as where its answer was lost; its cost is known
            return LookupStatus.IN_DOUBT if self.is_api_call else LookupStatus.UNREADABLE
        if stops:
            return None
        if reading.trouble in SAID_OF_CUSTOMER:
            return LookupStatus.FREE
        self.doubted = self.doubted or reading.verdict is ChargeStatus.IN_DOUBT
        if delay_s is not None:
            return None
        return LookupStatus.IN_DOUBT if self.doubted else LookupStatus.FAILED


def most_charged(task: LookupTask, reading: CallOutcome, named_micro: int | None) -> int:
    """Return the most an attempt can have cost, in micro-naira; of what is not believed, its bound.

    The journal counts what was named in full. Here it would only end a round for want of money.
    """
    is_unknown = reading.cost_micro is None and reading.verdict is ChargeStatus.ANSWERED
    if named_micro is not None or is_unknown or reading.verdict is ChargeStatus.IN_DOUBT:
        return task.bound_micro
    return reading.cost_micro or 0


def outcome_of(
    task: LookupTask,
    reading: CallOutcome,
    *,
    ended: LookupStatus | None,
    sent_at: int,
    now: int,
    named_micro: int | None = None,
) -> CallResult:
    """Return an attempt as the journal keeps it; `named_micro` is a cost that is not believed."""
    # of an API call in doubt no body is kept to be read again
    is_read_again = reading.verdict is ChargeStatus.UNREADABLE or (
        reading.is_unread and not task.is_api_call
    )
    return CallResult(
        call_id=task.grant.call_id,
        ask=task.ask(task.bound_micro),
        intent_at=task.grant.intent_at,
        state=CALL_STATES[reading.verdict],
        trouble=None if reading.trouble is None else reading.trouble.value,
        status=reading.status,
        outcome=None if reading.outcome is None else reading.outcome.value,
        cost_micro=None if reading.verdict is ChargeStatus.IN_DOUBT else reading.cost_micro,
        balance_micro=reading.balance_micro,
        named_micro=named_micro,
        sent_at=None if reading.verdict is ChargeStatus.NOT_SENT else sent_at,
        settled_at=now,
        final=ended in _ENDS,
        body=reading.body if task.keeps_body else b"",
        asked=task.asked if is_read_again else "",
    )


def released(task: LookupTask, now: int) -> CallResult:
    """Return an intent that is given back unsent, as the journal keeps it."""
    return CallResult(
        call_id=task.grant.call_id,
        ask=task.ask(task.bound_micro),
        intent_at=task.grant.intent_at,
        state=CallState.NOT_SENT,
        trouble=RELEASED,
        settled_at=now,
    )
