"""The price list: what a call costs where nothing better is known.

What does not belong here: prices seen (`storage/`) and quotes (`steps/`).
"""

from __future__ import annotations

import tomllib
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightscreen.client.mistakes import first_mistake
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.money import to_micro

PRICES = Path(__file__).parent.parent / "data" / "prices.toml"


class PriceList(BaseModel):
    """The file as it is written: naira by operation."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    naira: dict[Operation, Decimal] = Field(description="naira by operation")


def load_prices(path: Path | None = None) -> dict[Operation, int]:
    """Return micro-naira by operation from `data/prices.toml` or a file like it.

    Raises:
        SettingsError: the file cannot be read, or an operation is missing or wrong.
    """
    path = path or PRICES
    try:
        listed = PriceList.model_validate(tomllib.loads(path.read_text("utf-8"))).naira
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} is no TOML: {error}") from None
    except ValidationError as error:
        raise SettingsError(f"{path.name}: {first_mistake(error)}") from None
    missing = [operation for operation in Operation if operation not in listed]
    if missing:
        raise SettingsError(f"{path.name}: naira.{missing[0]} is missing")
    if any(price < 0 for price in listed.values()):
        raise SettingsError(f"{path.name}: a price is below zero")
    return {operation: to_micro(listed[operation]) for operation in Operation}
