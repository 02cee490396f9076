"""A lane with a made-up service and a journal in memory, both with the real signatures.

What does not belong here: expectations; the tests have them.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from nightscreen.calling.lane import Lane
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.progress import CheckProgress
from nightscreen.calling.stops import Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.calling.writer import Change, Writer
from nightscreen.client.classify import CallOutcome, ChargeStatus
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.response_rules import FailureReason
from nightscreen.schemas.calls import (
    CallResult,
    CallState,
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.requests import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from nightscreen.journal.calls import Calls, Claim, Wish
    from tests.steps.virtual_time import VirtualLoop

NAIRA = 1_000_000
PRICE = 10 * NAIRA


def hit(cost: int = PRICE, balance: int | None = None, body: bytes = b"") -> CallOutcome:
    """Return a charged answer."""
    return CallOutcome(
        ChargeStatus.ANSWERED,
        outcome=Outcome.FOUND,
        cost_micro=cost,
        balance_micro=balance,
        status=200,
        body=body,
    )


def miss(body: bytes = b"none") -> CallOutcome:
    """Return a free answer."""
    return CallOutcome(
        ChargeStatus.ANSWERED, outcome=Outcome.CLEAR, cost_micro=0, status=404, body=body
    )


def lost(trouble: FailureReason = FailureReason.CUT, *, strain: bool = False) -> CallOutcome:
    """Return an attempt that may have been charged."""
    return CallOutcome(ChargeStatus.IN_DOUBT, trouble=trouble, retry=True, strain=strain)


def refused(retry_after_s: float | None = None) -> CallOutcome:
    """Return a 429."""
    return CallOutcome(
        ChargeStatus.NOT_CHARGED,
        trouble=FailureReason.REFUSED,
        retry=True,
        strain=True,
        cost_micro=0,
        retry_after_s=retry_after_s,
        status=429,
    )


def rejected() -> CallOutcome:
    """Return a 400."""
    return CallOutcome(
        ChargeStatus.NOT_CHARGED, trouble=FailureReason.REJECTED, cost_micro=0, status=400
    )


def task(number: int, check: str = "karma", worst: int = PRICE) -> LookupTask:
    """Return a lookup of its own for each number."""
    asked = f"{number:011d}"
    request = Request(check, "GET", "", None, asked=asked)
    kind, subject = IdentityKind.BVN.value, number.to_bytes(16, "big")
    return LookupTask(request.operation, lambda: request, kind, subject, worst, asked)


@dataclass(slots=True)
class FakeService:
    """Answers after a time; tells who was on the wire when."""

    loop: VirtualLoop
    # what the n-th attempt at a lookup comes to
    reply: Callable[[Request, int], CallOutcome] = lambda *_: miss()
    latency_s: float = 0.1  # seconds each attempt takes
    sent: list[tuple[float, str]] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    flying: int = 0
    peak: int = 0
    busy_s: float = 0.0
    _since: float = 0.0

    def __call__(self, request: Request) -> Awaitable[CallOutcome]:
        """Send once."""
        return self._answer(request)

    def _turn(self, by: int) -> None:
        now = self.loop.time()
        self.busy_s += self.flying * (now - self._since)
        self._since = now
        self.flying += by
        self.peak = max(self.peak, self.flying)

    async def _answer(self, request: Request) -> CallOutcome:
        self._turn(1)
        self.attempts[request.asked] += 1
        number = self.attempts[request.asked]
        self.sent.append((self.loop.time(), request.asked))
        await asyncio.sleep(self.latency_s)
        self._turn(-1)
        return self.reply(request, number)


@dataclass(slots=True)
class FakeStore:
    """A journal in memory: the same caps, reservations and grants."""

    now: Callable[[], int]
    grants: Callable[[ReserveRequest], ReservationStatus | None] = lambda _: None
    spent: int = 0
    reserved: int = 0
    calls: int = 0
    open: dict[int, ReserveRequest] = field(default_factory=dict)
    settled: list[CallResult] = field(default_factory=list)

    def claim(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        wishes: Mapping[str, Wish],
    ) -> tuple[list[Reservation], dict[str, Claim]]:
        """Grant in order until one does not fit."""
        found: list[Reservation] = []
        for ask in asks:
            kind = self.grants(ask) or self._refusal(ask, caps)
            if kind is not None:
                found.append(Reservation(kind))
                continue
            self.calls += 1
            self.reserved += ask.worst_micro
            self.open[self.calls] = ask
            granted = ReservationStatus.GRANTED
            worst = ask.worst_micro
            found.append(Reservation(granted, self.calls, self.now(), reserved_micro=worst))
        return found, {}

    def _refusal(self, ask: ReserveRequest, caps: Caps) -> ReservationStatus | None:
        room = caps.run_micro
        if room is not None and self.spent + self.reserved + ask.worst_micro > room:
            return ReservationStatus.UNAFFORDABLE
        return None

    def settle(
        self, run_id: str, outcomes: Sequence[CallResult], changes: Sequence[Change] = ()
    ) -> None:
        """Settle; a doubt stays reserved."""
        for each in outcomes:
            ask = self.open.pop(each.call_id)
            self.settled.append(each)
            unknown = each.state is CallState.ANSWERED and each.cost_micro is None
            if each.state is not CallState.IN_DOUBT and not unknown:
                self.reserved -= ask.worst_micro
                self.spent += each.cost_micro or 0


@dataclass(slots=True)
class Bench:
    """One lane or more with everything around them."""

    loop: VirtualLoop
    service: FakeService
    store: FakeStore
    stops: Stops
    wallet: Wallet
    book: Writer
    lanes: dict[str, Lane]

    @property
    def lane(self) -> Lane:
        """Return the first lane."""
        return next(iter(self.lanes.values()))

    @property
    def progress(self) -> CheckProgress:
        """Return the first check's numbers."""
        return next(iter(self.stops.progress.values()))


def bench(
    loop: VirtualLoop,
    reply: Callable[[Request, int], CallOutcome] = lambda *_: miss(),
    *,
    cap: int = 8,
    latency_s: float = 0.1,
    attempts: int = 5,
    caps: Caps | None = None,
    checks: Sequence[str] = ("karma",),
    stops: Stops | None = None,
    floor_micro: int | None = None,
) -> Bench:
    """Return a lane for each check, wide open at its cap."""
    service = FakeService(loop, reply, latency_s)
    store = FakeStore(loop.micros)
    stops = stops or Stops()
    stops.progress = {check: CheckProgress() for check in checks}
    wallet = Wallet(stops, floor_micro)
    journal = cast("Calls", store)
    book = Writer(journal, run_id="run", purpose="portfolio", caps=caps or Caps(), since=0)
    made = Bench(loop, service, store, stops, wallet, book, {})

    for check in checks:
        made.lanes[check] = Lane(
            check,
            send=service,
            writer=book,
            cap=AdaptiveCap(cap, start=cap),
            stops=stops,
            wallet=wallet,
            attempts=attempts,
            random=random.Random(7),
            clock=loop.micros,
            worst_micro=PRICE,
        )
    return made
