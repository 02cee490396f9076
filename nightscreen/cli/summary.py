"""The summary at the end of a run, for people, on stdout.

It is made from the report alone, so that `runs show` can print again what a run printed at its end.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.output import show
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


def naira(text: str | None) -> str:
    """Return decimal text as naira for people."""
    return "unknown" if text is None else f"₦{Decimal(text):,.2f}"


def print_summary(report: Mapping[str, Any], output: Path | str, *, address: str = "") -> None:
    """Print how a run ended, what it cost, where its files are and what to type next.

    Args:
        report: the document of `report.json`.
        output: the folder or URL that holds the run's folder.
        address: where the service was asked, named where it gave no answer.
    """
    typer.echo(_ending(report))
    rows = report["rows"]
    show(
        "rows",
        f"{rows['read']:,} read, {rows['screened']:,} screened, "
        f"{rows['quarantined']:,} in quarantine",
    )
    for name, check in report["checks"].items():
        statuses = (f"{status.replace('_', ' ')} {n:,}" for status, n in check["answers"].items())
        show(name.replace("_", " "), ", ".join(statuses) or "nothing to ask")
    if decided := report.get("decisions"):
        show("decisions", ", ".join(f"{word} {number:,}" for word, number in decided.items()))
    _print_money(report)
    folder = f"{str(output).rstrip('/')}/{report['run_id']}"
    show("report", f"{folder}/report.html")
    show("enriched", f"{folder}/enriched")
    if report["state"] != "test_mode":
        show("to work on", f"{folder}/decisions.xlsx")
    if rows["quarantined"]:
        show("to fix", f"{folder}/quarantine.csv")
    if report["stop_reason"] == "approval":
        show("to approve", f"nightscreen approve {report['run_id']}")
        show("to refuse", f"nightscreen approve {report['run_id']} --refuse --note 'why'")
    elif report["state"] == "stopped":
        advice = _ADVICE.get(report["stop_reason"] or "", "").format(address=address or "unset")
        if advice:
            show("first", advice)
        show("then go on" if advice else "go on", f"nightscreen screen --run {report['run_id']}")


def _print_money(report: Mapping[str, Any]) -> None:
    cost, balance = report["cost"], report["balance"]
    show("spent", f"{naira(cost['total'])} (expected {naira(cost['quoted']['expected'])})")
    show(
        "saved",
        f"{naira(cost['saved_by_reuse'])} by reuse, {naira(cost['saved_by_sharing'])} by sharing",
    )
    if Decimal(cost["in_doubt_exposure"]):
        show("in doubt", f"up to {naira(cost['in_doubt_exposure'])} more may have been charged")
    if balance["closing"] is not None:
        show("balance", f"{naira(balance['opening'])} to {naira(balance['closing'])}")


def _ending(report: Mapping[str, Any]) -> str:
    run_id = report["run_id"]
    if report["state"] == "completed":
        return f"Run {run_id} completed."
    if report["state"] == "test_mode":
        return (
            f"Run {run_id} stopped at once: the service is in test mode and answers with samples.\n"
            "Switch it to live in the service's console, then run again."
        )
    why = WHY.get(report["stop_reason"] or "", "it was stopped")
    return f"Run {run_id} stopped early: {why}. Answers are stored."
