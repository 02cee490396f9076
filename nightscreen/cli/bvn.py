"""`nightscreen bvn`: the two stages of BVN consent, by hand.

The flows themselves are in `flows.confirm_bvns`. A password is never an option here: shells keep
what was typed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.options import Options, options_of, read_options
from nightscreen.cli.output import print_json, show
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.config.settings import Settings

bvn_app = typer.Typer(
    help="BVN consent: ask customers, then confirm.",
    no_args_is_help=True,
)


@bvn_app.callback()
def _bvn() -> None:
    """BVN consent: ask customers, then confirm."""


@bvn_app.command("request", epilog="Example: nightscreen bvn request customers.csv")
@options_of(RequestBvns)
def bvn_request(options: Options, json_output: JsonOption = False) -> None:
    """Have the service send each customer of a file a one-time password."""
    raise typer.Exit(_carry_out(RequestBvns, options, json_output=json_output))


@bvn_app.command("confirm", epilog="Example: nightscreen bvn confirm otps.csv --max-spend 5000")
@options_of(ConfirmBvns)
def bvn_confirm(options: Options, json_output: JsonOption = False) -> None:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    raise typer.Exit(_carry_out(ConfirmBvns, options, json_output=json_output))


def _carry_out(
    kind: type[RequestBvns | ConfirmBvns], options: Mapping[str, Any], *, json_output: bool
) -> int:
    """Run a flow by hand and return the exit status."""
    from nightscreen.cli.api_run import run_flow
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.preflight import check_service
    from nightscreen.tasks.logs import set_up_logs

    settings = settings_of_command()
    set_up_logs(settings.log_format)
    check_service(settings)
    parameters = read_options(kind, options)
    _check_input(parameters)
    if parameters.quote_only:
        _print_quote(_quoted(parameters, settings), json_output=json_output)
        return 0

    async def make() -> Any:  # noqa: ANN401 - the report, or the engine's state
        from nightscreen.flows.confirm_bvns import confirm_bvns, request_bvns

        if isinstance(parameters, RequestBvns):
            return await request_bvns(parameters)
        return await confirm_bvns(parameters)

    return run_flow(make, print_bvn, json_output=json_output)


def _quoted(parameters: RequestBvns | ConfirmBvns, settings: Settings) -> dict[str, Any]:
    """Return a quote; nothing is sent, and no engine is needed for it."""
    from nightscreen.operations.bvn import confirming as bvn_confirming
    from nightscreen.operations.bvn import requesting as bvn_requesting
    from nightscreen.operations.bvn.closing import quote_confirm, quote_request

    if isinstance(parameters, RequestBvns):
        run, asking = bvn_requesting.open_request(parameters, settings)
        try:
            bvn_requesting.read_input(run, asking)
            bvn_requesting.plan(run, asking)
            return quote_request(run, asking)
        finally:
            run.close()
    run, confirming = bvn_confirming.open_confirm(parameters, settings)
    try:
        bvn_confirming.read_input(run, confirming)
        bvn_confirming.price(run, confirming)
        return quote_confirm(run, confirming)
    finally:
        run.close()


def _check_input(parameters: RequestBvns | ConfirmBvns) -> None:
    """Report an unreadable file at once, before the engine starts."""
    from nightscreen.operations.bvn.otps import open_otps
    from nightscreen.reading.mapping_file import read_mapping
    from nightscreen.reading.open_file import open_source
    from nightscreen.schemas.errors import InputError

    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    if parameters.input:
        open_ = open_source if isinstance(parameters, RequestBvns) else open_otps
        open_(Path(parameters.input), mapping=mapping)
    elif not parameters.run:
        kind = "of customers" if isinstance(parameters, RequestBvns) else "with customer_id,otp"
        raise InputError(f"no input file was given; name a CSV, XLSX or Parquet file {kind}")


def _print_quote(document: Mapping[str, Any], *, json_output: bool) -> None:
    """Print a quote for programs or for people."""
    from nightscreen.cli.summary import naira

    if json_output:
        print_json(document)
        return
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows, {rows['quarantined']:,} in quarantine: "
        f"{document['calls']:,} calls to the service"
    )
    show("expected", naira(quoted["expected"]))
    show("range", f"{naira(quoted['low'])} to {naira(quoted['high'])}")
    if "to_come" in document:
        show("confirming", f"up to {naira(document['to_come']['high'])}, charged by confirmation")


def print_bvn(report: Mapping[str, Any]) -> None:
    """Print how a run ended, and where its files are."""
    from nightscreen.cli.summary import naira

    reason = f" ({report['stop_reason']})" if report["stop_reason"] else ""
    typer.echo(f"Run {report['run_id']} {report['state']}{reason}")
    rows, cost = report["rows"], report["cost"]
    show("rows", f"{rows['screened']:,} taken, {rows['quarantined']:,} in quarantine")
    counted = (f"{word.replace('_', ' ')} {number:,}" for word, number in report["states"].items())
    show("customers", ", ".join(counted) or "none")
    show("cost", f"{naira(cost['total'])}, quoted {naira(cost['quoted']['expected'])}")
    if cost["in_doubt_exposure"] not in {None, "0.00"}:
        show("in doubt", f"{naira(cost['in_doubt_exposure'])}; see nightscreen journal in-doubt")
    if "to_come" in cost:
        show("confirming", f"up to {naira(cost['to_come']['high'])}, charged by confirmation")
    for notice in report["notices"]:
        show("notice", notice)
    if report["state"] == "stopped":
        stage = "request" if report["flow"] == "request_bvns" else "confirm"
        show("next", f"nightscreen bvn {stage} --run {report['run_id']}")
