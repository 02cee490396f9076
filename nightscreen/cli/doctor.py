"""`nightscreen doctor`: problems diagnosed, and the next command suggested.

`ops.doctor` and `tasks.prefect_health` examine; here the result becomes a document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command
from nightscreen.cli.engine import set_engine_defaults
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.ops.doctor import DOCTOR, WRONG, Diagnosis, HealthFinding, Remedy, diagnose
from nightscreen.ops.status import deadline_words, ending
from nightscreen.schemas.clock import MICROS, instant_text
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLAIN = (
    *("run_id", "flow", "batch", "state", "stop_reason", "held", "phase", "pid"),
    *("checks", "in_doubt", "rest_s", "waiting_for"),
)
_INSTANTS = (
    *("started_at", "finished_at", "signs_at", "last_answer_at", "silent_since"),
    *("waiting_since", "finish_at", "deadline_at"),
)


@command("doctor 20260301-220000-a1b2c3", view="doctor")
def doctor(
    run_id: Annotated[
        str, typer.Argument(metavar="[RUN_ID]", help="Id of the run; the newest by default.")
    ] = "",
) -> Result:
    """Diagnose problems and suggest the next command."""
    set_engine_defaults()
    from nightscreen.tasks.prefect_health import look_at_engine

    try:
        settings = settings_of_command()
    except NightscreenError as error:
        mend = Remedy("correct it in .env or the environment", DOCTOR)
        found = Diagnosis(
            findings=[HealthFinding("settings", WRONG, str(error), mend), *look_at_engine()],
            safe=False,
            why_not="no run can start: settings must be fixed",
            remedy=mend,
            exit_status=2,
        )
    else:
        found = diagnose(settings, run_id, more=look_at_engine())
    return Result(document_of(found), found.exit_status)


def document_of(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON document; instants in UTC, money as decimal text in naira."""
    return {
        "run": None if found.run is None else _run_document(found.run),
        "others": [_run_document(other) for other in found.others],
        "findings": [
            {
                "name": finding.name,
                "standing": finding.standing,
                "says": finding.says,
                **_advice(finding.remedy),
            }
            for finding in found.findings
        ],
        **_advice(found.remedy),
        "safe_to_run_again": found.safe,
        "why_not": found.why_not,
        "exit_status": found.exit_status,
    }


def _advice(remedy: Remedy | None) -> dict[str, str | None]:
    return {
        "first": (remedy.first or None) if remedy else None,
        "command": (remedy.command or None) if remedy else None,
    }


def _run_document(run: Mapping[str, Any]) -> dict[str, Any]:
    approval, now = run["approval"], run["now"]
    amounts = ("spent", "cap", "balance", "in_doubt")
    document = {
        **{name: run[name] for name in _PLAIN},
        "approval": None,
        "ending": ending(run),
        **{name: instant_text(run[name]) for name in _INSTANTS},
        **{f"{name}_ago_s": _since(now, run[f"{name}_at"]) for name in ("signs", "last_answer")},
        "deadline": deadline_words(run),
        **{f"{name}_naira": naira_text(run[f"{name}_micro"]) for name in amounts},
    }
    if approval is not None:
        document["approval"] = {
            **{name: approval[name] for name in ("state", "asked_by", "decided_by")},
            **{name: instant_text(approval[name]) for name in ("asked_at", "decided_at")},
            "ceiling": naira_text(approval["ceiling_micro"]),
            "max_spend": naira_text(approval["max_spend_micro"]),
        }
    return document


def _since(now: int, at: int | None) -> float | None:
    return None if at is None else (now - at) / MICROS
