"""Damage: the ways in which rows of a lender's file are wrong.

Each function spoils one row in one way. Which rows are spoilt is decided in `sandbox.batch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    Row = dict[str, str]
    Spoiler = Callable[[Row, Random], None]

ABSENT_WORDS: Final = ("NIL", "N/A", "0", "-", "null", "00000000000")

SHORT_ACCOUNT: Final = "account_short"
DUPLICATE_ID: Final = "customer_id_duplicate"
FEW_FIELDS: Final = "too_few_fields"
MANY_FIELDS: Final = "too_many_fields"
MISSING_ID: Final = "customer_id_missing"


def _bvn_short(row: Row, rng: Random) -> None:
    row["bvn"] = row["bvn"][: rng.choice((9, 10))]


def _bvn_long(row: Row, rng: Random) -> None:
    row["bvn"] += str(rng.randrange(10))


def _bvn_letters(row: Row, rng: Random) -> None:
    place = rng.randrange(2, 11)
    row["bvn"] = row["bvn"][:place] + rng.choice("OIlSB") + row["bvn"][place + 1 :]


def _bvn_scientific(row: Row, _rng: Random) -> None:
    row["bvn"] = f"{float(row['bvn']):.2E}"


def _account_short(row: Row, _rng: Random) -> None:
    row["account_number"] = row["account_number"][1:]


def _missing_id(row: Row, _rng: Random) -> None:
    row["customer_id"] = ""


def _absent(row: Row, rng: Random) -> None:
    row[rng.choice(("bvn", "account_number", "phone", "email"))] = rng.choice(ABSENT_WORDS)


def _name_misspelt(row: Row, rng: Random) -> None:
    name = row["last_name"]
    place = rng.randrange(1, max(2, len(name) - 1))
    way = rng.randrange(3)
    swapped = name[: place - 1] + name[place] + name[place - 1] + name[place + 1 :]
    if way == 0:
        row["last_name"] = name[:place] + name[place + 1 :]
    elif way == 1 or swapped == name:
        row["last_name"] = name[:place] + name[place] + name[place:]
    else:
        row["last_name"] = swapped


def _name_reordered(row: Row, _rng: Random) -> None:
    row["first_name"], row["last_name"] = row["last_name"], row["first_name"]


def _left_to_the_writer(_row: Row, _rng: Random) -> None:
    """Some damage is not in a value: it needs the rows before, or the line itself."""


SPOILERS: Final[dict[str, Spoiler]] = {
    "bvn_short": _bvn_short,
    "bvn_long": _bvn_long,
    "bvn_letters": _bvn_letters,
    "bvn_scientific": _bvn_scientific,
    SHORT_ACCOUNT: _account_short,
    MISSING_ID: _missing_id,
    DUPLICATE_ID: _left_to_the_writer,
    "absent_value": _absent,
    "name_misspelt": _name_misspelt,
    "name_reordered": _name_reordered,
    FEW_FIELDS: _left_to_the_writer,
    MANY_FIELDS: _left_to_the_writer,
}
KINDS: Final = tuple(SPOILERS)
"""Every kind of damage, each as likely as the others."""

REFUSING: Final = (MISSING_ID, DUPLICATE_ID, FEW_FIELDS, MANY_FIELDS)
"""Kinds that make a row unusable as a whole."""
