"""Vital signs of a run: its live numbers, its speed, the expected end, and alarms.

They are numbers and ids in one small file per run under HOME, replaced whole every few seconds and
read by other processes. They are not in the journal, so that writing them does not slow it.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightscreen.files.private_files import LEAST_FREE_BYTES, free_bytes, write_private
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.stops import TEST_MODE, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nightscreen.calling.run import Run
    from nightscreen.calling.stops import Stops

READING, PLANNING, ASKING = "reading", "planning", "asking"
PAUSED, WRITING = "waiting", "writing"  # phases of a run
WINDOW_S, SAMPLE_S, SURE_S = 600, 10, 30
"""Span of the measured speed, interval of its samples, and least span for a forecast."""
OUTAGE_S = 15 * 60  # silence of the service that raises an alarm
PACE_S = 300  # least span of measured speed for the deadline's alarm
FOLDER = "vitals"
KEPT = 20  # runs whose last vital signs are kept
_COUNTS = ("wanted", "done", "failed", "in_doubt", "cap", "in_flight")


@dataclass(slots=True)
class RecentSpeed:
    """How fast each check was lately, from samples of its progress; instants in microseconds."""

    # when an answer was last seen, to the precision of the samples
    last_answer_at: int | None = None
    # since when the service has not answered although it was called
    silent_since: int | None = None
    _answered: int = 0
    _samples: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)

    def add_sample(self, stops: Stops, now: int) -> None:
        """Record the progress so far."""
        if stops.answered != self._answered:
            self._answered = stops.answered
            self.last_answer_at, self.silent_since = now, None
        silent = stops.silence.opened_at is not None or stops.reason == StopReason.OUTAGE
        if silent and self.silent_since is None:
            self.silent_since = now if stops.silence.since is None else stops.silence.since
        done = {check: counts.done for check, counts in stops.progress.items()}
        samples = self._samples
        if samples and any(done[name] < samples[-1][1].get(name, 0) for name in done):
            samples.clear()  # a resumed run repeats the calls it lost
        if not samples or now - samples[-1][0] >= SAMPLE_S * MICROS:
            samples.append((now, done))
        while len(samples) > 1 and now - samples[0][0] > WINDOW_S * MICROS:
            samples.popleft()

    @property
    def span_s(self) -> float:
        """Return the span of the measured speed, in seconds."""
        return (self._samples[-1][0] - self._samples[0][0]) / MICROS if self._samples else 0.0

    def finish_at(self, stops: Stops, now: int) -> int | None:
        """Return when the slowest check will be done; None if unknown."""
        if self.span_s < SURE_S:
            return None
        began, done_then = self._samples[0]
        ends = [now]
        for check, counts in stops.progress.items():
            left, done = counts.wanted - counts.done, counts.done - done_then.get(check, 0)
            if left <= 0 or check in stops.checks:
                continue
            if done <= 0:
                return None
            ends.append(now + (now - began) * left // done)
        return max(ends)


def vitals_of(run: Run, pace: RecentSpeed, now: int, *, phase: str) -> dict[str, Any]:
    """Return a run's vital signs in a phase of its work; instants in microseconds."""
    stops = run.stops
    waiting_for, waiting_since = stops.waiting or (None, None)
    return {
        "run_id": run.run_id,
        "batch": run.batch,
        "at": now,
        "phase": phase,
        "checks": {
            check: {
                **{name: getattr(counts, name) for name in _COUNTS},
                "stopped": stops.checks.get(check),
            }
            for check, counts in stops.progress.items()
        },
        "stop": stops.reason,
        "last_answer_at": pace.last_answer_at,
        "silent_since": pace.silent_since,
        "waiting_for": waiting_for,
        "waiting_since": waiting_since,
        "next_try_at": None if stops.resting_since is None else stops.resting_until,
        "deadline_at": stops.deadline_at,
        "finish_at": pace.finish_at(stops, now) if phase == ASKING else None,
        "pace_s": pace.span_s,
        "disk_free": {
            "home": free_bytes(run.settings.home),
            "output": free_bytes(run.folder.path),
        },
    }


def write_vitals(home: Path, run_id: str, signs: Mapping[str, Any]) -> bool:
    """Replace a run's vital signs; return whether that worked: a full disk must not stop a run."""
    try:
        (home / FOLDER).mkdir(mode=0o700, exist_ok=True)
        write_private(home / FOLDER / f"{run_id}.json", json.dumps(signs).encode(), lasting=False)
    except (OSError, OutputError):
        return False
    return True


def read_vitals(home: Path, run_id: str) -> dict[str, Any] | None:
    """Return a run's last vital signs; None if there are none or they cannot be read."""
    try:
        signs = json.loads((home / FOLDER / f"{run_id}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return signs if isinstance(signs, dict) else None


def sweep_vitals(home: Path) -> None:
    """Remove the vital signs of all but the newest runs."""
    with suppress(OSError):
        files = sorted((home / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[:-KEPT]:
            file.unlink(missing_ok=True)


# --- alarms ---


class Alarm(StrEnum):
    """A reason to call a person now; the last part of the event's name."""

    NOT_STARTED = "not_started"
    AUTH = "auth"
    TEST_MODE = "test_mode"
    OUTAGE = "outage"
    DEADLINE = "deadline"
    DISK = "disk"


class Alarms:
    """Alarms of one run: each is due once, an outage once each time."""

    def __init__(self) -> None:
        self._sent: set[Alarm] = set()

    def due(self, signs: Mapping[str, Any]) -> list[Alarm]:
        """Return the alarms that a run's vital signs call for and that were not sent before."""
        if signs["silent_since"] is None:
            self._sent.discard(Alarm.OUTAGE)
        stops = {signs["stop"], *(check["stopped"] for check in signs["checks"].values())}
        silent_since = signs["silent_since"]
        free = [number for number in signs["disk_free"].values() if number is not None]
        called_for = {
            Alarm.AUTH: StopReason.AUTH in stops,
            Alarm.TEST_MODE: TEST_MODE in stops,
            Alarm.OUTAGE: silent_since is not None
            and signs["at"] - silent_since > OUTAGE_S * MICROS,
            Alarm.DEADLINE: _out_of_reach(signs),
            Alarm.DISK: bool(free) and min(free) < LEAST_FREE_BYTES,
        }
        new = [alarm for alarm, is_due in called_for.items() if is_due and alarm not in self._sent]
        self._sent.update(new)
        return new


def _out_of_reach(signs: Mapping[str, Any]) -> bool:
    """Return whether the deadline was missed, or will be at the recent speed."""
    finish_at, deadline_at = signs["finish_at"], signs["deadline_at"]
    late = finish_at is not None and deadline_at is not None and finish_at > deadline_at
    sure = signs["phase"] == ASKING and signs["pace_s"] >= PACE_S
    return signs["stop"] == StopReason.DEADLINE or bool(late and sure)
