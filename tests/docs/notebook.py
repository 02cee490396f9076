"""The notebook of `docs/analyse.md`: its text and code as cells, without outputs."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.docs.pages import DOCS

GUIDE = DOCS / "analyse.md"
_BLOCK = re.compile(r"^```python\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def notebook() -> str:
    """Return the notebook as the text of its file (format 4.5)."""
    parts = enumerate(_BLOCK.split(GUIDE.read_text(encoding="utf-8")))  # words and code in turn
    cells = [_cell(number, text.strip()) for number, text in parts if text.strip()]
    book = {
        "cells": cells,
        "metadata": {"kernelspec": _KERNEL},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, text: str) -> dict[str, Any]:
    common = {"id": f"cell-{number:02d}", "metadata": {}}
    if number % 2:
        lines = text.splitlines(keepends=True)
        code = {"cell_type": "code", "execution_count": None, "outputs": [], "source": lines}
        return {**common, **code}
    source = _LINK.sub(r"\1", text).splitlines(keepends=True)
    return {**common, "cell_type": "markdown", "source": source}
