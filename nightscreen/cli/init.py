"""`nightscreen init`: what a folder needs that runs nightscreen, from the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.output import print_json
from nightscreen.schemas.shipped import PACKAGE, template

FILES = {
    ".env": template(".env.example"),
    "prefect.yaml": template("prefect.yaml"),
    "work_pool.json": PACKAGE / "flows" / "work_pool.json",
}
"""Files of the folder, and what they are copied from."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", epilog="Example: nightscreen init --output nights")(init)


def init(
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
    json_output: JsonOption = False,
) -> None:
    """Write settings and deployments to fill in."""
    from nightscreen.files.private_files import make_private_folder, write_private_once

    make_private_folder(output, ours=False)
    written = {
        name: write_private_once(output / name, source.read_bytes())
        for name, source in FILES.items()
    }
    if json_output:
        print_json({"written": written})
        return
    for name, new in written.items():
        typer.echo(f"{'written' if new else 'kept as it is':<14}{output / name}")
    typer.echo("Next: fill in .env, then nightscreen inspect FILE")
