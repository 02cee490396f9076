"""Vital signs of a run: its live numbers, the pace, the end in sight, and what wakes a person.

Numbers and ids only, in one small file a run under HOME that is replaced whole every few seconds
and that other processes read. It is beside the journal and not in it, so that writing it costs the
journal nothing. The engine wakes the person. No own clock.
"""

from __future__ import annotations

import json
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightscreen.files.private_files import LEAST_FREE_BYTES, free_bytes, write_unsynced
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.errors import OutputError
from nightscreen.schemas.stops import TEST_MODE, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nightscreen.calling.run import Run
    from nightscreen.calling.stops import Stops

READING, PLANNING, ASKING = "reading", "planning", "asking"
PAUSED, WRITING = "waiting", "writing"  # parts of a run's work
WINDOW_S, SAMPLE_S, SURE_S = 600, 10, 30
"""How far back the pace is measured, how often a sample is kept, and the span it must have."""
OUTAGE_S = 15 * 60  # silence of the service after which a person is woken
PACE_S = 300  # span over which a pace must have been measured before it wakes anybody
FOLDER = "vitals"
KEPT = 20  # runs whose last signs are kept
_COUNTS = ("wanted", "done", "failed", "in_doubt", "cap", "in_flight")


@dataclass(slots=True)
class RecentSpeed:
    """How fast each check has gone lately, from samples of its progress; instants as journalled."""

    # when an answer was last seen, as closely as samples are taken
    last_answer_at: int | None = None
    # since when the service has given no answer though it was asked for one
    silent_since: int | None = None
    _answered: int = 0
    _samples: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)

    def add_sample(self, stops: Stops, now: int) -> None:
        """Take note of what is done by now."""
        if stops.answered != self._answered:
            self._answered = stops.answered
            self.last_answer_at, self.silent_since = now, None
        silent = stops.silence.opened_at is not None or stops.reason == StopReason.OUTAGE
        if silent and self.silent_since is None:
            self.silent_since = now if stops.silence.since is None else stops.silence.since
        done = {check: counts.done for check, counts in stops.progress.items()}
        samples = self._samples
        if samples and any(done[name] < samples[-1][1].get(name, 0) for name in done):
            samples.clear()  # a resumed run makes again the calls it had lost
        if not samples or now - samples[-1][0] >= SAMPLE_S * MICROS:
            samples.append((now, done))
        while len(samples) > 1 and now - samples[0][0] > WINDOW_S * MICROS:
            samples.popleft()

    @property
    def span_s(self) -> float:
        """Return over how many seconds the pace is measured."""
        return (self._samples[-1][0] - self._samples[0][0]) / MICROS if self._samples else 0.0

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
    """Return a run's signs now, in a phase of its work; instants in microseconds."""
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
    """Replace a run's vital signs.

    Return whether that succeeded, because a full disk must stop no run.
    """
    try:
        (home / FOLDER).mkdir(mode=0o700, exist_ok=True)
        write_unsynced(home / FOLDER / f"{run_id}.json", json.dumps(signs).encode())
    except (OSError, OutputError):
        return False
    return True


def read_vitals(home: Path, run_id: str) -> dict[str, Any] | None:
    """Return a run's last signs, None where there are none or they cannot be read."""
    try:
        found = json.loads((home / FOLDER / f"{run_id}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sweep_vitals(home: Path) -> None:
    """Remove the signs of all but the newest runs."""
    with suppress(OSError):
        files = sorted((home / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[:-KEPT]:
            file.unlink(missing_ok=True)


# --- what wakes a person ---


class Alarm(StrEnum):
    """What needs a person now; the last word of the event's name."""

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
        """Return the alarms that a run's signs of life call for and that were not sent before."""
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
        fresh = [alarm for alarm, is_so in called_for.items() if is_so and alarm not in self._sent]
        self._sent.update(fresh)
        return fresh


def _out_of_reach(signs: Mapping[str, Any]) -> bool:
    """Return whether the deadline will not be met at the pace of late, or was not met."""
    finish_at, deadline_at = signs["finish_at"], signs["deadline_at"]
    late = finish_at is not None and deadline_at is not None and finish_at > deadline_at
    sure = signs["phase"] == ASKING and signs["pace_s"] >= PACE_S
    return signs["stop"] == StopReason.DEADLINE or bool(late and sure)
