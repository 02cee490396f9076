"""The price list: what a call costs if nothing better is known.

Prices seen in answers are in `journal/`; quotes are made in `planning/`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.shipped import DATA, read_model

if TYPE_CHECKING:
    from pathlib import Path

PRICES = DATA / "prices.toml"


class PriceList(BaseModel):
    """The contents of a price file: naira by operation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    naira: dict[str, Annotated[Decimal, Field(ge=0)]] = Field(description="naira by operation")

    @field_validator("naira")
    @classmethod
    def _whole(cls, naira: dict[str, Decimal]) -> dict[str, Decimal]:
        """Refuse a list that lacks an operation or names an unknown one."""
        if unknown := sorted(naira.keys() - {*CHECKS, *Operation}):
            raise ValueError(f"there is no operation {', '.join(unknown)}")
        if missing := [each.value for each in Operation if each not in naira]:
            raise ValueError(f"{', '.join(missing)} is missing")
        return naira


def load_prices(path: Path | None = None) -> dict[str, int]:
    """Return micro-naira by operation from `data/prices.toml` or a file like it.

    A check that the file does not name costs what it declares.

    Raises:
        SettingsError: the file cannot be read, or an operation is missing or wrong; file and line
            are named.
    """
    path = path or PRICES
    listed = read_model(path, PriceList)
    naira = {name: check.naira for name, check in CHECKS.items()} | listed.naira
    return {operation: to_micro(price) for operation, price in naira.items()}
