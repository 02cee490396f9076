"""The cap that adapts: how many calls of one check may be in flight at a time.

A pure state machine: it receives each call's start and result, and has no clock, task or socket. A
service may strain at any load, so a cap reacts not to strain but to *more strain than expected*, by
three rules:

* **Open.** While no result strains, each opens the cap further, never ahead of what was really in
  flight. The first strain ends that; a cap that is healthy goes on up by steps.
* **Go back.** Where strain rises above a cap that is known to be healthy, return to it, or to just
  below the first call that was refused; what lies above is a ceiling. Near a ceiling one call more
  is tried now and then.
* **Try.** Where no smaller cap is known to be healthy, the larger one may not be the cause. The cap
  goes down on trial: if calls strain as often there, that share becomes the one expected and the
  cap is restored; if they do not, the smaller cap is healthy.

Results of calls that began before the cap was moved are not counted. Which failures are strain is
in `data/manners.toml`, retries are in `client/retry.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

START, OPENING_PART = 4, 4
"""A cap opens at the first, or at this part of its maximum where that is more."""

OPENING, REOPENING = 3.0, 0.5
"""Calls that a result without strain adds: in the opening, where a service is mostly far from its
limit, and later on."""

PRIOR_RATE, PRIOR_RESULTS = 0.02, 20.0
"""Share of calls that is expected to strain before anything was seen, and its weight in results."""

LEAST_RATE, MOST_RATE = 0.005, 0.65
"""Below the first one strained call would be an alarm; above the second, a service that fails is
never thought to fail at any load."""

MOST_KNOWN = 1500.0  # results that the expected share rests on at most, so that older ones fade

LEAST_ADDED, MOST_SEEN = 0.05, 0.95
"""The least that strain must rise by to be looked for; the highest share that is looked for."""

ALARM, CLIMB_ALARM, PROBE_ALARM = 9.0, 7.0, 2.0
"""Log odds for an alarm: with no healthy cap below, above one, and while one call more is tried,
where a refusal is what is looked for."""

FEW, UNDECIDED = 8, 150
"""Results before a cap is judged at all, and after which it is healthy though some strained."""

PROBE_AFTER = 250
"""Results below a ceiling before one call more is tried: a refusal costs the service little."""

NEAR = 20  # a cap within its own twentieth of the ceiling stays there

PAUSES = 20  # a refusal that asks for a pause lets the ceiling be for so many times that pause

BUSY_SHARE = 0.75  # a lane that never used this share of the cap proves nothing about it

FEWEST, MOST, STRAINED = 16, 100, 6
"""A trial takes as many results as should bring so many strained ones, within these bounds."""

BURST = 5  # results that all strain, after which a trial goes on down at once

LESS, NOT_LESS = 0.4, 0.8
"""Strain on trial over that before: below the first the larger cap was to blame; below the second a
still smaller cap is tried."""

SMALLEST_TRIAL = 4  # a trial goes down to this part of the cap at most


class CallStart(NamedTuple):
    """The state when a call started."""

    generation: int  # how often the cap had been moved
    in_flight: int  # calls in flight, itself included


class AdaptiveCap:
    """How many calls of a check may be in flight; never over the maximum nor under 1.

    Args:
        maximum: the configured cap.
        start: where to open; the usual place where left out.
        paused_until: as it was left by the cap before this one.

    Attributes:
        cap: the cap of this moment.
        paused_until: instant, on the caller's clock, before which no call may start.
    """

    _results: int
    _strained: int
    _peak: int
    _since: int  # results since the odds rose last; `_since_strained` of them strained
    _since_strained: int
    _odds: float  # log odds that calls strain more often than expected
    _fewest: int  # in flight when a call began that strained
    _base: int  # the cap when it was last looked at anew

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
        self._healthy = 0  # the largest cap without more strain than expected; 0: none is known
        self._ceiling = maximum + 1  # the smallest cap with more
        self._trial: tuple[int, float] | None = None  # a cap, and the share that strained there
        self._growth, self._part = OPENING, 0.0  # calls that a result adds, and what is over
        self._held = 0  # results below the ceiling since the cap was moved
        self._is_probe = False  # one call more than is known to be healthy is tried
        self._look_anew()

    def begin(self, in_flight: int) -> CallStart:
        """Record the start of a call, itself counted in flight.

        `on_result` gets this back with the result.
        """
        return CallStart(self._generation, in_flight)

    def on_result(
        self, *, begun: CallStart, strain: bool, now: float, retry_after_s: float | None = None
    ) -> None:
        """Take note of one result.

        Args:
            begun: what `begin` returned when the call started.
            strain: it was a sign of overload.
            now: the instant, in seconds on any clock that does not run backwards.
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
        """Let a result without strain open the cap, as far as what was in flight proves."""
        self._part += self._growth
        whole = int(self._part)
        self._part -= whole
        proved = math.ceil(self._peak * (1 + self._growth))
        self.cap = max(self.cap, min(self.cap + whole, proved, self._ceiling - 1))
        if self._results >= self._base and not self._odds:
            self._learn(self._base)
            if self.cap == self._base:
                self._growth = 0.0
            self._look_anew()

    def _on_healthy(self, now: float) -> None:
        """Take this cap for healthy, and go up where there is room above it."""
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
        self._look_anew()

    def _is_alarmed(self, *, strain: bool) -> bool:
        """Weigh one result: do calls strain as often as expected, or more often?"""
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
        """Return to a cap that is known to be healthy; where none is, go down on trial."""
        self._is_probe = False
        if not 0 < self._healthy < self.cap:
            self._trial = self.cap, self._since_strained / self._since
            self._move(max(1, self.cap // 2))
            return
        back = max(self._healthy, min(self._fewest, self.cap) - 1)
        self._ceiling = back + 1
        self._move(back)

    def _judge(self, cap: int, rate: float) -> None:
        """Decide, from the strain at the smaller cap, whether the larger one was to blame."""
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
        """Know a cap to be healthy; the share that is expected follows what was seen there."""
        self._healthy, self._held = healthy, self._held + self._results
        self._known = min(MOST_KNOWN, self._known + self._results)
        weight = self._results / self._known
        seen = self._strained / self._results
        expected = (1 - weight) * self._expected + weight * seen
        self._expected = min(MOST_RATE, max(LEAST_RATE, expected))

    def _move(self, cap: int) -> None:
        """Go to another cap: what began before tells nothing of it."""
        self._generation += 1
        if cap != self.cap:
            self._held = 0
        self.cap = cap
        self._look_anew()

    def _look_anew(self) -> None:
        """Forget the results at this cap."""
        self._results = self._strained = self._peak = 0
        self._since = self._since_strained = 0
        self._odds = 0.0
        self._fewest = self.maximum + 1
        self._base = self.cap
