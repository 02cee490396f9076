"""Print JSON for programs and views for people; views are templates in `data/views`.

A view is filled from the document that `--json` prints. Views show Lagos time, like the report and
run ids; JSON is in UTC.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import datetime
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

import typer

from nightscreen.report.format import lasting
from nightscreen.schemas.clock import LAGOS
from nightscreen.schemas.shipped import DATA
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from jinja2 import Environment

    from nightscreen.reading.date_orders import DateOrders

_LABEL = 17  # characters, fits most labels; a view may set another width


def print_json(document: object) -> None:
    """Print a document on stdout as JSON."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def say(message: str) -> None:
    """Write a message for the user on stderr."""
    typer.echo(message, err=True)


def say_open_dates(orders: DateOrders) -> None:
    """Tell a user at a terminal what to type if the order of consent dates is unknown."""
    open_ = orders.open_consent() if sys.stderr.isatty() else None
    if open_ is not None:
        say(
            f"The file does not show how the dates of {open_[0]} are written ({open_[1]}): a "
            "consent counts only once the order is known. Give --date-order dmy where the day is "
            "first, mdy where the month is; until then the batch's last answer counts."
        )


def view(name: str, document: Mapping[str, Any], **more: object) -> str:
    """Render a document for people with the named template."""
    return (
        _views().get_template(f"{name}.txt.j2").render({**document, "document": document, **more})
    )


@cache
def _views() -> Environment:
    from nightscreen.files.templates import text_templates
    from nightscreen.report.format import TITLES

    def check(name: str) -> str:
        """Return a check's title as a label; a title that begins with an acronym keeps it."""
        title = TITLES.get(name, name.replace("_", " "))
        return title if title[1:2].isupper() else title[:1].lower() + title[1:]

    views = text_templates(DATA / "views")
    views.keep_trailing_newline = True
    views.filters |= {
        "naira": naira,
        "amount": lambda value: f"₦{Decimal(str(value)):,f}",
        "lagos": lagos_time,
        "counted": counted,
        "span": lasting,
        "number": "{:,}".format,
        "value": _value,
        "check": check,
        "words": lambda name: name.replace("_", " "),
    }
    views.globals |= {"fields": field_lines, "table": table_lines}
    return views


def _value(value: object) -> str:
    """Return a value in one line; amounts, which have six decimals, with two."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False)
    return re.sub(r"^(-?\d+\.\d\d)0{4}$", r"\1", str(value))


def field_lines(values: Mapping[str, str | Sequence[str] | None], label: int = _LABEL) -> str:
    """Return a line for each value with its label; a list has a line each, empty values none."""
    return "".join(
        f"  {name:<{label}}{text}\n"
        for name, value in values.items()
        for text in ([value] if isinstance(value, str) else value or ())
        if text
    )


def table_lines(
    headings: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = ()
) -> str:
    """Return a table whose columns are as wide as their longest cell; `right` are right-aligned."""
    lines = [tuple(headings), *(tuple(map(str, row)) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ""
    for line in lines:
        cells = (
            f"{cell:>{width}}" if number in right else f"{cell:<{width}}"
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        text += "  ".join(cells).rstrip() + "\n"
    return text


def counted(numbers: Mapping[str, int], none: str = "", zeros: bool = False) -> str:
    """Return counts in one line: `found 3, not found 1`."""
    parts = (f"{name.replace('_', ' ')} {n:,}" for name, n in numbers.items() if n or zeros)
    return ", ".join(parts) or none


def naira(text: str | None) -> str:
    """Return decimal text as an amount such as `₦1,250.00`."""
    return "unknown" if text is None else f"₦{Decimal(text):,.2f}"


def lagos_time(instant: str | None, *, seconds: bool = False) -> str:
    """Return an ISO 8601 instant in Lagos time, as `2026-03-01 22:00`."""
    if not instant:
        return "-"
    at = datetime.fromisoformat(instant).astimezone(LAGOS)
    return f"{at:%Y-%m-%d %H:%M:%S}" if seconds else f"{at:%Y-%m-%d %H:%M}"


def about(report: Mapping[str, Any], output: Path | str, address: str = "") -> dict[str, object]:
    """Return what a run's view needs besides its report; the address is the service's."""
    from nightscreen.ops.status import resume_command

    why = WHY.get(report["stop_reason"] or "", "it was stopped")
    again = resume_command(report["run_id"], report.get("flow", "screen_batch"))
    return {"output": output, "address": address, "why": why, "again": again}
