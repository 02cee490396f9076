"""`nightscreen quote`: naira and hours a run would take; nothing is asked, no engine started."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from cli.summary import naira

if TYPE_CHECKING:
    from collections.abc import Mapping


def quote_file(options: Mapping[str, Any], *, json_output: bool) -> None:
    """Print the quote of a file."""
    from cli.screen import read_parameters
    from schemas.settings import read_settings
    from steps.quoting import quote_batch

    document = quote_batch(read_parameters(options), read_settings())
    if json_output:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    else:
        print_quote(document)


def print_quote(document: Mapping[str, Any]) -> None:
    """Print a quote for people."""
    rows, quoted = document["rows"], document["quoted"]
    typer.echo(
        f"{rows['screened']:,} rows to screen, {rows['quarantined']:,} in quarantine: "
        f"{document['calls']:,} calls"
    )
    for line in document["lines"]:
        typer.echo(
            f"  {line['check'].replace('_', ' '):<13} by {line['identity']:<6} "
            f"{line['calls']:>9,} calls  {naira(line['expected']):>16}  "
            f"(of {line['charged_pct']:.0f} % at {naira(line['price'])})"
        )
    typer.echo(
        f"Expected {naira(quoted['expected'])}, between {naira(quoted['low'])} and "
        f"{naira(quoted['high'])}; about {document['hours']:.1f} h. "
        f"Already known: {naira(document['saved_by_reuse'])} saved."
    )
    if document["affordable"] is not None:
        typer.echo(
            f"Affordable at worst: {document['affordable']:,} of {document['calls']:,} calls"
        )
