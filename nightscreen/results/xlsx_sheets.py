"""Rows put into the sheets of a workbook that has everything but them.

It relies only on the format: rows are in `sheetData`, each cell names its style by a number.
`xlsx_cells` writes the cells; the workbook around them is made elsewhere.
"""

from __future__ import annotations

import re
import zipfile
from typing import TYPE_CHECKING

from nightscreen.results.xlsx_cells import sheet_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from typing import Protocol

    import pyarrow as pa

    class Rows(Protocol):
        """Rows in order, some at a time."""

        def blocks(self) -> Iterator[pa.Table]:
            """Yield them."""


_HEADING, _SAMPLE = (
    re.compile(rb'<row r="1".*?</row>', re.DOTALL),
    re.compile(rb'<row r="2".*?</row>', re.DOTALL),
)
_STYLE = re.compile(r'<c r="[A-Z]+2"( s="\d+")?')
_DIMENSION = re.compile(rb'<dimension ref="A1:([A-Z]+)\d+"/>')
_END = b"</sheetData>"
_LEVEL = 1  # the text repeats itself so much that a higher one costs much and saves little


def fill_sheets(source: zipfile.ZipFile, target: Path, rows: Mapping[str, Rows]) -> None:
    """Copy a workbook, and put rows into some of its sheets.

    Args:
        source: the workbook; each of these sheets has headings in row 1, and in row 2 a cell for
            each column of the rows, which has its style. Row 2 is left out.
        target: the file to write.
        rows: by the name of the sheet's file.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as package:
        for part in source.infolist():
            if part.filename not in rows:
                package.writestr(part, source.read(part))
                continue
            with package.open(part.filename, "w", force_zip64=True) as sheet:
                for piece in _filled(source.read(part), rows[part.filename]):
                    sheet.write(piece)


def _filled(sheet: bytes, rows: Rows) -> Iterator[bytes]:
    """Yield a sheet with its rows."""
    sample = _SAMPLE.search(sheet)
    heading = _HEADING.search(sheet)
    if sample is None or heading is None:
        raise ValueError("a sheet to be filled has a row of headings and a sample")
    styles = _STYLE.findall(sample[0].decode())
    end = sheet.index(_END)
    yield _DIMENSION.sub(b"", sheet[: heading.end()])
    row = 2
    for block in rows.blocks():
        yield sheet_rows(block, styles, row)
        row += block.num_rows
    yield sheet[end:]
