"""Events of a run for whoever watches the engine: how it ended, and what wants a person.

Numbers and ids only. What is worth a notice is decided in `steps/`; who is told is an automation's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prefect.events import emit_event

from steps.closing import LOW_BALANCE

if TYPE_CHECKING:
    from collections.abc import Mapping


def tell_events(report: Mapping[str, Any]) -> list[str]:
    """Emit a run's events and return their names.

    `nightscreen.run.completed`, `.stopped` or `.test_mode` for each run; `nightscreen.balance.low`
    and `nightscreen.balance.drift` where the wallet wants a look.
    """
    names = [f"nightscreen.run.{report['state']}"]
    if any(notice.startswith(LOW_BALANCE) for notice in report["notices"]):
        names.append("nightscreen.balance.low")
    if report["balance"]["drift"] not in {None, "0.00"}:
        names.append("nightscreen.balance.drift")
    payload = {
        "run_id": report["run_id"],
        "stop_reason": report["stop_reason"],
        "cost": report["cost"]["total"],
        "balance": report["balance"]["closing"],
        "nights_left": report["balance"]["nights_left"],
        "drift": report["balance"]["drift"],
    }
    for name in names:
        emit_event(
            event=name,
            resource={"prefect.resource.id": f"nightscreen.batch.{report['batch']}"},
            payload=payload,
        )
    return names
