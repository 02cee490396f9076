"""A policy file as text: its content, and the line of each part.

`load` judges what it says.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEFAULT_POLICY = DATA / "policy.toml"
TOP = -1
_MOST_BYTES = 1_000_000
_RULES = "rules"
_HEADER = re.compile(r"^\s*\[\[\s*(?:rules|\"rules\"|'rules')\s*\]\]")
_KEY = re.compile(r"^\s*[\"']?([A-Za-z0-9_-]+)[\"']?(?:\.[A-Za-z0-9_-]+)*\s*=\s*(.*)$")
_ENTRY = r"""(?<![\w-])["']?{}["']?\s*=\s*(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,#}}]+)"""
_QUOTES = re.compile(r"'''|\"\"\"")


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy file after reading, before judging."""

    document: Mapping[str, Any]  # the parsed TOML; empty where it is no TOML
    # on which line, from 1, each entry of a rule begins, by the rule's number and the entry's name;
    # those above the rules are under `TOP`, a rule's header under no name
    lines: Mapping[tuple[int, str], int]
    fault: tuple[int, str] | None = None  # line and message where it is no TOML

    def line(self, rule: int, entry: str = "") -> int:
        """Return the line of an entry, or of its rule; rules written inline are all on one."""
        places = ((rule, entry), (rule, ""), (TOP, _RULES if rule >= 0 else ""))
        return next((self.lines[each] for each in places if each in self.lines), 1)


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
    lines = _lines(text)
    try:
        return PolicyText(tomllib.loads(text, parse_float=Decimal), lines)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else max(len(text.splitlines()), 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        return PolicyText({}, lines, (line, f"is no TOML: {message}"))
    except RecursionError:
        return PolicyText({}, lines, (1, "is no TOML: it is nested too deep"))


def _lines(text: str) -> dict[tuple[int, str], int]:
    """Return the lines of rules and entries, by reading lines outside of long texts.

    A value whose quotes stand alone begins on the next line.
    """
    found: dict[tuple[int, str], int] = {}
    rule, closing = TOP, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not closing:
            if _HEADER.match(line):
                rule += 1
                found[rule, ""] = number
            elif key := _KEY.match(line):
                alone = key[2].strip() in {"'''", '"""'}
                found.setdefault((rule, key[1]), number + alone)
        for quotes in _QUOTES.findall(line):
            closing = "" if quotes == closing else closing or quotes
    return found


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
        name: lines[found.line(TOP, name) - 1].partition("#")
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
