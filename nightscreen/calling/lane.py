"""A lane: the calls of one check, or one family of operations, that this process makes.

It keeps as many calls in flight as its cap allows. What it sends next are calls that are due again,
API calls that were handed in, and lookups that it claims from the run's table, a block ahead where
nobody shares the cap. A call waiting to be repeated holds no slot. A lane outlives who asks, so
that a task that is cancelled or entered again never leaves or repeats a call.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nightscreen.calling.lookup_task import LookupTask, most_charged, outcome_of, released
from nightscreen.calling.stops import FEW, Objection, Stops, Until
from nightscreen.client.classify import BODY_KEPT, CallOutcome, ChargeStatus
from nightscreen.client.retry import next_attempt
from nightscreen.journal.calls import Wish
from nightscreen.schemas.calls import KEPT_STATES, LookupStatus, Reservation, ReservationStatus
from nightscreen.schemas.clock import MICROS, next_day
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from nightscreen.calling.wallet import Wallet
    from nightscreen.calling.writer import Writer
    from nightscreen.client.limiter import AdaptiveCap, CallStart
    from nightscreen.journal.calls import Claim
    from nightscreen.journal.lookups import ClaimedLookup, Left
    from nightscreen.schemas.calls import CallResult
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.requests import Request

_HELD_POLL_S = 0.5
_POLL_S = 0.1
"""Until it is asked again where others left no room, or where a call under way may confirm the
price or give money back, unless one of our own settles."""
_POLL_BESIDE_S = 0.5
"""The same where calls of our own are under way: what they leave is ours, and soon."""
_OTHERS_POLL_S = 0.5
"""Until it is looked at again whether others have ended, or left, what they have claimed."""
_LEAST_WAIT_S = 0.001
_LOW = 4
"""A block is reserved once so small a part of the cap is ready: a quarter of a cap of 200 lasts for
25 ms, and a claim takes 10."""
_FREE = frozenset({ChargeStatus.NOT_SENT, ChargeStatus.NOT_CHARGED})

Sender = Callable[["Request"], "Awaitable[CallOutcome]"]
"""Makes one attempt at a call; never raises for what the network or the service does."""


class LookupTable(Protocol):
    """The lookups of the run, as a lane claims them."""

    # other processes claim them too; what they have claimed, and may leave, is waited for
    shared: bool
    staged: bool  # another process opens stages; what is left for later is waited for

    def tasks(
        self, taken: Sequence[tuple[ClaimedLookup, Reservation]]
    ) -> list[tuple[LookupTask, Reservation]]:
        """Return the tasks of claimed lookups, with their identities opened."""


@dataclass(slots=True, eq=False)
class _Asking:
    """One request to ask lookups of the table."""

    only: int | None  # the number of the one lookup that is meant; None: all that are next in rank
    # is set once nothing more is to be claimed, and all has come to its end
    over: asyncio.Future[None]
    ended: bool = False  # nothing more is to be claimed
    more: bool = True  # lookups waited when they were last claimed
    not_before: float = 0.0  # instant on the loop's clock before which nothing is claimed
    claimed_at: float = 0.0  # instant on the loop's clock of the last claim


class Lane:
    """Keeps up to a cap of calls of one check in flight.

    Args:
        check: the check or operation.
        attempts: attempts a lookup, resends of calls in doubt included.
        random: where jitter comes from.
        worst_micro: the most a call may cost.
        table: the lookups of the run; None where only API calls are made.
        lanes: all lanes of the run in this process. Money that reaches no lookup of one check may
            reach those of another, and leave some; so the last that is short ends them all.

    Attributes:
        short: lookups are left that the money does not reach, and nothing is under way that could
            give some back.
    """

    def __init__(
        self,
        check: str,
        *,
        send: Sender,
        writer: Writer,
        cap: AdaptiveCap,
        stops: Stops,
        wallet: Wallet,
        attempts: int,
        random: random.Random,
        clock: Clock,
        worst_micro: int = 0,
        table: LookupTable | None = None,
        lanes: Mapping[str, Lane] | None = None,
    ) -> None:
        self.short = False
        self._check = check
        self._send = send
        self._writer = writer
        self._cap = cap
        self._stops = stops
        self._wallet = wallet
        self._progress = stops.progress[check]
        self._evidence = stops.evidence(check)
        self._attempts = attempts
        self._random = random
        self._clock = clock
        self._worst_micro = worst_micro
        self._table = table
        self._lanes = lanes or {}
        self._asking: _Asking | None = None
        self._queue: deque[LookupTask] = deque()
        self._ready: deque[tuple[LookupTask, Reservation]] = deque()
        self._later: list[tuple[float, int, LookupTask]] = []
        self._open: dict[bytes | int, LookupTask] = {}
        self._flights: set[asyncio.Task[None]] = set()
        self._confirming: set[asyncio.Task[None]] = set()
        self._intents = 0  # granted calls whose outcome is not committed yet
        self._busy_until = 0.0
        self._unjudged = 0  # calls whose cost is not believed, and that are not committed yet
        self._reserving: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._order = itertools.count()
        self._runner: asyncio.Task[None] | None = None
        stops.on_stop(self._wake.set)

    @property
    def open(self) -> int:
        """Return how many calls have not come to an end."""
        return len(self._open)

    async def make(self, tasks: Iterable[LookupTask]) -> list[LookupTask]:
        """Make API calls and wait until each has come to an end or the run has stopped.

        A call that is already under way is joined, not repeated.

        Returns:
            The tasks as they stand; those still `WAITING` were not reached.

        Raises:
            NightscreenError: the journal could not be written, or a call could not be made; what
                was sent and not answered since is in doubt.
        """
        loop = asyncio.get_running_loop()
        mine = []
        for task in tasks:
            known = self._open.setdefault(task.key, task)
            if known is task:
                task.done = loop.create_future()
                self._queue.append(task)
            mine.append(known)
        if mine:
            await self._until(asyncio.gather(*(task.done for task in mine if task.done)))
        return mine

    async def ask(self, *, only: int | None = None) -> None:
        """Claim and ask lookups of the run until none is left, or something stops them.

        Who enters while another asks waits for the same end.

        Args:
            only: this lookup by its number, and no other.

        Raises:
            NightscreenError: as `make` does.
        """
        if self._asking is None or self._asking.over.done():
            self.short = False
            self._asking = _Asking(only, asyncio.get_running_loop().create_future())
        await self._until(self._asking.over)

    async def _until(self, done: asyncio.Future[Any]) -> None:
        """Keep the lane going until something is done; a caller that is cancelled leaves it so."""
        if self._runner is None or self._runner.done():
            self._runner = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()
        await asyncio.shield(done)
        if self._writer.broken is not None:
            raise self._writer.broken

    async def drain(self) -> None:
        """Wait until nothing is in flight and every outcome is committed."""
        while self._runner is not None and not self._runner.done():
            self._wake.set()
            await asyncio.wait([self._runner])
        await self._writer.drain()

    # --- the loop ---

    async def _run(self) -> None:
        """Keep the lane full until nothing is left to do; leave nobody waiting, come what may."""
        try:
            while self._open or self._claims_more:
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
                    self._reserve()
                    self._say_why()
                self._progress.cap = self._cap.cap
                if self._open or self._claims_more:
                    await self._wait(None if halted else self._until_due(looked_at))
        except Exception as error:  # noqa: BLE001 - callers would wait for ever: each gets it
            self._writer.breaks(error)
            for task in list(self._open.values()):
                self._end(task, LookupStatus.WAITING, 0)
        finally:
            if self._asking is not None and not self._asking.over.done():
                self._asking.over.set_result(None)

    @property
    def is_asking(self) -> bool:
        """Return whether somebody waits for lookups of the table to be asked."""
        return self._asking is not None and not self._asking.over.done()

    @property
    def _claims_more(self) -> bool:
        """Return whether more is to be claimed, or a claim is under way."""
        if self._asking is None:
            return False
        return not self._asking.ended or self._reserving is not None

    def _halted(self) -> bool:
        if self._writer.broken is not None:
            return True
        if self._is_used_up() and not (
            self._ready or self._flights or self._confirming or self._reserving
        ):
            self._stops.stop_check(self._check, StopReason.QUOTA)
        at = asyncio.get_running_loop().time()
        return not self._stops.may_send(self._check, self._clock(), at)

    def _is_used_up(self) -> bool:
        """Whether the day's number of lookups is used up; it comes back with the next day."""
        until = self._stops.quota_until.get(self._check)
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
            looked_at: when the lane began to look around; what ended since is looked at again.
        """
        now = asyncio.get_running_loop().time()
        due = [self._later[0][0] - now] if self._later and not self._asks_others_first() else []
        stops = self._stops
        ends = [self._cap.paused_until, self._evidence.not_before, self._busy_until]
        if self._asking is not None and not self._asking.ended:
            ends.append(self._asking.not_before)
        due += [end - now for end in ends if end > looked_at]
        later = (stops.resume_at(looked_at), stops.silence.gives_up_at)
        due += [at - now for at in later if at is not None]
        if stops.deadline_at is not None:
            due.append((stops.deadline_at - self._clock()) / MICROS)
        return max(_LEAST_WAIT_S, min(due)) if due else None

    def _bring_back_due(self) -> None:
        """Put calls whose wait is over before all others, those due first in front."""
        if not self._later or self._asks_others_first():
            return
        now = asyncio.get_running_loop().time()
        due: list[LookupTask] = []
        while self._later and self._later[0][0] <= now:
            due.append(heapq.heappop(self._later)[2])
        self._queue.extendleft(reversed(due))

    def _asks_others_first(self) -> bool:
        """Return whether calls that wait are left waiting: the same one is no further witness.

        So it is while the service fails without an answer since: others may tell whether it is the
        service that fails, or only these.
        """
        fails = self._evidence.is_open or self._evidence.not_before > 0
        return fails and bool(self._queue or self._ready or self._more_wait)

    @property
    def _more_wait(self) -> bool:
        """Return whether lookups of the table waited when they were last claimed."""
        asking = self._asking
        return asking is not None and not asking.ended and asking.more

    # --- intents ---

    def _reserve(self) -> None:
        """Commit the next intents where the lane will soon need them."""
        if self._reserving is not None or self._is_used_up() or self._is_paused():
            return
        wanted = self._wanted()
        if not wanted or not (self._queue or self._claimable(wanted)):
            return
        worst, wallet = max(self._worst_micro, self._highest()), self._wallet.left()
        bound = self._wallet.bind(worst, wanted)
        block = self._block(bound)
        number = self._claimable(bound - len(block))
        self._wallet.unbind(worst, bound - len(block) - number)
        if block or number:
            only = None if self._asking is None else self._asking.only
            stopped = frozenset(self._stops.checks)
            wish = Wish(number, only, wallet, stopped) if number else None
            reserving = self._commit(block, wish, worst)
            self._reserving = asyncio.get_running_loop().create_task(reserving)

    def _claimable(self, number: int) -> int:
        """Return how many of so many lookups are to be claimed from the table now."""
        asking = self._asking
        if asking is None or asking.ended or self._table is None:
            return 0
        if asyncio.get_running_loop().time() < asking.not_before:
            return 0
        return number if asking.only is None else min(1, number)

    def _wanted(self) -> int:
        """Return how many calls to reserve now.

        A block is reserved ahead, so that no call waits for the disk. Where other processes share
        the cap, what is reserved is theirs no more: only what can be sent at once.
        """
        if asyncio.get_running_loop().time() < self._busy_until:
            return 0
        limit = self._limit()
        if self._writer.caps.under_way(self._check) is None and not self._is_disputed:
            return limit - len(self._ready) if self._runs_low() else 0
        return max(0, limit - self._intents)

    def _runs_low(self) -> bool:
        """Return whether few of the calls that are reserved ahead are left."""
        is_shared = self._writer.caps.under_way(self._check) is not None
        return not is_shared and len(self._ready) < max(1, self._limit() // _LOW)

    def _block(self, size: int) -> list[LookupTask]:
        """Take the next calls that are due; one whose consent has ended is not made."""
        now = self._clock()
        block: list[LookupTask] = []
        while self._queue and len(block) < size:
            task = self._queue.popleft()
            if task.consent_ends_at is not None and now >= task.consent_ends_at:
                self._end_unsent(task, LookupStatus.LAPSED)
            else:
                block.append(task)
        return block

    def _highest(self) -> int:
        return self._wallet.highest_micro.get(self._check, 0)

    async def _commit(self, block: list[LookupTask], wish: Wish | None, worst_micro: int) -> None:
        asked_at, claim = self._clock(), None
        asks = [task.ask(self._highest()) for task in block]
        taken: list[tuple[LookupTask, Reservation]] = []
        try:
            grants, claim = await self._writer.reserve(self._check, asks, wish)
            if claim is not None and claim.taken and self._table is not None:
                taken = self._table.tasks(claim.taken)
        except Exception as error:  # noqa: BLE001 - handed to every caller; nothing was sent
            self._writer.breaks(error)
            grants = [Reservation(ReservationStatus.HELD)] * len(block)
        self._reserving = None
        self._wallet.unbind(worst_micro, len(block) + (0 if wish is None else wish.number))
        busy = []
        for task, grant in [*zip(block, grants, strict=True), *taken]:
            self._open[task.key] = task
            self._take(task, grant, asked_at)
            if grant.kind is ReservationStatus.BUSY:
                busy.append((task, grant))
        self._queue.extendleft(task for task, _ in reversed(busy))
        if busy:
            self._is_busy()
        if claim is not None and self._asking is not None:
            self._claimed(self._asking, claim, asked_at)
        self._wake.set()

    def _is_busy(self) -> None:
        poll_s = _POLL_BESIDE_S if self._intents else _POLL_S
        self._busy_until = asyncio.get_running_loop().time() + poll_s

    def _poll_s(self) -> float:
        """Return seconds until a claim that was refused is tried again, unless a call settles."""
        lanes = (self, *self._lanes.values())
        return _POLL_BESIDE_S if any(lane.has_intents for lane in lanes) else _POLL_S

    @property
    def has_intents(self) -> bool:
        """Return whether calls of this lane are reserved, or under way."""
        return self._intents > 0

    def _take(self, task: LookupTask, grant: Reservation, asked_at: int) -> None:
        match grant.kind:
            case ReservationStatus.GRANTED:
                self._intents += 1
                task.bound_micro = grant.reserved_micro
                self._wallet.bound_micro += task.bound_micro
                self._ready.append((task, grant))
            case ReservationStatus.ANSWERED:
                self._stops.silence.ends()
                self._end_unsent(task, grant.ends_as)
            case ReservationStatus.HELD:
                self._waits_for("an answer that another process asks for")
                self._put_off(task, _HELD_POLL_S)
            case ReservationStatus.BUSY:
                pass  # `_commit` puts it back where it stood in the queue
            case ReservationStatus.LATER:
                self._waits_for("a call under way that will confirm the price of others")
                self._put_off(task, _POLL_S)
            case ReservationStatus.UNAFFORDABLE:
                doubted = LookupStatus.IN_DOUBT if task.doubted else LookupStatus.WAITING
                self._end_unsent(task, doubted)
            case ReservationStatus.QUOTA:
                self._stops.quota_until[self._check] = next_day(asked_at)
                self._put_off(task, 0.0)

    def _claimed(self, asking: _Asking, claim: Claim, asked_at: int) -> None:
        """Take note of what a claim ended and refused, and whether there will be more."""
        for each in claim.ended:
            if each.state is not LookupStatus.LAPSED:
                self._stops.silence.ends()
            self._stops.ended(self._check, each.state, 0)
        self._stops.obey(claim.stops)
        if asking.only is not None and (claim.taken or claim.ended or claim.refused is None):
            asking.ended = True
            return
        left, now = claim.left, asyncio.get_running_loop().time()
        self.short, asking.claimed_at = False, now
        asking.more = left is None or (left.waiting and claim.refused is None)
        if claim.refused is ReservationStatus.BUSY:
            asking.more = True
            self._is_busy()
        elif claim.refused is ReservationStatus.QUOTA:
            self._stops.quota_until[self._check] = next_day(asked_at)
        elif claim.refused is ReservationStatus.LATER:
            self._waits_for("a call under way that will confirm the price of others")
            asking.not_before = now + self._poll_s()
        elif left is not None and claim.refused is not None:  # the money does not reach further
            asking.not_before = now + self._poll_s()
            self.short = not left.claimed_in_run
            lanes = self._lanes.values()
            asking.ended = self.short and all(each.short or not each.is_asking for each in lanes)
        elif left is not None:
            asking.not_before = now + _OTHERS_POLL_S
            asking.ended = not (left.waiting or self._waits_for_others(left))

    def _waits_for_others(self, left: Left) -> bool:
        """Return whether more may come of what other processes have, or open."""
        table = self._table
        if table is None:
            return False
        mine = sum(task.lookup_id is not None for task in self._open.values())
        return (table.shared and left.claimed > mine) or (table.staged and left.later)

    # --- pauses ---

    def _is_paused(self) -> bool:
        at = asyncio.get_running_loop().time()
        if self._unjudged or max(self._cap.paused_until, self._evidence.not_before) > at:
            return True
        return self._stops.resume_at(at) is not None

    def _limit(self) -> int:
        """Return how many calls may be in flight; one where the next decides whether to go on."""
        stops = self._stops
        if self._evidence.is_open or stops.silence.opened_at is not None or stops.probes_wallet:
            return 1
        return 1 if self._is_disputed else self._cap.cap

    @property
    def _is_disputed(self) -> bool:
        """Return whether a cost of the check is not believed, and nothing settles it yet."""
        return self._check in self._writer.disputed.checks

    def _unreserve(self) -> None:
        """Give back what is reserved while the check is paused: others may use money and number."""
        while self._ready:
            self._give_back(*self._ready.popleft(), LookupStatus.CLAIMED)

    def _say_why(self) -> None:
        """Say what is waited for where nothing is under way."""
        if self._flights or self._confirming or self._reserving:
            return
        at = asyncio.get_running_loop().time()
        if self._cap.paused_until > at:
            self._waits_for("the service, which asked to be left alone (Retry-After)")
        elif self._stops.silence.opened_at is not None:
            self._waits_for("the service, which gives no answers")
        elif self._busy_until > at:
            self._waits_for("calls of other processes, which have all of MAX_IN_FLIGHT")

    def _waits_for(self, reason: str) -> None:
        at = asyncio.get_running_loop().time()
        self._stops.silence.goes_on(self._check, reason, at=at, now=self._clock())

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
        """Take what may be sent now.

        What was reserved at a price since risen is reserved anew; consent that has ended meanwhile
        is none.
        """
        while self._ready and not self._is_paused():
            task, grant = self._ready.popleft()
            if self._runs_low():
                self._wake.set()  # a flight that goes on never lands, and wakes nobody
            if task.consent_ends_at is not None and self._clock() >= task.consent_ends_at:
                self._give_back(task, grant, LookupStatus.LAPSED)
            elif task.bound_micro < self._highest():
                self._give_back(task, grant, LookupStatus.CLAIMED)
            else:
                return task, grant
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
        mark, witness_mark = self._wallet.settled_micro, self._evidence.mark
        sent_at = self._clock()
        task.attempts += 1
        if task.answered_before < 0:
            task.answered_before = self._stops.answered
        try:
            reading = await self._send(task.request())
            if reading.confirm is not None:
                self._make_room()
                reading = await reading.confirm()
        except Exception as error:  # noqa: BLE001 - a fault of ours: every caller gets it; in doubt
            self._writer.breaks(error)
            self._wallet.unbind(task.bound_micro)
            self._end(task, LookupStatus.WAITING, 0)
            return False
        now = self._clock()
        if self._stops.heard is not None:
            self._stops.heard(self._check, (now - sent_at) / MICROS, reading)
        wait_s = reading.retry_after_s
        if wait_s is not None and reading.strain:
            wait_s = self._stops.wait_asked(self._check, task.subject, wait_s)
        self._cap.on_result(
            begun=begun,
            strain=reading.strain,
            now=asyncio.get_running_loop().time(),
            retry_after_s=wait_s,
        )
        self._stops.paused_until[self._check] = self._cap.paused_until
        least = self._wallet.least_micro
        stopped = self._stops.came_back(
            self._check,
            task.witness,
            reading,
            mark=witness_mark,
            at=asyncio.get_running_loop().time(),
            now=now,
            is_poor=least is not None and least < task.bound_micro,
            was_unread=task.was_unread,
        )
        task.take_note(reading)
        self._progress.attempts += 1
        named_micro = self._wallet.disbelieved(self._check, reading)
        self._unjudged += named_micro is not None
        balance = None if reading.stop is not None else reading.balance_micro
        self._wallet.takes(most_charged(task, reading, named_micro), balance, mark)
        if reading.verdict in BODY_KEPT:
            task.outcome = reading.outcome
            believed = reading.cost_micro if named_micro is None else None
            self._wallet.saw_price(self._check, believed, task.bound_micro)
        delay = self._delay(task, reading)
        ended = task.ends_as(reading, delay, stops=stopped)
        settled = outcome_of(
            task, grant, reading, ended=ended, sent_at=sent_at, now=now, named_micro=named_micro
        )
        becomes = LookupStatus.CLAIMED if delay is not None else LookupStatus.WAITING
        self._writer.settle(
            settled,
            task.becomes(ended or becomes),
            lambda: self._settled(task, settled, ended, delay, reading),
        )
        return reading.verdict is ChargeStatus.ANSWERED

    def _delay(self, task: LookupTask, reading: CallOutcome) -> float | None:
        """Return seconds until a lookup is tried again; None where its attempts are used up.

        While the service answers nobody, free attempts for at least three customers tell of the
        service and use up nothing: they go on, one at a time, until the silence is given up.
        """
        attempts, random = self._attempts, self._random
        if task.is_used_up(reading, attempts):
            return None
        delay = next_attempt(reading, task.attempts, attempts, random=random)
        if delay is not None or not reading.retry or reading.verdict not in _FREE:
            return delay
        is_silent = self._stops.answered == task.answered_before
        if not is_silent or task.doubted:
            return None
        witnesses = {each.witness for each in self._open.values()}
        if len(witnesses) < FEW and not self._more_wait:
            return None
        at = asyncio.get_running_loop().time()
        self._evidence.not_before = at + self._stops.silence.probe_every
        return next_attempt(reading, task.attempts, task.attempts + 1, random=random)

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
        if task.is_api_call:
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
            self._wallet.saw_disbelieved(
                self._check, task.subject, settled.named_micro, disproved=disproved
            )
        if not self._is_disputed or settled.balance_micro is not None:
            self._evidence.forget(Until.BALANCE)
        elif settled.state in KEPT_STATES:
            self._stops.hear(self._check, Objection.UNSETTLED, settled.call_id)
        return cost_micro

    def _put_off(self, task: LookupTask, delay_s: float) -> None:
        due = asyncio.get_running_loop().time() + delay_s
        heapq.heappush(self._later, (due, next(self._order), task))

    def _freed(self, task: LookupTask) -> None:
        """Take note that a call is not under way any more: what it leaves may be any lane's."""
        self._intents -= 1
        self._busy_until = 0.0
        self._wallet.unbind(task.bound_micro)
        if self._asking is not None:
            self._asking.not_before = 0.0
        for lane in self._lanes.values():
            if lane is not self:
                lane.claim_again()
        self._wake.set()

    def claim_again(self) -> None:
        """Claim once more soon, where a claim was refused and another lane's call has settled."""
        asking = self._asking
        if asking is not None and asking.not_before > (soon := asking.claimed_at + _POLL_S):
            asking.not_before = soon
            self._wake.set()

    def _end(self, task: LookupTask, status: LookupStatus, cost_micro: int) -> None:
        task.status = status
        self._open.pop(task.key, None)
        self._stops.ended(self._check, status, cost_micro)
        if task.done is not None and not task.done.done():
            task.done.set_result(None)
        self._wake.set()

    def _end_unsent(self, task: LookupTask, status: LookupStatus) -> None:
        """End a call that was not made, and write down what became of its lookup."""
        change = task.becomes(status)
        if change is None:
            self._end(task, status, 0)
        else:
            self._writer.settle(None, change, lambda: self._end(task, status, 0))

    # --- stops ---

    def _let_go(self) -> None:
        """Give back what was not sent; what is in flight settles by itself."""
        if self._asking is not None:
            self._asking.ended = True
        while self._ready:
            self._give_back(*self._ready.popleft(), LookupStatus.WAITING)
        waiting = [*self._queue, *(task for _, _, task in self._later)]
        self._queue.clear()
        self._later.clear()
        for task in waiting:
            if self._writer.broken is None:
                self._end_unsent(task, LookupStatus.WAITING)
            else:
                self._end(task, LookupStatus.WAITING, 0)

    def _give_back(self, task: LookupTask, grant: Reservation, becomes: LookupStatus) -> None:
        """Give an intent back unsent; what stays claimed is reserved anew."""

        def given_back() -> None:
            self._freed(task)
            if becomes is LookupStatus.CLAIMED:
                self._put_off(task, 0.0)
            else:
                self._end(task, becomes, 0)

        outcome = released(task, grant, self._clock())
        self._writer.settle(outcome, task.becomes(becomes), given_back)
