"""`nightscreen doctor`: what is wrong, and what to type next.

`ops.diagnostics` and `tasks.prefect_health` examine; this module prints the result in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.output import print_json
from nightscreen.schemas.clock import LAGOS, MICROS, instant_text, to_instant
from nightscreen.schemas.errors import NightscreenError
from nightscreen.schemas.money import naira_text, naira_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.ops.diagnostics import Diagnosis
    from nightscreen.ops.health_checks import HealthFinding

_LABEL = 15
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_MARKS = {"ok": "", "warning": "! ", "wrong": "!! "}


def doctor(run_id: str, *, json_output: bool) -> int:
    """Print the state of a run and its surroundings; return the exit status."""
    from nightscreen.ops.diagnostics import Diagnosis, diagnose
    from nightscreen.ops.health_checks import WRONG, HealthFinding
    from nightscreen.ops.suggestions import DOCTOR, Remedy

    try:
        settings = settings_of_command()
    except NightscreenError as error:
        mend = Remedy("correct it in .env or the environment", DOCTOR)
        wrong = HealthFinding("settings", WRONG, str(error), mend)
        found = Diagnosis(
            findings=[wrong, *_engine()],
            safe=False,
            why_not="no run can start: settings must be fixed",
            remedy=mend,
            exit_status=2,
        )
    else:
        found = diagnose(settings, run_id, more=_engine())
    if json_output:
        print_json(document_of(found))
    else:
        for line in lines_of(found):
            typer.echo(line)
    return found.exit_status


def _engine() -> tuple[HealthFinding, ...]:
    """Look at the engine, as quietly as can be."""
    from nightscreen.cli.screen import set_engine_defaults

    set_engine_defaults()
    from nightscreen.tasks.prefect_health import look_at_engine

    return look_at_engine()


# --- for programs ---


def document_of(found: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis as a JSON document; instants in UTC, money as decimal text in naira."""
    remedy = found.remedy
    return {
        "run": None if found.run is None else _run_document(found.run),
        "others": [_run_document(other) for other in found.others],
        "findings": [
            {
                "name": finding.name,
                "standing": finding.standing,
                "says": finding.says,
                "first": None if finding.remedy is None else finding.remedy.first or None,
                "command": None if finding.remedy is None else finding.remedy.command or None,
            }
            for finding in found.findings
        ],
        "first": None if remedy is None else remedy.first or None,
        "command": None if remedy is None else remedy.command or None,
        "safe_to_run_again": found.safe,
        "why_not": found.why_not,
        "exit_status": found.exit_status,
    }


def _run_document(run: Mapping[str, Any]) -> dict[str, Any]:
    from nightscreen.ops.run_status import deadline_words

    plain = (
        *("run_id", "flow", "batch", "state", "stop_reason", "held", "phase", "pid"),
        *("checks", "in_doubt", "rest_s", "waiting_for"),
    )
    instants = (
        *("started_at", "finished_at", "signs_at", "last_answer_at", "silent_since"),
        *("waiting_since", "finish_at", "deadline_at"),
    )
    amounts = ("spent", "cap", "balance", "in_doubt")
    ago_s = None if run["last_answer_at"] is None else (run["now"] - run["last_answer_at"]) / MICROS
    return {
        **{name: run[name] for name in plain},
        "approval": _approval_document(run["approval"]),
        **{name: instant_text(run[name]) for name in instants},
        "last_answer_ago_s": ago_s,
        "deadline": deadline_words(run),
        **{f"{name}_naira": naira_text(run[f"{name}_micro"]) for name in amounts},
    }


