"""One lookup and its paid calls as the journal keeps them: what is asked, granted, how it ended.

Writing them down belongs to `journal/`, making them to `client/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from nightscreen.schemas.checks import family_of


class CallState(StrEnum):
    """The state of a call in the journal."""

    INTENT = "intent"
    ANSWERED = "answered"
    UNREADABLE = "unreadable"
    """Answered at a known cost; the record could not be read, its body is kept."""
    NOT_SENT = "not_sent"
    NOT_CHARGED = "not_charged"
    IN_DOUBT = "in_doubt"
    TEST_MODE = "test_mode"


UNREAD_TROUBLES = ("unreadable", "wrong_identity")
"""Troubles of a response that came whole, or was cut by us at its size, and could not be read: its
call is unreadable, or in doubt where its cost is not known."""

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
    """Its consent ended before it could be asked: its rows are refused, and it is no lookup."""
    SPARED = 7  # no row depended on it any more, so it was not made
    UNREADABLE = 8  # answered at a known cost; what the answer says could not be read
    CLAIMED = 9  # a process has it: its call is under way, or waits to be repeated
    LATER = 10  # it waits for an earlier stage, which may spare it


NOT_ENDED = frozenset({LookupStatus.WAITING, LookupStatus.CLAIMED, LookupStatus.LATER})
"""Lookups that nothing has become of yet."""


class ReservationStatus(StrEnum):
    """The answer to a request to make a call."""

    GRANTED = "granted"
    HELD = "held"  # another run is making this very call: wait for its answer
    ANSWERED = "answered"  # the answer arrived since the plan was made
    UNAFFORDABLE = "unaffordable"  # its worst cost does not fit under a spending cap at this moment
    QUOTA = "quota"  # the day's number of lookups of this check is used up
    BUSY = "busy"
    """Those who share the cap on calls under way have all of it, or their part is next."""
    LATER = "later"
    """It fits once calls under way have settled, whose price is not confirmed in this run yet."""


@dataclass(frozen=True, slots=True)
class ReserveRequest:
    """The wish to make one call."""

    check: str
    kind: str  # of identifier
    subject: bytes  # pseudonym of the identifier
    worst_micro: int  # the most it may cost, in micro-naira
    consent_reference: str | None  # the consent that authorises it, where one is needed
    attempt: int  # the how-manieth attempt of this lookup in the run, from 1


@dataclass(frozen=True, slots=True)
class Reservation:
    """The journal's answer to an `ReserveRequest`; `call_id` is set where it was granted."""

    kind: ReservationStatus
    call_id: int = 0
    intent_at: int = 0
    reserved_micro: int = 0  # what is reserved for it, micro-naira
    outcome: str = ""  # what was answered since the plan was made

    @property
    def ends_as(self) -> LookupStatus:
        """Return how a lookup ends that was answered since the plan was made."""
        unreadable = self.outcome == LookupStatus.UNREADABLE.name.lower()
        return LookupStatus.UNREADABLE if unreadable else LookupStatus.REUSED


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a granted call ended."""

    call_id: int
    ask: ReserveRequest
    intent_at: int  # instant of the intent; decides the day its money counts for
    state: CallState
    settled_at: int  # instant of the outcome
    trouble: str | None = None  # stable word for what went wrong, None where it was answered
    status: int | None = None  # HTTP status, where there was one
    outcome: str | None = None  # what was answered
    cost_micro: int | None = None  # what the service says it charged; None if it did not say
    balance_micro: int | None = None  # the balance in the answer
    sent_at: int | None = None  # instant before sending; None if it was never sent
    named_micro: int | None = None  # what it named, where that is not believed; else None
    final: bool = False  # the lookup is not tried again in this run
    body: bytes = field(default=b"", repr=False)  # as received, to be sealed; empty for none
    # the identifier asked about, sealed with a body that could not be read, whether its cost is
    # known or the call is in doubt: reading it again needs the identity it should be about
    asked: str = field(default="", repr=False)

    @property
    def keeps_body(self) -> bool:
        """Return whether the journal stores what came: an answer, or what could not be read."""
        return self.state in KEPT_STATES or bool(self.asked)


@dataclass(frozen=True, slots=True)
class DisputedCosts:
    """Costs that are not believed, as a group of outcomes leaves them."""

    # the checks with a cost that no balance has contradicted or confirmed
    checks: frozenset[str] = frozenset()
    # the calls whose cost a balance of the group contradicted
    disproved: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits a block of calls must fit under; None where there is none."""

    run_micro: int | None = None  # naira of the whole run, as micro-naira
    day_micro: int | None = None  # naira of the day over all runs
    month_micro: int | None = None  # naira of the month over all runs
    day_calls: tuple[tuple[str, int], ...] = ()  # number of calls a day, by check
    # the highest cost that is believed to be a price, by check
    price_limits: tuple[tuple[str, int], ...] = ()
    # calls under way over all processes that share them, by check or family of operations; empty
    # where a run shares them with nobody
    in_flight: tuple[tuple[str, int], ...] = ()

    @property
    def bind(self) -> bool:
        """Return whether any of them is on money."""
        return (self.run_micro, self.day_micro, self.month_micro) != (None, None, None)

    def calls_today(self, check: str) -> int | None:
        """Return the day's limit for a check."""
        return dict(self.day_calls).get(check)

    def under_way(self, check: str) -> int | None:
        """Return how many calls of a check may be under way over all who share them."""
        return dict(self.in_flight).get(family_of(check)) if self.in_flight else None
