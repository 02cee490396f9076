"""The cap that adapts: how many calls of one check may be in flight at a time.

A pure state machine: it is told of each result and holds no clock, task or socket. It must not
crawl where the service fails at any load, and must find a limit nobody told it of. So it does not
react to failures but to *more failures than at smaller caps*: a running test (CUSUM) compares the
stream of results with the rate known from caps that proved harmless; when it gives alarm the cap
steps down, the rate there is measured, and only if that is clearly lower is the load to blame.

What does not belong here: which failures are strain (`data/manners.toml`), retries
(`client/retry.py`) and the window of workers (`steps/`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

START, OPENING_PART = 4, 6
"""A cap opens at the first, or at this part of its maximum where that is more."""

FORGET_AFTER = 1500.0
"""Results that the harmless rate rests on; older ones fade."""

PRIOR_RESULTS, PRIOR_RATE = 10.0, 0.02
LEAST_RATE, MOST_RATE = 0.005, 0.65
"""Above the second, a service that fails is never thought to fail at any load."""

NOTCH = 0.05
"""The least share of the cap that is moved by and tested for, once a ceiling is known."""

WASTED = 0.8
"""Of the calls beyond a limit, the share that is expected to strain."""

ALARM, TRUST = 9.5, 2.5
"""Log odds at which a cap is suspected, and at which it is taken for harmless."""

ALARM_RESULTS, SUSPECT_RESULTS = 8, 15
"""Results needed before the first alarm is believed, and before a second one in a row is."""

SMALLER = 0.85
"""Rates are compared with those of caps below this share: nearer ones may be strained as well."""

STALE_SHARE = 0.25
"""What older rates count for once strain was acquitted of load: the service has changed."""

MUCH_SMALLER = 4
"""Strain is acquitted of load only where it is as frequent at a cap so many times smaller."""

CLEARLY = 1.8
"""Standard errors between two rates that are taken to differ."""

UNSURE = 3.0
"""Standard errors that the rate of smaller caps may be off by."""

JUDGE_RESULTS, MOST_JUDGE_RESULTS = 40, 120
FEW_RESULTS = 8
FIRST_PROBE_AFTER, LAST_PROBE_AFTER = 200, 1200
"""Results under a known ceiling before it is tried again; doubles with each time it holds."""

BUSY_SHARE = 0.75
"""A window that never used this share of the cap proves nothing about it."""


class Cap(Protocol):
    """How many calls of a check may be in flight, as a window asks for it."""

    @property
    def cap(self) -> int:
        """Return the cap of this moment."""

    @property
    def paused_until(self) -> float:
        """Return the instant, on the caller's clock, before which no call may start."""

    def on_result(
        self, *, strain: bool, now: float, in_flight: int, retry_after_s: float | None = None
    ) -> None:
        """Take note of one result."""


@dataclass(slots=True)
class Tally:
    """Strained results of all results."""

    results: float = 0.0
    strained: float = 0.0

    def add(self, *, strain: bool) -> None:
        """Count one result."""
        self.results += 1
        self.strained += strain

    def rate(self) -> float:
        """Return the share of strained results."""
        return self.strained / self.results if self.results else 0.0

    def exceeds(self, other: Tally) -> bool:
        """Tell whether this rate is clearly higher than another."""
        if not self.results or not other.results:
            return False
        pooled = (self.strained + other.strained + 0.5) / (self.results + other.results + 1)
        error = math.sqrt(pooled * (1 - pooled) * (1 / self.results + 1 / other.results))
        return self.rate() - other.rate() > CLEARLY * error


