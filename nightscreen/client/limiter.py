"""The cap that adapts: how many calls of one check may be in flight at a time.

A pure state machine: it receives each call's start and result, and has no clock, task or socket. It
must not crawl where the service fails at any load, and must find an unknown limit, which may move.
So it does not react to failures but to *more failures than at smaller caps*:

* While nothing strains, each result opens the cap further (*ramp-up*), up to what was in flight
  before and a share more; the first strain ends that.
* A running test (CUSUM) compares results with the baseline rate. Where a smaller cap is
  known to be healthy, an alarm needs two strained results and returns to it, or to just below the
  first call that was refused.
* Where it is not, the larger cap is only a hypothesis: the cap goes down to the share of calls that
  did not strain, the rate there is measured, and only a clearly lower rate shows that the load was
  the cause. Where it is as high, the service fails at any load, and the cap goes back up.
* Below a known ceiling one call more is tried every few hundred results, and the first that is
  refused ends it; where it holds, the next ramp-up begins.

Results of calls that started before the cap was changed are not counted.

What does not belong here: which failures are strain (`data/manners.toml`), retries
(`client/retry.py`), counting (`client/counters.py`) and the window of workers (`calling/`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

from nightscreen.client.counters import Tally

START, OPENING_PART = 4, 4
"""A cap opens at the first, or at this part of its maximum where that is more."""

OPENING_RAMP_UP, RAMP_UP = 3.0, 0.5
"""Calls that each result adds while nothing strains: in the opening, and later on."""

FORGET_AFTER = 1500.0
"""Results that the rate known of a cap rests on; older ones fade."""

REJECTION_LASTS = 400.0
"""Results after which the results from a rejected hypothesis have faded."""

PRIOR_RESULTS, PRIOR_RATE = 10.0, 0.02
LEAST_RATE, MOST_RATE = 0.005, 0.65
"""Above the second, a service that fails is never thought to fail at any load."""

NOTCH = 0.05
"""The least share of the cap that is tested for; so near to a ceiling the cap stays."""

WASTED = 0.8
"""Of the calls beyond a limit, the share that is expected to strain."""

ALARM, CLIMB_ALARM, PROBE_ALARM = 9.5, 7.0, 2.0
"""Log odds for an alarm: in general, above a healthy cap, and while that cap is tried."""

TRUST, UNDECIDED = 2.5, 150
"""Log odds at which a cap counts as healthy, and results after which it does without them."""

ALARM_RESULTS, FEW_RESULTS = 8, 8
"""Results needed before an alarm counts, and before a cap counts as healthy."""

REFUTED = 100
"""Results at a smaller cap that can refute that the load was to blame."""

SURE = 100
"""Results from which a smaller cap is known to be healthy."""

ERROR_BURST, BURST_RESULTS = 0.8, 5
"""Share of results at which the cap goes on down at once; so many where each of them strains."""

LESS = 0.35
"""Strain at the smaller cap over that at the larger one, below which overload is confirmed."""

JUDGE_RESULTS, MOST_JUDGE_RESULTS, MOST_JUDGE_WINDOWS = 16, 120, 40
EXPECTED_CLEAN, APART = 4.0, 0.3
"""Strained results to be expected where there is none; standard error between two rates."""

SMALLER, MUCH_SMALLER, KNOWN = 2, 4, 200
"""Overload is rejected only if strain is as frequent at a cap this many times smaller; the second
applies where so many results showed a healthy service before."""

UNSURE = 3.0
"""Standard errors that the baseline rate may be off by."""

DOUBTFUL = 0.02
"""Share of strain below a ceiling at which one notch less is tried."""

FIRST_PROBE_AFTER, LAST_PROBE_AFTER, PROBE_GROWTH = 250, 300, 1.1
"""Results under a known ceiling before it is tried again; more with each time it holds."""

PAUSES = 20
"""A refusal that costs a pause lets the ceiling be for so many times that pause."""

BUSY_SHARE = 0.75
"""A window that never used this share of the cap proves nothing about it."""


class CallStart(NamedTuple):
    """The state when a call started.

    Attributes:
        generation: how often the cap had been moved.
        in_flight: calls in flight, itself included.
    """

    generation: int
    in_flight: int


class Cap(Protocol):
    """How many calls of a check may be in flight, as a window asks for it."""

    @property
    def cap(self) -> int:
        """Return the cap of this moment."""

    @property
    def paused_until(self) -> float:
        """Return the instant, on the caller's clock, before which no call may start."""

    def begin(self, in_flight: int) -> CallStart:
        """Record the start of a call, itself counted in flight.

        `on_result` gets this back with the result.
        """

    def on_result(
        self, *, begun: CallStart, strain: bool, now: float, retry_after_s: float | None = None
    ) -> None:
        """Take note of one result."""


