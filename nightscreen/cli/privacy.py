"""`nightscreen privacy`: the documents a data controller keeps, drafted from the settings.

Their content is made in `privacy.processing_record`.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.policy.declarations import read_declarations
from nightscreen.privacy.processing_record import assessment_page, processing_record, record_page

privacy_app = group("Data-protection documents.")


def _print_written(document: dict[str, Any], output: Path | None, pages: dict[str, str]) -> None:
    if output is None:
        sys.stdout.write("\n".join(pages.values()))
        return
    blanks = ", ".join(document["blanks"])
    typer.echo(f"{len(pages)} documents are in {output}; fill in: {blanks}")


@command("privacy record --output papers", of=privacy_app, name="record", view=_print_written)
def record(
    output: Annotated[
        Path | None, typer.Option(help="Folder for the two documents; default: standard output.")
    ] = None,
) -> Result:
    """Print the record of processing and a draft of the impact assessment."""
    settings = settings_of_command()
    declared = read_declarations(settings)
    found = processing_record(settings, declared)
    pages = {
        "processing-record.md": record_page(found),
        "impact-assessment.md": assessment_page(settings, declared),
    }
    if output is not None:
        folder = make_private_folder(output, ours=False)
        for name, text in pages.items():
            write_private(folder / name, text.encode())
    return Result(found, view=partial(_print_written, output=output, pages=pages))
