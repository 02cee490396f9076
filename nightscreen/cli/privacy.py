"""`nightscreen privacy`: the documents a data controller keeps, drafted from the settings.

Their content is made in `privacy.processing_record`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nightscreen.cli.command import Result, command, group
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.files.private_files import make_private_folder, write_private
from nightscreen.policy.declarations import read_declarations
from nightscreen.privacy.processing_record import assessment_page, processing_record, record_page

app = group("Data-protection documents.")


@command("privacy record --output papers", of=app, name="record", view="papers")
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
    return Result(found, more={"output": output, "pages": list(pages.values())})