class OverloadHypothesis(NamedTuple):
    """The hypothesis that a cap is too large: its level, and the rate of strain at that cap."""

    level: int
    at: int
    tally: Tally


def _needed_for_verdict(low: float, high: float, cap: int) -> float:
    """Return how many results separate one rate from another.

    Fewer at a tiny cap, where they take too long.
    """
    needed = high * (1 - high) / (APART * (high - low)) ** 2
    return min(MOST_JUDGE_RESULTS, MOST_JUDGE_WINDOWS * cap, max(JUDGE_RESULTS, needed))


class AdaptiveCap:
    """How many calls of a check may be in flight.

    It opens small and quickly until strain is clearly more frequent than at smaller caps; then it
    steps back to below the ceiling it found and tries that again now and then. It never goes over
    the maximum nor under 1.

    Args:
        maximum: the configured cap.
        start: where to open; the usual place where left out.
        paused_until: as it was left by the cap before this one.

    Attributes:
        cap: the cap of this moment.
        paused_until: instant, on the caller's clock, before which no call may start.
    """

    def __init__(
        self, maximum: int, start: int | None = None, *, paused_until: float = 0.0
    ) -> None:
        if maximum < 1 or (start is not None and start < 1):
            raise ValueError("a cap is at least 1")
        start = start or max(START, maximum // OPENING_PART)
        self.maximum = maximum
        self.cap = min(maximum, start)
        self.paused_until = paused_until
        self._now = 0.0
        self._generation = 0
        # what is known of the service
        self._anywhere = Tally(PRIOR_RESULTS, PRIOR_RESULTS * PRIOR_RATE)
        self._by_level: dict[int, Tally] = {}
        self._known = self._anywhere
        self._baseline, self._unsure = PRIOR_RATE, 0.0
        self._healthy_cap = 0  # the last healthy cap
        self._ceiling: int | None = None
        self._hypothesis: OverloadHypothesis | None = None
        self._confirmed: OverloadHypothesis | None = None
        # the results at this cap
        self._window = Tally()
        self._base = self.cap  # the cap when the window began
        self._peak = 0  # the most calls in flight
        self._least_strained = 0  # the fewest in flight when a strained call began
        self._odds, self._alarm = 0.0, 0.0
        self._since = Tally()  # results since the first that raised the alarm
        # going up
        self._step = self.cap
        self._ramp_up, self._part = OPENING_RAMP_UP, 0.0
        self._stepped = False  # back to a cap not known to be healthy
        self._held = 0  # results at this cap
        self._probing = False
        self._probe_after = FIRST_PROBE_AFTER
        self._no_probe_before = 0.0

    def __repr__(self) -> str:
        """Show the level and what is known of the ceiling."""
        return f"AdaptiveCap({self.cap} of {self.maximum}, ceiling={self._ceiling})"

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
        self._now = now
        if retry_after_s is not None and strain:
            self.paused_until = max(self.paused_until, now + retry_after_s)
            self._no_probe_before = max(self._no_probe_before, now + PAUSES * retry_after_s)
        if begun.generation != self._generation:
            return
        self._count(begun, strain=strain)
        if self._hypothesis is not None:
            self._decide(self._hypothesis)
        elif self._is_alarmed(strain=strain):
            self._on_alarm()
        else:
            self._open_further()
            if self._is_window_full():
                self._on_healthy_window()

    def _count(self, begun: CallStart, *, strain: bool) -> None:
        self._window.add(strain=strain)
        self._peak = max(self._peak, begun.in_flight)
        if strain:
            self._ramp_up = 0.0
            self._least_strained = min(self._least_strained or begun.in_flight, begun.in_flight)

    def _is_alarmed(self, *, strain: bool) -> bool:
        """Weigh one result: is the rate the baseline, or are the added calls wasted?"""
        low = self._baseline
        added = 1 - self._healthy_cap / self.cap
        wasted = (1 - low) * WASTED * max(NOTCH, min(0.5, added))
        high = min(0.95, low + max(wasted, self._unsure))
        gain = math.log(high / low) if strain else math.log((1 - high) / (1 - low))
        self._odds += gain
        self._alarm = max(0.0, self._alarm + gain)
        if self._alarm:
            self._since.add(strain=strain)
        else:
            self._since = Tally()
        if self._knows_healthy_cap():
            return strain and self._alarm > (PROBE_ALARM if self._probing else CLIMB_ALARM)
        return self._alarm > ALARM and self._window.results >= ALARM_RESULTS

    def _knows_healthy_cap(self) -> bool:
        """Return whether a smaller cap is known to be healthy."""
        if not 0 < self._healthy_cap < self.cap:
            return False
        seen = (
            tally.results for level, tally in self._by_level.items() if level <= self._healthy_cap
        )
        return self._confirmed is not None or sum(seen) >= SURE

    # --- strain is more frequent than it was at smaller caps ---

    def _on_alarm(self) -> None:
        if self._knows_healthy_cap():
            self._step_back()
            return
        self._probing = False
        self._ceiling = self.cap
        self._test_overload(self.cap, self._since)

    def _step_back(self) -> None:
        """Return to the last healthy cap, or to just below the first call that was refused."""
        if self._probing:
            self._probing = False
            self._probe_after = min(LAST_PROBE_AFTER, int(PROBE_GROWTH * self._probe_after))
        back = self._healthy_cap
        usable = self._least_strained < self.cap or self._base < self.cap
        if usable and not self._stepped:
            back = max(back, self._least_strained - 1)
        self._stepped = back > self._healthy_cap
        self._ceiling = back + 1
        self._move(back)

    def _test_overload(self, level: int, tally: Tally) -> None:
        """Go down to the share of calls that did not strain, a half at most, and look there."""
        self._hypothesis = OverloadHypothesis(level, self.cap, tally)
        useful = (1 - tally.rate()) / (1 - self._baseline)
        down = min(int(self.cap * useful), self.cap - self._notch())
        self._move(max(1, self.cap // 2, down))

    def _decide(self, hypothesis: OverloadHypothesis) -> None:
        """Decide, from the rate at the smaller cap, whether the larger one was to blame."""
        level, at, tally = hypothesis
        seen = self._window
        if self._is_error_burst(seen):
            self._test_overload(level, seen)
            return
        least = tally.at_least()
        low = min(self._baseline, tally.rate() / 2, least / 2)
        clean = not seen.strained and seen.results >= max(FEW_RESULTS, EXPECTED_CLEAN / least)
        if not clean and seen.results < _needed_for_verdict(low, least, self.cap):
            return
        smaller = MUCH_SMALLER if self._known.results >= KNOWN else SMALLER
        smallest = max(1, at // smaller)
        if clean or seen.rate() < low + LESS * (least - low):
            self._confirm_overload(hypothesis)
        elif self.cap > smallest:
            self._hypothesis = OverloadHypothesis(level, self.cap, seen)
            self._move(max(1, self.cap // smaller))
        elif seen.rate() > MOST_RATE or seen.exceeds(tally):
            self._test_overload(level, seen)
        elif tally.exceeds(seen):
            self._confirm_overload(hypothesis)
        else:
            self._reject_overload(hypothesis)

    def _is_error_burst(self, seen: Tally) -> bool:
        enough = BURST_RESULTS if seen.strained == seen.results else FEW_RESULTS
        return seen.results >= enough and seen.rate() > ERROR_BURST

    def _confirm_overload(self, hypothesis: OverloadHypothesis) -> None:
        """Confirm overload: this cap is healthy, and the larger one is not."""
        self._remember()
        self._hypothesis = None
        self._confirmed = hypothesis
        self._healthy_cap = self.cap
        self._step = 1
        self._climb()

    def _reject_overload(self, hypothesis: OverloadHypothesis) -> None:
        """Take the strain for the service's way at any load, and go back up."""
        self._by_level.clear()
        self._anywhere = Tally()
        self._anywhere.take(self._window)
        self._anywhere.take(hypothesis.tally)
        self._hypothesis, self._ceiling = None, None
        self._confirmed = None
        self._healthy_cap = 0
        self._step = hypothesis.level
        self._move(hypothesis.level)

    # --- it is not ---

    def _is_window_full(self) -> bool:
        """Return whether enough results show that this cap is healthy."""
        seen = self._window.results
        if self._ramp_up:
            return seen >= self._base
        decided = self._odds <= -TRUST or seen >= UNDECIDED
        return decided and seen >= max(FEW_RESULTS, self.cap)

    def _open_further(self) -> None:
        """Let a result open the cap while nothing strains."""
        if not self._ramp_up:
            return
        self._part += self._ramp_up
        whole = int(self._part)
        self._part -= whole
        proved = math.ceil(self._peak * (1 + self._ramp_up))
        top = self.maximum if self._ceiling is None else self._ceiling - 1
        self.cap = max(self.cap, min(self.cap + whole, proved, top))

    def _on_healthy_window(self) -> None:
        if self._confirmed is not None and self._is_refuted(self._confirmed):
            self._reject_overload(self._confirmed)
            return
        self._remember()
        self._healthy_cap = self._base
        self._stepped = False
        self._held += int(self._window.results)
        if self._ramp_up and self.cap > self._base:
            self._restart_window()
            return
        self._ramp_up = 0.0
        if self._probing:
            self._probing, self._probe_after = False, FIRST_PROBE_AFTER
            self._confirmed = None
        if self._peak < BUSY_SHARE * self.cap:
            self._restart_window()
        else:
            self._climb()

    def _is_refuted(self, confirmed: OverloadHypothesis) -> bool:
        """Return whether calls strain at this cap too, which contradicts a confirmed overload."""
        seen = self._window
        return seen.results >= REFUTED and seen.rate() > LESS * confirmed.tally.rate()

    def _climb(self) -> None:
        """Go up: by ramp-up where nothing strains, else by steps that double, or halves of the way.

        Near a ceiling stay, and try one call more now and then.
        """
        near = self._ceiling is not None and self._ceiling - self.cap <= self._notch()
        up = self.cap
        if near and self._held >= self._probe_after and self._now >= self._no_probe_before:
            up = min(self.maximum, self.cap + 1)
            self._ceiling, self._step, self._probing = None, self._notch(), True
        elif near and self._is_doubtful():
            up = self.cap - self._notch()
            self._ceiling = self.cap
        elif self.cap == self.maximum or near:
            pass
        elif not self._window.strained:
            self._ramp_up = RAMP_UP
        elif self._ceiling is None:
            up = min(self.maximum, self.cap + self._step)
            self._step *= 2
        else:
            up = max(self.cap + self._notch(), (self.cap + self._ceiling) // 2)
        if up != self.cap:
            self._move(max(1, up))
        else:
            self._restart_window()

    def _is_doubtful(self) -> bool:
        """Return whether this cap may strain too, by a call or two, and none below it is known."""
        if self._confirmed is None or self.cap * NOTCH < 1:
            return False
        lower = (tally.results for level, tally in self._by_level.items() if level < self.cap)
        return self._window.rate() > DOUBTFUL and sum(lower) < SURE

    def _notch(self) -> int:
        return max(1, math.ceil(NOTCH * self.cap))

    def _remember(self) -> None:
        """Add a window to the known rate of its cap; results of a rejected hypothesis fade."""
        seen = self._window
        known = self._by_level.setdefault(self._base, Tally())
        known.take(seen)
        known.fade(min(1.0, FORGET_AFTER / known.results))
        kept = self._anywhere.results * (1 - seen.results / REJECTION_LASTS)
        if self._anywhere.results > PRIOR_RESULTS:
            self._anywhere.fade(max(PRIOR_RESULTS, kept) / self._anywhere.results)

    def _learn(self) -> None:
        """Compute the baseline rate: that of the caps that strain least, and of all alike them.

        Load can only add to what fails at any load, so that the least is the nearest to it.
        """
        known = Tally()
        known.take(self._anywhere)
        for tally in sorted(self._by_level.values(), key=Tally.at_most):
            if not tally.exceeds(known):
                known.take(tally)
        self._known = known
        self._baseline = min(MOST_RATE, max(LEAST_RATE, known.rate()))
        spread = self._baseline * (1 - self._baseline) / known.results
        self._unsure = UNSURE * math.sqrt(spread)

    def _move(self, cap: int) -> None:
        """Change the cap; results of calls that started before are not counted."""
        self._generation += 1
        if cap != self.cap:
            self._held = 0
        self.cap = cap
        self._alarm, self._since = 0.0, Tally()
        self._restart_window()

    def _restart_window(self) -> None:
        self._window = Tally()
        self._base = self.cap
        self._peak, self._least_strained = 0, 0
        self._odds = 0.0
        self._learn()
