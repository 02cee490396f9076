"""A lane over a real journal, with a made-up service of the real signature.

What does not belong here: expectations; the tests have them.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from nightscreen.calling.lane import Lane
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.stops import CheckProgress, Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.calling.writer import Writer
from nightscreen.client.classify import CallOutcome
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.journal import Journal
from nightscreen.schemas.calls import Caps
from nightscreen.schemas.checks import IdentityKind, Outcome
from nightscreen.schemas.requests import Request
from tests.calling.virtual_time import VirtualLoop

NAIRA = 1_000_000
PRICE = 10 * NAIRA


def hit() -> CallOutcome:
    return CallOutcome(ChargeStatus.ANSWERED, outcome=Outcome.FOUND, cost_micro=PRICE, status=200)


def miss() -> CallOutcome:
    return CallOutcome(ChargeStatus.ANSWERED, outcome=Outcome.CLEAR, cost_micro=0, status=404)


def lost(trouble: FailureReason = FailureReason.CUT) -> CallOutcome:
    """Return an attempt that may have been charged."""
    return CallOutcome(ChargeStatus.IN_DOUBT, trouble=trouble, retry=True)


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


def task(number: int) -> LookupTask:
    asked = f"{number:011d}"
    request = Request("karma", "GET", "", None, asked=asked)
    kind, subject = IdentityKind.BVN.value, number.to_bytes(16, "big")
    return LookupTask(request.operation, lambda: request, kind, subject, PRICE, asked)


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


def lane_of(
    journal: Journal,
    service: FakeService,
    *,
    cap: int = 8,
    attempts: int = 5,
    stops: Stops | None = None,
) -> Lane:
    """Return a lane for karma, wide open at its cap."""
    stops, clock = stops or Stops(), service.loop.micros
    stops.progress = {"karma": CheckProgress()}
    since = journal.answers.position()
    return Lane(
        check="karma",
        send=service,
        writer=Writer(journal.calls, run_id="run", purpose="portfolio", caps=Caps(), since=since),
        cap=AdaptiveCap(cap, start=cap),
        stops=stops,
        wallet=Wallet(stops),
        attempts=attempts,
        random=random.Random(7),
        clock=clock,
        worst_micro=PRICE,
    )


async def made_all(lane: Lane, calls: list[LookupTask]) -> list[LookupTask]:
    """Hand calls in, no more at a time than a run does, and wait for the end of each."""
    turns = asyncio.Semaphore(2 * lane.cap.maximum)

    async def one(call: LookupTask) -> LookupTask:
        async with turns:
            return await lane.make(call)

    made = await asyncio.gather(*map(one, calls), return_exceptions=True)
    await lane.drain()
    lane.writer.close()
    for each in made:
        if isinstance(each, BaseException):
            raise each
    return [each for each in made if isinstance(each, LookupTask)]
