"""How a screening run ended, and what it would cost: for people, on stdout.

Both are made from the documents that `--json` prints, so that `runs show` can print again what a
run printed at its end.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.output import counted, fields, naira
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ADVICE = {
    "budget": "raise --max-spend or a cap in the settings",
    "balance": "top the wallet up",
    "auth": "check NIGHTSCREEN_API_KEY and what the key may ask",
    "outage": "check the network and NIGHTSCREEN_BASE_URL ({address})",
    "quota": "wait for the next day, which begins at noon in Lagos",
}
_MINUTES_PER_HOUR = 60


def print_summary(report: Mapping[str, Any], output: Path | str, *, address: str = "") -> None:
    """Print how a run ended, what it cost, where its files are and what to type next.

    Args:
        report: the document of `report.json`.
        output: the folder or URL that holds the run's folder.
        address: where the service was asked, named where it gave no answer.
    """
    run_id, state, reason = report["run_id"], report["state"], report["stop_reason"] or ""
    rows, cost, balance = report["rows"], report["cost"], report["balance"]
    folder = f"{str(output).rstrip('/')}/{run_id}"
    typer.echo(_ending(run_id, state, reason))
    values: dict[str, str | None] = {
        "rows": f"{rows['read']:,} read, {rows['screened']:,} screened, "
        f"{rows['quarantined']:,} in quarantine"
    }
    for name, check in report["checks"].items():
        answers = counted(check["answers"], "no lookup needed", zeros=True)
        values[name.replace("_", " ")] = answers
    values |= {
        "decisions": counted(report.get("decisions") or {}, zeros=True),
        "spent": f"{naira(cost['total'])} (expected {naira(cost['quoted']['expected'])})",
        "saved": f"{naira(cost['saved_by_reuse'])} by reuse, "
        f"{naira(cost['saved_by_sharing'])} by sharing",
    }
    if Decimal(cost["in_doubt_exposure"]):
        values["in doubt"] = f"up to {naira(cost['in_doubt_exposure'])} more may have been charged"
    if balance["closing"] is not None:
        values["balance"] = f"{naira(balance['opening'])} to {naira(balance['closing'])}"
    values |= {"report": f"{folder}/report.html", "enriched": f"{folder}/enriched"}
    if state != "test_mode":
        values["to work on"] = f"{folder}/decisions.xlsx"
    if rows["quarantined"]:
        values["to fix"] = f"{folder}/quarantine.csv"
    if reason == "approval":
        values["to approve"] = f"nightscreen approve {run_id}"
        values["to refuse"] = f"nightscreen approve {run_id} --refuse --note 'why'"
    elif state == "stopped":
        values["first"] = _ADVICE.get(reason, "").format(address=address or "unset")
        values["then go on" if values["first"] else "go on"] = f"nightscreen screen --run {run_id}"
    fields(values)


def _ending(run_id: str, state: str, reason: str) -> str:
    if state == "completed":
        return f"Run {run_id} completed."
    if state == "test_mode":
        return (
            f"Run {run_id} stopped at once: the service is in test mode and answers with samples.\n"
            "Switch it to live in the service's console, then run again."
        )
    why = WHY.get(reason, "it was stopped")
    return f"Run {run_id} stopped early: {why}. Answers are stored."


def print_quote(document: Mapping[str, Any]) -> None:
    """Print a quote."""
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows to screen, {rows['quarantined']:,} in quarantine: "
        f"{_calls(document['calls'])} to the service"
    )
    for line in document["lines"]:
        typer.echo(
            f"  {line['check'].replace('_', ' '):<12} by {line['identity']:<6}"
            f"{_calls(line['calls']):>16}{naira(line['expected']):>17} expected"
        )
        if line["likely_calls"] < line["calls"]:
            typer.echo(
                f"    about {line['likely_calls']:,} of them: karma stops at the first listing"
            )
        typer.echo(
            f"    {naira(line['price'])} for an answer, nothing for a miss; about "
            f"{line['charged_pct']:.0f} of 100 are answered"
        )
    values: dict[str, str | None] = {
        "expected": naira(quoted["expected"]),
        "range": f"{naira(quoted['low'])} to {naira(quoted['high'])} at most",
        "time": _hours(document["hours"]),
        "saved": f"{naira(document['saved_by_reuse'])}, by answers that are still fresh",
    }
    affordable = document["affordable"]
    if affordable is not None:
        values["affordable"] = (
            f"{affordable:,} of {document['calls']:,} calls, should every one be charged: "
            f"{document['affordable_rows']:,} of {rows['screened']:,} rows would have all their "
            "answers"
        )
    if document["goes_first"] is not None and affordable < document["calls"]:
        values["first"] = _first(document["goes_first"])
    fields(values, label=11)


def _first(goes: Mapping[str, Any]) -> str:
    """Say in words what the money would go to first."""
    sentence = (
        f"{goes['never_screened']:,} for customers never screened, then {goes['overdue']:,} overdue"
    )
    if goes["down_to_exposure"] is not None:
        sentence += f", worst exposure first, down to {naira(goes['down_to_exposure'])}"
    return sentence


def _calls(number: int) -> str:
    return f"{number:,} {'call' if number == 1 else 'calls'}"


def _hours(hours: float) -> str:
    minutes = hours * _MINUTES_PER_HOUR
    if minutes < 1:
        return "less than a minute"
    return f"about {minutes:.0f} min" if hours < 2 else f"about {hours:.1f} h"  # noqa: PLR2004 - hours