def _approval_document(approval: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if approval is None:
        return None
    return {
        **{name: approval[name] for name in ("state", "asked_by", "decided_by")},
        **{name: instant_text(approval[name]) for name in ("asked_at", "decided_at")},
        "ceiling": naira_text(approval["ceiling_micro"]),
        "max_spend": naira_text(approval["max_spend_micro"]),
    }


# --- for people ---


def lines_of(found: Diagnosis) -> list[str]:
    """Return a diagnosis as lines: the run, what it needs, what to type."""
    lines = ["No run is known."] if found.run is None else _run_lines(found.run)
    lines += [_other_line(other) for other in found.others]
    lines += [
        _line(finding.name, _MARKS[finding.standing] + finding.says) for finding in found.findings
    ]
    lines += [
        _line("", " ".join(part for part in (finding.remedy.first, finding.remedy.command) if part))
        for finding in found.findings
        if finding.remedy is not None and finding.standing == "warning"
    ]
    remedy = found.remedy
    if remedy is not None and remedy.first:
        lines.append(_line("first", remedy.first))
    if remedy is not None and remedy.command:
        lines.append(_line("type", remedy.command))
    if remedy is None:
        warned = any(finding.standing == "warning" for finding in found.findings)
        well = "nothing now; look after what is marked !" if warned else "nothing: all is well"
        lines.append(_line("type", well))
    lines.append(f"safe to run again: {'yes' if found.safe else f'no, {found.why_not}'}")
    return lines


def _other_line(run: Mapping[str, Any]) -> str:
    from nightscreen.ops.run_status import ending

    kind = str(run["flow"]).replace("_", " ")
    return _line("also", f"run {run['run_id']} of {run['batch']} ({kind}): {ending(run)}")


def _run_lines(run: Mapping[str, Any]) -> list[str]:
    from nightscreen.ops.run_status import deadline_words, ending, naira_in_doubt

    now = run["now"]
    lines = [f"Run {run['run_id']} of {run['batch']}: {ending(run)}."]
    approval = run["approval"]
    if approval is not None:
        asked = f"by {approval['asked_by']}, {_lagos(approval['asked_at'])}"
        most = naira_words(approval["ceiling_micro"])
        lines.append(_line("approval", f"asked {asked}; its quote is {most} at most"))
    if run["phase"]:
        lines.append(_line("at", f"{run['phase']}, last sign {_ago(now, run['signs_at'])}"))
    lines.append(_line("last answer", _ago(now, run["last_answer_at"])))
    if run["silent_since"]:
        lines.append(_line("silence", f"the service gives no answer, since {_clock(run, now)}"))
    if run["waiting_for"]:
        since = run["waiting_since"]
        word = "waits for" if run["phase"] else "waited for"
        lines.append(_line(word, f"{run['waiting_for']}, since {_lagos(since)}"))
    lines += [
        _line(name.replace("_", " "), _check(counts, live=bool(run["phase"])))
        for name, counts in run["checks"].items()
    ]
    cap = "" if run["cap_micro"] is None else f" of at most {naira_words(run['cap_micro'])}"
    lines.append(_line("spent", f"{naira_words(run['spent_micro'])}{cap}"))
    lines.append(_line("balance", naira_words(run["balance_micro"])))
    lines.append(_line("in doubt", naira_in_doubt(run)))
    if run["finish_at"] is not None:
        lines.append(_line("done by", _lagos(run["finish_at"])))
    elif run["rest_s"]:
        lines.append(_line("the rest takes", _duration(run["rest_s"])))
    if run["deadline_at"] is not None:
        met = deadline_words(run)
        lines.append(_line("deadline", _lagos(run["deadline_at"]) + (f": {met}" if met else "")))
    return lines


def _clock(run: Mapping[str, Any], now: int) -> str:
    return f"{_lagos(run['silent_since'])} ({_ago(now, run['silent_since'])})"


def _check(counts: Mapping[str, Any], *, live: bool) -> str:
    parts = [f"{counts['answered']:,} answered"]
    if counts["left"] is not None:
        parts.append(f"{counts['left']:,} left")
    if live and counts["cap"]:
        parts.append(f"cap {counts['cap']}, {counts['in_flight']} in flight")
    if counts["stopped"]:
        parts.append(f"stopped: {counts['stopped']}")
    if counts["errors"]:
        kinds = (
            f"{kind.replace('_', ' ')} {number:,}" for kind, number in counts["errors"].items()
        )
        parts.append("errors: " + ", ".join(kinds))
    return "; ".join(parts)


def _line(label: str, text: str) -> str:
    return f"  {label:<{_LABEL}}{text}"


def _lagos(at: int) -> str:
    return f"{to_instant(at).astimezone(LAGOS):%Y-%m-%d %H:%M} in Lagos"


def _ago(now: int, at: int | None) -> str:
    return "none yet" if at is None else f"{_duration(max(0, now - at) / MICROS)} ago"


def _duration(seconds: float) -> str:
    for unit_s, name, most in ((1, "s", 120), (_MINUTE_S, "min", 120 * _MINUTE_S)):
        if seconds < most:
            return f"{seconds / unit_s:.0f} {name}"
    if seconds < 2 * _DAY_S:
        return f"{seconds / _HOUR_S:.1f} h"
    return f"{seconds / _DAY_S:.0f} days"
