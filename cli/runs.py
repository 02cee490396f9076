"""`nightscreen runs`: past runs from the journal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from cli.opened import opened_journal
from cli.summary import naira, print_summary
from cli.transactions import print_pull
from schemas.errors import InputError
from schemas.money import naira_text
from storage.clock import instant_text

if TYPE_CHECKING:
    from storage.journal.runs import Run


def _document(run: Run) -> dict[str, Any]:
    report = run.report or {}
    return {
        "run_id": run.run_id,
        "batch": run.batch,
        "purpose": run.purpose,
        "state": run.state,
        "stop_reason": run.stop_reason,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.finished_at),
        "rows": report.get("rows"),
        "cost": report.get("cost", {}).get("total"),
        "cap": naira_text(run.cap_micro),
        "folder": run.folder,
        "resumable": run.state in {"killed", "stopped"},
    }


def list_runs(*, json_output: bool) -> None:
    """Print past runs, newest first."""
    with opened_journal() as journal:
        runs = [_document(run) for run in journal.runs.newest()]
    if json_output:
        sys.stdout.write(json.dumps({"runs": runs}, indent=2) + "\n")
        return
    for run in runs:
        state = run["state"] + (f" ({run['stop_reason']})" if run["stop_reason"] else "")
        typer.echo(
            f"{run['run_id']}  {run['started_at']}  {state:<22} {naira(run['cost']):>14}  "
            f"{run['batch']}"
        )
    if not runs:
        typer.echo("No runs yet.")


def show_run(run_id: str, *, json_output: bool) -> None:
    """Print one run.

    Raises:
        InputError: there is no such run.
    """
    with opened_journal() as journal:
        run = journal.runs.find(run_id)
    if run is None:
        raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
    if json_output:
        document = {**_document(run), "parameters": run.parameters, "report": run.report}
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    pulled = run.flow == "pull_transactions"
    if run.report is not None:
        from pathlib import Path

        tell = print_pull if pulled else print_summary
        tell(run.report, Path(run.folder).parent)
        return
    again = "transactions pull" if pulled else "screen"
    typer.echo(f"Run {run_id} of {run.batch} was {run.state}; nothing is lost.")
    typer.echo(f"  go on     nightscreen {again} --run {run_id}")
