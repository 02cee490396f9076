"""`nightscreen bvn`: the two stages of BVN consent, by hand.

The flows themselves are in `flows.confirm_bvns`. A password is never an option here: shells keep
what was typed.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.engine import EXIT_BY_STATE, run_flow, settings_for_calls
from nightscreen.cli.output import counted, ended, fields, naira
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
    """Print how a run ended, and what to type next."""
    ended("Run", report)
    rows, cost = report["rows"], report["cost"]
    doubt, to_come = cost["in_doubt_exposure"], cost.get("to_come")
    stage = "request" if report["flow"] == "request_bvns" else "confirm"
    again = f"nightscreen bvn {stage} --run {report['run_id']} --output {output}"
    fields(
        {
            "rows": f"{rows['screened']:,} taken, {rows['quarantined']:,} in quarantine",
            "customers": counted(report["states"], "none", zeros=True),
            "cost": f"{naira(cost['total'])}, quoted {naira(cost['quoted']['expected'])}",
            "in doubt": ""
            if doubt in {None, "0.00"}
            else f"{naira(doubt)}; see nightscreen journal in-doubt",
            "confirming": _to_come(to_come),
            "notice": report["notices"],
            "next": again if report["state"] == "stopped" else "",
        }
    )


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
    return _run("request_bvns", parameters)


@command("bvn confirm otps.csv --max-spend 5000", of=app, name="confirm", view=print_bvn)
def confirm(parameters: ConfirmBvns) -> Result:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    settings = settings_for_calls()
    _open_input(parameters, open_otps, "with customer_id,otp")
    if parameters.quote_only:
        return Result(_quoted_confirm(parameters, settings), view=_print_quote)
    return _run("confirm_bvns", parameters)


def _run(flow: str, parameters: RequestBvns | ConfirmBvns) -> Result:
    report = run_flow(f"confirm_bvns:{flow}", parameters)
    show = partial(print_bvn, output=parameters.output)
    return Result(report, EXIT_BY_STATE.get(report["state"], 1), show)


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
