"""The words of narrations: which rule a transaction falls under, as patterns for DuckDB.

The rules stand in `data/narrations.toml`, where a lender can correct them. They are matched in SQL,
on distinct texts, by `cashflow`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightscreen.client.validation_errors import first_mistake, place_in, read_toml
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from pathlib import Path

NARRATIONS: Final = DATA / "narrations.toml"

_SENSITIVE: Final = """
CHURCH TITHE TITHES OFFERING OFFERTORY PARISH DIOCESE MINISTRY MINISTRIES PASTOR CHAPEL CATHEDRAL
GOSPEL FELLOWSHIP EVANGELICAL MOSQUE MASJID ZAKAT ZAKKAT SADAQAH SADAKA ISLAMIC IMAM JUMAT SHRINE
TEMPLE RELIGIOUS RCCG MFM WINNERS NASFAT REDEEMED
HOSPITAL HOSPITALS CLINIC CLINICS PHARMACY CHEMIST MEDICAL HEALTH DIALYSIS MATERNITY DOCTOR DENTAL
HMO NHIS LABORATORY DIAGNOSTIC SURGERY
UNIONS NLC TUC ASUU NUT NURTW NUPENG PENGASSAN NMA
PARTY APC PDP APGA ADC SDP NNPP CAMPAIGN POLITICAL
"""
SENSITIVE: Final = frozenset(_SENSITIVE.split())
"""No rule may rest on such words: they tell of faith, health, union or party. A bank is called
Union: that word is refused beside dues only."""
_DUES: Final = (
    *("UNION DUE", "UNION DUES", "UNION FEE", "UNION FEES", "UNION LEVY", "UNION CHECK OFF"),
    "CHECK OFF DUES",
)
_UNION_DUES: Final = re.compile(rf"\b({'|'.join(_DUES)})\b")
_WORD: Final = re.compile(r"[A-Z0-9#]+\*?")


class Direction(StrEnum):
    """Which way money goes."""

    CREDIT = "credit"
    DEBIT = "debit"
    ANY = "any"


Words = tuple[Annotated[str, Field(min_length=2, max_length=60)], ...]


class NarrationRule(BaseModel):
    """One rule; the head of `data/narrations.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9 ,]{1,59}$")]
    category: Annotated[str, Field(pattern=r"^[a-z][a-z_]{1,29}$")]
    direction: Direction = Direction.ANY
    words: Annotated[Words, Field(min_length=1)]
    unless: Words = ()
    broad: bool = False

    @property
    def pattern(self) -> str:
        """Return what finds one of the words in a padded text."""
        return pattern_of(self.words)

    @property
    def exception(self) -> str:
        """Return what finds one of the words that stand against it."""
        if not self.broad:
            return pattern_of(self.unless)
        return pattern_of((*self.unless, *sorted(SENSITIVE), *_DUES))


class _Source(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    noise: Words


class Narrations(BaseModel):
    """The whole file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    thresholds: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")],
        Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=10)],
    ]
    source: _Source
    rule: Annotated[tuple[NarrationRule, ...], Field(min_length=1, max_length=200)]


def pattern_of(words: tuple[str, ...]) -> str:
    """Return an RE2 pattern that finds one of some words in a text that is padded with blanks."""
    return f" (?:{'|'.join(map(_one, words))}) "


def _one(phrase: str) -> str:
    plain = " ".join(re.sub(r"[^A-Z0-9#*]+", " ", phrase.upper()).split())
    return plain.replace("#", "[0-9]+").replace("*", "[A-Z0-9]*")


def load_narrations(path: Path | None = None) -> Narrations:
    """Return the rules of `data/narrations.toml`, or of a file like it.

    Raises:
        SettingsError: it cannot be read, has a mistake, or a rule rests on what is nobody's
            business; file and line are named.
    """
    path = path or NARRATIONS
    text, table = read_toml(path)
    try:
        found = Narrations.model_validate(table)
    except ValidationError as error:
        place = place_in(path, text, error.errors()[0]["loc"])
        raise SettingsError(f"{place}: {first_mistake(error)}") from None
    for number, rule in enumerate(found.rule):
        problem = _problem(rule)
        if problem:
            raise SettingsError(f"{place_in(path, text, ('rule', number))}: {problem}")
    return found


def _problem(rule: NarrationRule) -> str | None:
    """Return why a rule may not be used; None where it may."""
    for phrase in rule.words:
        plain = phrase.upper()
        words = re.findall(r"[A-Z0-9]+", plain)
        touchy = next((word for word in words if word in SENSITIVE), None)
        if touchy is None and _UNION_DUES.search(" ".join(words)):
            touchy = "UNION DUES"
        if touchy is not None:
            return (
                f"the rule {rule.name!r} rests on {touchy}: religion, health, unions and parties "
                "are no ground for a figure about anybody; take the word out"
            )
        if not all(_WORD.fullmatch(word) for word in re.findall(r"[^\s/.&'-]+", plain)):
            return f"the rule {rule.name!r} has a word of other signs than letters, digits, # and *"
    return None
