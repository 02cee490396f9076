"""Vital signs of a run: its live numbers as a small document, with the pace and the end in sight.

Numbers and ids only. `files.heartbeat` stores the document; `alerts` decides what wakes a person.
No own clock, no engine.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.files.disk_space import free_bytes
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.calling.run import Run
    from nightscreen.calling.stops import Stops

WINDOW_S = 600
"""How far back the pace is measured."""
SAMPLE_S = 10
"""How often a sample is kept for it."""
SURE_S = 30
"""Span of samples from which on a pace is reported."""


@dataclass(slots=True)
class RecentSpeed:
    """How fast each check has gone lately, from samples of its progress; instants in microseconds.

    Attributes:
        last_answer_at: when an answer was last seen, as closely as samples are taken.
        silent_since: since when the service has given no answer though it was asked for one.
    """

    last_answer_at: int | None = None
    silent_since: int | None = None
    _answered: int = 0
    _samples: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)

    def take(self, stops: Stops, now: int) -> None:
        """Take note of what is done by now."""
        if stops.answered != self._answered:
            self._answered = stops.answered
            self.last_answer_at, self.silent_since = now, None
        silent = stops.silence.opened_at is not None or stops.reason == StopReason.OUTAGE
        if silent and self.silent_since is None:
            since = stops.silence.since
            self.silent_since = now if since is None else since
        done = {check: counts.done for check, counts in stops.progress.items()}
        if self._samples and any(done[name] < self._samples[-1][1].get(name, 0) for name in done):
            self._samples.clear()  # a resumed run makes again the calls it had lost
        if not self._samples or now - self._samples[-1][0] >= SAMPLE_S * MICROS:
            self._samples.append((now, done))
        while len(self._samples) > 1 and now - self._samples[0][0] > WINDOW_S * MICROS:
            self._samples.popleft()

    @property
    def span_s(self) -> float:
        """Return over how many seconds the pace is measured."""
        if not self._samples:
            return 0.0
        return (self._samples[-1][0] - self._samples[0][0]) / MICROS

    def finish_at(self, stops: Stops, now: int) -> int | None:
        """Return when the slowest check will have done all it was to ask; None if unknown."""
        if self.span_s < SURE_S:
            return None
        began, before = self._samples[0]
        ends = [now]
        for check, counts in stops.progress.items():
            left, done = counts.wanted - counts.done, counts.done - before.get(check, 0)
            if left <= 0 or check in stops.checks:
                continue
            if done <= 0:
                return None
            ends.append(now + (now - began) * left // done)
        return max(ends)


def vitals_of(run: Run, pace: RecentSpeed, now: int, *, phase: str) -> dict[str, Any]:
    """Return a run's signs at an instant; instants in microseconds, money in micro-naira.

    Args:
        run: the run.
        pace: how fast it went of late.
        now: the instant.
        phase: which part of its work it is in.
    """
    stops = run.stops
    troubles: dict[str, dict[str, int]] = {}
    for (check, kind), number in stops.errors.items():
        troubles.setdefault(check, {})[kind] = number
    return {
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "at": now,
        "phase": phase,
        "rows": run.rows_read,
        "checks": {
            check: {
                "wanted": counts.wanted,
                "done": counts.done,
                "paid": counts.paid,
                "free": counts.free,
                "reused": counts.reused,
                "unreadable": counts.unreadable,
                "failed": counts.failed,
                "in_doubt": counts.in_doubt,
                "attempts": counts.attempts,
                "cap": counts.cap,
                "in_flight": counts.in_flight,
                "cost_micro": counts.cost_micro,
                "stopped": stops.checks.get(check),
                "troubles": troubles.get(check, {}),
            }
            for check, counts in stops.progress.items()
        },
        "stop": stops.reason,
        "balance_micro": run.wallet.balance_micro,
        "last_answer_at": pace.last_answer_at,
        "silent_since": pace.silent_since,
        "waiting_for": None if stops.waiting is None else stops.waiting[0],
        "waiting_since": None if stops.waiting is None else stops.waiting[1],
        "deadline_at": stops.deadline_at,
        "finish_at": pace.finish_at(stops, now) if phase == ASKING else None,
        "pace_s": pace.span_s,
        "disk_free": disk_free(run.settings.home, run.folder.path),
    }


READING, PLANNING, ASKING = "reading", "planning", "asking"
PAUSED, WRITING = "waiting", "writing"


def disk_free(home: Path, output: Path) -> dict[str, int | None]:
    """Return the free bytes under HOME and where results go."""
    return {"home": free_bytes(home), "output": free_bytes(output)}
