"""The contents of all files in a lender's folders, decompressed, for searches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq


def everything(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for top in ("home", "out"):
        for path in sorted((folder / top).rglob("*")):
            if path.is_file():
                yield path, content(path)


def content(path: Path) -> bytes:
    """Return a file's bytes; of a Parquet file or a workbook, also its values."""
    if path.suffix == ".parquet":
        return repr(pq.read_table(path).to_pylist()).encode() + path.read_bytes()
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path)
        return repr([list(sheet.values) for sheet in book.worksheets]).encode()
    return path.read_bytes()
