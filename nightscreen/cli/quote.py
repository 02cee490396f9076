"""`nightscreen quote`: naira and hours a run would take; nothing is asked, no engine started."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nightscreen.cli.output import print_json
from nightscreen.cli.summary import naira

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.config.parameters import ScreenBatch

_MINUTES_PER_HOUR = 60


def quote_file(options: Mapping[str, Any], *, json_output: bool) -> None:
    """Print the quote of a file."""
    from nightscreen.cli.options import read_options
    from nightscreen.config.parameters import ScreenBatch

    parameters = read_options(ScreenBatch, options)
    from nightscreen.cli.date_prompt import with_date_order
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.preflight import check_before_engine

    settings = settings_of_command()
    check_before_engine(parameters, settings)
    quote_parameters(with_date_order(parameters, settings), json_output=json_output)


def quote_parameters(parameters: ScreenBatch, *, json_output: bool) -> None:
    """Print the quote of parameters that have been checked."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.runs.quoting import quote_batch

    document = quote_batch(parameters, settings_of_command())
    if json_output:
        print_json(document)
    else:
        print_quote(document)


def print_quote(document: Mapping[str, Any]) -> None:
    """Print a quote for people."""
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows to screen, {rows['quarantined']:,} in quarantine: "
        f"{document['calls']:,} {_calls(document['calls'])} to the service"
    )
    for line in document["lines"]:
        typer.echo(
            f"  {line['check'].replace('_', ' '):<12} by {line['identity']:<6}"
            f"{line['calls']:>10,} {_calls(line['calls']):<5}{naira(line['expected']):>17} expected"
        )
        if line["likely_calls"] < line["calls"]:
            typer.echo(
                f"    about {line['likely_calls']:,} of them: karma stops at the first listing"
            )
        typer.echo(
            f"    {naira(line['price'])} for an answer, nothing for a miss; about "
            f"{line['charged_pct']:.0f} of 100 are answered"
        )
    typer.echo(f"  expected   {naira(quoted['expected'])}")
    typer.echo(f"  range      {naira(quoted['low'])} to {naira(quoted['high'])} at most")
    typer.echo(f"  time       {duration(document['hours'])}")
    typer.echo(f"  saved      {naira(document['saved_by_reuse'])}, by answers that are still fresh")
    if document["affordable"] is not None:
        typer.echo(
            f"  affordable {document['affordable']:,} of {document['calls']:,} calls, should "
            "every one be charged:"
        )
        typer.echo(
            f"             {document['affordable_rows']:,} of "
            f"{document['rows']['screened']:,} rows would have all their answers"
        )
    if document["goes_first"] is not None and document["affordable"] < document["calls"]:
        typer.echo(f"  first      {_first(document['goes_first'])}")


def _first(goes: Mapping[str, Any]) -> str:
    """Say in words what the money would go to first."""
    sentence = (
        f"{goes['never_screened']:,} for customers never screened, then {goes['overdue']:,} overdue"
    )
    if goes["down_to_exposure"] is not None:
        sentence += f", worst exposure first, down to {naira(goes['down_to_exposure'])}"
    return sentence


def _calls(number: int) -> str:
    return "call" if number == 1 else "calls"


def duration(hours: float) -> str:
    """Return hours in words."""
    minutes = hours * _MINUTES_PER_HOUR
    if minutes < 1:
        return "less than a minute"
    if minutes < 2 * _MINUTES_PER_HOUR:
        return f"about {minutes:.0f} min"
    return f"about {hours:.1f} h"
