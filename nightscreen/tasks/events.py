"""Events of a run for whoever watches the engine: pages for a person now, the rest for the morning.

`nightscreen.page.*` are sent only for what needs a person at once, see `ops.vitals`;
`nightscreen.run.*`, `.balance.*` and `.listings.*` tell how a run ended. Numbers, ids and the
reason's word only: who is told is an automation's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect.events import emit_event

from nightscreen.ops.vitals import Alarm
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.stops import LOW_BALANCE, StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.schemas.errors import NightscreenError

PAGE = "nightscreen.page"
MORNING = "nightscreen.morning"
WAITS = "nightscreen.approval.waiting"
WORDS: Mapping[Alarm, str] = {
    Alarm.NOT_STARTED: "a run could not begin",
    Alarm.AUTH: "the service refuses the API key, or an operation it has no right to",
    Alarm.TEST_MODE: "the service is in test mode: nothing it says counts",
    Alarm.OUTAGE: "the service has given no answer for more than 15 minutes",
    Alarm.DEADLINE: "the deadline cannot be met",
    Alarm.DISK: "the disk is nearly full",
}


def _resource(batch: str) -> dict[str, str]:
    return {
        "prefect.resource.id": f"nightscreen.batch.{batch}",
        "prefect.resource.name": batch,
        "prefect.resource.role": "batch",
    }


def _related(run_id: str) -> list[dict[str, str]]:
    return [
        {
            "prefect.resource.id": f"nightscreen.run.{run_id}",
            "prefect.resource.role": "nightscreen-run",
        }
    ]


def tell_events(report: Mapping[str, Any]) -> None:
    """Emit a finished run's events."""
    payload = payload_of(report)
    for name in names_of(report):
        emit_event(
            event=name,
            resource=_resource(report["batch"]),
            related=_related(report["run_id"]),
            payload=payload,
        )


def names_of(report: Mapping[str, Any]) -> list[str]:
    """Return the names of a finished run's events.

    `nightscreen.run.completed`, `.stopped` or `.test_mode` for each run; `nightscreen.balance.low`
    and `nightscreen.balance.drift` where the wallet wants a look; `nightscreen.listings.new` where
    customers are on the blacklist who were not before; `nightscreen.approval.waiting` where the run
    waits for a person to approve its spending.
    """
    names = [f"nightscreen.run.{report['state']}"]
    if report["stop_reason"] == StopReason.APPROVAL:
        names.append(WAITS)
    if any(notice.startswith(LOW_BALANCE) for notice in report["notices"]):
        names.append("nightscreen.balance.low")
    if report["balance"]["drift"] not in {None, "0.00"}:
        names.append("nightscreen.balance.drift")
    if report.get("changes", {}).get("new_listing"):
        names.append("nightscreen.listings.new")
    return names


def payload_of(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event tells of a run: its id, its state and its numbers; money in naira."""
    checks, changes = report["checks"].values(), report.get("changes", {})
    return {
        "run_id": report["run_id"],
        "state": report["state"],
        "stop_reason": report["stop_reason"],
        "publishable": report["publishable"],
        "rows_screened": report["rows"]["screened"],
        "rows_quarantined": report["rows"]["quarantined"],
        "lookups_pending": sum(check["pending"] for check in checks),
        "lookups_failed": sum(check["failed"] for check in checks),
        "lookups_unreadable": sum(check.get("unreadable", 0) for check in checks),
        "lookups_in_doubt": sum(check["in_doubt"] for check in checks),
        "cost": report["cost"]["total"],
        "quoted": report["cost"]["quoted"]["expected"],
        "quoted_high": report["cost"]["quoted"]["high"],
        "in_doubt_exposure": report["cost"]["in_doubt_exposure"],
        "balance": report["balance"]["closing"],
        "nights_left": report["balance"]["nights_left"],
        "drift": report["balance"]["drift"],
        "new_listings": changes.get("new_listing", 0),
        "customers_changed": changes.get("customers", 0),
    }


def tell_alarm(alarm: Alarm, signs: Mapping[str, Any]) -> None:
    """Emit the page for an alarm, with a run's numbers at that moment."""
    checks = signs["checks"].values()
    emit_event(
        event=f"{PAGE}.{alarm.value}",
        resource=_resource(signs["batch"]),
        related=_related(signs["run_id"]),
        payload={
            "run_id": signs["run_id"],
            "says": WORDS[alarm],
            "type": f"nightscreen doctor {signs['run_id']}",
            "lookups_done": sum(each["done"] for each in checks),
            "lookups_wanted": sum(each["wanted"] for each in checks),
            "finish_at": instant_text(signs["finish_at"]),
            "deadline_at": instant_text(signs["deadline_at"]),
            "silent_since": instant_text(signs["silent_since"]),
            "disk_free_bytes": min(
                (each for each in signs["disk_free"].values() if each is not None), default=None
            ),
        },
    )


def tell_false_start(batch: str, run_id: str, error: NightscreenError) -> None:
    """Emit the page for a run that could not begin: settings, input or journal are in the way.

    Args:
        batch: its batch name, empty where none is known yet.
        run_id: the run it was to resume, empty where it was to be a new one.
        error: what was in the way; its text may quote a path, so that only its kind is sent.
    """
    emit_event(
        event=f"{PAGE}.{Alarm.NOT_STARTED.value}",
        resource=_resource(batch.rstrip("-*") or "unnamed"),
        payload={
            "run_id": run_id,
            "says": WORDS[Alarm.NOT_STARTED],
            "type": "nightscreen doctor",
            "error": type(error).__name__,
        },
    )


def tell_morning(numbers: Mapping[str, Any]) -> None:
    """Emit the morning summary: a night's numbers, and `text` that says them."""
    emit_event(
        event=MORNING,
        resource={
            "prefect.resource.id": f"nightscreen.night.{numbers['night']}",
            "prefect.resource.name": numbers["night"],
        },
        payload=dict(numbers),
    )
