"""The notebook beside `docs/analyse.md`: the same words and code, as cells without outputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Iterator

GUIDE = DOCS / "analyse.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


def notebook() -> str:
    """Return the notebook as the text of its file."""
    cells = [cell for number, text in enumerate(_parts()) if (cell := _cell(number, text))]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02d}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    return nbformat.writes(book, version=4) + "\n"


def _parts() -> Iterator[str]:
    """Yield words and code in turn, words first."""
    yield from _BLOCK.split(GUIDE.read_text(encoding="utf-8"))


def _cell(number: int, text: str) -> nbformat.NotebookNode | None:
    if not text.strip():
        return None
    if number % 2:
        return new_code_cell(text.strip())
    return new_markdown_cell(_LINK.sub(r"\1", text.strip()))
