"""`nightscreen doctor`: problems diagnosed, and the next command suggested.

`ops.doctor` and `tasks.prefect_health` examine; this module prints the result in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.command import Result, command
from nightscreen.cli.engine import set_engine_defaults
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.output import counted, duration, fields, lagos_time, naira
from nightscreen.ops.doctor import DOCTOR, WRONG, Diagnosis, HealthFinding, Remedy, diagnose
from nightscreen.ops.status import deadline_words, ending
from nightscreen.schemas.clock import MICROS, instant_text
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_LABEL = 15
_MARKS = {"ok": "", "warning": "! ", "wrong": "!! "}
_PLAIN = (
    *("run_id", "flow", "batch", "state", "stop_reason", "held", "phase", "pid"),
    *("checks", "in_doubt", "rest_s", "waiting_for"),
)
_INSTANTS = (
    *("started_at", "finished_at", "signs_at", "last_answer_at", "silent_since"),
    *("waiting_since", "finish_at", "deadline_at"),
)


def print_diagnosis(document: Mapping[str, Any]) -> None:
    """Print a diagnosis: the run, what it needs, what to type."""
    if document["run"] is None:
        typer.echo("No run is known.")
    else:
        _print_run(document["run"])
    others = [
        f"run {run['run_id']} of {run['batch']} ({run['flow'].replace('_', ' ')}): {run['ending']}"
        for run in document["others"]
    ]
    fields({"also": others}, _LABEL)
    found = document["findings"]
    for one in found:
        fields({one["name"]: _MARKS[one["standing"]] + one["says"]}, _LABEL)
    advice = [
        " ".join(filter(None, (one["first"], one["command"])))
        for one in found
        if one["standing"] == "warning"
    ]
    fields({"": advice}, _LABEL)
    well = "nothing now; look after what is marked !" if advice else "nothing: all is well"
    command_ = document["command"] or ("" if document["first"] else well)
    fields({"first": document["first"], "type": command_}, _LABEL)
    safe = "yes" if document["safe_to_run_again"] else f"no, {document['why_not']}"
    typer.echo(f"safe to run again: {safe}")


def _print_run(run: Mapping[str, Any]) -> None:
    live, approval, cap = bool(run["phase"]), run["approval"], run["cap_naira"]
    typer.echo(f"Run {run['run_id']} of {run['batch']}: {run['ending']}.")
    values: dict[str, str | None] = {}
    if approval is not None:
        values["approval"] = (
            f"asked by {approval['asked_by']}, {_lagos(approval['asked_at'])}; its quote is "
            f"{naira(approval['ceiling'])} at most"
        )
    if live:
        values["at"] = f"{run['phase']}, last sign {_ago(run['signs_ago_s'])}"
    values["last answer"] = _ago(run["last_answer_ago_s"])
    if run["silent_since"]:
        values["silence"] = f"the service gives no answer, since {_lagos(run['silent_since'])}"
    if run["waiting_for"]:
        since = f"{run['waiting_for']}, since {_lagos(run['waiting_since'])}"
        values["waits for" if live else "waited for"] = since
    for name, check in run["checks"].items():
        values[name.replace("_", " ")] = _check(check, live=live)
    values["spent"] = _money(run["spent_naira"]) + (f" of at most {naira(cap)}" if cap else "")
    doubt = f", up to {naira(run['in_doubt_naira'])}" if run["in_doubt_naira"] else ""
    values["balance"] = _money(run["balance_naira"])
    values["in doubt"] = f"{run['in_doubt']:,} calls{doubt}" if run["in_doubt"] else "nothing"
    if run["finish_at"] is not None:
        values["done by"] = _lagos(run["finish_at"])
    elif run["rest_s"]:
        values["the rest takes"] = duration(run["rest_s"])
    if run["deadline_at"] is not None:
        met = f": {run['deadline']}" if run["deadline"] else ""
        values["deadline"] = _lagos(run["deadline_at"]) + met
    fields(values, _LABEL)


def _check(counts: Mapping[str, Any], *, live: bool) -> str:
    parts = [f"{counts['answered']:,} answered"]
    if counts["left"] is not None:
        parts.append(f"{counts['left']:,} left")
    if live and counts["cap"]:
        parts.append(f"cap {counts['cap']}, {counts['in_flight']} in flight")
    if counts["stopped"]:
        parts.append(f"stopped: {counts['stopped']}")
    if counts["errors"]:
        parts.append("errors: " + counted(counts["errors"]))
    return "; ".join(parts)


def _money(text: str | None) -> str:
    return "-" if text is None else naira(text)


def _lagos(instant: str) -> str:
    return f"{lagos_time(instant)} in Lagos"


def _ago(seconds: float | None) -> str:
    return "none yet" if seconds is None else f"{duration(max(0.0, seconds))} ago"


@command("doctor 20260301-220000-a1b2c3", view=print_diagnosis)
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
