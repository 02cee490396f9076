"""`nightscreen init`: what a folder needs that runs nightscreen, from the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import command
from nightscreen.files.private_files import make_private_folder, write_private_once
from nightscreen.schemas.shipped import PACKAGE, template

FILES = {
    ".env": template(".env.example"),
    "prefect.yaml": template("prefect.yaml"),
    "work_pool.json": PACKAGE / "flows" / "work_pool.json",
}
"""Files of the folder, and what they are copied from."""


@command("init --output nights", view="init")
def init(
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
) -> dict[str, Any]:
    """Write settings and deployments to fill in."""
    make_private_folder(output, ours=False)
    return {
        "written": {
            name: write_private_once(output / name, source.read_bytes())
            for name, source in FILES.items()
        }
    }