class AdaptiveCap:
    """How many calls of a check may be in flight.

    It opens small and doubles each window until strain is clearly more frequent than at smaller
    caps; then it steps back, narrows down on the ceiling it found, stays below it and tries it
    again now and then. It never goes over the maximum nor under 1.

    Args:
        maximum: the configured cap.
        start: where to open; the usual place where left out.

    Attributes:
        cap: the cap of this moment.
        paused_until: instant, on the caller's clock, before which no call may start.
    """

    def __init__(self, maximum: int, start: int | None = None) -> None:
        if maximum < 1 or (start is not None and start < 1):
            raise ValueError("a cap is at least 1")
        start = start or max(START, maximum // OPENING_PART)
        self.maximum = maximum
        self.cap = min(maximum, start)
        self.paused_until = 0.0
        self._anywhere = Tally(PRIOR_RESULTS, PRIOR_RESULTS * PRIOR_RATE)
        self._by_level: dict[int, Tally] = {}
        self._harmless, self._unsure = PRIOR_RATE, 0.0
        self._good = 0
        self._ceiling: int | None = None
        self._step = self.cap
        self._window = Tally()
        self._peak = 0
        self._stale = 0
        self._alarm = 0.0
        self._odds = 0.0
        self._suspect: tuple[int, Tally] | None = None
        self._held = 0
        self._probing = False
        self._probe_after = FIRST_PROBE_AFTER

    def __repr__(self) -> str:
        """Show the level and what is known of the ceiling."""
        return f"AdaptiveCap({self.cap} of {self.maximum}, ceiling={self._ceiling})"

    def on_result(
        self, *, strain: bool, now: float, in_flight: int, retry_after_s: float | None = None
    ) -> None:
        """Take note of one result.

        Args:
            strain: it was a sign of overload.
            now: the instant, in seconds on any clock that does not run backwards.
            in_flight: calls in flight just before this result came, itself included.
            retry_after_s: seconds the service asked to be left alone; the whole check pauses.
        """
        if retry_after_s is not None and strain:
            self.paused_until = max(self.paused_until, now + retry_after_s)
        if self._stale > 0:
            self._stale -= 1
            return
        self._peak = max(self._peak, in_flight)
        self._window.add(strain=strain)
        if self._is_alarmed(strain=strain):
            self._on_alarm(in_flight)
        elif self._is_window_full():
            self._on_harmless_window()

    def _is_window_full(self) -> bool:
        """Tell whether enough was seen to take this cap for harmless."""
        seen = self._window.results
        if self._suspect is None:
            return seen >= max(FEW_RESULTS, self.cap) and self._odds <= -TRUST
        return seen >= max(
            JUDGE_RESULTS, self.cap, min(MOST_JUDGE_RESULTS, self._suspect[1].results)
        )

    def _is_alarmed(self, *, strain: bool) -> bool:
        """Weigh one result: is the rate the harmless one, or are the added calls wasted?"""
        low = self._harmless
        added = 0.0 if self._suspect else 1 - self._good / self.cap
        wasted = (1 - low) * WASTED * max(NOTCH, min(0.5, added))
        high = min(0.95, low + max(wasted, self._unsure))
        gain = math.log(high / low) if strain else math.log((1 - high) / (1 - low))
        self._odds += gain
        self._alarm = max(0.0, self._alarm + gain)
        enough = SUSPECT_RESULTS if self._suspect else ALARM_RESULTS
        return self._alarm > ALARM and self._window.results >= enough

    # --- strain is more frequent than it was at smaller caps ---

    def _on_alarm(self, in_flight: int) -> None:
        level, tally = self._suspect or (self.cap, self._window)
        if self._suspect is not None and self._is_the_same_everywhere(level, tally):
            self._acquit(level)
            return
        if self._probing:
            self._probing, self._probe_after = False, min(LAST_PROBE_AFTER, 2 * self._probe_after)
        self._ceiling = self.cap
        self._good, back = 0, self._step_down()
        self._suspect = (level, tally)
        self._step = 1
        self._move(max(1, back), in_flight)

    def _step_down(self) -> int:
        """Return where to go after an alarm: the last harmless cap, or what the rate suggests.

        Where the last harmless cap is this one, the cap shrinks by the share of calls that strain
        beyond the harmless rate, to a half at most; a second alarm in a row halves it.
        """
        half = self.cap // 2
        if self._suspect is not None:
            return half
        if 0 < self._good < self.cap:
            return max(half, self._good)
        useful = (1 - self._window.rate()) / (1 - self._harmless)
        return max(half, min(int(self.cap * useful), self.cap - self._notch()))

    def _notch(self) -> int:
        return max(1, math.ceil(NOTCH * self.cap))

    def _is_the_same_everywhere(self, level: int, tally: Tally) -> bool:
        """Tell whether calls strain as often at a much smaller cap as where the alarm was given."""
        if self._window.rate() > MOST_RATE:
            return False
        small = self.cap <= max(1, level // MUCH_SMALLER)
        return small and not tally.exceeds(self._window)

    def _acquit(self, level: int) -> None:
        """Take the strain for the service's way at any load, and go back up."""
        for tally in (self._anywhere, *self._by_level.values()):
            tally.results *= STALE_SHARE
            tally.strained *= STALE_SHARE
        self._anywhere.results += self._window.results
        self._anywhere.strained += self._window.strained
        self._ceiling = None
        self._suspect = None
        self._good = 0
        self._step = level
        self._move(level, 0)

    # --- it is not ---

    def _on_harmless_window(self) -> None:
        if self._suspect is not None:
            self._judge(self._suspect)
            return
        if self._probing:
            self._probing, self._probe_after = False, FIRST_PROBE_AFTER
        self._good = self.cap
        self._held += int(self._window.results)
        if self._peak < BUSY_SHARE * self.cap:
            self._restart_window()
            return
        self._climb()

    def _judge(self, suspect: tuple[int, Tally]) -> None:
        """Decide, from the rate at the smaller cap, whether the larger one was to blame."""
        level, tally = suspect
        if tally.exceeds(self._window):
            self._suspect = None
            self._good = self.cap
            self._climb()
        elif self.cap > max(1, level // MUCH_SMALLER):
            self._move(max(1, level // MUCH_SMALLER), self._peak)
        else:
            self._acquit(level)

    def _climb(self) -> None:
        """Go up: freely where no ceiling is known, by halves of the distance below one."""
        if self._ceiling is None:
            up = min(self.maximum, self.cap + self._step)
            self._step *= 2
        elif self._ceiling - self.cap > self._notch():
            up = max(self.cap + self._notch(), (self.cap + self._ceiling) // 2)
        elif self._held >= self._probe_after:
            up = min(self.maximum, self.cap + self._notch())
            self._ceiling, self._step, self._probing = None, self._notch(), True
        else:
            up = self.cap
        self._remember()
        if up > self.cap:
            self._move(up, 0)
        else:
            self._restart_window()

    def _remember(self) -> None:
        """Let a window count towards the rate known of its cap."""
        known = self._by_level.setdefault(self.cap, Tally())
        results = known.results + self._window.results
        fade = min(1.0, FORGET_AFTER / results)
        known.strained = (known.strained + self._window.strained) * fade
        known.results = results * fade

    def _rate_below(self, cap: int) -> tuple[float, float]:
        """Return the rate known from smaller caps, and how far beyond it the truth may lie."""
        below = [tally for level, tally in self._by_level.items() if level <= SMALLER * cap]
        results = self._anywhere.results + sum(tally.results for tally in below)
        strained = self._anywhere.strained + sum(tally.strained for tally in below)
        rate = min(MOST_RATE, max(LEAST_RATE, strained / results))
        return rate, UNSURE * math.sqrt(rate * (1 - rate) / results)

    def _move(self, cap: int, in_flight: int) -> None:
        """Go to another cap; results of calls begun before a step down tell nothing about it."""
        self._stale = max(0, in_flight - 1) if cap < self.cap else 0
        if cap != self.cap:
            self._held = 0
        self.cap = cap
        self._harmless, self._unsure = self._rate_below(cap)
        self._alarm = 0.0
        self._restart_window()

    def _restart_window(self) -> None:
        self._window = Tally()
        self._odds = 0.0
        self._peak = 0


class AllottedCap:
    """An adaptive cap of which only a share is this process's own; the rest is others' to use.

    Args:
        inner: finds out what the service bears.

    Attributes:
        allotted: calls that this process may have in flight now; 0 until it is given some.
    """

    def __init__(self, inner: Cap) -> None:
        self._inner = inner
        self.allotted = 0

    @property
    def cap(self) -> int:
        """Return the cap of this moment."""
        return min(self._inner.cap, self.allotted)

    @property
    def paused_until(self) -> float:
        """Return the instant, on the caller's clock, before which no call may start."""
        return self._inner.paused_until

    def on_result(
        self, *, strain: bool, now: float, in_flight: int, retry_after_s: float | None = None
    ) -> None:
        """Take note of one result."""
        self._inner.on_result(
            strain=strain, now=now, in_flight=in_flight, retry_after_s=retry_after_s
        )
