"""Control of one run while it is under way: why it stops, and what is shown of it meanwhile.

Stops are values: the first one wins, whatever is in flight settles, nothing new is sent. Windows
read this; they and the flow write it. No clock of its own, no engine.
"""

from __future__ import annotations

from collections import Counter, deque
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


@dataclass(slots=True)
class Control:
    """Shared by the windows of a run.

    Attributes:
        tolerated_failure_pct: share of failed lookups from which the run stops.
        deadline_at: instant after which nothing new is sent, microseconds.
        balance_floor_micro: nothing new is sent once the balance is below it.
    """

    tolerated_failure_pct: float = 100.0
    deadline_at: int | None = None
    balance_floor_micro: int | None = None
    stop: str | None = None
    stopped_checks: dict[Check, str] = field(default_factory=dict)
    progress: dict[Check, CheckProgress] = field(default_factory=dict)
    balance_micro: int | None = None
    troubles: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: int = 0
    answered: int = 0
    last_trouble: str | None = None
    _listeners: list[Callable[[], None]] = field(default_factory=list)
    _balances: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=2000))

    def on_stop(self, listener: Callable[[], None]) -> None:
        """Call a listener when the run or a check stops."""
        self._listeners.append(listener)

    def stop_run(self, reason: str) -> None:
        """Stop everything; the first reason stays."""
        if self.stop is None:
            self.stop = reason
            self._tell()

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

    def saw_answer(self, balance_micro: int | None, now: int) -> None:
        """Take note of an answer and the balance it bore."""
        self.silent = 0
        self.answered += 1
        self.saw_balance(balance_micro, now)

    def saw_balance(self, balance_micro: int | None, now: int) -> None:
        """Take note of a balance; stop where it fell under the floor."""
        if balance_micro is None:
            return
        self.balance_micro = balance_micro
        self._balances.append((now, balance_micro))
        if self.balance_floor_micro is not None and balance_micro < self.balance_floor_micro:
            self.stop_run(StopReason.BALANCE)

    def saw_trouble(self, check: Check, trouble: str, *, silence: bool) -> None:
        """Take note of an attempt without an answer; `silence` where the service gave no sign."""
        self.troubles[(check.value, trouble)] += 1
        self.last_trouble = trouble
        if silence:
            self.silent += 1
            if self.silent >= OUTAGE_AFTER:
                self.stop_run(StopReason.OUTAGE)

    def ended(self, check: Check, standing: Standing, cost_micro: int) -> None:
        """Count a lookup that came to an end; stop where too many failed."""
        progress = self.progress[check]
        progress.cost_micro += cost_micro
        match standing:
            case Standing.PAID:
                progress.paid += 1
            case Standing.FREE:
                progress.free += 1
            case Standing.REUSED:
                progress.reused += 1
            case Standing.FAILED:
                progress.failed += 1
            case Standing.IN_DOUBT:
                progress.in_doubt += 1
            case Standing.WAITING:
                return
        done = sum(each.done for each in self.progress.values())
        failed = sum(each.failed + each.in_doubt for each in self.progress.values())
        if done >= TOLERATED_FROM and 100 * failed > self.tolerated_failure_pct * done:
            self.stop_run(StopReason.FAILURES)
