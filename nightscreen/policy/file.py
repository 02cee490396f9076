"""A policy file as text: its content, and the line of each part.

`load` judges what it says.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEFAULT_POLICY = DATA / "policy.toml"
_MOST_BYTES = 1_000_000
_RULES = "rules"
_HEADER = re.compile(r"^\s*\[\[\s*(?:rules|\"rules\"|'rules')\s*\]\]")
_KEY = re.compile(r"^\s*[\"']?([A-Za-z0-9_-]+)[\"']?(?:\.[A-Za-z0-9_-]+)*\s*=\s*(.*)$")
_ENTRY = r"""(?<![\w-])["']?{}["']?\s*=\s*(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,#}}]+)"""
_QUOTES = re.compile(r"'''|\"\"\"")


@dataclass(frozen=True, slots=True)
class RuleLines:
    """On which line, from 1, a rule and its entries begin."""

    header: int = 1
    entries: Mapping[str, int] = field(default_factory=dict)

    def line(self, entry: str = "") -> int:
        """Return the line of an entry, or of the rule where it has none."""
        return self.entries.get(entry, self.header)


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy file after reading, before judging."""

    document: Mapping[str, Any]  # the parsed TOML; empty where it is no TOML
    top: RuleLines  # places of the keys above the rules
    rules: tuple[RuleLines, ...]  # places of each rule, in order
    fault: tuple[int, str] | None = None  # line and message where it is no TOML

    def rule(self, number: int) -> RuleLines:
        """Return the places of a rule; rules written inline have the place of `rules`."""
        if number < len(self.rules):
            return self.rules[number]
        return RuleLines(self.top.line(_RULES))


def read_text(path: Path | None) -> str:
    """Return the text of a policy file, the default one where none is named.

    Raises:
        PolicyError: it cannot be read, is no text, or is far too long.
    """
    path = path or DEFAULT_POLICY
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"the policy {path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise PolicyError(f"the policy {path} is longer than a policy can be")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise PolicyError(f"the policy {path} is no UTF-8 text; save it as UTF-8") from None


def parse(text: str) -> PolicyText:
    """Read a policy's TOML with the line of every part."""
    top, rules = _places(text)
    try:
        return PolicyText(tomllib.loads(text, parse_float=Decimal), top, rules)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        last = max(len(text.splitlines()), 1)
        line = int(found.group(1)) if found else last
        message = re.sub(r" \(at .*\)$", "", str(error))
        return PolicyText({}, top, rules, (line, f"is no TOML: {message}"))
    except RecursionError:
        return PolicyText({}, top, rules, (1, "is no TOML: it is nested too deep"))


def rewritten(text: str, version: str, thresholds: Mapping[str, Decimal]) -> str:
    """Return a policy's text with another version and thresholds; all else stays as it is written.

    A value is searched for at every place of its name; a place is right if the text then parses to
    the same document.

    Raises:
        PolicyError: a value is written in a way that cannot be replaced in its place.
    """
    read = parse(text).document
    if version != read["version"]:
        read = {**read, "version": version}
        text = _replaced(text, "version", json.dumps(version, ensure_ascii=False), read)
    for name, value in thresholds.items():
        if value != read["thresholds"][name]:
            read = {**read, "thresholds": {**read["thresholds"], name: value}}
            text = _replaced(text, name, f"{value:f}", read)
    return text


def threshold_comments(text: str) -> dict[str, str]:
    """Return what a policy's text says beside its thresholds, behind the `#` on their lines."""
    found, lines = parse(text), text.split("\n")
    lines_of = {
        name: lines[found.top.line(name) - 1].partition("#")
        for name in found.document.get("thresholds", {})
    }
    return {name: after.strip() for name, (_, _, after) in lines_of.items() if after}


def _replaced(text: str, name: str, value: str, wanted: Mapping[str, Any]) -> str:
    """Return a text with one value replaced, so that the whole reads as wanted."""
    for found in re.finditer(_ENTRY.format(re.escape(name)), text):
        trial = text[: found.start("value")] + value + text[found.end("value") :]
        if parse(trial).document == wanted:
            return trial
    raise PolicyError(
        f"the policy writes {name} in a way that cannot be replaced here; change the file and "
        "propose it with: nightscreen policy propose FILE --by NAME"
    )


def _places(text: str) -> tuple[RuleLines, tuple[RuleLines, ...]]:
    """Return the places of the top and of each rule, by reading lines outside of long texts."""
    top: dict[str, int] = {}
    rules: list[RuleLines] = []
    entries, closing = top, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not closing:
            if _HEADER.match(line):
                entries = {}
                rules.append(RuleLines(number, entries))
            elif found := _KEY.match(line):
                entries.setdefault(found.group(1), _value_line(number, found.group(2)))
        closing = _open_quotes(line, closing)
    return RuleLines(1, top), tuple(rules)


def _value_line(number: int, value: str) -> int:
    """Return the line a value's text begins on: the next one where the quotes stand alone."""
    return number + 1 if value.strip() in {"'''", '"""'} else number


def _open_quotes(line: str, closing: str) -> str:
    """Return the quotes that are still open after a line."""
    for quotes in _QUOTES.findall(line):
        if not closing:
            closing = quotes
        elif quotes == closing:
            closing = ""
    return closing
