"""Oddities: lists of transactions that are not as they should be.

What a magic customer's list looks like on the wire lives here. What it should hold is told by
`sandbox.transactions`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import magic_customers
from nightscreen.sandbox.draw import Draw
from nightscreen.sandbox.transactions import transactions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.sandbox.transactions import Record

    Oddity = Callable[[list[Record], int], object]

SHORT: Final = 3
"""How many records a short answer holds."""

MALFORMED_IDS: Final = (
    "00000000-0000-4000-8000-00000000000a",
    "00000000-0000-4000-8000-00000000000b",
)
"""Ids of the record without an amount and of the one without a date."""

_RENAMED: Final = {"amount": "value", "transaction_date": "date", "entry_type": "type"}


def listed_of(customer: str, day: int = 0) -> object:
    """Tell what stands under `data` of a list of transactions on a day, oddities included."""
    return odd(customer, day, transactions_of(customer, day))


def odd(customer: str, day: int, records: list[Record]) -> object:
    """Do to a list of transactions what its magic customer asks for; others get it as it is."""
    row = magic_customers.by_customer(customer)
    oddity = _ODDITIES.get(row.records) if row else None
    return oddity(records, day) if oddity else records


def _malformed(records: list[Record], _day: int) -> object:
    whole: list[object] = list(records)
    like = records[0]
    without_amount = {**like, "id": MALFORMED_IDS[0], "amount": "twelve", "balance": {}}
    dateless = {**like, "id": MALFORMED_IDS[1], "transaction_date": "2026-02-31T25:61:00Z"}
    whole.insert(1, "this is no record")
    whole.insert(3, without_amount)
    whole.insert(5, dateless)
    return whole


def _number_amounts(records: list[Record], _day: int) -> object:
    return [
        {**one, "amount": Decimal(str(one["amount"])), "balance": Decimal(str(one["balance"]))}
        for one in records
    ]


def _renamed(records: list[Record], _day: int) -> object:
    return [{_RENAMED.get(name, name): value for name, value in one.items()} for one in records]


def _shuffled(records: list[Record], _day: int) -> object:
    return sorted(records, key=lambda one: Draw("shuffle", str(one["id"])).below(10**9))


_ODDITIES: Final[dict[str, Oddity]] = {
    "malformed": _malformed,
    "short": lambda records, day: records[:SHORT] if day % 2 else records,
    "empty": lambda records, day: [] if day % 2 else records,
    "null": lambda records, day: None if day % 2 else records,
    "repeats": lambda records, _day: [*records[:4], *records[2:]],
    "shuffled": _shuffled,
    "number_amounts": _number_amounts,
    "elsewhere": lambda records, _day: {"transactions": records, "count": len(records)},
    "renamed": _renamed,
}
