"""`nightscreen loans`: products listed, links offered, loans followed, by hand.

The flows themselves are `flows.offer_loans` and `flows.track_loans`. Customers named with `--again`
are recorded in the journal here, because the engine stores its parameters in clear.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow.parquet as pq
import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.engine import ran, settings_for_calls
from nightscreen.cli.journal_context import opened_journal
from nightscreen.cli.output import counted, print_run
from nightscreen.files.outputs import LOANS_FILE
from nightscreen.operations.loans.offers import LoanOffers, ask_again
from nightscreen.operations.loans.products import list_products
from nightscreen.operations.person_run import remembered, run_people
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from nightscreen.schemas.stops import REFUSALS

if TYPE_CHECKING:
    from collections.abc import Mapping

app = group("Loan products, offers and tracking.")
_MOST_SHOWN = 50
_LOAN = ("reference", "product_id", "state", "status", "status_at", "loan_amount", "paid")


def product_cells(product: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the table shows of a product; a dash where the service says nothing."""
    period = product["max_tenor_period"] or str(product.get("tenor_period") or "")
    periods = f"{period}s" if period and product["max_tenor_value"] != 1 else period
    rate = product["interest_rate"]
    percent = "" if rate is None else f"{Decimal(str(rate)):f} %"
    per = f"a {product['interest_period']}" if percent and product["interest_period"] else ""
    amounts = (product["min_amount"], product["max_amount"])
    money = [f"₦{Decimal(str(amount)):,f}" for amount in amounts if amount is not None]
    tenors = (product["min_tenor_value"], product["max_tenor_value"])
    length = [str(value) for value in tenors if value is not None]
    cells = (
        product["product_id"] or "",
        product["name"] or "",
        " to ".join(dict.fromkeys(money)),
        f"{' to '.join(dict.fromkeys(length))} {periods}".strip(),
        f"{percent} {per}".strip(),
    )
    return tuple(cell or "-" for cell in cells)


@command("loans products --json", of=app, name="products", view="products")
def products() -> Result:
    """List the active loan products; free."""
    listed = asyncio.run(list_products(settings_for_calls()))
    found = [product.model_dump(mode="json") for product in listed.products]
    return Result({"products": found}, more={"rows": [product_cells(each) for each in found]})


def print_offers(report: Mapping[str, Any], output: Path | str) -> None:
    """Print how a run of offers ended, and where its files are."""
    values = {
        "product": " ".join(filter(None, report["product"].values())),
        "customers": counted(report["offers"], "none has a chosen decision"),
    }
    print_run("Offers", report, output, values, "nightscreen loans offer")


@command(
    "loans offer out/20260301-220000-a1b2c3 --product LP1001",
    of=app,
    name="offer",
    view=print_offers,
)
def offer(
    parameters: OfferLoans,
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
) -> Result:
    """Make one application link for each approved customer; never a second by running again."""
    chosen = "prefill" in parameters.model_fields_set
    if chosen and (no_prefill or not parameters.prefill):
        raise UsageError("--prefill takes email, phone or both; to fill in nothing: --no-prefill")
    if no_prefill:
        parameters = parameters.model_copy(update={"prefill": []})
    settings = settings_for_calls()
    if parameters.quote_only:
        return Result(
            asyncio.run(run_people(LoanOffers, parameters, settings)), view="offers-quote"
        )
    parameters = remembered(parameters, settings, LoanOffers.flow)
    LoanOffers.identify(parameters, settings)
    if again:
        with opened_journal() as journal:
            ask_again(journal, parameters, again)
    return _refusal_said(ran("offer_loans:offer_loans", parameters, print_offers))


def _refusal_said(result: Result) -> Result:
    """Say beside the document, too, that the key is no distributor's."""
    if REFUSALS["distributor"] in result.document["notices"]:
        typer.echo(f"nightscreen: {REFUSALS['distributor']}", err=True)
    return result


def print_loans(report: Mapping[str, Any], output: Path | str) -> None:
    """Print the state of loans, and what changed."""
    moves = (f"{move}: {number:,}" for move, number in report["changes"]["moves"].items())
    values = {
        "statuses": counted(report["statuses"], "there is no loan to follow yet", zeros=True),
        "changes": ", ".join(moves) or "no status changed",
    }
    for loan in report["loans"][:_MOST_SHOWN]:
        unknown = " (the service does not know it)" * (loan["state"] == "unknown_reference")
        values[loan["reference"]] = (loan["status"] or "-") + unknown
    more = len(report["loans"]) - _MOST_SHOWN
    values[""] = f"and {more:,} more in loans.parquet" if more > 0 else ""
    print_run("Loans", report, output, values, "nightscreen loans track")


@command("loans track --json", of=app, name="track", view=print_loans)
def track(parameters: TrackLoans) -> Result:
    """Ask about every open loan; report its state and what has changed."""
    settings_for_calls()
    result = _refusal_said(ran("track_loans:track_loans", parameters, print_loans))
    folder = Path(parameters.output) / str(result.document["run_id"])
    if parameters.run and not folder.is_dir():  # one resumed keeps its folder
        with opened_journal() as journal:
            found = journal.runs.find(parameters.run)
        folder = folder if found is None else Path(found.folder)
    return result._replace(document=with_loans(result.document, folder))


def with_loans(report: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a report with each reference and its status word, as its run has written them.

    The report's own file has the numbers alone: references belong to people, and would stay in the
    journal and the engine after a person was erased.
    """
    rows = pq.read_table(folder / LOANS_FILE, columns=list(_LOAN)).to_pylist()
    return {**report, "loans": [{name: _plain(row[name]) for name in _LOAN} for row in rows]}


def _plain(value: Any) -> Any:  # noqa: ANN401 - any cell of the table
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value) if isinstance(value, Decimal) else value
