"""The command line of the sandbox.

`python -m nightscreen.sandbox` starts the server; with `batch OUT.csv` it makes a sample file.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime  # noqa: TC003 - Typer reads it
from pathlib import Path  # noqa: TC003 - Typer reads it
from typing import Annotated

import typer


def batch(
    output: Annotated[Path, typer.Argument(metavar="OUT.csv")],
    rows: int = 10_000,
    seed: int = 1,
    damage_pct: float = 2.0,
    today: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Default: the present day.")
    ] = None,
) -> None:
    """Write a sample batch and print what is in it as JSON."""
    from nightscreen.sandbox.batch import make_batch  # noqa: PLC0415 - the server needs no batches

    day = today.date() if today else None
    try:
        facts = make_batch(output, rows=rows, seed=seed, damage_pct=damage_pct, today=day)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    typer.echo(json.dumps(facts.as_json(), indent=2))


def main(arguments: list[str]) -> None:
    """Run the command that the arguments name."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if arguments[:1] == ["batch"]:
        app.command()(batch)
        app(arguments[1:], prog_name="python -m nightscreen.sandbox batch")
    else:
        from nightscreen.sandbox.server import serve  # noqa: PLC0415 - a batch needs no server

        app.command(epilog="Also: python -m nightscreen.sandbox batch OUT.csv")(serve)
        app(arguments, prog_name="python -m nightscreen.sandbox")


if __name__ == "__main__":
    main(sys.argv[1:])
