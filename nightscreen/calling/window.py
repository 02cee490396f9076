"""Lookups: a sliding window of calls for one check, shared by all shards in flight.

Intents are committed a block ahead, or as slots come free where the cap is shared. A call waiting
to retry holds no slot, the cap adapts. A shard hands in its lookups and waits for them; the window
outlives it, so that a shard that is cancelled or re-entered never leaves or repeats a call. How a
call is written, read and retried is the client's; what was funded is `price`'s; a lookup on its way
is `tasks`'.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightscreen.calling.control import UNDECIDED_AFTER, WITNESSES_LATER, Control, StopReason
from nightscreen.calling.lookup_task import (
    ApiCall,
    Barrier,
    LookupTask,
    most_charged,
    outcome_of,
    released,
)
from nightscreen.client.classify import BODY_KEPT, CallOutcome, ChargeStatus
from nightscreen.client.retry import next_attempt
from nightscreen.planning.short_circuit import Spares, Step
from nightscreen.schemas.calls import KEPT_STATES, Reservation, ReservationStatus
from nightscreen.schemas.checks import HITS
from nightscreen.schemas.clock import next_day
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Iterable

    from nightscreen.calling.funding import Funding
    from nightscreen.calling.journal_writer import JournalWriter
    from nightscreen.client.limiter import CallStart, Cap
    from nightscreen.schemas.calls import CallResult
    from nightscreen.schemas.clock import Clock

__all__ = ["LookupTask", "RetryBudget", "Sender", "Window"]

_MICROS = 1_000_000
_HELD_POLL_S = 0.5
_BUSY_POLL_S = 0.1
"""Until calls are asked for again that others left no room for, unless one of our own settles."""
_BUSY_POLL_BESIDE_S = 0.5
"""The same where calls of our own are under way: what they leave is ours, and soon."""
_LIKELY = 8
"""Calls asked for of a shared cap at least; at most twice what was granted of late.

