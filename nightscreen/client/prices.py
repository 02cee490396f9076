"""The price list: what a call costs where nothing better is known.

What does not belong here: prices seen (`journal/`) and quotes (`planning/`).
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightscreen.client.validation_errors import first_mistake, place_in, read_toml
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.money import to_micro
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from pathlib import Path

PRICES = DATA / "prices.toml"


class PriceList(BaseModel):
    """The file as it is written: naira by operation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    naira: dict[Operation, Decimal] = Field(description="naira by operation")


def load_prices(path: Path | None = None) -> dict[Operation, int]:
    """Return micro-naira by operation from `data/prices.toml` or a file like it.

    Raises:
        SettingsError: the file cannot be read, or an operation is missing or wrong; file and line
            are named.
    """
    path = path or PRICES
    text, table = read_toml(path)
    try:
        listed = PriceList.model_validate(table).naira
    except ValidationError as error:
        place = place_in(path, text, error.errors()[0]["loc"])
        raise SettingsError(f"{place}: {first_mistake(error)}") from None
    missing = [operation for operation in Operation if operation not in listed]
    if missing:
        place = place_in(path, text, ("naira",))
        raise SettingsError(f"{place}: naira.{missing[0].value} is missing")
    for operation, price in listed.items():
        if price < 0:
            place = place_in(path, text, ("naira", operation.value))
            raise SettingsError(f"{place}: naira.{operation.value} is below zero")
    return {operation: to_micro(listed[operation]) for operation in Operation}
