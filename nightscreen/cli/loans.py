"""`nightscreen loans`: products listed, links offered, loans followed, by hand.

The flows themselves are `flows.offer_loans` and `flows.track_loans`. Customers named with `--again`
are recorded in the journal here, because the engine stores its parameters in clear.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.options import Options, options_of, read_options
from nightscreen.cli.output import FIELD_WIDTH, print_json, show
from nightscreen.schemas.offers import OfferLoans, TrackLoans

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.config.settings import Settings
    from nightscreen.schemas.loans import LoanProduct

loans_app = typer.Typer(help="Loan products, offers and loans.", no_args_is_help=True)
_COLUMNS = ("product_id", "name", "amount", "length", "interest")
_MOST_SHOWN = 50


@loans_app.callback()
def _loans() -> None:
    """Loan products, offers and loans."""


@loans_app.command("products", epilog="Example: nightscreen loans products --json")
def products(json_output: JsonOption = False) -> None:
    """List the active loan products; nothing is spent."""
    import asyncio

    from nightscreen.operations.loans.products import list_products

    listed = asyncio.run(list_products(_settings()))
    if json_output:
        document = {"products": [product.model_dump(mode="json") for product in listed.products]}
        print_json(document)
        return
    if not listed.products:
        typer.echo("The organisation has no active loan product.")
        return
    rows = [_COLUMNS, *(product_cells(product) for product in listed.products)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())


def product_cells(product: LoanProduct) -> tuple[str, ...]:
    """Return what the table shows of a product; a dash where the service says nothing."""
    period = product.max_tenor_period or str(product.extra.get("tenor_period") or "")
    periods = f"{period}s" if period and product.max_tenor_value != 1 else period
    rate = "" if product.interest_rate is None else f"{product.interest_rate:f} %"
    per = f"a {product.interest_period}" if rate and product.interest_period else ""
    cells = (
        product.product_id or "",
        product.name or "",
        _range(product.min_amount, product.max_amount, "₦"),
        f"{_range(product.min_tenor_value, product.max_tenor_value)} {periods}".strip(),
        f"{rate} {per}".strip(),
    )
    return tuple(cell or "-" for cell in cells)


def _range(least: Any, most: Any, unit: str = "") -> str:  # noqa: ANN401 - numbers of any kind
    ends = [
        f"{unit}{limit:,f}" if unit else f"{limit}" for limit in (least, most) if limit is not None
    ]
    return " to ".join(dict.fromkeys(ends))


@loans_app.command(
    "offer",
    epilog="Example: nightscreen loans offer out/20260301-220000-a1b2c3 --product LP1001",
)
@options_of(OfferLoans)
def offer(
    options: Options,
    no_prefill: Annotated[
        bool, typer.Option("--no-prefill", help="Send the service nothing of the customer.")
    ] = False,
    again: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CUSTOMER_ID",
            help="Make another link for this customer, on purpose; may be repeated.",
        ),
    ] = None,
    quote_only: Annotated[
        bool, typer.Option("--quote-only", help="Only say how many links it would make.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Make one application link for each approved customer; never a second by running again."""
    from nightscreen.schemas.errors import UsageError

    if "prefill" in options and (no_prefill or not options["prefill"]):
        raise UsageError("--prefill takes email, phone or both; to fill in nothing: --no-prefill")
    parameters = read_options(OfferLoans, {**options, "prefill": []} if no_prefill else options)
    settings = _settings()
    if quote_only:
        _quote(parameters, settings, json_output=json_output)
        return
    raise typer.Exit(_offer(parameters, settings, again or [], json_output=json_output))


def _settings() -> Settings:
    """Read the settings and set the log up; a missing key is reported at once."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.runs.run import require_service
    from nightscreen.tasks.logs import set_up_logs

    settings = settings_of_command()
    set_up_logs(settings.log_format)
    require_service(settings, quote_only=False)
    return settings


def _offer(
    parameters: OfferLoans, settings: Settings, again: Sequence[str], *, json_output: bool
) -> int:
    """Run the flow by hand and return the exit status."""
    from nightscreen.cli.api_run import run_flow
    from nightscreen.operations.loans.offer_source import read_source
    from nightscreen.operations.loans.offering import remembered

    parameters = remembered(parameters, settings)
    read_source(parameters)
    if again:
        from nightscreen.cli.journal_context import opened_journal
        from nightscreen.operations.loans.offer_links import ask_again

        with opened_journal() as journal:
            ask_again(journal, parameters, again)

    async def make() -> Any:  # noqa: ANN401 - the report, or the engine's state
        from nightscreen.flows.offer_loans import offer_loans

        report = await offer_loans(parameters)
        return _print_refusal(report) if json_output else report

    return run_flow(
        make, lambda report: print_offers(report, Path(parameters.output)), json_output=json_output
    )


def _print_refusal(report: Any) -> Any:  # noqa: ANN401 - the report
    """Say on stderr, beside the JSON, that the key is no distributor's; return the report."""
    from nightscreen.schemas.stops import REFUSALS

    if REFUSALS["distributor"] in report["notices"]:
        typer.echo(f"nightscreen: {REFUSALS['distributor']}", err=True)
    return report


