"""Control of one run while it is under way: why it stops, and what is shown of it meanwhile.

Stops are values: the first one wins, whatever is in flight settles, nothing new is sent. Windows
read this; they and the flow write it. No clock of its own, no engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nightscreen.schemas.money import naira_words
from nightscreen.schemas.plan import Standing
from nightscreen.schemas.stops import StopReason as StopReason  # noqa: PLC0414 - it belongs to control too

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.client.classify import Reading
    from nightscreen.schemas.checks import Asked


TOLERATED_FROM = 200
"""Lookups that must be done before the share of failures can stop a run."""

OUTAGE_AFTER = 40
"""Attempts in a row without an answer, over all checks, that count as an outage."""

NOTICE_SHARE = 0.8
"""Share of a spending cap at which a notice is given."""

ALIKE_HITS, ALIKE_ANSWERS = 25, 1000
"""Free answers of one check without a difference, hits or any, from which on it is suspicious."""

BLIND_ANSWERS = 100
"""Answers without a balance after which a balance floor cannot be watched."""

MICROS = 1_000_000


PASSING = frozenset({StopReason.OUTAGE, StopReason.BALANCE})
"""Stops that may pass by themselves before the deadline."""

ADDRESS = "address"
TEST_MODE = "test_mode"
COMPLETED, STOPPED = "completed", "stopped"


@dataclass(slots=True)
class CheckProgress:
    """One check's numbers while it runs; `wanted` is all lookups it was to ask."""

    wanted: int = 0
    paid: int = 0
    free: int = 0
    reused: int = 0
    failed: int = 0
    in_doubt: int = 0
    lapsed: int = 0
    spared: int = 0
    attempts: int = 0
    cost_micro: int = 0
    cap: int = 0
    in_flight: int = 0

    @property
    def done(self) -> int:
        """Return how many lookups came to an end."""
        asked = self.paid + self.free + self.reused + self.failed + self.in_doubt
        return asked + self.lapsed + self.spared

    def count(self, standing: Standing, cost_micro: int) -> None:
        """Count a lookup that came to an end."""
        self.cost_micro += cost_micro
        name = standing.name.lower()
        setattr(self, name, getattr(self, name) + 1)


@dataclass(slots=True)
class Breaker:
    """Pauses every check while the service is silent, probes it, and gives up after a set time.

    It opens after some attempts in a row without an answer. While it is open one call at a time is
    let through as a probe; the first answer closes it. Instants are microseconds.

    Attributes:
        after: attempts in a row without an answer that open it.
        probe_every: time between two probes.
        give_up_after: time without an answer after which the run stops.
    """

    after: int = OUTAGE_AFTER
    probe_every: int = 15 * MICROS
    give_up_after: int = 600 * MICROS
    silent: int = 0
    opened_at: int | None = None
    next_probe_at: int = 0

    def answered(self) -> None:
        """Close: the service gave a sign of life."""
        self.silent = 0
        self.opened_at = None

    def silence(self, now: int) -> bool:
        """Count an attempt without an answer; return True where it is time to give up."""
        self.silent += 1
        if self.opened_at is None:
            if self.silent >= self.after:
                self.opened_at = now
                self.next_probe_at = now + self.probe_every
            return False
        self.next_probe_at = now + self.probe_every
        return now - self.opened_at >= self.give_up_after

    def resume_at(self, now: int, in_flight: int) -> int | None:
        """Return when the next call may be sent; None where nothing holds it back."""
        if self.opened_at is None:
            return None
        if in_flight:
            return now + self.probe_every
        return self.next_probe_at if now < self.next_probe_at else None


@dataclass(slots=True)
class Likeness:
    """Watches whether one check's answers differ at all: a service that is not live says the same.

    Real answers about different people differ or cost something; misses may well be alike, hits
    are not.
    """

    answers: int = 0
    hits: int = 0
    judged: bool = False
    _first: bytes | None = None
    _first_hit: bytes | None = None

    def saw(self, body: bytes, cost_micro: int | None, *, hit: bool) -> bool:
        """Take note of an answer; return True once, where there are too many of one kind."""
        if self.judged:
            return False
        self.answers += 1
        self.hits += hit
        if self._first is None:
            self._first = body
        if hit and self._first_hit is None:
            self._first_hit = body
        alike = body == (self._first_hit if hit else self._first)
        live = bool(cost_micro) or not alike or 0 < self.hits < self.answers
        suspicious = not live and (self.hits >= ALIKE_HITS or self.answers >= ALIKE_ANSWERS)
        self.judged = live or suspicious
        return suspicious


