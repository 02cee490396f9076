"""`nightscreen runs`: past runs from the journal."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.approve import approval_document
from nightscreen.cli.bvn import print_bvn
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.loans import print_loans, print_offers, with_loans
from nightscreen.cli.outcomes import print_import
from nightscreen.cli.output import lagos_time, print_json
from nightscreen.cli.summary import naira, print_summary
from nightscreen.cli.transactions import print_pull
from nightscreen.journal.approvals import Approvals
from nightscreen.ops.suggestions import COMMANDS, Again
from nightscreen.schemas.approvals import ApprovalState
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.journal.runs import RunRecord


def _document(run: RunRecord, approval: ApprovalState | None = None) -> dict[str, Any]:
    report = run.report or {}
    return {
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "purpose": run.purpose,
        "state": run.state,
        "stop_reason": run.stop_reason,
        "approval": approval,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.finished_at),
        "rows": report.get("rows"),
        "cost": report.get("cost", {}).get("total"),
        "cap": naira_text(run.cap_micro),
        "folder": run.folder,
        "resumable": run.state in {"killed", "stopped"},
    }


_APPROVALS: Mapping[ApprovalState | None, str] = {
    ApprovalState.WAITING: "waits for approval",
    ApprovalState.APPROVED: "approved, not resumed",
    ApprovalState.REFUSED: "refused",
    ApprovalState.VOID: "approval void",
}


def list_runs(*, json_output: bool) -> None:
    """Print past runs, newest first."""
    timeout = settings_of_command().approval_timeout
    with opened_journal() as journal:
        state_of = partial(Approvals.of(journal).state_of, valid=timeout)
        runs = [_document(run, state_of(run)) for run in journal.runs.newest()]
    if json_output:
        print_json({"runs": runs})
        return
    if not runs:
        typer.echo("No runs yet.")
        return
    typer.echo(
        f"{'run':<22}  {'flow':<17}  {'started, in Lagos':<17}  {'state':<22} {'cost':>14}  batch"
    )
    for run in runs:
        state = run["state"] + (f" ({run['stop_reason']})" if run["stop_reason"] else "")
        state = _APPROVALS.get(run["approval"], state)
        flow = COMMANDS.get(run["flow"], run["flow"]).removeprefix("nightscreen ")
        typer.echo(
            f"{run['run_id']:<22}  {flow:<17}  {lagos_time(run['started_at']):<17}  {state:<22} "
            f"{naira(run['cost']):>14}  {run['batch']}"
        )


def show_run(run_id: str, *, json_output: bool) -> None:
    """Print one run.

    Raises:
        InputError: there is no such run.
    """
    timeout = settings_of_command().approval_timeout
    with opened_journal() as journal:
        run = journal.runs.find(run_id)
        approvals = Approvals.of(journal)
        decisions = approvals.of_run(run_id)
        state = None if run is None else approvals.state_of(run, valid=timeout)
    if run is None:
        raise InputError(f"there is no run {run_id}; see: nightscreen runs list")
    if json_output:
        document = {
            **_document(run, state),
            "parameters": run.parameters,
            "report": run.report,
            "approvals": [approval_document(decision) for decision in decisions],
        }
        print_json(document)
        return
    if run.report is not None:
        _print_run(run, run.report)
        return
    typer.echo(f"Run {run_id} of {run.batch} was {run.state}; nothing is lost.")
    typer.echo(f"  go on     {Again(run_id, run.flow).command()}")


def _print_run(run: RunRecord, report: dict[str, Any]) -> None:
    """Print a run as its own command did at its end."""
    output = run.folder.rstrip("/").rpartition("/")[0]
    match run.flow:
        case "pull_transactions" | "pull_accounts":
            print_pull(report, Path(output))
        case "request_bvns" | "confirm_bvns":
            print_bvn(report)
        case "offer_loans":
            print_offers(report, Path(output))
        case "track_loans":
            print_loans(with_loans(report, Path(run.folder)), Path(output))
        case "import_outcomes":
            print_import(report, Path(output))
        case _:
            print_summary(report, output)
