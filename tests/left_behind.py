"""The contents of all files in a lender's folders, decompressed, for searches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile, is_zipfile

import pyarrow.parquet as pq


def everything(folder: Path) -> Iterator[tuple[Path, bytes]]:
    for top in ("home", "out"):
        for path in sorted((folder / top).rglob("*")):
            if path.is_file():
                yield path, content(path)


def content(path: Path) -> bytes:
    """Return a file's bytes; of a Parquet file or a workbook, also what is packed in it."""
    packed = b""
    if path.suffix == ".parquet":
        packed = repr(pq.read_table(path).to_pylist()).encode()
    if path.suffix == ".xlsx" and is_zipfile(path):
        with ZipFile(path) as parts:
            packed = b"\n".join(map(parts.read, parts.namelist()))
    return packed + path.read_bytes()
