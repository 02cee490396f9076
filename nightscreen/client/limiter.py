"""The adaptive cap: how many calls of one check may be in flight at a time.

A pure state machine: it is told each call's start and result, and has no clock, task or socket.
Strain means signs of overload. A service may show some at any load, so the cap reacts only to
*more strain than expected*, by three rules:

* **Open.** Each result without strain raises the cap, in proportion to the calls really in flight
  at most. The first strain ends this; a healthy cap then rises in steps.
* **Go back.** If strain rises above a cap that is known to be healthy, return to that cap, or to
  just below the smallest load at which a call was refused. The next higher number is the ceiling.
  Near the ceiling, one more call is tried now and then.
* **Try.** If no smaller cap is known to be healthy, the load may not be the cause. The cap is
  lowered on trial. If calls strain as often as before, that share becomes the expected one and the
  cap is restored. If they do not, the smaller cap is healthy.

Results of calls that began before the cap changed are not counted. `data/manners.toml` says which
failures are strain; retries are in `client/classify.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

START, OPENING_PART = 4, 4
"""A cap starts at `START`, or at its maximum divided by `OPENING_PART` if that is more."""

OPENING, REOPENING = 3.0, 0.5
"""Calls that a result without strain adds to the cap: at first, when a service is usually far from
its limit, and later."""

PRIOR_RATE, PRIOR_RESULTS = 0.02, 20.0
"""Share of calls expected to strain before any result is known, and its weight in results."""

LEAST_RATE, MOST_RATE = 0.005, 0.65
"""Bounds of the expected share. With less, one strained call would raise an alarm; with more, a
failing service would count as normal."""

MOST_KNOWN = 1500.0  # the expected share counts at most so many results, so that old ones fade

LEAST_ADDED, MOST_SEEN = 0.05, 0.95
"""The smallest rise of the strained share that is tested for, and the highest share tested for."""

ALARM, CLIMB_ALARM, PROBE_ALARM = 9.0, 7.0, 2.0
"""Log odds for an alarm: with no healthy cap below, above a healthy cap, and while one more call is
tried in order to find out whether it is refused."""

FEW, UNDECIDED = 8, 150
"""Results before a cap is judged at all, and results after which it is healthy although some
strained."""

PROBE_AFTER = 250
"""Results below a ceiling before one more call is tried; a refusal costs the service little."""

NEAR = 20  # a cap stays if the ceiling is at most a twentieth of the cap away

PAUSES = 20  # after a refusal with a pause, the ceiling is not tested for this many such pauses

BUSY_SHARE = 0.75  # a cap rises only if at least this share of it was in use

FEWEST, MOST, STRAINED = 16, 100, 6
"""A trial lasts until `STRAINED` strained results are expected, but takes at least `FEWEST` and at
most `MOST` results."""

BURST = 5  # after so many results that all strain, a trial lowers the cap at once

LESS, NOT_LESS = 0.4, 0.8
"""Strain during a trial divided by strain before it. Below `LESS`, the larger cap was the cause;
below `NOT_LESS`, a still smaller cap is tried."""

SMALLEST_TRIAL = 4  # a trial lowers the cap at most to the cap divided by this


class CallStart(NamedTuple):
    """The state when a call started."""

    generation: int  # how often the cap had changed
    in_flight: int  # calls in flight, itself included


class AdaptiveCap:
    """How many calls of a check may be in flight; never over the maximum nor under 1.

    Args:
        maximum: the configured cap.
        start: the first cap; by default from `START` and `OPENING_PART`.
        paused_until: `paused_until` of the cap that this one replaces.

    Attributes:
        cap: the current cap.
        paused_until: time, on the caller's clock, before which no call may start.
    """

    _results: int
    _strained: int
    _peak: int
    _since: int  # results since the odds last rose from zero; `_since_strained` of them strained
    _since_strained: int
    _odds: float  # log odds that calls strain more often than expected
    _fewest: int  # fewest calls in flight at the start of a call that strained
    _base: int  # the cap when counting last started

    def __init__(
        self, maximum: int, start: int | None = None, *, paused_until: float = 0.0
    ) -> None:
        if maximum < 1 or (start is not None and start < 1):
            raise ValueError("a cap is at least 1")
        self.maximum = maximum
        self.cap = min(maximum, start or max(START, maximum // OPENING_PART))
        self.paused_until = self._no_probe_before = paused_until
        self._generation = 0
        self._expected, self._known = PRIOR_RATE, PRIOR_RESULTS
        self._healthy = 0  # the largest cap without more strain than expected; 0 if none is known
        self._ceiling = maximum + 1  # the smallest cap with more
        self._trial: tuple[int, float] | None = None  # a cap, and the share that strained there
        self._growth, self._part = OPENING, 0.0  # calls that a result adds, and the fraction left
        self._held = 0  # results below the ceiling since the cap changed
        self._is_probe = False  # one more call than is known to be healthy is being tried
        self._restart_counts()

    def begin(self, in_flight: int) -> CallStart:
        """Return the state at the start of a call, for `on_result`.

        Args:
            in_flight: calls in flight, this one included.
        """
        return CallStart(self._generation, in_flight)

    def on_result(
        self, *, begun: CallStart, strain: bool, now: float, retry_after_s: float | None = None
    ) -> None:
        """Update the cap by one result.

        Args:
            begun: what `begin` returned when the call started.
            strain: the result was a sign of overload.
            now: the time in seconds, on any monotonic clock.
            retry_after_s: seconds the service asked us to wait; the whole check pauses.
        """
        if retry_after_s is not None and strain:
            self.paused_until = max(self.paused_until, now + retry_after_s)
            self._no_probe_before = max(self._no_probe_before, now + PAUSES * retry_after_s)
        if begun.generation != self._generation:
            return
        self._results += 1
        self._strained += strain
        self._peak = max(self._peak, begun.in_flight)
        if strain:
            self._growth = 0.0
            self._fewest = min(self._fewest, begun.in_flight)
        if self._trial is not None:
            self._judge(*self._trial)
        elif self._is_alarmed(strain=strain):
            self._go_back()
        elif self._growth:
            self._open()
        elif self._results >= max(FEW, self.cap) and (not self._odds or self._results >= UNDECIDED):
            self._on_healthy(now)

    def _open(self) -> None:
        """Raise the cap after a result without strain, limited by the calls really in flight."""
        self._part += self._growth
        whole = int(self._part)
        self._part -= whole
        proved = math.ceil(self._peak * (1 + self._growth))
        self.cap = max(self.cap, min(self.cap + whole, proved, self._ceiling - 1))
        if self._results >= self._base and not self._odds:
            self._learn(self._base)
            if self.cap == self._base:
                self._growth = 0.0
            self._restart_counts()

    def _on_healthy(self, now: float) -> None:
        """Record that this cap is healthy, and raise it if there is room."""
        self._learn(self.cap)
        self._is_probe, is_busy = False, self._peak >= BUSY_SHARE * self.cap
        if is_busy and self._ceiling - self.cap <= max(1, self.cap // NEAR):
            if (
                self.cap < self.maximum
                and self._held >= PROBE_AFTER
                and now >= self._no_probe_before
            ):
                self._ceiling, self._is_probe = self.maximum + 1, True
                self._move(self.cap + 1)
        elif is_busy and self._strained:
            self._move((self.cap + self._ceiling) // 2)
        elif is_busy:
            self._growth = REOPENING
        self._restart_counts()

    def _is_alarmed(self, *, strain: bool) -> bool:
        """Add one result to the odds; return whether calls strain more often than expected."""
        low, is_climbing = self._expected, 0 < self._healthy < self.cap
        unsure = 4 * math.sqrt(low * (1 - low) / self._known)
        high = min(MOST_SEEN, low + max(LEAST_ADDED, unsure))
        gain = math.log(high / low) if strain else math.log((1 - high) / (1 - low))
        self._odds = max(0.0, self._odds + gain)
        if self._odds:
            self._since += 1
            self._since_strained += strain
        else:
            self._since = self._since_strained = 0
        if is_climbing:
            return strain and self._odds > (PROBE_ALARM if self._is_probe else CLIMB_ALARM)
        return self._odds > ALARM and self._results >= FEW

    def _go_back(self) -> None:
        """Return to a cap known to be healthy; if there is none, lower the cap on trial."""
        self._is_probe = False
        if not 0 < self._healthy < self.cap:
            self._trial = self.cap, self._since_strained / self._since
            self._move(max(1, self.cap // 2))
            return
        back = max(self._healthy, min(self._fewest, self.cap) - 1)
        self._ceiling = back + 1
        self._move(back)

    def _judge(self, cap: int, rate: float) -> None:
        """Decide from the strain at the smaller cap whether the larger one was the cause."""
        here = self._strained / self._results
        all_strain = self._results >= BURST and self._strained == self._results
        if not all_strain and self._results < max(FEWEST, min(MOST, STRAINED / rate)):
            return
        is_unclear = LESS * rate <= here < NOT_LESS * rate and self.cap > max(
            1, cap // SMALLEST_TRIAL
        )
        if all_strain or is_unclear:
            if self.cap > 1:
                self._move(self.cap // 2)
            return
        self._trial = None
        if here < LESS * rate:
            self._ceiling = cap
            self._on_healthy(math.inf)
        else:
            self._healthy, self._ceiling = 0, self.maximum + 1
            self._expected = min(MOST_RATE, max(here, rate))
            self._known = self._results + PRIOR_RESULTS
            self._move(cap)

    def _learn(self, healthy: int) -> None:
        """Record a healthy cap, and adapt the expected share to the strain seen there."""
        self._healthy, self._held = healthy, self._held + self._results
        self._known = min(MOST_KNOWN, self._known + self._results)
        weight = self._results / self._known
        seen = self._strained / self._results
        expected = (1 - weight) * self._expected + weight * seen
        self._expected = min(MOST_RATE, max(LEAST_RATE, expected))

    def _move(self, cap: int) -> None:
        """Change the cap; results of calls that began before no longer count."""
        self._generation += 1
        if cap != self.cap:
            self._held = 0
        self.cap = cap
        self._restart_counts()

    def _restart_counts(self) -> None:
        """Discard the results counted so far."""
        self._results = self._strained = self._peak = 0
        self._since = self._since_strained = 0
        self._odds = 0.0
        self._fewest = self.maximum + 1
        self._base = self.cap
