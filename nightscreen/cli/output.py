"""What commands print: JSON for programs; lines, fields and tables for people.

People read instants on the clock of Lagos, like the report and a run's id. Output for programs is
in UTC.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.schemas.clock import LAGOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_LABEL = 14


def print_json(document: object) -> None:
    """Print a document on stdout, as `--json` has it."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def say(message: str) -> None:
    """Write a sentence for whoever typed the command, on stderr."""
    typer.echo(message, err=True)


def fields(values: Mapping[str, str | Sequence[str] | None], label: int = _LABEL) -> None:
    """Print each value under its label, several one below the other; nothing for what is empty."""
    for name, value in values.items():
        for text in [value] if isinstance(value, str) else value or ():
            if text:
                typer.echo(f"  {name:<{label}}{text}")


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    right: Sequence[int] = (),
) -> None:
    """Print a table whose columns are as wide as their longest cell; no cell is cut or folded.

    Args:
        headings: of the columns.
        rows: their cells.
        title: a line above.
        right: numbers of the columns that stand to the right, such as sums.
    """
    lines = [tuple(headings), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    if title:
        typer.echo(f"\n{title}")
    for line in lines:
        cells = (
            f"{cell:>{width}}" if number in right else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        typer.echo("  ".join(cells).rstrip())


def counted(numbers: Mapping[str, int], none: str = "", zeros: bool = False) -> str:
    """Return counts in one line: `found 3, not found 1`."""
    words = (f"{name.replace('_', ' ')} {n:,}" for name, n in numbers.items() if n or zeros)
    return ", ".join(words) or none


def naira(text: str | None) -> str:
    """Return decimal text as naira for people."""
    return "unknown" if text is None else f"₦{Decimal(text):,.2f}"


def lagos_time(instant: str | None, *, seconds: bool = False) -> str:
    """Return an ISO 8601 instant such as `2026-03-01 22:00`; the text around it names the zone."""
    if not instant:
        return "-"
    at = datetime.fromisoformat(instant).astimezone(LAGOS)
    return f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """Return a span of time in words."""
    for unit_s, unit, most_s in ((1, "s", 120), (60, "min", 7200)):
        if seconds < most_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 3600:.1f} h" if seconds < 2 * 86_400 else f"{seconds / 86_400:.0f} days"


def print_run(
    what: str,
    report: Mapping[str, Any],
    output: object,
    values: Mapping[str, str | Sequence[str] | None],
    command: str = "",
) -> None:
    """Print how a run ended, its values, where its files are, and how it goes on if it stopped."""
    run_id = report["run_id"]
    reason = f" ({report['stop_reason']})" if report["stop_reason"] else ""
    typer.echo(f"{what} {run_id} {report['state']}{reason}")
    again = f"{command} --run {run_id} --output {output}"
    rest = {"notice": report["notices"], "results": f"{str(output).rstrip('/')}/{run_id}"}
    fields({**values, **rest, "next": again if report["state"] == "stopped" else ""})
