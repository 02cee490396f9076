"""Bank statements in a test: a few transactions, and the figures computed from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from nightscreen.config.settings import Settings
from nightscreen.operations.cashflow import (
    ACCOUNTS,
    CUSTOMERS,
    NO_ACCOUNTS,
    TRANSACTIONS,
    CashFlow,
)

AS_OF = datetime(2026, 7, 2, 9, tzinfo=UTC)


def cash_flow(home: Path, **settings: Any) -> CashFlow:  # noqa: ANN401 - as Settings has them
    return CashFlow.of(Settings(home=home, **settings))


def item(
    day: str,
    amount: float | str,
    narration: str,
    **more: Any,  # noqa: ANN401 - any column
) -> dict[str, Any]:
    """Return one transaction at noon in Lagos; a negative amount is a debit."""
    naira = Decimal(str(amount))
    return {
        "customer_id": "C1",
        "account_number": "0100000011",
        "currency": "NGN",
        "amount": abs(naira),
        "entry_type": "credit" if naira > 0 else "debit",
        "status": "success",
        "narration": narration,
        "transaction_date": datetime.fromisoformat(f"{day}T11:00:00+00:00"),
        **more,
    }


def each_month(
    day: int,
    amount: float | str,
    narration: str,
    *,
    months: Iterable[int] = range(1, 7),
    **more: Any,  # noqa: ANN401 - any column
) -> list[dict[str, Any]]:
    return [
        item(
            (date(2026, month, 1) + timedelta(days=day - 1)).isoformat(), amount, narration, **more
        )
        for month in months
    ]


def alive(months: Iterable[int] = range(1, 7)) -> list[dict[str, Any]]:
    """Return small debits on the first, the middle and the last days, so that months count."""
    return [
        entry
        for day in (2, 14, 28)
        for entry in each_month(day, -500, "POS PURCHASE CORNER SHOP", months=months)
    ] + [item("2026-07-01", -100, "POS PURCHASE CORNER SHOP")]


def figures(
    lender: CashFlow,
    *statements: Sequence[Mapping[str, Any]],
    accounts: Sequence[Mapping[str, Any]] = (),
) -> list[dict[str, Any]]:
    """Return a row for each statement; all customers have the same accounts."""
    ids = [f"C{number}" for number in range(len(statements))]
    items = [
        {**each, "customer_id": id_}
        for id_, statement in zip(ids, statements, strict=True)
        for each in statement
    ]
    table, customers = tables(items)
    held = [{**each, "customer_id": id_} for id_ in ids for each in accounts]
    linked = pa.Table.from_pylist(held, ACCOUNTS) if held else NO_ACCOUNTS
    rows = lender.features(table, customers, linked).to_pylist()
    return [{**row, "customer_id": None} for row in rows]


def matches(lender: CashFlow, items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return lender.matches(*tables(items))


def tables(items: Sequence[Mapping[str, Any]]) -> tuple[pa.Table, pa.Table]:
    ids = dict.fromkeys(each["customer_id"] for each in items)
    customers = [{"customer_id": each, "checked_at": AS_OF} for each in ids]
    return (
        pa.Table.from_pylist([dict(each) for each in items], TRANSACTIONS),
        pa.Table.from_pylist(customers, CUSTOMERS),
    )
