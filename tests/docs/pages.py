"""Markdown tables, and the paths of the generated pages. Other modules write the pages."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
MEANINGS = Path(__file__).with_name("meanings.toml")
WRITTEN = "<!-- Written by `python -m tests.docs.write` from the code; do not edit. -->"


@cache
def meanings() -> dict[str, dict[str, Any]]:
    """Return the meanings of columns and statuses, by group."""
    loaded: dict[str, dict[str, Any]] = tomllib.loads(MEANINGS.read_text(encoding="utf-8"))
    return loaded


def meaning(group: str, name: str) -> Any:  # noqa: ANN401 - a sentence, or a sentence and a remedy
    """Return the meaning of a name.

    Raises:
        KeyError: `meanings.toml` has no such name.
    """
    return meanings()[group][name]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, with an empty one after it."""
    yield "| " + " | ".join(headings) + " |"
    yield "|" + "---|" * len(headings)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def page(title: str, *parts: Iterable[str]) -> str:
    lines = [f"# {title}", "", WRITTEN, ""]
    for part in parts:
        lines += part
    return "\n".join(lines).rstrip() + "\n"


def code(text: object) -> str:
    return f"`{text}`"
