"""`nightscreen bvn`: the two stages of BVN consent, by hand.

The flows themselves are in `flows.confirm_bvns`. A password is never an option here: shells keep
what was typed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.engine import ran, settings_for_calls
from nightscreen.cli.output import counted, naira, print_run
from nightscreen.operations.bvn.confirmations import BvnConfirmations, read_passwords
from nightscreen.operations.bvn.requests import BvnRequests, open_customers
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nightscreen.config.settings import Settings

app = group("BVN consent: request one-time passwords, confirm.")


def print_bvn(report: Mapping[str, Any], output: Path | str) -> None:
    """Print how a run ended, what it cost, and what to type next."""
    rows, cost = report["rows"], report["cost"]
    doubt = cost["in_doubt_exposure"]
    values = {
        "rows": f"{rows['screened']:,} taken, {rows['quarantined']:,} in quarantine",
        "customers": counted(report["states"], "none", zeros=True),
        "cost": f"{naira(cost['total'])}, quoted {naira(cost['quoted']['expected'])}",
        "confirming": _to_come(cost.get("to_come")),
    }
    if doubt not in {None, "0.00"}:
        values["in doubt"] = f"{naira(doubt)}; see nightscreen journal in-doubt"
    stage = "request" if report["flow"] == "request_bvns" else "confirm"
    print_run("Run", report, output, values, f"nightscreen bvn {stage}")


def _to_come(to_come: Mapping[str, Any] | None) -> str:
    return "" if to_come is None else f"up to {naira(to_come['high'])}, charged by confirmation"


@command("bvn request customers.csv", of=app, name="request", view=print_bvn)
def request(parameters: RequestBvns) -> Result:
    """Have the service send each customer of a file a one-time password."""
    settings = settings_for_calls()
    if parameters.quote_only:
        return _quoted(BvnRequests, parameters, settings)
    if not parameters.run:  # an unreadable file is reported at once, before the engine starts
        open_customers(parameters)
    return ran("confirm_bvns:request_bvns", parameters, print_bvn)


@command("bvn confirm otps.csv --max-spend 5000", of=app, name="confirm", view=print_bvn)
def confirm(parameters: ConfirmBvns) -> Result:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    settings = settings_for_calls()
    if parameters.quote_only:
        return _quoted(BvnConfirmations, parameters, settings)
    if not parameters.run:
        read_passwords(parameters, settings)
    return ran("confirm_bvns:confirm_bvns", parameters, print_bvn)


def _quoted(kind: type[PersonRun[Any, Any]], parameters: Any, settings: Settings) -> Result:  # noqa: ANN401 - the kind's own
    """Return what a run would cost, without the engine."""
    return Result(asyncio.run(run_people(kind, parameters, settings)), view="bvn-quote")