def _quote(parameters: OfferLoans, settings: Settings, *, json_output: bool) -> None:
    """Say how many links a run would make; nothing is asked and nothing is left of it."""
    from nightscreen.operations.loans.offering import quote_offers

    document = quote_offers(parameters, settings)
    if json_output:
        print_json(document)
        return
    cost = document["quoted"]["expected"]
    typer.echo(f"It would make {document['links']:,} links, for {cost} naira at the known price")
    show("customers", _counts(document["offers"]))


@loans_app.command("track", epilog="Example: nightscreen loans track --json")
@options_of(TrackLoans)
def track(options: Options, json_output: JsonOption = False) -> None:
    """Ask about every open loan; report its state and what has changed."""
    from nightscreen.cli.api_run import run_flow

    _settings()
    parameters = read_options(TrackLoans, options)
    output = Path(parameters.output)

    async def make() -> Any:  # noqa: ANN401 - the report, or the engine's state
        from nightscreen.flows.track_loans import track_loans

        report: Any = await track_loans(parameters)
        report = _print_refusal(report) if json_output else report
        return with_loans(report, _folder(output, parameters.run, report))

    status = run_flow(make, lambda report: print_loans(report, output), json_output=json_output)
    raise typer.Exit(status)


def _folder(output: Path, run: str, report: Any) -> Path:  # noqa: ANN401 - the report
    """Return where a run's files are; one resumed keeps its folder."""
    folder = output / str(report["run_id"])
    if not run or folder.is_dir():
        return folder
    from nightscreen.cli.journal_context import opened_journal

    with opened_journal() as journal:
        found = journal.runs.find(run)
    return folder if found is None else Path(found.folder)


def with_loans(report: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a report with each reference and its status word, as its run has written them.

    The report's own file has the numbers alone: references belong to people, and would stay in the
    journal and the engine after a person was erased.
    """
    import pyarrow.parquet as pq

    from nightscreen.files.outputs import LOANS_FILE

    shown = ("reference", "product_id", "state", "status", "status_at", "loan_amount", "paid")
    rows = pq.read_table(folder / LOANS_FILE, columns=list(shown)).to_pylist()
    return {**report, "loans": [{name: _plain(row[name]) for name in shown} for row in rows]}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any cell of the table
    from datetime import datetime
    from decimal import Decimal

    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, Decimal) else value


def print_offers(report: Mapping[str, Any], output: Path) -> None:
    """Print how a run of offers ended, and where its files are."""
    _print_end("Offers", report)
    show("product", " ".join(filter(None, report["product"].values())))
    show("customers", _counts(report["offers"]))
    _print_rest(report, output, "offer")


def _counts(offers: Mapping[str, int]) -> str:
    others = (f"{name.replace('_', ' ')} {n:,}" for name, n in offers.items() if n)
    return ", ".join(others) or "none has a chosen decision"


def print_loans(report: Mapping[str, Any], output: Path) -> None:
    """Print the state of loans, and what changed."""
    _print_end("Loans", report)
    statuses = (f"{word} {number:,}" for word, number in report["statuses"].items())
    show("statuses", ", ".join(statuses) or "there is no loan to follow yet")
    moves = (f"{move}: {number:,}" for move, number in report["changes"]["moves"].items())
    show("changes", ", ".join(moves) or "no status changed")
    for loan in report["loans"][:_MOST_SHOWN]:
        unknown = " (the service does not know it)" if loan["state"] == "unknown_reference" else ""
        typer.echo(f"  {loan['reference']:<{FIELD_WIDTH}}{loan['status'] or '-'}{unknown}")
    more = len(report["loans"]) - _MOST_SHOWN
    if more > 0:
        typer.echo(f"  and {more:,} more in loans.parquet")
    _print_rest(report, output, "track")


def _print_end(what: str, report: Mapping[str, Any]) -> None:
    reason = f" ({report['stop_reason']})" if report["stop_reason"] else ""
    typer.echo(f"{what} {report['run_id']} {report['state']}{reason}")


def _print_rest(report: Mapping[str, Any], output: Path, command: str) -> None:
    for notice in report["notices"]:
        show("notice", notice)
    show("results", str(output / report["run_id"]))
    if report["state"] == "stopped":
        show("next", f"nightscreen loans {command} --run {report['run_id']} --output {output}")