@dataclass(slots=True)
class Wallet:
    """The least the service's wallet can hold now, as far as answers tell, micro-naira.

    Answers overtake each other, so that the latest balance may not know of charges that are known
    here: what settled while an answer was on its way is taken off the balance it bore.
    """

    least_micro: int | None = None
    settled_micro: int = 0

    def takes(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Enter an attempt that came back.

        Args:
            charged_micro: the most it can have cost.
            balance_micro: the balance it bore, if any.
            mark: `settled_micro` when it was sent.
        """
        overtaken = self.settled_micro - mark
        self.settled_micro += charged_micro
        if self.least_micro is not None:
            self.least_micro -= charged_micro
        if balance_micro is None:
            return
        least = balance_micro - overtaken
        if self.least_micro is None or balance_micro < self.least_micro:
            self.least_micro = least
        else:
            self.least_micro = max(self.least_micro, least)


@dataclass(slots=True)
class CapWatch:
    """One spending cap and what others had spent under it when the run began, micro-naira."""

    name: str
    cap_micro: int
    before_micro: int
    told: bool = False


@dataclass(slots=True)
class Control:
    """Shared by the windows of a run.

    Attributes:
        tolerated_failure_pct: share of failed lookups from which the run stops.
        deadline_at: instant after which nothing new is sent, microseconds.
        balance_floor_micro: nothing is sent that could take the balance below it.
        breaker: pauses the run while the service is silent.
        watches: the caps a notice is due for.
        highest_micro: the highest price seen in this run, by check; prices may rise under way.
        bound_micro: worst cost of what is reserved or in flight at this moment.
        wallet: the least that is left in the wallet.
        excess_micro: what calls cost beyond what was reserved for them, since prices rose.
        heard: told of each attempt that came back: its check, its seconds, and what was read; for
            measures only, None where nobody listens.
    """

    tolerated_failure_pct: float = 100.0
    deadline_at: int | None = None
    balance_floor_micro: int | None = None
    breaker: Breaker = field(default_factory=Breaker)
    watches: list[CapWatch] = field(default_factory=list)
    stop: str | None = None
    stopped_checks: dict[Asked, str] = field(default_factory=dict)
    progress: dict[Asked, CheckProgress] = field(default_factory=dict)
    balance_micro: int | None = None
    highest_micro: dict[Asked, int] = field(default_factory=dict)
    bound_micro: int = 0
    troubles: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: int = 0
    notices: list[str] = field(default_factory=list)
    wallet: Wallet = field(default_factory=Wallet)
    excess_micro: int = 0
    heard: Callable[[str, float, Reading], None] | None = None
    _likeness: dict[Asked, Likeness] = field(default_factory=dict)
    _short: bool = False
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a listener when the run or a check stops."""
        self._listeners.append(listener)

    def stop_run(self, reason: str) -> None:
        """Stop everything; the first reason stays, unless it may pass and someone cancels."""
        cancelled = reason == StopReason.CANCELLED and self.stop in PASSING
        if self.stop is None or cancelled:
            self.stop = reason
            self._tell()

    def go_on(self) -> None:
        """Take the run up again after a stop that may have passed by itself."""
        self.stop = None
        self.breaker.answered()

    def stop_check(self, check: Asked, reason: str) -> None:
        """Stop one check; the run where no check is left."""
        self.stopped_checks.setdefault(check, reason)
        if all(each in self.stopped_checks for each in self.progress):
            self.stop_run(reason)
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def may_send(self, check: Asked, now: int) -> bool:
        """Tell whether a check may send; notices the deadline."""
        if self.deadline_at is not None and now >= self.deadline_at:
            self.stop_run(StopReason.DEADLINE)
        return self.stop is None and check not in self.stopped_checks

    def resume_at(self, now: int) -> int | None:
        """Return when the next call may be sent during an outage; None where there is none."""
        flying = sum(each.in_flight for each in self.progress.values())
        return self.breaker.resume_at(now, flying)

    def bind(self, worst_micro: int) -> bool:
        """Take a call's worst cost into account; False where it could break the balance floor.

        Where what is under way may yet leave room, listeners are told when it has settled; where
        nothing is, the run stops.
        """
        if not self._above_floor(worst_micro):
            self._short = True
            if self.bound_micro == 0:
                self.stop_run(StopReason.BALANCE)
            return False
        self.bound_micro += worst_micro
        return True

    def _above_floor(self, worst_micro: int) -> bool:
        floor, least = self.balance_floor_micro, self.wallet.least_micro
        if floor is None:
            return True
        if least is None:  # one at a time until an answer bears a balance
            return self.bound_micro == 0 or self.answered >= BLIND_ANSWERS
        return least - self.bound_micro - worst_micro >= floor

    def unbind(self, worst_micro: int) -> None:
        """Give a call's worst cost back once it has settled."""
        self.bound_micro -= worst_micro
        if self._short:
            self._short = False
            self._tell()

    def came_back(self, charged_micro: int, balance_micro: int | None, mark: int) -> None:
        """Take note of what an attempt can have cost and of the balance it bore."""
        self.wallet.takes(charged_micro, balance_micro, mark)
        if balance_micro is not None:
            self.balance_micro = balance_micro

    def saw_answer(self, check: Asked, cost_micro: int | None, reserved_micro: int) -> None:
        """Take note of an answer and its price; say so where the price rose beyond what was known.

        Args:
            check: the check.
            cost_micro: what it cost; None where the service did not say.
            reserved_micro: what was reserved for it.
        """
        self.breaker.answered()
        self.answered += 1
        cost = cost_micro or 0
        known = self.highest_micro.get(check, 0)
        if cost > known:
            self.highest_micro[check] = cost
        if cost > reserved_micro:
            self.excess_micro += cost - reserved_micro
            if cost > known:
                self.notices.append(
                    f"the price of {check.value} rose from {naira_words(reserved_micro)} to "
                    f"{naira_words(cost)} while the run was under way"
                )

    def saw_body(self, check: Asked, body: bytes, cost_micro: int | None, *, hit: bool) -> None:
        """Watch whether answers differ; give notice where the service seems not to be live."""
        likeness = self._likeness.get(check)
        if likeness is None:
            likeness = self._likeness[check] = Likeness()
        if likeness.saw(body, cost_micro, hit=hit):
            self.notices.append(
                f"suspicious: {likeness.answers} {check.value} answers about different people are "
                "all the same and none was charged; make sure that key and address are live ones"
            )

    def saw_trouble(self, check: Asked, trouble: str, *, silence: bool, now: int) -> None:
        """Take note of an attempt without an answer; `silence` where the service gave no sign."""
        self.troubles[(check.value, trouble)] += 1
        if not silence:
            self.breaker.answered()
        elif self.breaker.silence(now):
            self.stop_run(StopReason.OUTAGE)

    def ended(self, check: Asked, standing: Standing, cost_micro: int) -> None:
        """Count a lookup that came to an end; stop where too many failed."""
        if standing is Standing.WAITING:
            return
        self.progress[check].count(standing, cost_micro)
        self.weigh()

    def weigh(self) -> None:
        """Look at what is counted so far: near a cap, give notice; where too many failed, stop."""
        self._watch_caps()
        done = sum(each.done - each.spared for each in self.progress.values())
        failed = sum(each.failed + each.in_doubt for each in self.progress.values())
        if done >= TOLERATED_FROM and 100 * failed > self.tolerated_failure_pct * done:
            self.stop_run(StopReason.FAILURES)

    def _watch_caps(self) -> None:
        """Give notice once for each cap that is nearly used up."""
        spent = sum(each.cost_micro for each in self.progress.values())
        for watch in self.watches:
            if not watch.told and watch.before_micro + spent >= NOTICE_SHARE * watch.cap_micro:
                watch.told = True
                self.notices.append(
                    f"{NOTICE_SHARE:.0%} of the {watch.name} spending cap is used up"
                )

    def ending(self) -> tuple[str, str | None]:
        """Return state and stop reason of a run that has come to its end."""
        if self.stop == TEST_MODE:
            return TEST_MODE, None
        if self.stop == ADDRESS:
            return STOPPED, StopReason.OUTAGE.value
        if self.stop is not None:
            return STOPPED, self.stop
        if self.stopped_checks:
            return STOPPED, next(iter(self.stopped_checks.values()))
        return COMPLETED, None
