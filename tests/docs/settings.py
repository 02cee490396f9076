"""The page of settings: every environment variable, its default, and what it decides.

Its texts are those of `.env.example`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from nightscreen.config.settings import PREFIX, setting_names
from tests.docs.pages import ROOT, code, page, table

EXAMPLE = ROOT / ".env.example"
_LINE = re.compile(r"^#?(NIGHTSCREEN_[A-Z_]+)=(.*)$")


def settings_page() -> str:
    """Return the page, made from the sections of `.env.example`."""
    intro = [
        "Settings come from the environment or from a file `.env` in the folder where a command",
        f"runs; the environment wins. Every name begins with `{PREFIX}`; groups are joined",
        "by two underscores. Money is in naira, durations are ISO 8601, such as `PT2H` or `P7D`.",
        "A clearly misspelt name is refused, with a suggestion.",
        "",
        "The default ages of fresh answers are on the page of",
        "[columns](columns.md#how-long-an-answer-is-fresh).",
        "",
    ]
    return page("Settings", intro, *map(_section, sections()))


def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the text of each section of `.env.example`, with its names and defaults."""
    parts: list[tuple[str, list[tuple[str, str]]]] = []
    words: list[str] = []
    names: list[tuple[str, str]] = []
    for line in [*EXAMPLE.read_text(encoding="utf-8").splitlines(), ""]:
        match = _LINE.match(line)
        if match:
            names.append((match[1], match[2]))
        elif names:  # a comment after names begins a new section
            parts.append((" ".join(words), names))
            words, names = [], []
        if line.startswith("# "):
            words.append(line.removeprefix("# "))
        elif not line:
            words = []
    listed = [name for _, each in parts for name, _ in each]
    if listed != setting_names():
        raise ValueError(".env.example does not list the settings in their order")
    return parts


def _section(part: tuple[str, list[tuple[str, str]]]) -> Iterator[str]:
    words, names = part
    yield words
    yield ""
    rows = ((code(name), code(value) if value else "") for name, value in names)
    yield from table(("name", "default"), rows)
