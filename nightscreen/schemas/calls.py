"""A lookup and its paid calls as the journal stores them; `client/` makes the calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from nightscreen.schemas.checks import family_of


class CallState(StrEnum):
    """The state of a call in the journal."""

    INTENT = "intent"
    ANSWERED = "answered"
    UNREADABLE = "unreadable"
    """Answered at a known cost; the record could not be read, its body is stored."""
    NOT_SENT = "not_sent"
    NOT_CHARGED = "not_charged"
    IN_DOUBT = "in_doubt"
    TEST_MODE = "test_mode"


UNREAD_TROUBLES = ("unreadable", "wrong_identity")
"""Errors of a response that arrived but could not be read. Its call is unreadable, or in doubt if
its cost is not known."""

KEPT_STATES = frozenset({CallState.ANSWERED, CallState.UNREADABLE})
"""Calls with an answer whose body the journal stores."""


class LookupStatus(IntEnum):
    """The status of one needed lookup."""

    WAITING = 0
    PAID = 1
    FREE = 2
    REUSED = 3  # answered meanwhile by another run
    FAILED = 4
    IN_DOUBT = 5
    LAPSED = 6
    """Its consent ended before it was asked: its rows are `refused`, and it does not count."""
    SPARED = 7  # not made, because no row depended on it any more
    UNREADABLE = 8  # answered at a known cost; the answer could not be read
    CLAIMED = 9  # a process has it: its call is under way, or waits to be repeated
    LATER = 10  # it waits for an earlier stage, which may spare it


NOT_ENDED = frozenset({LookupStatus.WAITING, LookupStatus.CLAIMED, LookupStatus.LATER})
"""Lookups without a result yet."""


class ReservationStatus(StrEnum):
    """The answer to a request to make a call."""

    GRANTED = "granted"
    HELD = "held"  # another run is making the same call: wait for its answer
    ANSWERED = "answered"  # the answer arrived since the plan was made
    UNAFFORDABLE = "unaffordable"  # its maximum cost does not fit under a spending cap now
    QUOTA = "quota"  # the day's number of lookups of this check is used up
    BUSY = "busy"
    """The shared cap on calls under way is used up, or it is another process's turn."""
    LATER = "later"
    """It fits once calls have settled whose price is not confirmed in this run yet."""


@dataclass(frozen=True, slots=True)
class ReserveRequest:
    """A request to make one call."""

    check: str
    kind: str  # of identifier
    subject: bytes  # pseudonym of the identifier
    worst_micro: int  # the most it may cost, in micro-naira
    consent_reference: str | None  # the consent that authorises it, if needed
    attempt: int  # number of the attempt at this lookup in the run, from 1


@dataclass(frozen=True, slots=True)
class Reservation:
    """The journal's answer to a `ReserveRequest`; `call_id` is set if it was granted."""

    kind: ReservationStatus
    call_id: int = 0
    intent_at: int = 0
    reserved_micro: int = 0  # what is reserved for it, micro-naira
    outcome: str = ""  # the outcome of an answer that arrived since the plan was made

    @property
    def ends_as(self) -> LookupStatus:
        """Return the status of a lookup that was answered since the plan was made."""
        unreadable = self.outcome == LookupStatus.UNREADABLE.name.lower()
        return LookupStatus.UNREADABLE if unreadable else LookupStatus.REUSED


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a granted call ended."""

    call_id: int
    ask: ReserveRequest
    state: CallState
    settled_at: int  # instant of the outcome
    trouble: str | None = None  # code of the error; None if it was answered
    status: int | None = None  # HTTP status, if any
    outcome: str | None = None  # of the answer
    cost_micro: int | None = None  # what the service says it charged; None if it did not say
    balance_micro: int | None = None  # the balance in the answer
    sent_at: int | None = None  # instant before sending; None if it was never sent
    named_micro: int | None = None  # the cost in the answer if it is not believed
    final: bool = False  # the lookup is not tried again in this run
    body: bytes = field(default=b"", repr=False)  # as received, to be sealed; empty for none
    # the identifier asked about, sealed with a body that could not be read: a later reading must
    # check whose record it is
    asked: str = field(default="", repr=False)

    @property
    def keeps_body(self) -> bool:
        """Return whether the journal stores the body: an answer, or one that could not be read."""
        return self.state in KEPT_STATES or bool(self.asked)


@dataclass(frozen=True, slots=True)
class DisputedCosts:
    """Costs that are not believed, after a group of outcomes."""

    # checks with a cost that no balance has contradicted or confirmed
    checks: frozenset[str] = frozenset()
    # calls whose cost a balance of the group contradicted
    disproved: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits a block of calls must fit under; None for no limit."""

    run_micro: int | None = None  # micro-naira for the whole run
    day_micro: int | None = None  # micro-naira for the day over all runs
    month_micro: int | None = None  # micro-naira for the month over all runs
    day_calls: tuple[tuple[str, int], ...] = ()  # number of calls a day, by check
    # the highest cost that is believed to be a price, by check
    price_limits: tuple[tuple[str, int], ...] = ()
    # calls under way over all processes, by check or family of operations; empty if not shared
    in_flight: tuple[tuple[str, int], ...] = ()

    @property
    def bind(self) -> bool:
        """Return whether there is any limit on money."""
        return (self.run_micro, self.day_micro, self.month_micro) != (None, None, None)

    def calls_today(self, check: str) -> int | None:
        """Return the day's limit for a check."""
        return dict(self.day_calls).get(check)

    def under_way(self, check: str) -> int | None:
        """Return how many calls of a check may be under way over all processes."""
        return dict(self.in_flight).get(family_of(check)) if self.in_flight else None
