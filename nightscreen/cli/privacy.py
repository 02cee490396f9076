"""`nightscreen privacy`: the documents a data controller keeps, drafted from the settings.

Their content is made in `privacy.processing_record`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nightscreen.cli.command import JsonOption, command, group
from nightscreen.cli.output import print_json

privacy_app = group("Data-protection documents.")
RECORD_FILE, ASSESSMENT_FILE = "processing-record.md", "impact-assessment.md"


@command("privacy record --output papers", of=privacy_app, name="record")
def record(
    output: Annotated[
        Path | None, typer.Option(help="Folder for the two documents; default: standard output.")
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Print the record of processing and a draft of the impact assessment."""
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.files.private_files import make_private_folder, write_private
    from nightscreen.policy.declarations import read_declarations
    from nightscreen.privacy.processing_record import (
        assessment_page,
        processing_record,
        record_page,
    )

    settings = settings_of_command()
    declared = read_declarations(settings)
    found = processing_record(settings, declared)
    papers = {
        RECORD_FILE: record_page(found),
        ASSESSMENT_FILE: assessment_page(settings, declared),
    }
    if output is not None:
        folder = make_private_folder(output, ours=False)
        for name, text in papers.items():
            write_private(folder / name, text.encode())
    if json_output:
        print_json(found)
    elif output is None:
        sys.stdout.write("\n".join(papers.values()))
    else:
        typer.echo(f"{len(papers)} documents are in {output}; fill in: {', '.join(found['blanks'])}")
