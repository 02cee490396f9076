"""`nightscreen bvn`: the two stages of BVN consent, by hand.

The flows themselves are in `flows.confirm_bvns`. A password is never an option here: shells keep
what was typed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.flags import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
    from nightscreen.schemas.settings import Settings

bvn_app = typer.Typer(
    help="BVN consent: ask customers, then confirm.",
    no_args_is_help=True,
)
_LABEL = 14
MappingOption = Annotated[
    Path | None, typer.Option(help="TOML file that renames, merges or defaults columns.")
]
SpendOption = Annotated[str, typer.Option(help="Most naira this run may spend.")]
DeadlineOption = Annotated[
    str, typer.Option(help="Ask nothing after it: 06:00 in Lagos, or an ISO instant.")
]
QuoteOption = Annotated[bool, typer.Option("--quote-only", help="Only say the cost.")]
RunOption = Annotated[str, typer.Option(help="Id of an earlier run to take up again.")]
OutputOption = Annotated[Path, typer.Option(help="Where results go.")]


@bvn_app.callback()
def _bvn() -> None:
    """BVN consent: ask customers, then confirm."""


@bvn_app.command("request", epilog="Example: nightscreen bvn request customers.csv")
def bvn_request(
    input_: Annotated[
        Path | None,
        typer.Argument(metavar="INPUT", help="CSV, XLSX, Parquet or JSON Lines file."),
    ] = None,
    batch: Annotated[str, typer.Option(help="Batch name; default: the file's, undated.")] = "",
    contact: Annotated[str, typer.Option(help="phone (the default) or email.")] = "",
    again: Annotated[
        bool,
        typer.Option("--again", help="Send a new password also to those who were asked before."),
    ] = False,
    mapping: MappingOption = None,
    max_spend: SpendOption = "",
    deadline: DeadlineOption = "",
    quote_only: QuoteOption = False,
    run: RunOption = "",
    output: OutputOption = Path("out"),
    json_output: JsonOption = False,
) -> None:
    """Have the service send each customer of a file a one-time password."""
    from nightscreen.schemas.bvn import RequestBvns

    options = {
        "input": "" if input_ is None else str(input_),
        "batch": batch,
        "contact": contact,
        "again": again,
        "mapping": "" if mapping is None else str(mapping),
        "max_spend": max_spend,
        "deadline": deadline,
        "quote_only": quote_only,
        "run": run,
        "output": "" if run and output == Path("out") else str(output),
    }
    raise typer.Exit(_carry_out(RequestBvns, options, json_output=json_output))


@bvn_app.command("confirm", epilog="Example: nightscreen bvn confirm otps.csv --max-spend 5000")
def bvn_confirm(
    input_: Annotated[
        Path | None,
        typer.Argument(metavar="OTPS", help="File with customer_id,otp; remove it afterwards."),
    ] = None,
    mapping: MappingOption = None,
    max_spend: SpendOption = "",
    deadline: DeadlineOption = "",
    quote_only: QuoteOption = False,
    run: RunOption = "",
    output: OutputOption = Path("out"),
    json_output: JsonOption = False,
) -> None:
    """Confirm BVNs with the passwords customers supplied; each confirmation is charged."""
    from nightscreen.schemas.bvn import ConfirmBvns

    options = {
        "input": "" if input_ is None else str(input_),
        "mapping": "" if mapping is None else str(mapping),
        "max_spend": max_spend,
        "deadline": deadline,
        "quote_only": quote_only,
        "run": run,
        "output": "" if run and output == Path("out") else str(output),
    }
    raise typer.Exit(_carry_out(ConfirmBvns, options, json_output=json_output))


def _carry_out(
    kind: type[RequestBvns | ConfirmBvns], options: Mapping[str, Any], *, json_output: bool
) -> int:
    """Run a flow by hand and return the exit status."""
    from nightscreen.cli.beforehand import check_service
    from nightscreen.cli.errand import run_errand
    from nightscreen.cli.options import read_options
    from nightscreen.cli.surroundings import settings_of_command
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
        from nightscreen.schemas.bvn import RequestBvns

        if isinstance(parameters, RequestBvns):
            return await request_bvns(parameters)
        return await confirm_bvns(parameters)

    return run_errand(make, tell_bvn, json_output=json_output)


def _quoted(parameters: RequestBvns | ConfirmBvns, settings: Settings) -> dict[str, Any]:
    """Return a quote; nothing is sent, and no engine is needed for it."""
    from nightscreen.schemas.bvn import RequestBvns
    from nightscreen.steps.bvn import confirming as bvn_confirming
    from nightscreen.steps.bvn import requesting as bvn_requesting
    from nightscreen.steps.bvn.closing import quote_confirm, quote_request

    if isinstance(parameters, RequestBvns):
        run, asking = bvn_requesting.open_request(parameters, settings)
        try:
            bvn_requesting.take_in(run, asking)
            bvn_requesting.plan(run, asking)
            return quote_request(run, asking)
        finally:
            run.close()
    run, confirming = bvn_confirming.open_confirm(parameters, settings)
    try:
        bvn_confirming.take_in(run, confirming)
        bvn_confirming.price(run, confirming)
        return quote_confirm(run, confirming)
    finally:
        run.close()


def _check_input(parameters: RequestBvns | ConfirmBvns) -> None:
    """Tell a file that cannot be read at once, before the engine starts."""
    from nightscreen.schemas.bvn import RequestBvns
    from nightscreen.schemas.errors import InputError
    from nightscreen.steps.bvn.otps import open_otps
    from nightscreen.storage.mapping import read_mapping
    from nightscreen.storage.tables import open_source

    mapping = read_mapping(Path(parameters.mapping)) if parameters.mapping else None
    if parameters.input:
        open_ = open_source if isinstance(parameters, RequestBvns) else open_otps
        open_(Path(parameters.input), mapping=mapping)
    elif not parameters.run:
        kind = "of customers" if isinstance(parameters, RequestBvns) else "with customer_id,otp"
        raise InputError(
            f"no input file was given; name a CSV, XLSX, Parquet or JSON Lines file {kind}"
        )


def _print_quote(document: Mapping[str, Any], *, json_output: bool) -> None:
    """Print a quote for programs or for people."""
    from nightscreen.cli.summary import naira

    if json_output:
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        return
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows, {rows['quarantined']:,} in quarantine: "
        f"{document['calls']:,} calls to the service"
    )
    _say("expected", naira(quoted["expected"]))
    _say("range", f"{naira(quoted['low'])} to {naira(quoted['high'])}")
    if "to_come" in document:
        _say("confirming", f"up to {naira(document['to_come']['high'])}, charged by confirmation")


def tell_bvn(report: Mapping[str, Any]) -> None:
    """Print how a run ended, and where its files are."""
    from nightscreen.cli.summary import naira

    reason = f" ({report['stop_reason']})" if report["stop_reason"] else ""
    typer.echo(f"Run {report['run_id']} {report['state']}{reason}")
    rows, cost = report["rows"], report["cost"]
    _say("rows", f"{rows['screened']:,} taken, {rows['quarantined']:,} in quarantine")
    told = (f"{word.replace('_', ' ')} {number:,}" for word, number in report["states"].items())
    _say("customers", ", ".join(told) or "none")
    _say("cost", f"{naira(cost['total'])}, quoted {naira(cost['quoted']['expected'])}")
    if cost["in_doubt_exposure"] not in {None, "0.00"}:
        _say("in doubt", f"{naira(cost['in_doubt_exposure'])}; see nightscreen journal in-doubt")
    if "to_come" in cost:
        _say("confirming", f"up to {naira(cost['to_come']['high'])}, charged by confirmation")
    for notice in report["notices"]:
        _say("notice", notice)
    if report["state"] == "stopped":
        stage = "request" if report["flow"] == "request_bvns" else "confirm"
        _say("next", f"nightscreen bvn {stage} --run {report['run_id']}")


def _say(label: str, text: str) -> None:
    typer.echo(f"  {label:<{_LABEL}}{text}")
