"""`nightscreen bvn`: the two stages of BVN consent, by hand.

The flows themselves are in `flows.confirm_bvns`. A password is never an option here: shells keep
what was typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.engine import ran, settings_for_calls
from nightscreen.cli.output import counted, fields, naira, print_run
from nightscreen.operations.bvn import confirming, requesting
from nightscreen.operations.bvn.closing import quote_confirm, quote_request
from nightscreen.operations.bvn.otps import open_otps
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def _print_quote(document: Mapping[str, Any]) -> None:
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows, {rows['quarantined']:,} in quarantine: "
        f"{document['calls']:,} calls to the service"
    )
    fields(
        {
            "expected": naira(quoted["expected"]),
            "range": f"{naira(quoted['low'])} to {naira(quoted['high'])}",
            "confirming": _to_come(document.get("to_come")),
        }
    )


@command("bvn request customers.csv", of=app, name="request", view=print_bvn)
def request(parameters: RequestBvns) -> Result:
    """Have the service send each customer of a file a one-time password."""
    settings = settings_for_calls()
    _open_input(parameters, open_source, "of customers")
    if parameters.quote_only:
        return Result(_quoted_request(parameters, settings), view=_print_quote)
    return ran("confirm_bvns:request_bvns", parameters, print_bvn)


@command("bvn confirm otps.csv --max-spend 5000", of=app, name="confirm", view=print_bvn)
def confirm(parameters: ConfirmBvns) -> Result:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    settings = settings_for_calls()
    _open_input(parameters, open_otps, "with customer_id,otp")
    if parameters.quote_only:
        return Result(_quoted_confirm(parameters, settings), view=_print_quote)
    return ran("confirm_bvns:confirm_bvns", parameters, print_bvn)


def _open_input(parameters: RequestBvns | ConfirmBvns, open_: Any, kind: str) -> None:  # noqa: ANN401 - either of two
    """Report an unreadable file at once, before the engine starts."""
    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    if parameters.input:
        open_(Path(parameters.input), mapping=mapping)
    elif not parameters.run:
        raise InputError(f"no input file was given; name a CSV, XLSX or Parquet file {kind}")


def _quoted_request(parameters: RequestBvns, settings: Settings) -> dict[str, Any]:
    run, asking = requesting.open_request(parameters, settings)
    try:
        requesting.read_input(run, asking)
        requesting.plan(run, asking)
        return quote_request(run, asking)
    finally:
        run.close()


def _quoted_confirm(parameters: ConfirmBvns, settings: Settings) -> dict[str, Any]:
    run, work = confirming.open_confirm(parameters, settings)
    try:
        confirming.read_input(run, work)
        confirming.price(run, work)
        return quote_confirm(run, work)
    finally:
        run.close()
