"""Events for whoever watches the engine: pages for a person now, a summary for the morning.

`nightscreen.page.*` are sent only for what needs a person at once, see `ops.vitals`. Numbers, ids
and the reason's word only: who is notified is an automation's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect.events import emit_event

from nightscreen.ops.vitals import Alarm
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.schemas.errors import NightscreenError

WORDS: Mapping[Alarm, str] = {
    Alarm.NOT_STARTED: "a run could not begin",
    Alarm.AUTH: "the service refuses the API key, or an operation it has no right to",
    Alarm.TEST_MODE: "the service is in test mode: nothing it says counts",
    Alarm.OUTAGE: "the service has given no answer for more than 15 minutes",
    Alarm.DEADLINE: "the deadline cannot be met",
    Alarm.DISK: "the disk is nearly full",
}


def _emit(event: str, batch: str, payload: Mapping[str, Any], run_id: str = "") -> None:
    """Emit an event about a batch and one of its runs."""
    batch_ = {
        "prefect.resource.id": f"nightscreen.batch.{batch}",
        "prefect.resource.name": batch,
        "prefect.resource.role": "batch",
    }
    run = {
        "prefect.resource.id": f"nightscreen.run.{run_id}",
        "prefect.resource.role": "nightscreen-run",
    }
    emit_event(f"nightscreen.{event}", batch_, related=[run] if run_id else [], payload={**payload})


def page(alarm: Alarm, signs: Mapping[str, Any]) -> None:
    """Emit the page for an alarm, with a run's numbers at that moment."""
    checks = signs["checks"].values()
    free = [each for each in signs["disk_free"].values() if each is not None]
    payload = {
        "run_id": signs["run_id"],
        "says": WORDS[alarm],
        "type": f"nightscreen doctor {signs['run_id']}",
        "lookups_done": sum(each["done"] for each in checks),
        "lookups_wanted": sum(each["wanted"] for each in checks),
        **{at: instant_text(signs[at]) for at in ("finish_at", "deadline_at", "silent_since")},
        "disk_free_bytes": min(free, default=None),
    }
    _emit(f"page.{alarm.value}", signs["batch"], payload, signs["run_id"])


def false_start(batch: str, run_id: str, error: NightscreenError) -> None:
    """Emit the page for a run that could not begin: settings, input or journal are in the way.

    Args:
        batch: its batch name, empty where none is known yet.
        run_id: the run it was to resume, empty where it was to be a new one.
        error: what was in the way; its text may quote a path, so that only its kind is sent.
    """
    payload = {
        "run_id": run_id,
        "says": WORDS[Alarm.NOT_STARTED],
        "type": "nightscreen doctor",
        "error": type(error).__name__,
    }
    _emit(f"page.{Alarm.NOT_STARTED.value}", batch.rstrip("-*") or "unnamed", payload)


def morning(numbers: Mapping[str, Any]) -> None:
    """Emit the morning summary: a night's numbers, and `text` that says them."""
    night = numbers["night"]
    resource = {
        "prefect.resource.id": f"nightscreen.night.{night}",
        "prefect.resource.name": night,
    }
    emit_event("nightscreen.morning", resource, payload={**numbers})
