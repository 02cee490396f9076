"""What is exported from the desk as CSV: its lines, and who exported it, when and by which filter.

Which lines those are is each page's own.
"""

from __future__ import annotations

import csv
import io
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from starlette.responses import StreamingResponse

from nightscreen.files.quarantine import escape_formula
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nightscreen.desk.context import Context

_BLOCK: Final = 2000
_NUMBER: Final = re.compile(r"-\d+(\.\d+)?")


def about_export(
    context: Context, filtered: str, rows: int, *, run_id: str = ""
) -> list[tuple[str, str]]:
    """Return what an exported file says of itself."""
    return [
        *([("run", run_id)] if run_id else []),
        ("exported by", context.name),
        ("at", instant_text(context.clock()) or ""),
        ("filter", filtered),
        ("rows", f"{rows}"),
    ]


def csv_blocks(
    headings: Sequence[str], rows: Iterable[Sequence[object]], about: Iterable[tuple[str, str]]
) -> Iterator[bytes]:
    """Yield a CSV file that spreadsheets open, in blocks; what it says of itself comes last."""
    sink = io.StringIO()
    writer = csv.writer(sink)
    sink.write("\ufeff")
    writer.writerow(headings)
    lines = iter(rows)
    while block := list(islice(lines, _BLOCK)):
        writer.writerows(map(_cell, row) for row in block)
        yield sink.getvalue().encode()
        sink.seek(0)
        sink.truncate()
    writer.writerows([f"# {name}: {value}"] for name, value in about)
    yield sink.getvalue().encode()


def _cell(value: object) -> str:
    """Return a cell that no spreadsheet takes for a formula; a number below zero stays one."""
    text = "" if value is None else str(value)
    return text if _NUMBER.fullmatch(text) else escape_formula(text)


def csv_response(
    name: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    about: Iterable[tuple[str, str]],
) -> StreamingResponse:
    """Return a CSV file to save, sent as its lines are read."""
    return StreamingResponse(
        csv_blocks(headings, rows, about),
        media_type="text/csv; charset=utf-8",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )
