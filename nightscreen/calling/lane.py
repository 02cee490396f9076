"""A lane: the calls of one check, or one family of operations, that this process makes.

It keeps as many calls in flight as its cap allows. It sends calls that are due for a retry, API
calls that were passed to it, and lookups that it claims from the run's table, a block ahead unless
other processes share the cap. A call waiting to be repeated holds no slot. A lane outlives its
callers, so a task that is cancelled or re-entered never abandons or repeats a call.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from nightscreen.calling.lookup_task import LookupTask, most_charged, outcome_of, released
from nightscreen.calling.stops import FEW, Objection, Stops, Until
from nightscreen.client.classify import BODY_KEPT, CallOutcome, next_attempt
from nightscreen.client.response_rules import ChargeStatus
from nightscreen.journal.calls import ClaimRequest
from nightscreen.schemas.calls import KEPT_STATES, LookupStatus, Reservation, ReservationStatus
from nightscreen.schemas.clock import MICROS, next_day
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence
    from random import Random

    from nightscreen.calling.stops import CheckProgress, Evidence
    from nightscreen.calling.wallet import Wallet
    from nightscreen.calling.writer import Writer
    from nightscreen.client.limiter import AdaptiveCap, CallStart
    from nightscreen.journal.calls import Claim
    from nightscreen.journal.lookups import ClaimedLookup
    from nightscreen.schemas.calls import CallResult
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.requests import Request

_HELD_POLL_S = 0.5
_POLL_S = 0.1
"""Wait before the next claim if other processes left no room, or if a call under way may confirm
the price or release money, unless a call of this process settles first."""
_POLL_OWN_CALLS_S = 0.5
"""The same if this process has calls under way, which will soon release money or room. Also the
wait before checking whether other processes have ended or released their claimed lookups."""
_LEAST_WAIT_S = 0.001
_LOW = 4
"""A block is reserved when fewer calls are ready than this part of the cap: a quarter of a cap of
200 lasts for 25 ms, and a claim takes 10 ms."""
_FREE = frozenset({ChargeStatus.NOT_SENT, ChargeStatus.NOT_CHARGED})

Sender = Callable[["Request"], "Awaitable[CallOutcome]"]
"""Makes one attempt at a call; never raises for what the network or the service does."""


class LookupTable(Protocol):
    """The run's lookups that a lane claims."""

    # other processes claim them too; lookups that they may still release are waited for
    shared: bool
    staged: bool  # another process opens stages; lookups for later stages are waited for

    def tasks(
        self, taken: Sequence[tuple[ClaimedLookup, Reservation]]
    ) -> list[tuple[LookupTask, Reservation]]:
        """Return the tasks of claimed lookups, with their identities decrypted."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Lane:
    """Keeps up to a cap of calls of one check in flight."""

    check: str  # the check or operation
    send: Sender
    writer: Writer
    cap: AdaptiveCap
    stops: Stops
    wallet: Wallet
    attempts: int  # attempts a lookup, resends of calls in doubt included
    random: Random  # for jitter
    clock: Clock
    worst_micro: int = 0  # the most a call may cost
    table: LookupTable | None = None  # the lookups of the run; None for API calls
    # all lanes of the run in this process. Money that is too little for one check may be enough for
    # another, whose calls may release some; so all end only when the last one is short.
    lanes: Mapping[str, Lane] = field(default_factory=dict)
    # lookups are left that the money does not reach, and no call under way could release any
    short: bool = field(default=False, init=False)
    _progress: CheckProgress = field(init=False)
    _evidence: Evidence = field(init=False)
    # calls that have not ended: they are ready, in flight, or waiting
    _open: dict[bytes | int, LookupTask] = field(default_factory=dict, init=False)
    # calls that are reserved and not sent yet
    _ready: deque[LookupTask] = field(default_factory=deque, init=False)
    # calls that are not reserved: the instant (loop's clock) from which they may be, order, call
    _waiting: list[tuple[float, int, LookupTask]] = field(default_factory=list, init=False)
    _order: itertools.count[int] = field(default_factory=itertools.count, init=False)
    _intents: int = field(default=0, init=False)  # granted, with their outcome not committed yet
    # those of them whose cost is not believed
    _unjudged: int = field(default=0, init=False)
    _flights: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    # whether to claim lookups of the table; whether any waited at the last claim
    _claims: bool = field(default=False, init=False)
    _more: bool = field(default=False, init=False)
    _only: int | None = field(default=None, init=False)  # claim only this one; None: next in rank
    # instants (loop's clock) of the last refusal, and before which nothing is claimed
    _refused_at: float = field(default=0.0, init=False)
    _claim_from: float = field(default=0.0, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _runner: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._progress = self.stops.progress[self.check]
        self._evidence = self.stops.evidence(self.check)
        self.stops.on_stop(self._wake.set)

    @property
    def open(self) -> int:
        """Return how many calls have not ended."""
        return len(self._open)

    @property
    def is_asking(self) -> bool:
        """Return whether calls are being made, or lookups claimed."""
        return self._runner is not None and not self._runner.done()

    @property
    def has_intents(self) -> bool:
        """Return whether calls of this lane are reserved, or under way."""
        return self._intents > 0

    async def make(self, task: LookupTask) -> LookupTask:
        """Make an API call and wait until it has ended or the run has stopped.

        A call that is already under way is joined, not repeated. One about the same subject that
        says something else, such as another password, is made after it.

        Returns:
            The call; one that is still `WAITING` was not made.

        Raises:
            NightscreenError: the journal could not be written, or a call could not be made; calls
                sent and not answered are in doubt.
        """
        known = self._open.setdefault(task.key, task)
        while known.done is not None and known.request() != task.request():
            await self._until(known.done)
            known = self._open.setdefault(task.key, task)
        if known.done is None:
            known.done = asyncio.get_running_loop().create_future()
            self._put_off(known, 0.0)
        self._start()
        await self._until(known.done)
        return known

    async def ask(self, *, only: int | None = None) -> None:
        """Claim and ask lookups of the run until none is left, or they are stopped.

        A second caller waits for the same end.

        Args:
            only: the number of the only lookup to ask; None for all, in rank.

        Raises:
            NightscreenError: as `make` does.
        """
        if not self.is_asking:
            self.short, self._claims, self._more, self._only = False, True, True, only
            self._claim_from = 0.0
        await self._until(self._start())

    def _start(self) -> asyncio.Task[None]:
        """Start the lane's loop unless it runs."""
        if self._runner is None or self._runner.done():
            self._runner = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()
        return self._runner

    async def _until(self, done: asyncio.Future[Any]) -> None:
        """Wait for a future; a cancelled caller does not stop the lane."""
        await asyncio.shield(done)
        if self.writer.broken is not None:
            raise self.writer.broken

    async def drain(self) -> None:
        """Wait until nothing is in flight and every outcome is committed."""
        while self._runner is not None and not self._runner.done():
            self._wake.set()
            await asyncio.wait([self._runner])
        await self.writer.drain()

    # --- the loop ---

    async def _run(self) -> None:
        """Keep the lane full until nothing is left to do; never leave a caller waiting."""
        try:
            while self._open or self._claims:
                self._wake.clear()
                looked_at, due_s = self._now(), None
                self._progress.cap = self.cap.cap
                if self._halted():
                    self._release_waiting()
                else:
                    self._launch()
                    if self._is_paused():  # other lanes may use the money and the day's quota
                        while self._ready:
                            self._release_intent(self._ready.popleft(), LookupStatus.CLAIMED)
                    if await self._reserve():
                        continue
                    self._record_why_idle()
                    due_s = self._until_due(looked_at)
                if self._open or self._claims:  # until a call settles or is due, or a stop is met
                    with suppress(TimeoutError):
                        async with asyncio.timeout(due_s):
                            await self._wake.wait()
        except Exception as error:  # noqa: BLE001 - callers would wait for ever: each gets it
            self.writer.breaks(error)
            for task in list(self._open.values()):
                self._end(task, LookupStatus.WAITING, 0)

    def _now(self) -> float:
        """Return the instant on the loop's clock, which is monotonic."""
        return asyncio.get_running_loop().time()

    def _halted(self) -> bool:
        if self.writer.broken is not None:
            return True
        if not self._intents and self._is_used_up():
            self.stops.stop_check(self.check, StopReason.QUOTA)
        return not self.stops.may_send(self.check, self.clock(), self._now())

    def _is_used_up(self) -> bool:
        """Whether the day's quota of lookups is used up; it is renewed with the next day."""
        until = self.stops.quota_until.get(self.check)
        return until is not None and self.clock() < until

    def _until_due(self, looked_at: float) -> float | None:
        """Return the seconds until the lane has something to do; None if only events wake it.

        Args:
            looked_at: when this round of the loop started; pauses that ended since are included.
        """
        now, stops = self._now(), self.stops
        ends = [
            self.cap.paused_until,
            self._evidence.not_before,
            self._claim_from,
            stops.resume_at(looked_at),
            self._waiting[0][0] if self._waiting and not self._asks_others_first() else None,
        ]
        due = [end - now for end in ends if end is not None and end > looked_at]
        if stops.silence.gives_up_at is not None:
            due.append(stops.silence.gives_up_at - now)
        if stops.deadline_at is not None:
            due.append((stops.deadline_at - self.clock()) / MICROS)
        return max(_LEAST_WAIT_S, min(due)) if due else None

    def _asks_others_first(self) -> bool:
        """Return whether to ask other lookups before repeating those that wait.

        This is so while calls fail and no answer has come since: other customers' lookups show
        whether the service fails or only these lookups do.
        """
        fails = self._evidence.is_open or self._evidence.not_before > 0
        return fails and (bool(self._ready) or self._more_wait)

    @property
    def _more_wait(self) -> bool:
        """Return whether lookups of the table still waited at the last claim."""
        return self._claims and self._more

    # --- intents ---

    async def _reserve(self) -> bool:
        """Commit the next intents if the lane will soon need them; return whether it did."""
        now, asked_at = self._now(), self.clock()
        number = self._wanted()
        if number < 1 or now < self._claim_from or self._is_used_up() or self._is_paused():
            return False
        is_due = bool(self._waiting) and self._waiting[0][0] <= now
        if not self._claims and not is_due:
            return False
        worst, left_micro = max(self.worst_micro, self._highest()), self.wallet.left()
        number = self.wallet.bind(worst, number)
        block = self._due(number)
        to_claim = number - len(block) if self._claims else 0
        if self._only is not None:
            to_claim = min(1, to_claim)
        self.wallet.unbind(worst, number - len(block) - to_claim)
        if not block and not to_claim:
            return False
        asks = [task.ask(self._highest()) for task in block]
        stopped = frozenset(self.stops.checks)
        check = block[0].check if block else self.check
        request = ClaimRequest(check, asks, to_claim, self._only, left_micro, stopped)
        taken: list[tuple[LookupTask, Reservation]] = []
        try:
            claim = await self.writer.claim(request)
            if claim.taken and self.table is not None:
                taken = self.table.tasks(claim.taken)
        except Exception as error:  # noqa: BLE001 - handed to every caller; nothing was sent
            self.writer.breaks(error)
            for task in block:
                self._put_off(task, 0.0)
            return True
        finally:
            self.wallet.unbind(worst, len(block) + to_claim)
        for task, grant in [*zip(block, claim.granted, strict=True), *taken]:
            self._open[task.key] = task
            self._take(task, grant, asked_at)
        if to_claim:
            self._claimed(claim, asked_at)
        return True

    def _wanted(self) -> int:
        """Return how many calls to reserve now.

        A block is reserved ahead, so that no call waits for the disk. If other processes share the
        cap, only calls that can be sent at once are reserved, since the others could not use them.
        """
        limit = self._limit()
        if self._shares_cap or self._is_disputed:
            return limit - self._intents
        return limit - len(self._ready) if self._runs_low() else 0

    @property
    def _shares_cap(self) -> bool:
        return self.writer.caps.under_way(self.check) is not None

    def _runs_low(self) -> bool:
        """Return whether few reserved calls are left."""
        return not self._shares_cap and len(self._ready) < max(1, self._limit() // _LOW)

    def _due(self, size: int) -> list[LookupTask]:
        """Take calls of one operation that are due; end those whose consent has ended.

        A lane of API calls has the operations of a family, and a claim is for one operation.
        """
        now, at = self.clock(), self._now()
        block: list[LookupTask] = []
        if self._asks_others_first():
            return block
        while self._waiting and self._waiting[0][0] <= at and len(block) < size:
            if block and self._waiting[0][2].check != block[0].check:
                break
            task = heapq.heappop(self._waiting)[2]
            if task.consent_ends_at is not None and now >= task.consent_ends_at:
                self._end_unsent(task, LookupStatus.LAPSED)
            else:
                block.append(task)
        return block

    def _highest(self) -> int:
        return self.wallet.highest_micro.get(self.check, 0)

    def _take(self, task: LookupTask, grant: Reservation, asked_at: int) -> None:
        match grant.kind:
            case ReservationStatus.GRANTED:
                self._intents += 1
                task.grant = grant
                self.wallet.bound_micro += task.bound_micro
                self._ready.append(task)
            case ReservationStatus.ANSWERED:
                self.stops.silence.clear_waits()
                self._end_unsent(task, grant.ends_as)
            case ReservationStatus.HELD:
                self._record_wait("an answer that another process asks for")
                self._put_off(task, _HELD_POLL_S)
            case ReservationStatus.UNAFFORDABLE:
                doubted = LookupStatus.IN_DOUBT if task.doubted else LookupStatus.WAITING
                self._end_unsent(task, doubted)
            case refused:
                self._put_off(task, 0.0)
                self._on_refusal(refused, asked_at)

    def _claimed(self, claim: Claim, asked_at: int) -> None:
        """Process a claim's ended lookups, its refusal, and whether more can be claimed."""
        for each in claim.ended:
            if each.state is not LookupStatus.LAPSED:
                self.stops.silence.clear_waits()
            self.stops.ended(self.check, each.state, 0)
        self.stops.obey(claim.stops)
        refused, left = claim.refused, claim.left
        if self._only is not None and (claim.taken or claim.ended or refused is None):
            self._claims = False
            return
        self.short = False
        self._more = left is None or (left.waiting and refused in {None, ReservationStatus.BUSY})
        if refused is not None:
            self._on_refusal(refused, asked_at)
        elif left is not None and self.table is not None:
            others = self.table.shared and left.claimed > len(self._open)
            self._claims = left.waiting or others or (self.table.staged and left.later)
            if self._claims:
                self._claim_later(_POLL_OWN_CALLS_S)
        if refused is ReservationStatus.UNAFFORDABLE and left is not None:
            self.short = not left.claimed_in_run
            lanes = self.lanes.values()
            all_short = all(each.short or not each.is_asking for each in lanes)
            self._claims = not (self.short and all_short)

    def _on_refusal(self, refused: ReservationStatus, asked_at: int) -> None:
        """Process the reason why no more calls can be reserved now."""
        if refused is ReservationStatus.QUOTA:
            self.stops.quota_until[self.check] = next_day(asked_at)
            return
        if refused is ReservationStatus.LATER:
            self._record_wait("a call under way that will confirm the price of others")
        elif refused is ReservationStatus.BUSY and not self._intents:
            self._record_wait("calls of other processes, which have all of MAX_IN_FLIGHT")
        own_calls = any(lane.has_intents for lane in (self, *self.lanes.values()))
        self._claim_later(_POLL_OWN_CALLS_S if own_calls else _POLL_S)

    def _claim_later(self, poll_s: float) -> None:
        """Claim again after `poll_s`, or when a call settles."""
        self._refused_at = self._now()
        self._claim_from = self._refused_at + poll_s

    # --- pauses ---

    def _is_paused(self) -> bool:
        at = self._now()
        if self._unjudged or max(self.cap.paused_until, self._evidence.not_before) > at:
            return True
        return self.stops.resume_at(at) is not None

    def _limit(self) -> int:
        """Return how many calls may be in flight; one if the next decides whether to continue."""
        stops = self.stops
        is_silent = stops.silence.opened_at is not None or stops.probes_service
        if self._evidence.is_open or is_silent or stops.probes_wallet or self._is_disputed:
            return 1
        return self.cap.cap

    @property
    def _is_disputed(self) -> bool:
        """Return whether a cost of the check is disputed."""
        return self.check in self.writer.disputed.checks

    def _record_why_idle(self) -> None:
        """Record what the lane waits for if no call is under way."""
        at = self._now()
        if self._intents:
            return
        if self.cap.paused_until > at:
            self._record_wait("the service, which asked to be left alone (Retry-After)")
        elif self.stops.silence.opened_at is not None:
            self._record_wait("the service, which gives no answers")

    def _record_wait(self, reason: str) -> None:
        self.stops.silence.record_wait(self.check, reason, at=self._now(), now=self.clock())

    # --- calls ---

    def _launch(self) -> None:
        """Send ready calls up to the limit."""
        while (call := self._next()) is not None:
            flight = asyncio.get_running_loop().create_task(self._send_loop(*call))
            self._flights.add(flight)
            flight.add_done_callback(self._flights.discard)

    def _next(self) -> tuple[LookupTask, CallStart] | None:
        """Take a call that may be sent now, and count it as in flight.

        A call reserved at a price that has risen since is reserved again; a call whose consent has
        ended is not sent.
        """
        while self._ready and self._progress.in_flight < self._limit():
            if self._is_paused() or self._halted():
                return None
            task = self._ready.popleft()
            if self._runs_low():
                self._wake.set()  # a send loop that continues does not wake the lane itself
            if task.consent_ends_at is not None and self.clock() >= task.consent_ends_at:
                self._release_intent(task, LookupStatus.LAPSED)
            elif task.bound_micro < self._highest():
                self._release_intent(task, LookupStatus.CLAIMED)
            else:
                self._progress.in_flight += 1
                return task, self.cap.begin(self._progress.in_flight)
        return None

    async def _send_loop(self, task: LookupTask, begun: CallStart) -> None:
        """Make an attempt, and then the next ones at once.

        If the next call waited for the lane's loop, it would be sent together with all others that
        were answered in the same moment, and the calls would stay synchronised in bursts.
        """
        await self._attempt(task, begun)
        while (call := self._next()) is not None:
            self._launch()  # the answer may have opened the cap further
            await self._attempt(*call)
        self._wake.set()

    async def _receive(self, task: LookupTask) -> CallOutcome:
        """Send a call and return its result; while an answer is confirmed, send the next call.

        The service has no work with it in that time. If one call decides whether others follow, the
        next call waits.
        """
        is_in_flight = True
        try:
            reading = await self.send(task.request())
            if reading.confirm is not None:
                if self._limit() > 1:
                    self._progress.in_flight -= 1
                    is_in_flight = False
                    self._launch()
                reading = await reading.confirm()
        finally:
            self._progress.in_flight -= is_in_flight
        return reading

    async def _attempt(self, task: LookupTask, begun: CallStart) -> None:
        """Make one attempt and queue its outcome for the journal."""
        stops, wallet, check = self.stops, self.wallet, self.check
        mark, witness_mark = wallet.settled_micro, self._evidence.mark
        sent_at = self.clock()
        task.attempts += 1
        if task.answered_before < 0:
            task.answered_before = stops.answered
        try:
            reading = await self._receive(task)
        except Exception as error:  # noqa: BLE001 - a bug: every caller gets it; the call is in doubt
            self.writer.breaks(error)
            wallet.unbind(task.bound_micro)
            self._end(task, LookupStatus.WAITING, 0)
            return
        now, at = self.clock(), self._now()
        if stops.on_attempt is not None:
            stops.on_attempt(check, (now - sent_at) / MICROS, reading)
        wait_s = reading.retry_after_s
        if wait_s is not None and reading.strain:
            wait_s = stops.wait_asked(check, task.subject, wait_s)
        self.cap.on_result(begun=begun, strain=reading.strain, now=at, retry_after_s=wait_s)
        stops.paused_until[check] = self.cap.paused_until
        least = wallet.least_micro
        stopped = stops.record_attempt(
            check,
            task.witness,
            reading,
            mark=witness_mark,
            at=at,
            now=now,
            is_poor=least is not None and least < task.bound_micro,
            was_unread=task.was_unread,
        )
        task.record_attempt(reading)
        self._progress.attempts += 1
        named_micro = wallet.implausible_cost(check, reading)
        self._unjudged += named_micro is not None
        balance = None if reading.stop is not None else reading.balance_micro
        wallet.record_charge(most_charged(task, reading, named_micro), balance, mark)
        if reading.verdict in BODY_KEPT:
            wallet.record_price(check, reading.cost_micro, task.bound_micro)
        delay = self._delay(task, reading)
        ended = task.ends_as(reading, delay, stops=stopped)
        settled = outcome_of(
            task, reading, ended=ended, sent_at=sent_at, now=now, named_micro=named_micro
        )
        becomes = LookupStatus.CLAIMED if delay is not None else LookupStatus.WAITING
        self.writer.settle(
            settled,
            task.becomes(ended or becomes),
            lambda: self._settled(task, settled, ended, delay, reading),
        )

    def _delay(self, task: LookupTask, reading: CallOutcome) -> float | None:
        """Return the seconds until a lookup is tried again; None if its attempts are used up.

        While the service does not answer at all, free attempts for at least three customers do not
        use up their attempts: they continue, one at a time, until the run gives up.
        """
        if task.is_used_up(reading, self.attempts):
            return None
        delay = next_attempt(reading, task.attempts, self.attempts, random=self.random)
        if delay is not None or not reading.retry or reading.verdict not in _FREE:
            return delay
        is_silent = self.stops.answered == task.answered_before
        if not is_silent or task.doubted:
            return None
        witnesses = {each.witness for each in self._open.values()}
        if len(witnesses) < FEW and not self._more_wait:
            return None
        self._evidence.not_before = self._now() + self.stops.silence.probe_every
        return next_attempt(reading, task.attempts, task.attempts + 1, random=self.random)

    # --- outcomes ---

    def _settled(
        self,
        task: LookupTask,
        settled: CallResult,
        ended: LookupStatus | None,
        delay: float | None,
        reading: CallOutcome,
    ) -> None:
        """Continue with a lookup after its outcome is committed."""
        self._freed(task)
        cost_micro = self._judged(task, settled)
        if task.is_api_call:
            task.reading = reading
        if ended is not None and self.writer.broken is None:
            self._end(task, ended, cost_micro)
        elif delay is not None and self.writer.broken is None:
            self._put_off(task, delay)
        else:
            self._end(task, LookupStatus.WAITING, 0)

    def _judged(self, task: LookupTask, settled: CallResult) -> int:
        """Return the cost that counts for a call; record objections of a disputed cost."""
        disputed, cost_micro = self.writer.disputed, settled.cost_micro or 0
        if settled.named_micro is not None:
            self._unjudged -= 1
            disproved = settled.call_id in disputed.disproved
            cost_micro = task.bound_micro if disproved else cost_micro
            self.wallet.report_implausible_cost(
                self.check, task.subject, settled.named_micro, disproved=disproved
            )
        if not self._is_disputed or settled.balance_micro is not None:
            self._evidence.forget(Until.BALANCE)
        elif settled.state in KEPT_STATES:
            self.stops.record_objection(self.check, Objection.UNSETTLED, settled.call_id)
        return cost_micro

    def _put_off(self, task: LookupTask, delay_s: float) -> None:
        heapq.heappush(self._waiting, (self._now() + delay_s, next(self._order), task))

    def _freed(self, task: LookupTask) -> None:
        """Record that a call has ended; any lane may use the money that it releases."""
        self._intents -= 1
        self._claim_from = 0.0
        self.wallet.unbind(task.bound_micro)
        for lane in self.lanes.values():
            lane.claim_again()
        self._wake.set()

    def claim_again(self) -> None:
        """Claim again soon if a claim was refused and another lane's call has settled."""
        if self._claim_from > (soon := self._refused_at + _POLL_S):
            self._claim_from = soon
            self._wake.set()

    def _end(self, task: LookupTask, status: LookupStatus, cost_micro: int) -> None:
        task.status = status
        self._open.pop(task.key, None)
        self.stops.ended(self.check, status, cost_micro)
        if task.done is not None and not task.done.done():
            task.done.set_result(None)
        self._wake.set()

    def _end_unsent(self, task: LookupTask, status: LookupStatus) -> None:
        """End a call that was not made, and save its lookup's status."""
        change = task.becomes(status)
        if change is None:
            self._end(task, status, 0)
        else:
            self.writer.settle(None, change, lambda: self._end(task, status, 0))

    # --- stops ---

    def _release_waiting(self) -> None:
        """Release calls that were not sent; calls in flight settle by themselves."""
        self._claims = False
        while self._ready:
            self._release_intent(self._ready.popleft(), LookupStatus.WAITING)
        waiting = [task for _, _, task in self._waiting]
        self._waiting.clear()
        for task in waiting:
            if self.writer.broken is None:
                self._end_unsent(task, LookupStatus.WAITING)
            else:
                self._end(task, LookupStatus.WAITING, 0)

    def _release_intent(self, task: LookupTask, becomes: LookupStatus) -> None:
        """Release an intent unsent; a call that stays claimed is reserved again."""

        def on_released() -> None:
            self._freed(task)
            if becomes is LookupStatus.CLAIMED:
                self._put_off(task, 0.0)
            else:
                self._end(task, becomes, 0)

        self.writer.settle(released(task, self.clock()), task.becomes(becomes), on_released)
