"""The output of commands, in one form: JSON for programs, fields and instants for people.

People read instants on the clock of Lagos, like the report and a run's id. Output for programs is
in UTC.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Final

import typer

from nightscreen.schemas.clock import LAGOS

FIELD_WIDTH: Final = 14


def print_json(document: object) -> None:
    """Print a document on stdout, as `--json` has it."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def show(label: str, text: str) -> None:
    """Print a line of a summary."""
    typer.echo(f"  {label:<{FIELD_WIDTH}}{text}")


def lagos_time(instant: str | None, *, seconds: bool = False) -> str:
    """Return an ISO 8601 instant such as `2026-03-01 22:00`; the text around it names the zone."""
    if not instant:
        return "-"
    at = datetime.fromisoformat(instant).astimezone(LAGOS)
    return f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"
