"""Words for made-up lives: names, banks, streets, lenders, narrations, loan products.

They are in `fiction.toml`. Other modules decide who gets which, and how often.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

FICTION: Final[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("fiction.toml").read_text("utf-8")
)
ENGLISH: Final = {kind: words.split() for kind, words in FICTION["english"].items()}
"""Given names by `men` and `women`, which people of several parts of the country bear."""


class NameStock(NamedTuple):
    """The names of one people."""

    people: str
    men: list[str]
    women: list[str]
    families: list[str]


STOCKS: Final = tuple(
    NameStock(people, *(stock[kind].split() for kind in ("men", "women", "families")))
    for people, stock in FICTION["names"].items()
)
