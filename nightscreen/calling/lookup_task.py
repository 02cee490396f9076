"""One lookup or API call in a lane, and the record of each attempt.

Plain values without a clock; `lane` processes them.
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
"""Trouble of an intent that was released unsent: the run stopped, or the price rose."""

CALL_STATES: dict[ChargeStatus, CallState] = {
    each: CallState.NOT_CHARGED if each is ChargeStatus.STOP else CallState(each)
    for each in ChargeStatus
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
"""Refusals that say something about the customer, like a miss: the call did not fail."""


@dataclass(slots=True, eq=False)
class LookupTask:
    """One lookup of a screening run, or one API call: a token, a consent, a pull, an offer."""

    check: str  # the check or operation
    # builds the request to send, which may contain secrets and identifiers
    request: Callable[[], Request] = field(repr=False)
    kind: str  # the kind of its subject
    subject: bytes  # the pseudonym of the person or thing it is about
    worst_micro: int  # the most an attempt may cost
    # the identifier that it is asked by; empty if an API call has none
    asked: str = field(default="", repr=False)
    keeps_body: bool = True  # the journal stores the answer, sealed; off for secrets
    consent_reference: str | None = None  # the consent that authorises it
    # the instant that consent ends; None if none is needed
    consent_ends_at: int | None = None
    lookup_id: int | None = None  # its number in the journal's table; None for an API call
    row: int | None = None  # the batch's row in whose name it is asked; None for an API call
    status: LookupStatus = LookupStatus.WAITING
    attempts: int = 0  # attempts made in this run
    # the run's number of answers when it was first sent in this session; -1 before
    answered_before: int = -1
    doubted: bool = False  # an attempt may have been charged, which is unknown
    doubts: int = 0  # such attempts, over all runs within their age
    unread: int = 0  # those of them whose response could not be read
    was_unread: bool = False  # an earlier response could not be read, in this or another run
    # the reservation of the attempt under way
    grant: Reservation = field(default=Reservation(ReservationStatus.LATER))
    # set when it has ended; only API calls are waited for
    done: asyncio.Future[None] | None = None
    # the result of an API call's last attempt; a lookup's is in the journal
    reading: CallOutcome | None = None

    @property
    def bound_micro(self) -> int:
        """Return the worst cost reserved for the attempt under way."""
        return self.grant.reserved_micro

    @property
    def is_api_call(self) -> bool:
        """Return whether it is an API call, not a lookup of a screening run."""
        return self.lookup_id is None

    @property
    def witness(self) -> Hashable:
        """Return the witness that its answer counts as when it objects to further calls.

        All identifiers of one customer are one witness: a broken record is broken by each of them.
        """
        return self.subject if self.row is None else self.row

    @property
    def key(self) -> bytes | int:
        """Return a key that is unique among the open tasks of a lane."""
        return self.subject if self.lookup_id is None else self.lookup_id

    def becomes(self, status: LookupStatus) -> Change | None:
        """Return the change of its lookup's state to write; None for an API call.

        A lookup that waits to be claimed again starts with fresh attempts.
        """
        attempts = 0 if status is LookupStatus.WAITING else self.attempts
        return None if self.lookup_id is None else (self.lookup_id, status, attempts)

    def ask(self, price_micro: int = 0) -> ReserveRequest:
        """Return the request to reserve the next attempt, at no less than the price seen."""
        return ReserveRequest(
            check=self.check,
            kind=self.kind,
            subject=self.subject,
            worst_micro=max(self.worst_micro, price_micro),
            consent_reference=self.consent_reference,
            attempt=self.attempts + 1,
        )

    def record_attempt(self, reading: CallOutcome) -> None:
        """Count an attempt in doubt, and note an unreadable response."""
        if reading.verdict is ChargeStatus.IN_DOUBT:
            self.doubts += 1
            self.unread += reading.is_unread
        self.was_unread = self.was_unread or reading.is_unread

    def is_used_up(self, reading: CallOutcome, attempts: int) -> bool:
        """Return whether an attempt in doubt was the last one allowed within its age."""
        if reading.verdict is not ChargeStatus.IN_DOUBT:
            return False
        return is_closed(self.doubts, self.unread, attempts)

    def ends_as(
        self, reading: CallOutcome, delay_s: float | None, *, stops: bool
    ) -> LookupStatus | None:
        """Return the status that this attempt ends the lookup with; None if it has not ended.

        Args:
            reading: the result of the attempt.
            delay_s: wait before the next attempt; None if there is none.
            stops: enough lookups have met the same for the check or the run to stop.
        """
        if reading.verdict is ChargeStatus.ANSWERED:
            return LookupStatus.FREE if reading.cost_micro == 0 else LookupStatus.PAID
        if reading.verdict is ChargeStatus.UNREADABLE:
            # the effect of an API call is as unknown as if its answer were lost; its cost is known
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
    """Return the most an attempt can have cost, in micro-naira; its bound if the cost is disputed.

    The journal counts the named cost in full, but here it would end the run for lack of money.
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
    """Return an attempt's record for the journal; `named_micro` is a cost that is not believed."""
    # no body of an API call in doubt is stored to be read again
    is_read_again = reading.verdict is ChargeStatus.UNREADABLE or (
        reading.is_unread and not task.is_api_call
    )
    return CallResult(
        call_id=task.grant.call_id,
        ask=task.ask(task.bound_micro),
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
    """Return the journal's record of an intent that is released unsent."""
    return CallResult(
        call_id=task.grant.call_id,
        ask=task.ask(task.bound_micro),
        state=CallState.NOT_SENT,
        trouble=RELEASED,
        settled_at=now,
    )
