"""A window with a made-up service and a journal in memory, both with the real signatures.

What does not belong here: expectations; the tests have them.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.client.classify import Reading, Verdict
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.manners import Stop, StopScope, Trouble
from nightscreen.schemas.calls import Ask, CallState, Caps, Grant, GrantKind, Settled
from nightscreen.schemas.checks import Check, IdentityKind, Lookup, Outcome
from nightscreen.steps.asking.callbook import CallBook
from nightscreen.steps.asking.control import CheckProgress, Control
from nightscreen.steps.asking.jobs import Job
from nightscreen.steps.asking.lookups import Pace, Window

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.steps.virtual_time import VirtualLoop

NAIRA = 1_000_000
PRICE = 10 * NAIRA


def hit(cost: int = PRICE, balance: int | None = None, body: bytes = b"") -> Reading:
    """Return a charged answer."""
    return Reading(
        Verdict.ANSWERED,
        outcome=Outcome.FOUND,
        cost_micro=cost,
        balance_micro=balance,
        status=200,
        body=body,
    )


def miss(body: bytes = b"none") -> Reading:
    """Return a free answer."""
    return Reading(Verdict.ANSWERED, outcome=Outcome.CLEAR, cost_micro=0, status=404, body=body)


def lost(trouble: Trouble = Trouble.CUT, *, strain: bool = False) -> Reading:
    """Return an attempt that may have been charged."""
    return Reading(Verdict.IN_DOUBT, trouble=trouble, retry=True, strain=strain)


def refused(retry_after_s: float | None = None) -> Reading:
    """Return a 429."""
    return Reading(
        Verdict.NOT_CHARGED,
        trouble=Trouble.REFUSED,
        retry=True,
        strain=True,
        cost_micro=0,
        retry_after_s=retry_after_s,
        status=429,
    )


def rejected() -> Reading:
    """Return a 400."""
    return Reading(Verdict.NOT_CHARGED, trouble=Trouble.REJECTED, cost_micro=0, status=400)


def stopping(stop: Stop, scope: StopScope) -> Reading:
    """Return an answer that stops a check or the run."""
    verdict = Verdict.TEST_MODE if stop is Stop.TEST_MODE else Verdict.STOP
    return Reading(verdict, trouble=Trouble(stop.value), stop=stop, stop_scope=scope, cost_micro=0)


def job(number: int, check: Check = Check.KARMA, worst: int = PRICE) -> Job:
    """Return a lookup of its own for each number."""
    lookup = Lookup(check, IdentityKind.BVN, f"{number:011d}")
    return Job(lookup, number.to_bytes(16, "big"), worst, index=number)


@dataclass(slots=True)
class FakeService:
    """Answers after a time; tells who was on the wire when.

    Attributes:
        reply: what the n-th attempt at a lookup comes to.
        latency_s: seconds each attempt takes.
    """

    loop: VirtualLoop
    reply: Callable[[Lookup, int], Reading] = lambda *_: miss()
    latency_s: float = 0.1
    sent: list[tuple[float, str]] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    flying: int = 0
    peak: int = 0
    busy_s: float = 0.0
    _since: float = 0.0

    def __call__(self, lookup: Lookup) -> Awaitable[Reading]:
        """Send once."""
        return self._answer(lookup)

    def _turn(self, by: int) -> None:
        now = self.loop.time()
        self.busy_s += self.flying * (now - self._since)
        self._since = now
        self.flying += by
        self.peak = max(self.peak, self.flying)

    async def _answer(self, lookup: Lookup) -> Reading:
        self._turn(1)
        self.attempts[lookup.identity] += 1
        number = self.attempts[lookup.identity]
        self.sent.append((self.loop.time(), lookup.identity))
        await asyncio.sleep(self.latency_s)
        self._turn(-1)
        return self.reply(lookup, number)


@dataclass(slots=True)
class FakeStore:
    """A journal in memory: the same caps, reservations and grants; may be told to break."""

    now: Callable[[], int]
    grants: Callable[[Ask], GrantKind | None] = lambda _: None
    holder: str = ""
    spent: int = 0
    reserved: int = 0
    calls: int = 0
    open: dict[int, Ask] = field(default_factory=dict)
    settled: list[Settled] = field(default_factory=list)
    blocks: list[int] = field(default_factory=list)
    break_reserve: Exception | None = None
    break_settle: Exception | None = None

    def reserve(
        self, run_id: str, purpose: str, asks: Sequence[Ask], caps: Caps, *, since: int
    ) -> list[Grant]:
        """Grant in order until one does not fit."""
        if self.break_reserve is not None:
            raise self.break_reserve
        self.blocks.append(len(asks))
        found: list[Grant] = []
        full: GrantKind | None = None
        for ask in asks:
            kind = self.grants(ask) or full or self._refusal(ask, caps)
            if kind in {GrantKind.UNAFFORDABLE, GrantKind.QUOTA}:
                full = kind
            if kind is not None:
                found.append(Grant(kind, holder=self.holder))
                continue
            self.calls += 1
            self.reserved += ask.worst_micro
            self.open[self.calls] = ask
            found.append(Grant(GrantKind.GRANTED, self.calls, self.now()))
        return found

    def _refusal(self, ask: Ask, caps: Caps) -> GrantKind | None:
        most = caps.calls_today(ask.check)
        if most is not None and self.calls >= most:
            return GrantKind.QUOTA
        room = caps.run_micro
        if room is not None and self.spent + self.reserved + ask.worst_micro > room:
            return GrantKind.UNAFFORDABLE
        return None

    def settle(self, run_id: str, outcomes: Sequence[Settled]) -> None:
        """Settle; a doubt stays reserved."""
        if self.break_settle is not None:
            raise self.break_settle
        for each in outcomes:
            ask = self.open.pop(each.call_id)
            self.settled.append(each)
            unknown = each.state is CallState.ANSWERED and each.cost_micro is None
            if each.state is not CallState.IN_DOUBT and not unknown:
                self.reserved -= ask.worst_micro
                self.spent += each.cost_micro or 0


@dataclass(slots=True)
class Bench:
    """One window or more with everything around them."""

    loop: VirtualLoop
    service: FakeService
    store: FakeStore
    control: Control
    book: CallBook
    windows: dict[Check, Window]
    ended: list[int] = field(default_factory=list)

    @property
    def window(self) -> Window:
        """Return the first window."""
        return next(iter(self.windows.values()))

    @property
    def progress(self) -> CheckProgress:
        """Return the first check's numbers."""
        return next(iter(self.control.progress.values()))


def bench(
    loop: VirtualLoop,
    reply: Callable[[Lookup, int], Reading] = lambda *_: miss(),
    *,
    cap: int = 8,
    latency_s: float = 0.1,
    attempts: int = 5,
    caps: Caps | None = None,
    checks: Sequence[Check] = (Check.KARMA,),
    control: Control | None = None,
) -> Bench:
    """Return a window for each check, wide open at its cap."""
    service = FakeService(loop, reply, latency_s)
    store = FakeStore(loop.micros)
    control = control or Control()
    control.progress = {check: CheckProgress() for check in checks}
    book = CallBook(store, run_id="run", purpose="portfolio", caps=caps or Caps(), since=0)
    made = Bench(loop, service, store, control, book, {})
    for check in checks:
        made.windows[check] = Window(
            check,
            send=service,
            book=book,
            cap=AdaptiveCap(cap, start=cap),
            control=control,
            pace=Pace(attempts, random.Random(7)),
            clock=loop.micros,
            note=lambda job: made.ended.append(job.index),
        )
    return made
