"""Lookups: a sliding window of calls for one check, shared by all shards in flight.

Intents are committed a block ahead, a call waiting to retry holds no slot, the cap adapts. A shard
hands in its lookups and waits for them; the window outlives it, so that a shard that is cancelled
or re-entered never leaves or repeats a call. How a call is written, read and retried is the
client's; what was funded is `price`'s.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from client.classify import Reading, Verdict
from client.retry import next_attempt
from schemas.calls import Ask, CallState, Grant, GrantKind, Settled
from schemas.errors import JournalError, NightscreenError
from schemas.plan import Standing
from steps.control import ADDRESS, TEST_MODE, Control, StopReason

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Iterable

    from client.limiter import AdaptiveCap
    from schemas.checks import Check, Lookup
    from steps.callbook import CallBook
    from storage.clock import Clock

_MICROS = 1_000_000
_HELD_POLL_S = 0.5
_LEAST_WAIT_S = 0.05
_STATES = {
    Verdict.ANSWERED: CallState.ANSWERED,
    Verdict.NOT_SENT: CallState.NOT_SENT,
    Verdict.NOT_CHARGED: CallState.NOT_CHARGED,
    Verdict.IN_DOUBT: CallState.IN_DOUBT,
    Verdict.TEST_MODE: CallState.TEST_MODE,
    Verdict.STOP: CallState.NOT_CHARGED,
}
RELEASED = "released"
"""Trouble of an intent that was given back unsent when the run stopped."""


class Sender(Protocol):
    """Makes one attempt at a call; never raises for what the network or the service does."""

    def __call__(self, lookup: Lookup) -> Awaitable[Reading]:
        """Send once and read what came back."""


@dataclass(slots=True, eq=False)
class Job:
    """One lookup on its way.

    Attributes:
        lookup: what is asked.
        subject: its pseudonym.
        worst_micro: the most an attempt may cost.
        consent_reference: the consent that authorises it.
        standing: what became of it.
        attempts: attempts made in this session.
        doubted: an attempt may have been charged without our knowing.
        bound_micro: worst cost the attempt under way is reserved with.
    """

    lookup: Lookup
    subject: bytes
    worst_micro: int
    consent_reference: str | None = None
    standing: Standing = Standing.WAITING
    attempts: int = 0
    doubted: bool = False
    bound_micro: int = 0
    waiters: list[Batch] = field(default_factory=list)

    def ask(self) -> Ask:
        """Return the wish to make the next attempt."""
        return Ask(
            check=self.lookup.check.value,
            kind=self.lookup.kind.value,
            subject=self.subject,
            worst_micro=self.bound_micro,
            consent_reference=self.consent_reference,
            attempt=self.attempts + 1,
        )


@dataclass(slots=True, eq=False)
class Batch:
    """The lookups one caller waits for."""

    left: int
    done: asyncio.Future[None]

    def count(self) -> None:
        """Take note that one more has come to an end."""
        self.left -= 1
        if self.left == 0 and not self.done.done():
            self.done.set_result(None)


@dataclass(frozen=True, slots=True)
class Pace:
    """How a window goes about it.

    Attributes:
        attempts: attempts a lookup, resends of calls in doubt included.
        random: where jitter comes from.
    """

    attempts: int
    random: random.Random


class Window:
    """Keeps up to a cap of calls of one check in flight.

    Args:
        check: the check.
        send: makes one attempt.
        book: where intents and outcomes go.
        cap: how many calls may be in flight now.
        control: the run's stops and numbers.
        pace: attempts and jitter.
        clock: the present instant, in microseconds.
    """

    def __init__(
        self,
        check: Check,
        *,
        send: Sender,
        book: CallBook,
        cap: AdaptiveCap,
        control: Control,
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._check = check
        self._send = send
        self._book = book
        self._cap = cap
        self._control = control
        self._pace = pace
        self._clock = clock
        self._queue: deque[Job] = deque()
        self._ready: deque[tuple[Job, Grant]] = deque()
        self._later: list[tuple[float, int, Job]] = []
        self._open: dict[bytes, Job] = {}
        self._flights: set[asyncio.Task[None]] = set()
        self._settling = 0
        self._intending: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._order = itertools.count()
        self._runner: asyncio.Task[None] | None = None
        control.on_stop(self._wake.set)

    @property
    def in_flight(self) -> int:
        """Return how many calls are on the wire."""
        return len(self._flights)

    async def ask(self, jobs: Iterable[Job]) -> list[Job]:
        """Make the lookups and wait until each has come to an end or the run has stopped.

        A lookup that is already under way is joined, not repeated.

        Returns:
            The jobs as they stand; those still `WAITING` were not reached.

        Raises:
            JournalError: the journal could not be written; what was sent since is in doubt.
        """
        mine = [self._open.get(job.subject, job) for job in jobs]
        if not mine:
            return mine
        batch = Batch(len(mine), asyncio.get_running_loop().create_future())
        for job in mine:
            job.waiters.append(batch)
            if job.subject not in self._open:
                self._open[job.subject] = job
                self._queue.append(job)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()
        await asyncio.shield(batch.done)
        if self._book.broken is not None:
            raise self._book.broken
        return mine

    async def drain(self) -> None:
        """Wait until nothing is in flight and every outcome is committed."""
        while self._runner is not None and not self._runner.done():
            self._wake.set()
            await asyncio.wait([self._runner], timeout=1.0)
        await self._book.drain()

    async def _run(self) -> None:
        """Keep the window full until nothing is left to do."""
        while self._open:
            self._wake.clear()
            if self._halted():
                self._let_go()
            else:
                self._bring_back_due()
                self._intend()
                self._launch()
            self._show()
            if not self._open:
                break
            await self._wait()

    def _halted(self) -> bool:
        if self._book.broken is not None:
            return True
        return not self._control.may_send(self._check, self._clock())

    async def _wait(self) -> None:
        """Sleep until something settles, falls due or stops."""
        try:
            await asyncio.wait_for(self._wake.wait(), timeout=self._until_due())
        except TimeoutError:
            return

    def _until_due(self) -> float | None:
        now = asyncio.get_running_loop().time()
        due = [self._later[0][0] - now] if self._later else []
        if self._cap.paused_until > now:
            due.append(self._cap.paused_until - now)
        resume_at = self._control.resume_at(self._clock())
        if resume_at is not None:
            due.append(max(_LEAST_WAIT_S, (resume_at - self._clock()) / _MICROS))
        if self._control.deadline_at is not None:
            due.append((self._control.deadline_at - self._clock()) / _MICROS)
        return max(0.0, min(due)) if due else None

    def _bring_back_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._later and self._later[0][0] <= now:
            self._queue.appendleft(heapq.heappop(self._later)[2])

    def _intend(self) -> None:
        """Commit the next block of intents where the window will soon need it."""
        if self._intending is not None or not self._queue or self._paused():
            return
        if len(self._ready) >= max(1, self._cap.cap // 2):
            return
        block = self._block(min(len(self._queue), self._cap.cap))
        if not block:
            return
        self._intending = asyncio.get_running_loop().create_task(self._commit(block))

    def _block(self, size: int) -> list[Job]:
        """Take the next lookups, at the highest price seen so far, as far as the floor allows."""
        highest = self._control.highest_micro.get(self._check, 0)
        block: list[Job] = []
        while len(block) < size:
            job = self._queue[0]
            job.bound_micro = max(job.worst_micro, highest)
            if not self._control.bind(job.bound_micro):
                break
            block.append(self._queue.popleft())
        return block

    async def _commit(self, block: list[Job]) -> None:
        try:
            grants = await self._book.reserve([job.ask() for job in block])
        except Exception as error:  # noqa: BLE001 - handed to every waiter; nothing was sent
            self._break(error)
            grants = [Grant(GrantKind.HELD)] * len(block)
        self._intending = None
        for job, grant in zip(block, grants, strict=True):
            self._take(job, grant)
        self._wake.set()

    def _break(self, error: Exception) -> None:
        if isinstance(error, NightscreenError):
            self._book.broken = error
        else:
            self._book.broken = JournalError(f"the journal failed with {type(error).__name__}")

    def _take(self, job: Job, grant: Grant) -> None:
        if grant.kind is not GrantKind.GRANTED:
            self._control.unbind(job.bound_micro)
        match grant.kind:
            case GrantKind.GRANTED:
                self._ready.append((job, grant))
            case GrantKind.ANSWERED:
                self._end(job, Standing.REUSED, 0)
            case GrantKind.HELD:
                self._put_off(job, _HELD_POLL_S)
            case GrantKind.UNAFFORDABLE:
                self._end(job, Standing.IN_DOUBT if job.doubted else Standing.WAITING, 0)
            case GrantKind.QUOTA:
                self._queue.appendleft(job)
                self._control.stop_check(self._check, StopReason.QUOTA)

    def _paused(self) -> bool:
        if self._cap.paused_until > asyncio.get_running_loop().time():
            return True
        return self._control.resume_at(self._clock()) is not None

    def _launch(self) -> None:
        while self._ready and len(self._flights) < self._cap.cap and not self._paused():
            job, grant = self._ready.popleft()
            flight = asyncio.get_running_loop().create_task(self._fly(job, grant))
            self._flights.add(flight)
            self._control.progress[self._check].in_flight = len(self._flights)
            flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._control.progress[self._check].in_flight = len(self._flights)
        self._wake.set()
        if not flight.cancelled() and flight.exception() is not None:
            self._break(flight.exception())  # type: ignore[arg-type]  # checked in the line above

    async def _fly(self, job: Job, grant: Grant) -> None:
        """Make one attempt and hand in its outcome."""
        in_flight = len(self._flights)
        sent_at = self._clock()
        job.attempts += 1
        reading = await self._send(job.lookup)
        now = self._clock()
        loop_now = asyncio.get_running_loop().time()
        self._cap.on_result(
            strain=reading.strain,
            now=loop_now,
            in_flight=in_flight,
            retry_after_s=reading.retry_after_s,
        )
        self._note(reading, now)
        delay = next_attempt(reading, job.attempts, self._pace.attempts, random=self._pace.random)
        ended = self._standing(job, reading, delay)
        settled = Settled(
            call_id=grant.call_id,
            ask=job.ask(),
            intent_at=grant.intent_at,
            state=_STATES[reading.verdict],
            trouble=None if reading.trouble is None else str(reading.trouble),
            status=reading.status,
            outcome=None if reading.outcome is None else reading.outcome.value,
            cost_micro=reading.cost_micro,
            balance_micro=reading.balance_micro,
            sent_at=None if reading.verdict is Verdict.NOT_SENT else sent_at,
            settled_at=now,
            final=ended in {Standing.FAILED, Standing.IN_DOUBT},
            body=reading.body,
        )
        self._settling += 1
        self._book.settle(settled, lambda: self._settled(job, ended, delay, reading))

    def _note(self, reading: Reading, now: int) -> None:
        progress = self._control.progress[self._check]
        progress.attempts += 1
        if reading.verdict is Verdict.ANSWERED:
            self._control.saw_answer(self._check, reading.cost_micro, reading.balance_micro)
            return
        self._control.saw_balance(reading.balance_micro)
        silence = reading.verdict in {Verdict.NOT_SENT, Verdict.IN_DOUBT}
        self._control.saw_trouble(self._check, str(reading.trouble), silence=silence, now=now)

    def _standing(self, job: Job, reading: Reading, delay: float | None) -> Standing | None:
        """Return how the lookup ended; None where it goes on or was not reached."""
        if reading.verdict is Verdict.ANSWERED:
            return Standing.FREE if reading.cost_micro == 0 else Standing.PAID
        if reading.verdict in {Verdict.STOP, Verdict.TEST_MODE}:
            return None
        job.doubted = job.doubted or reading.verdict is Verdict.IN_DOUBT
        if delay is not None:
            return None
        return Standing.IN_DOUBT if job.doubted else Standing.FAILED

    def _settled(
        self, job: Job, ended: Standing | None, delay: float | None, reading: Reading
    ) -> None:
        """Go on with a lookup once its outcome is committed."""
        self._settling -= 1
        self._control.unbind(job.bound_micro)
        self._wake.set()
        if reading.stop is not None:
            self._stop(reading)
        if self._book.broken is not None:
            self._end(job, Standing.WAITING, 0)
        elif ended is not None:
            self._end(job, ended, reading.cost_micro or 0)
        elif delay is not None:
            self._put_off(job, delay)
        else:
            self._end(job, Standing.WAITING, 0)

    def _stop(self, reading: Reading) -> None:
        word = str(reading.stop)
        if word in {ADDRESS, TEST_MODE} or str(reading.stop_scope) == "run":
            self._control.stop_run(word)
        else:
            self._control.stop_check(self._check, word)

    def _put_off(self, job: Job, delay_s: float) -> None:
        due = asyncio.get_running_loop().time() + delay_s
        heapq.heappush(self._later, (due, next(self._order), job))

    def _end(self, job: Job, standing: Standing, cost_micro: int) -> None:
        job.standing = standing
        self._open.pop(job.subject, None)
        self._control.ended(self._check, standing, cost_micro)
        for batch in job.waiters:
            batch.count()
        job.waiters.clear()

    def _let_go(self) -> None:
        """Give back what was not sent; what is in flight settles by itself."""
        while self._ready:
            job, grant = self._ready.popleft()
            now = self._clock()
            released = Settled(
                call_id=grant.call_id,
                ask=job.ask(),
                intent_at=grant.intent_at,
                state=CallState.NOT_SENT,
                trouble=RELEASED,
                settled_at=now,
            )
            self._settling += 1
            self._book.settle(released, lambda job=job: self._released(job))  # type: ignore[misc]
        waiting = [*self._queue, *(job for _, _, job in self._later)]
        self._queue.clear()
        self._later.clear()
        for job in waiting:
            self._end(job, Standing.WAITING, 0)

    def _released(self, job: Job) -> None:
        self._settling -= 1
        self._control.unbind(job.bound_micro)
        self._end(job, Standing.WAITING, 0)
        self._wake.set()

    def _show(self) -> None:
        progress = self._control.progress[self._check]
        progress.cap = self._cap.cap
        progress.in_flight = len(self._flights)
