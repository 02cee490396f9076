"""Control of one run while it is under way: why it stops, and what is shown of it meanwhile.

Stops are values: the first one wins, whatever is in flight settles, nothing new is sent. Windows
read this; they and the flow write it. No clock of its own, no engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from schemas.plan import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemas.checks import Check


TOLERATED_FROM = 200
"""Lookups that must be done before the share of failures can stop a run."""

OUTAGE_AFTER = 40
"""Attempts in a row without an answer, over all checks, that count as an outage."""

NOTICE_SHARE = 0.8
"""Share of a spending cap at which a notice is given."""

MICROS = 1_000_000


class StopReason(StrEnum):
    """Why a run stopped early (`report.json`, `stop_reason`)."""

    BUDGET = "budget"
    BALANCE = "balance"
    AUTH = "auth"
    OUTAGE = "outage"
    FAILURES = "failures"
    DEADLINE = "deadline"
    QUOTA = "quota"
    APPROVAL = "approval"
    CANCELLED = "cancelled"


ADDRESS = "address"
TEST_MODE = "test_mode"


@dataclass(slots=True)
class CheckProgress:
    """One check's numbers while it runs; `wanted` is all lookups it was to ask."""

    wanted: int = 0
    paid: int = 0
    free: int = 0
    reused: int = 0
    failed: int = 0
    in_doubt: int = 0
    attempts: int = 0
    cost_micro: int = 0
    cap: int = 0
    in_flight: int = 0

    @property
    def done(self) -> int:
        """Return how many lookups came to an end."""
        return self.paid + self.free + self.reused + self.failed + self.in_doubt

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
    """

    tolerated_failure_pct: float = 100.0
    deadline_at: int | None = None
    balance_floor_micro: int | None = None
    breaker: Breaker = field(default_factory=Breaker)
    watches: list[CapWatch] = field(default_factory=list)
    stop: str | None = None
    stopped_checks: dict[Check, str] = field(default_factory=dict)
    progress: dict[Check, CheckProgress] = field(default_factory=dict)
    balance_micro: int | None = None
    highest_micro: dict[Check, int] = field(default_factory=dict)
    bound_micro: int = 0
    troubles: Counter[tuple[str, str]] = field(default_factory=Counter)
    answered: int = 0
    notices: list[str] = field(default_factory=list)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a listener when the run or a check stops."""
        self._listeners.append(listener)

    def stop_run(self, reason: str) -> None:
        """Stop everything; the first reason stays."""
        if self.stop is None:
            self.stop = reason
            self._tell()

    def go_on(self) -> None:
        """Take the run up again after a stop that may have passed by itself."""
        self.stop = None
        self.breaker.answered()

    def stop_check(self, check: Check, reason: str) -> None:
        """Stop one check; the run where no check is left."""
        self.stopped_checks.setdefault(check, reason)
        if all(each in self.stopped_checks for each in self.progress):
            self.stop_run(reason)
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

    def may_send(self, check: Check, now: int) -> bool:
        """Tell whether a check may send; notices the deadline."""
        if self.deadline_at is not None and now >= self.deadline_at:
            self.stop_run(StopReason.DEADLINE)
        return self.stop is None and check not in self.stopped_checks

    def resume_at(self, now: int) -> int | None:
        """Return when the next call may be sent during an outage; None where there is none."""
        flying = sum(each.in_flight for each in self.progress.values())
        return self.breaker.resume_at(now, flying)

    def bind(self, worst_micro: int) -> bool:
        """Take a call's worst cost into account; False where it could break the balance floor."""
        floor, balance = self.balance_floor_micro, self.balance_micro
        bound = self.bound_micro + worst_micro
        if floor is not None and balance is not None and balance - bound < floor:
            self.stop_run(StopReason.BALANCE)
            return False
        self.bound_micro += worst_micro
        return True

    def unbind(self, worst_micro: int) -> None:
        """Give a call's worst cost back once it has settled."""
        self.bound_micro -= worst_micro

    def saw_answer(self, check: Check, cost_micro: int | None, balance_micro: int | None) -> None:
        """Take note of an answer, its price and the balance it bore."""
        self.breaker.answered()
        self.answered += 1
        self.highest_micro[check] = max(self.highest_micro.get(check, 0), cost_micro or 0)
        self.saw_balance(balance_micro)

    def saw_balance(self, balance_micro: int | None) -> None:
        """Take note of a balance."""
        if balance_micro is not None:
            self.balance_micro = balance_micro

    def saw_trouble(self, check: Check, trouble: str, *, silence: bool, now: int) -> None:
        """Take note of an attempt without an answer; `silence` where the service gave no sign."""
        self.troubles[(check.value, trouble)] += 1
        if not silence:
            self.breaker.answered()
        elif self.breaker.silence(now):
            self.stop_run(StopReason.OUTAGE)

    def ended(self, check: Check, standing: Standing, cost_micro: int) -> None:
        """Count a lookup that came to an end; stop where too many failed."""
        if standing is Standing.WAITING:
            return
        self.progress[check].count(standing, cost_micro)
        self._watch_caps()
        done = sum(each.done for each in self.progress.values())
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