Each that is refused costs something, and is asked for again.
"""
_UNCONFIRMED_POLL_S = 0.1
"""Until a call under way has confirmed the price, or came to nothing."""
_LEAST_WAIT_S = 0.001
_FREE = frozenset({ChargeStatus.NOT_SENT, ChargeStatus.NOT_CHARGED})


Sender = Callable[[Any], "Awaitable[CallOutcome]"]
"""Makes one attempt at what a task asks; never raises for what the network or the service does."""


@dataclass(frozen=True, slots=True)
class RetryBudget:
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
        writer: where intents and outcomes go.
        cap: how many calls may be in flight now.
        control: the run's stops and numbers.
        pace: attempts and jitter.
        clock: the present instant, in microseconds.
        note: told of each lookup that came to an end, whoever waits for it.
        sparing: tells which lookups wait for others, and which are not needed any more.
        funding: tells which lookups there is money for by now; None where the journal alone does.
        unreadable_run: counts charged answers in a row that could not be read, where several
            workers share the count; None where the control's own is the whole.
    """

    def __init__(
        self,
        check: str,
        *,
        send: Sender,
        writer: JournalWriter,
        cap: Cap,
        control: Control,
        pace: RetryBudget,
        clock: Clock,
        note: Callable[[LookupTask], None] | None = None,
        sparing: Spares | None = None,
        funding: Funding | None = None,
        unreadable_run: Callable[[], int] | None = None,
    ) -> None:
        self._check = check
        self._send = send
        self._writer = writer
        self._cap = cap
        self._control = control
        self._progress = control.progress[check]
        self._evidence = control.evidence(check)
        self._pace = pace
        self._clock = clock
        self._tell = note
        self._sparing = sparing
        self._funding = funding
        self._unreadable_run = unreadable_run
        if funding is not None:
            funding.joins(self)
        self._held: dict[int, LookupTask] = {}
        self._queue: deque[LookupTask] = deque()
        self._ready: deque[tuple[LookupTask, Reservation]] = deque()
        self._later: list[tuple[float, int, LookupTask]] = []
        self._open: dict[bytes, LookupTask] = {}
        self._flights: set[asyncio.Task[None]] = set()
        self._confirming: set[asyncio.Task[None]] = set()
        self._intents = 0  # granted calls whose outcome is not committed yet
        self._share: int | None = None  # calls the others leave to this process; None: all it wants
        self._likely: int | None = None  # calls at a time that others may leave room for
        self._busy_until, self._busy_with = 0.0, ""
        self._unjudged = 0  # calls whose cost is not believed, and that are not committed yet
        self._undecided = 0  # answers without a balance in a row, while a cost is disputed
        self._intending: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._order = itertools.count()
        self._runner: asyncio.Task[None] | None = None
        control.on_stop(self._wake.set)

    @property
    def is_stranded(self) -> bool:
        """Return whether every lookup left waits for another one, or for money."""
        return len(self._held) == len(self._open)

    @property
    def open(self) -> int:
        """Return how many lookups have not come to an end."""
        return len(self._open)

    def nudge(self) -> None:
        """Look again at what may be sent: something changed outside."""
        self._wake.set()

    async def ask(self, tasks: Iterable[LookupTask]) -> list[LookupTask]:
        """Make the lookups and wait until each has come to an end or the run has stopped.

        A lookup that is already under way is joined, not repeated.

        Returns:
            The tasks as they stand; those still `WAITING` were not reached.

        Raises:
            NightscreenError: the journal could not be written, or a call could not be made; what
                was sent and not answered since is in doubt.
        """
        loop = asyncio.get_running_loop()
        batch = Barrier(loop.create_future())
        mine = [self._enter(task, batch) for task in tasks]
        if not mine:
            return mine
        if self._runner is None or self._runner.done():
            self._runner = loop.create_task(self._run())
        self._wake.set()
        await asyncio.shield(batch.done)
        if self._writer.broken is not None:
            raise self._writer.broken
        return mine

    def _enter(self, task: LookupTask, batch: Barrier) -> LookupTask:
        """Queue a lookup, or join it where it is under way."""
        known = self._open.setdefault(task.subject, task)
        if known is task:
            self._queue.append(task)
        known.waiters.append(batch)
        batch.left += 1
        return known

    async def drain(self) -> None:
        """Wait until nothing is in flight and every outcome is committed."""
        while self._runner is not None and not self._runner.done():
            self._wake.set()
            await asyncio.wait([self._runner])
        await self._writer.drain()
        # what could not be read is counted after its outcome is committed
        while flights := self._flights | self._confirming:
            await asyncio.wait(flights)

    # --- the loop ---

    async def _run(self) -> None:
        """Keep the window full until nothing is left to do; leave nobody waiting, come what may."""
        try:
            while self._open:
                self._wake.clear()
                looked_at = asyncio.get_running_loop().time()
                halted = self._halted()
                if halted:
                    self._let_go()
                else:
                    self._bring_back_due()
                    self._launch()
                    if self._is_paused():
                        self._unreserve()
                    self._intend()
                    self._leave_stranded()
                    self._say_why()
                share = self._cap.cap if self._share is None else self._share
                self._progress.cap = min(self._cap.cap, share)
                if self._open:
                    await self._wait(None if halted else self._until_due(looked_at))
        except Exception as error:  # noqa: BLE001 - callers would wait for ever: each is told of it
            self._writer.breaks(error)
            for task in list(self._open.values()):
                self._end(task, LookupStatus.WAITING, 0)
        finally:
            if self._funding is not None:
                self._funding.is_over()  # another check's lookups may wait for money from here

    def _halted(self) -> bool:
        if self._writer.broken is not None:
            return True
        if self._is_used_up() and not (
            self._ready or self._flights or self._confirming or self._intending
        ):
            self._control.stop_check(self._check, StopReason.QUOTA)
        at = asyncio.get_running_loop().time()
        return not self._control.may_send(self._check, self._clock(), at)

    def _is_used_up(self) -> bool:
        """Whether the day's number of lookups is used up; it comes back with the next day."""
        until = self._control.quota_until.get(self._check)
        return until is not None and self._clock() < until

    async def _wait(self, due_s: float | None) -> None:
        """Sleep until something settles, falls due or stops."""
        timer = None
        if due_s is not None:
            timer = asyncio.get_running_loop().call_later(due_s, self._wake.set)
        await self._wake.wait()
        if timer is not None:
            timer.cancel()

    def _until_due(self, looked_at: float) -> float | None:
        """Return seconds until something falls due by itself.

        Args:
            looked_at: when the window began to look around; what ended since is looked at again.
        """
        now = asyncio.get_running_loop().time()
        due = [self._later[0][0] - now] if self._later and not self._asks_others_first() else []
        control = self._control
        ends = (self._cap.paused_until, self._evidence.not_before, self._busy_until)
        due += [end - now for end in ends if end > looked_at]
        later = (control.resume_at(looked_at), control.silence.gives_up_at)
        due += [at - now for at in later if at is not None]
        if control.deadline_at is not None:
            due.append((control.deadline_at - self._clock()) / _MICROS)
        return max(_LEAST_WAIT_S, min(due)) if due else None

    def _bring_back_due(self) -> None:
        """Put lookups whose wait is over before all others, those due first in front."""
        if not self._later or self._asks_others_first():
            return
        now = asyncio.get_running_loop().time()
        due: list[LookupTask] = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2])
        self._queue.extendleft(reversed(due))

    def _asks_others_first(self) -> bool:
        """Return whether lookups that wait are left waiting: the same one is no further witness.

        So it is while the service fails without an answer since: others may tell whether it is the
        service that fails, or only these.
        """
        fails = self._evidence.is_open or self._evidence.not_before > 0
        return fails and bool(self._queue or self._ready)

    # --- intents ---

    def _intend(self) -> None:
        """Commit the next block of intents where the window will soon need it."""
        if self._intending is not None or not self._queue:
            return
        if self._is_used_up() or self._is_paused():
            return
        wanted = min(len(self._queue), self._wanted())
        likely = wanted if self._likely is None else min(wanted, self._likely)
        block = self._block(likely)
        if block:
            is_whole = len(block) == likely  # else what is left waits for money, or for another
            more = min(len(self._queue), wanted - likely) if is_whole else 0
            intending = self._commit(block, more=more)
            self._intending = asyncio.get_running_loop().create_task(intending)

    def _wanted(self) -> int:
        """Return how many calls to reserve now.

        A block is reserved ahead, so that no call waits for the disk. Where other processes share
        the cap, what is reserved is theirs no more: only what can be sent at once.
        """
        if asyncio.get_running_loop().time() < self._busy_until:
            return 0
        limit = self._limit()
        if self._writer.caps.under_way(self._check) is None and not self._is_disputed:
            return limit if self._runs_low() else 0
        return max(0, limit - self._intents)

    def _runs_low(self) -> bool:
        """Return whether few of the calls that are reserved ahead are left."""
        is_shared = self._writer.caps.under_way(self._check) is not None
        return not is_shared and len(self._ready) < max(1, self._limit() // 2)

    def _block(self, size: int) -> list[LookupTask]:
        """Take the next lookups, at the highest price seen so far, as far as the floor allows."""
        highest, now = self._highest(), self._clock()
        block: list[LookupTask] = []
        while self._queue and len(block) < size:
            task = self._queue[0]
            if task.consent_ends_at is not None and now >= task.consent_ends_at:
                self._end(self._queue.popleft(), LookupStatus.LAPSED, 0)
                continue
            if self._set_aside(task):
                continue
            task.bound_micro = max(task.worst_micro, highest)
            if not self._control.bind(task.bound_micro):
                break
            block.append(self._queue.popleft())
        return block

    def _set_aside(self, task: LookupTask) -> bool:
        """Take the next lookup out of the queue where it must wait, or is spared.

        What has been sent before is neither: it may have been charged, and wants its answer.
        """
        if task.attempts:
            return False
        step = Step.ASK if self._sparing is None else self._sparing.step(task.index)
        is_paid_for = self._funding is None or self._funding.pays_for(task.index)
        if step is Step.ASK and is_paid_for:
            return False
        self._queue.popleft()
        if step is Step.SPARE:
            self._end(task, LookupStatus.SPARED, 0)
            return True
        self._held[task.index] = task
        if step is Step.WAIT and self._sparing is not None:
            self._sparing.hold(task.index, lambda: self._release(task.index))
        elif self._funding is not None:
            self._funding.park(task.index, lambda: self._release(task.index))
        return True

    def _release(self, index: int) -> None:
        """Put a lookup first in the queue, now that it is known what is to be done about it."""
        task = self._held.pop(index, None)
        if task is not None:
            self._queue.appendleft(task)
            self._wake.set()

    def _leave_stranded(self) -> None:
        """Leave for a later round what waits for lookups that are not under way, or for money."""
        if not self.is_stranded or not self._held:
            return
        if self._funding is None or self._funding.is_over():
            held = list(self._held.values())
            self._held.clear()
            for task in held:
                self._end(task, LookupStatus.WAITING, 0)

    def _highest(self) -> int:
        return self._control.highest_micro.get(self._check, 0)

    async def _commit(self, block: list[LookupTask], *, more: int) -> None:
        asked_at = self._clock()
        try:
            grants = await self._writer.reserve([task.ask() for task in block], more)
        except Exception as error:  # noqa: BLE001 - handed to every waiter; nothing was sent
            self._writer.breaks(error)
            grants = [Reservation(ReservationStatus.HELD)] * len(block)
        self._intending = None
        pairs = list(zip(block, grants, strict=True))
        for task, grant in pairs:
            self._take(task, grant, asked_at)
        busy = [pair for pair in pairs if pair[1].kind is ReservationStatus.BUSY]
        self._queue.extendleft(task for task, _ in reversed(busy))
        self._share = self._intents if busy else None
        if self._writer.caps.under_way(self._check) is not None:
            granted = len(block) - len(busy)
            self._likely = max(_LIKELY, 2 * granted, (self._likely or 0) // 2)
        if busy:
            poll_s = _BUSY_POLL_BESIDE_S if self._intents else _BUSY_POLL_S
            self._busy_until = asyncio.get_running_loop().time() + poll_s
            self._busy_with = busy[0][1].holder
        self._wake.set()

    def _take(self, task: LookupTask, grant: Reservation, asked_at: int) -> None:
        if grant.kind is not ReservationStatus.GRANTED:
            self._control.unbind(task.bound_micro)
        match grant.kind:
            case ReservationStatus.GRANTED:
                self._intents += 1
                self._ready.append((task, grant))
            case ReservationStatus.ANSWERED:
                self._control.silence.ends()
                self._end(task, LookupStatus.REUSED, 0)
            case ReservationStatus.HELD:
                self._waits_for(f"an answer that {grant.holder or 'another process'} asks for")
                self._put_off(task, _HELD_POLL_S)
            case ReservationStatus.BUSY:
                pass  # `_commit` puts it back where it stood in the queue
            case ReservationStatus.LATER:
                self._waits_for("a call under way that will confirm the price of others")
                self._put_off(task, _UNCONFIRMED_POLL_S)
            case ReservationStatus.UNAFFORDABLE:
                self._end(task, LookupStatus.IN_DOUBT if task.doubted else LookupStatus.WAITING, 0)
            case ReservationStatus.QUOTA:
                self._control.quota_until[self._check] = next_day(asked_at)
                self._put_off(task, 0.0)

    # --- pauses ---

    def _is_paused(self) -> bool:
        at = asyncio.get_running_loop().time()
        if self._unjudged or max(self._cap.paused_until, self._evidence.not_before) > at:
            return True
        return self._control.resume_at(at) is not None

    def _limit(self) -> int:
        """Return how many calls may be in flight; one where the next decides whether to go on."""
        if self._evidence.is_open or self._control.breaker.opened_at is not None:
            return 1
        return 1 if self._is_disputed else self._cap.cap

    @property
    def _is_disputed(self) -> bool:
        """Return whether a cost of the check is not believed, and nothing settles it yet."""
        return self._check in self._writer.disputed.checks

    def _unreserve(self) -> None:
        """Give back what is reserved while the check is paused: others may use money and number."""
        while self._ready:
            self._give_back(*self._ready.popleft(), self._requeue)

    def _say_why(self) -> None:
        """Say what is waited for where nothing is under way."""
        if self._flights or self._confirming or self._intending or not self._open:
            return
        at = asyncio.get_running_loop().time()
        if self._cap.paused_until > at:
            self._waits_for("the service, which asked to be left alone (Retry-After)")
        elif self._control.breaker.opened_at is not None:
            self._waits_for("the service, which gives no answers")
        elif self._busy_until > at:
            who = self._busy_with or "other processes"
            self._waits_for(f"calls under way of {who}, which have all of MAX_IN_FLIGHT")

    def _waits_for(self, reason: str) -> None:
        at = asyncio.get_running_loop().time()
        self._control.silence.goes_on(self._check, reason, at=at, now=self._clock())

    # --- calls ---

    def _launch(self) -> None:
        """Send what is ready, as far as the limit lets."""
        loop = asyncio.get_running_loop()
        while len(self._flights) < self._limit() and (pair := self._next_ready()) is not None:
            begun = self._cap.begin(len(self._flights) + 1)
            flight = loop.create_task(self._fly(*pair, begun))
            self._flights.add(flight)
            self._progress.in_flight = len(self._flights)
            flight.add_done_callback(self._landed)

    def _next_ready(self) -> tuple[LookupTask, Reservation] | None:
        """Take what may be sent; what was reserved at a price since risen is reserved anew."""
        while self._ready and not self._is_paused():
            task, grant = self._ready.popleft()
            if self._runs_low():
                self._wake.set()  # a flight that goes on never lands, and wakes nobody
            if task.bound_micro >= self._highest():
                return task, grant
            self._give_back(task, grant, self._requeue)
        return None

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._confirming.discard(flight)
        self._progress.in_flight = len(self._flights)
        self._wake.set()

    def _make_room(self) -> None:
        """Let the next call go while an answer is confirmed: the service has nothing to do for it.

        Where one call decides whether others follow, it is waited for.
        """
        flight = asyncio.current_task()
        if flight is None or self._limit() <= 1:
            return
        self._flights.discard(flight)
        self._confirming.add(flight)
        self._progress.in_flight = len(self._flights)
        if not self._halted():
            self._launch()

    async def _fly(self, task: LookupTask, grant: Reservation, begun: CallStart) -> None:
        """Make an attempt, and after a good answer the next one at once.

        A call that waited for the loop to come around would go out with all others that were
        answered beside it, and be answered with them: they would all wait for each other for good.
        """
        goes_on = await self._attempt(task, grant, begun)
        while goes_on:
            made_room = asyncio.current_task() in self._confirming
            if made_room or len(self._flights) > self._limit() or self._halted():
                return
            pair = self._next_ready()
            if pair is None:
                return
            begun = self._cap.begin(len(self._flights))  # this one is among them already
            self._launch()  # the answer may have opened the cap further
            goes_on = await self._attempt(*pair, begun)

    async def _attempt(self, task: LookupTask, grant: Reservation, begun: CallStart) -> bool:
        """Make one attempt and hand in its outcome; return whether it brought a good answer."""
        mark, witness_mark = self._control.wallet.settled_micro, self._evidence.mark
        sent_at = self._clock()
        task.attempts += 1
        if task.answered_before < 0:
            task.answered_before = self._control.answered
        try:
            reading = await self._send(task.lookup)
            if reading.confirm is not None:
                self._make_room()
                reading = await reading.confirm()
        except Exception as error:  # noqa: BLE001 - a fault of ours: told to every waiter; in doubt
            self._writer.breaks(error)
            self._control.unbind(task.bound_micro)
            self._end(task, LookupStatus.WAITING, 0)
            return False
        now = self._clock()
        if self._control.heard is not None:
            self._control.heard(self._check, (now - sent_at) / _MICROS, reading)
        wait_s = reading.retry_after_s
        if wait_s is not None and reading.strain:
            wait_s = self._control.heard_wait(self._check, task.subject, wait_s)
        self._cap.on_result(
            begun=begun,
            strain=reading.strain,
            now=asyncio.get_running_loop().time(),
            retry_after_s=wait_s,
        )
        self._control.paused_until[self._check] = self._cap.paused_until
        stops = reading.stop is not None and self._control.heard_stop(
            self._check, task.witness, reading, mark=witness_mark, price_micro=task.bound_micro
        )
        if reading.foreign:
            stops = self._control.heard_sample(self._check, task.witness, reading.foreign)
        named_micro = self._control.disbelieved(self._check, reading)
        self._unjudged += named_micro is not None
        self._note(task, reading, mark, now, named_micro)
        if reading.is_unread:
            witness = None if task.was_unread else task.witness
            self._control.saw_unread(self._check, witness, mark=witness_mark, now=now)
        task.take_note(reading)
        if reading.fault:
            at = asyncio.get_running_loop().time()
            self._control.heard_fault(
                self._check, task.witness, reading.fault, mark=witness_mark, at=at
            )
        delay = self._delay(task, reading)
        ended = task.ends_as(reading, delay, stops=stops)
        settled = outcome_of(
            task, grant, reading, ended=ended, sent_at=sent_at, now=now, named_micro=named_micro
        )
        self._writer.settle(settled, lambda: self._settled(task, settled, ended, delay, reading))
        return reading.verdict is ChargeStatus.ANSWERED

    def _delay(self, task: LookupTask, reading: CallOutcome) -> float | None:
        """Return seconds until a lookup is tried again; None where its attempts are used up.

        While the service answers nobody, free attempts for at least three customers tell of the
        service and use up nothing: they go on, one at a time, until the silence is given up.
        """
        attempts, random = self._pace.attempts, self._pace.random
        if task.is_used_up(reading, attempts):
            return None
        delay = next_attempt(reading, task.attempts, attempts, random=random)
        if delay is not None or not reading.retry or reading.verdict not in _FREE:
            return delay
        is_silent = self._control.answered == task.answered_before
        if not is_silent or task.doubted:
            return None
        if len({each.witness for each in self._open.values()}) < WITNESSES_LATER:
            return None
        at = asyncio.get_running_loop().time()
        self._evidence.not_before = at + self._control.breaker.probe_every
        return next_attempt(reading, task.attempts, task.attempts + 1, random=random)

    def _note(
        self, task: LookupTask, reading: CallOutcome, mark: int, now: int, named_micro: int | None
    ) -> None:
        """Bring the run's numbers up to date; `named_micro` is a cost that is not believed."""
        control = self._control
        self._progress.attempts += 1
        balance = None if reading.stop is not None else reading.balance_micro
        cost_micro = most_charged(task, reading, named_micro)
        control.came_back(cost_micro, balance, mark)
        if self._funding is not None:
            self._funding.spend(cost_micro)
        if reading.verdict in BODY_KEPT:
            task.outcome = reading.outcome
            believed = reading.cost_micro if named_micro is None else None
            control.saw_answer(self._check, believed, task.bound_micro)
        if reading.verdict is ChargeStatus.UNREADABLE:
            counted = reading.cost_micro if self._unreadable_run is None else None
            control.saw_unreadable(self._check, str(reading.trouble), counted)
            return
        if reading.verdict is ChargeStatus.ANSWERED:
            if reading.outcome in HITS:
                control.saw_record(self._check)
            self._evidence.answered()
            self._evidence.answered_about_its_own()
            if not isinstance(task.lookup, ApiCall):  # answers to API calls may well be alike
                hit = reading.outcome in HITS
                control.saw_body(self._check, reading.body, reading.cost_micro, hit=hit)
            return
        silence = reading.verdict in {ChargeStatus.NOT_SENT, ChargeStatus.IN_DOUBT}
        at = asyncio.get_running_loop().time()
        control.saw_trouble(self._check, str(reading.trouble), silence=silence, at=at, now=now)
        if reading.verdict is ChargeStatus.NOT_CHARGED and not reading.retry:
            control.silence.ends()  # a refusal of this one lookup is a word of the service

    # --- outcomes ---

    def _settled(
        self,
        task: LookupTask,
        settled: CallResult,
        ended: LookupStatus | None,
        delay: float | None,
        reading: CallOutcome,
    ) -> None:
        """Go on with a lookup once its outcome is committed."""
        self._freed(task)
        cost_micro = self._judged(task, settled)
        if self._unreadable_run is not None and reading.verdict is ChargeStatus.UNREADABLE:
            self._flights.add(counting := asyncio.create_task(self._count(self._unreadable_run)))
            counting.add_done_callback(self._landed)
        if isinstance(task.lookup, ApiCall):
            task.reading = reading
        if self._writer.broken is not None:
            self._end(task, LookupStatus.WAITING, 0)
        elif ended is not None:
            self._end(task, ended, cost_micro)
        elif delay is not None:
            self._put_off(task, delay)
        else:
            self._end(task, LookupStatus.WAITING, 0)

    def _judged(self, task: LookupTask, settled: CallResult) -> int:
        """Return what a call counts at by now; look whether its check can go on."""
        disputed, cost_micro = self._writer.disputed, settled.cost_micro or 0
        if settled.named_micro is not None:
            self._unjudged -= 1
            disproved = settled.call_id in disputed.disproved
            cost_micro = task.bound_micro if disproved else cost_micro
            self._control.saw_disbelieved(
                self._check, task.subject, settled.named_micro, disproved=disproved
            )
        if not self._is_disputed or settled.balance_micro is not None:
            self._undecided = 0
        elif settled.state in KEPT_STATES:
            self._undecided += 1
            if (
                self._undecided >= UNDECIDED_AFTER
                and self._check not in self._control.stopped_checks
            ):
                self._control.stop_undecided(self._check)
        return cost_micro

    async def _count(self, unreadable_run: Callable[[], int]) -> None:
        """Count what could not be read over all workers of the run.

        It has the place of the call in the window, so that no other call is sent uncounted.
        """
        try:
            self._control.count_unreadable(self._check, await asyncio.to_thread(unreadable_run))
        except Exception as error:  # noqa: BLE001 - told to every caller: what is not known may cost
            self._writer.breaks(error)

    def _put_off(self, task: LookupTask, delay_s: float) -> None:
        due = asyncio.get_running_loop().time() + delay_s
        heapq.heappush(self._later, (due, next(self._order), task))

    def _freed(self, task: LookupTask) -> None:
        """Take note that a call is not under way any more."""
        self._intents -= 1
        self._busy_until = 0.0
        self._control.unbind(task.bound_micro)
        self._wake.set()

    def _requeue(self, task: LookupTask) -> None:
        self._freed(task)
        self._put_off(task, 0.0)

    def _end(self, task: LookupTask, status: LookupStatus, cost_micro: int) -> None:
        task.status = status
        self._open.pop(task.subject, None)
        self._control.ended(self._check, status, cost_micro)
        if self._tell is not None:
            self._tell(task)
        for batch in task.waiters:
            batch.count()
        task.waiters.clear()

    # --- stops ---

    def _let_go(self) -> None:
        """Give back what was not sent; what is in flight settles by itself."""
        while self._ready:
            self._give_back(*self._ready.popleft(), self._released)
        waiting = [*self._queue, *(task for _, _, task in self._later), *self._held.values()]
        self._queue.clear()
        self._held.clear()
        self._later.clear()
        for task in waiting:
            self._end(task, LookupStatus.WAITING, 0)

    def _give_back(
        self, task: LookupTask, grant: Reservation, then: Callable[[LookupTask], None]
    ) -> None:
        """Give an intent back unsent."""
        self._writer.settle(released(task, grant, self._clock()), lambda: then(task))

    def _released(self, task: LookupTask) -> None:
        self._freed(task)
        self._end(task, LookupStatus.WAITING, 0)
