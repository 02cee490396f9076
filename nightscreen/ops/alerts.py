"""Alerts: what needs a person now, by a run's signs of life; the rest waits for the morning.

Each is due at most once a run, an outage once each time. The engine wakes the person.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightscreen.files.disk_space import LEAST_FREE_BYTES
from nightscreen.ops.heartbeat import ASKING
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.stops import TEST_MODE, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

OUTAGE_S = 15 * 60
"""Silence of the service after which a person is woken."""
PACE_S = 300
"""Span over which a pace must have been measured before it wakes anybody."""


class Alarm(StrEnum):
    """An alert; the last word of the event's name."""

    NOT_STARTED = "not_started"
    AUTH = "auth"
    TEST_MODE = "test_mode"
    OUTAGE = "outage"
    DEADLINE = "deadline"
    DISK = "disk"


@dataclass(slots=True)
class Alarms:
    """Remembers the alerts already sent for one run."""

    _told: set[Alarm] = field(default_factory=set)

    def due(self, signs: Mapping[str, Any]) -> list[Alarm]:
        """Return the alerts that a run's signs of life call for and that were not sent before."""
        found = _called_for(signs)
        if signs["silent_since"] is None:
            self._told.discard(Alarm.OUTAGE)
        fresh = [alarm for alarm in Alarm if alarm in found - self._told]
        self._told |= found
        return fresh


def _called_for(signs: Mapping[str, Any]) -> set[Alarm]:
    stops = {signs["stop"], *(check["stopped"] for check in signs["checks"].values())}
    found: set[Alarm] = set()
    if StopReason.AUTH in stops:
        found.add(Alarm.AUTH)
    if TEST_MODE in stops:
        found.add(Alarm.TEST_MODE)
    silent_since = signs["silent_since"]
    if silent_since is not None and signs["at"] - silent_since > OUTAGE_S * MICROS:
        found.add(Alarm.OUTAGE)
    if _out_of_reach(signs):
        found.add(Alarm.DEADLINE)
    free = [free_bytes for free_bytes in signs["disk_free"].values() if free_bytes is not None]
    if free and min(free) < LEAST_FREE_BYTES:
        found.add(Alarm.DISK)
    return found


def _out_of_reach(signs: Mapping[str, Any]) -> bool:
    """Return whether the deadline will not be met at the pace of late, or was not met."""
    if signs["stop"] == StopReason.DEADLINE:
        return True
    finish_at, deadline_at = signs["finish_at"], signs["deadline_at"]
    if finish_at is None or deadline_at is None or signs["phase"] != ASKING:
        return False
    return bool(signs["pace_s"] >= PACE_S and finish_at > deadline_at)
