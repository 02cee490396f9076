"""The code that the pages show: fenced blocks, and our commands within sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.pages import DOCS, ROOT

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(?:\.venv/bin/)?(nightscreen [^`]+)`")
_COMMENT = re.compile(r"\s{2,}#\s.*$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of code and the page that contains it."""

    page: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """Yield every fenced block of every page."""
    for path in PAGES:
        for indent, language, text in _FENCED.findall(path.read_text(encoding="utf-8")):
            yield Block(str(path.relative_to(ROOT)), language, text.replace(f"\n{indent}", "\n"))


def typed(block: Block) -> Iterator[str]:
    for line in block.text.splitlines():
        text = _COMMENT.sub("", line.strip())
        if block.language == "console":
            if text.startswith("$ "):
                yield text.removeprefix("$ ")
        elif block.language == "sh" and text and not text.startswith("#"):
            yield text.removeprefix(".venv/bin/")


def commands() -> dict[str, str]:
    """Return our commands, each once, with the first page that shows it."""
    found: dict[str, str] = {}
    for block in blocks():
        for line in typed(block):
            if line.startswith("nightscreen "):
                found.setdefault(line, block.page)
    for path in PAGES:
        for line in _INLINE.findall(path.read_text(encoding="utf-8").replace("\n", " ")):
            found.setdefault(" ".join(line.split()), str(path.relative_to(ROOT)))
    return found
