"""The summary at the end of a run, for people, on stdout."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_ENDS = {
    "budget": "the spending cap was reached",
    "balance": "the wallet is too low",
    "auth": "the service refused the API key or an operation",
    "outage": "the service gave no answers any more",
    "failures": "too many lookups failed",
    "deadline": "the deadline was reached",
    "quota": "the day's number of lookups was used up",
    "approval": "spending was not approved in time",
    "cancelled": "it was cancelled",
}


def naira(text: str | None) -> str:
    """Return decimal text as naira for people."""
    return "unknown" if text is None else f"₦{Decimal(text):,.2f}"


def print_summary(report: Mapping[str, Any], output: Path) -> None:
    """Print how a run ended, what it cost and where its files are."""
    rows, cost, balance = report["rows"], report["cost"], report["balance"]
    typer.echo(_ending(report))
    typer.echo(
        f"  rows      {rows['read']:,} read, {rows['screened']:,} screened, "
        f"{rows['quarantined']:,} in quarantine"
    )
    for name, check in report["checks"].items():
        statuses = ", ".join(f"{k.replace('_', ' ')} {v:,}" for k, v in check["answers"].items())
        typer.echo(f"  {name.replace('_', ' '):<13} {statuses}")
    typer.echo(
        f"  spent     {naira(cost['total'])} (expected {naira(cost['quoted']['expected'])}), "
        f"saved {naira(cost['saved_by_reuse'])} by reuse and "
        f"{naira(cost['saved_by_sharing'])} by sharing"
    )
    if Decimal(cost["in_doubt_exposure"]):
        typer.echo(f"  in doubt  up to {naira(cost['in_doubt_exposure'])} may have been charged")
    if balance["closing"] is not None:
        typer.echo(f"  balance   {naira(balance['opening'])} to {naira(balance['closing'])}")
    folder = output / str(report["run_id"])
    typer.echo(f"  report    {folder / 'report.html'}")
    typer.echo(f"  enriched  {folder / 'enriched'}")
    if rows["quarantined"]:
        typer.echo(f"  to fix    {folder / 'quarantine.csv'}")
    if report["state"] == "stopped":
        typer.echo(f"  go on     nightscreen screen --run {report['run_id']}")


def _ending(report: Mapping[str, Any]) -> str:
    run_id = report["run_id"]
    if report["state"] == "completed":
        return f"Run {run_id} completed."
    if report["state"] == "test_mode":
        return (
            f"Run {run_id} stopped at once: the service is in test mode and answers with samples. "
            "Switch it to live in the service's console, then run again."
        )
    why = _ENDS.get(report["stop_reason"] or "", "it was stopped")
    return f"Run {run_id} stopped early: {why}. What was answered is kept."
