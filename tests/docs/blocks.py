"""What the pages show as code: fenced blocks, indented commands, and commands within sentences.

Only finding lives here; what is done with each is in the tests.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.docs.pages import DOCS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
SHELL = frozenset({"sh", "console", ""})
_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\s*$")
_INDENTED = re.compile(r"^ {4}(?P<command>nightscreen .+)$")
_INLINE = re.compile(r"`(nightscreen [^`]+)`")
_COMMENT = re.compile(r"\s{2,}#\s.*$")
OURS = re.compile(r"^(?:\.venv/bin/)?nightscreen\b")
_ENVIRONMENT = re.compile(r"^[A-Z_]+=\S+$")


@dataclass(frozen=True, slots=True)
class Block:
    """One block of code and where it stands."""

    page: str
    line: int
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """Yield every block of every page; an indented command is a block by itself."""
    for path in PAGES:
        yield from _blocks_of(path)


def _blocks_of(path: Path) -> Iterator[Block]:
    name = str(path.relative_to(ROOT))
    inside: list[str] | None = None
    begun, language, indent = 0, "", ""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and inside is None:
            inside, begun = [], number
            language, indent = fence["language"], fence["indent"]
        elif fence and inside is not None:
            yield Block(name, begun, language, "\n".join(inside) + "\n")
            inside = None
        elif inside is not None:
            inside.append(line.removeprefix(indent))
        elif indented := _INDENTED.match(line):
            yield Block(name, number, "sh", indented["command"] + "\n")


def shell_lines() -> list[tuple[str, str]]:
    """Return every line that is typed into a shell, with where it stands; each line once."""
    found: dict[str, str] = {}
    for block in blocks():
        if block.language not in SHELL:
            continue
        for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
            for command in _typed(block, line):
                found.setdefault(command, f"{block.page}:{number}")
    return list(found.items())


def _typed(block: Block, line: str) -> Iterator[str]:
    text = _COMMENT.sub("", line.strip())
    if block.language == "console":
        if text.startswith("$ "):
            yield text.removeprefix("$ ")
    elif (block.language == "sh" or OURS.match(text)) and text and not text.startswith("#"):
        yield text.removeprefix(".venv/bin/")


def ours() -> list[tuple[str, str]]:
    """Return the lines that call our own command."""
    return [each for each in shell_lines() if OURS.match(each[0])]


def others() -> list[tuple[str, str]]:
    """Return the lines that call something else."""
    return [each for each in shell_lines() if not OURS.match(each[0])]


def inline() -> list[tuple[str, str]]:
    """Return our commands within sentences, each once, with its page."""
    found: dict[str, str] = {}
    for path in PAGES:
        for command in _INLINE.findall(path.read_text(encoding="utf-8").replace("\n", " ")):
            found.setdefault(" ".join(command.split()), str(path.relative_to(ROOT)))
    return list(found.items())


def words_of(command: str) -> list[str]:
    """Return the words of a command after the name of the program."""
    return [word for word in shlex.split(command) if not _ENVIRONMENT.match(word)][1:]
