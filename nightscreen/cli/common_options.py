"""Options that every group of commands shares, in one form."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")
]

CustomerArgument = Annotated[
    str, typer.Argument(metavar="CUSTOMER_ID", help="As the file has it, leading zeros included.")
]


def first_line(file: Path | None, option: str) -> str:
    """Return the first line of a file, or of standard input where it is `-`; empty for none.

    Raises:
        UsageError: the file cannot be read, or its first line is empty.
    """
    if file is None:
        return ""
    try:
        line = sys.stdin.readline() if str(file) == "-" else file.read_text().partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{option}: {file} cannot be read as text") from None
    if not line.strip():
        raise UsageError(f"{option}: the first line of {file} is empty")
    return line.rstrip("\r\n")
