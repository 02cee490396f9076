"""Columns of the enriched table besides those of the checks, and their types.

`results/assemble.py` fills them; `data/features.sql` computes those of cash flow.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.rows import INSTANT, NAIRA

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nightscreen.schemas.consented import CashFigures

SAME_IDENTIFIER = {
    "batch_same_bvn": IdentityKind.BVN,
    "batch_same_account": IdentityKind.NUBAN,
    "batch_same_phone": IdentityKind.PHONE,
    "batch_same_image": IdentityKind.IMAGE,
}
"""Columns with the number of customers of the batch that share an identifier with the row."""

ACCOUNT_BVNS = "batch_account_bvns"
SIGNALS = (*SAME_IDENTIFIER, ACCOUNT_BVNS)
"""All columns about identifiers shared with other rows of the batch, in order."""

WORD = pa.dictionary(pa.int32(), pa.string())  # a column with few different values
COST = pa.decimal128(20, 6)  # six decimals are micro-naira; 64 bits have at most 19 digits

BVN_FIELDS: list[tuple[str, pa.DataType]] = [
    ("bvn_watchlisted", pa.int64()),
    ("bvn_account_status", pa.string()),
    ("bvn_account_statuses", pa.list_(pa.string())),
    ("bvn_checked_at", INSTANT),
]
"""From BVN details confirmed earlier, if the row's consent allows them to be shown."""
CONSENT_UNREADABLE = "consent_unreadable"
"""Whether a consent time of the row cannot be read, so that its consent is not valid; also the code
of such a time in `problems.csv`."""
DECISION_FIELDS: list[tuple[str, pa.DataType]] = [
    ("cost", COST),
    ("decision", WORD),
    ("reasons", pa.list_(pa.string())),
    ("policy", WORD),
]


def naira_of_micro(micro: NDArray[np.int64]) -> pa.Array:
    """Return micro-naira as a column of decimal naira (`COST`), exactly."""
    buffer = np.zeros((len(micro), 2), dtype=np.int64)
    buffer[:, 0] = micro
    buffer[:, 1] = np.where(micro < 0, -1, 0)
    return pa.Array.from_buffers(COST, len(micro), [None, pa.py_buffer(buffer)])


FEATURES: Final[dict[str, pa.DataType]] = {
    "tx_as_of": pa.date32(),
    "tx_months": pa.int64(),
    "tx_months_missing": pa.int64(),
    "tx_month_names": pa.list_(pa.string()),
    "tx_accounts": pa.list_(pa.string()),
    "tx_inflow_monthly": NAIRA,
    "tx_outflow_monthly": NAIRA,
    "tx_net_monthly": NAIRA,
    "tx_inflow_spread": pa.float64(),
    "tx_inflow_30d": NAIRA,
    "tx_inflow_90d": NAIRA,
    "tx_inflow_180d": NAIRA,
    "tx_net_30d": NAIRA,
    "tx_net_90d": NAIRA,
    "tx_net_180d": NAIRA,
    "tx_income_monthly": NAIRA,
    "tx_income_low": NAIRA,
    "tx_income_sources": pa.int64(),
    "tx_salary": pa.bool_(),
    "tx_salary_day": pa.int64(),
    "tx_salary_monthly": NAIRA,
    "tx_salary_months": pa.int64(),
    "tx_salary_last": pa.date32(),
    "tx_balance_current": NAIRA,
    "tx_balance_median": NAIRA,
    "tx_balance_min": NAIRA,
    "tx_balance_month_end": NAIRA,
    "tx_days_below_1000": pa.int64(),
    "tx_days_below_zero": pa.int64(),
    "tx_repayments_monthly": NAIRA,
    "tx_repayments": pa.int64(),
    "tx_repayments_share": pa.float64(),
    "tx_lenders": pa.int64(),
    "tx_loans_received": pa.int64(),
    "tx_loans_received_naira": NAIRA,
    "tx_returned": pa.int64(),
    "tx_reversed": pa.int64(),
    "tx_betting_share": pa.float64(),
    "tx_cash_share": pa.float64(),
    "tx_rent_monthly": NAIRA,
    "tx_airtime_monthly": NAIRA,
    "tx_utilities_monthly": NAIRA,
    "tx_contributions_monthly": NAIRA,
    "tx_disposable_monthly": NAIRA,
    "tx_instalment_most": NAIRA,
}
"""The figures of a pull, in the order of the columns."""

CHECKED_AT: Final = "tx_checked_at"
AFFORDABLE: Final = "tx_affordable"
_HIDDEN: Final = ("tx_month_names", "tx_accounts", "tx_repayments", "tx_repayments_share")
TX_FIELDS: Final[list[tuple[str, pa.DataType]]] = [
    (CHECKED_AT, INSTANT),
    *((name, kind) for name, kind in FEATURES.items() if name not in _HIDDEN),
    (AFFORDABLE, pa.bool_()),
]
"""The cash flow columns of `enriched`; null for customers without live consent."""

CASHFLOW_SCHEMA: Final = pa.schema(
    [
        pa.field("customer_id", pa.string(), nullable=False),
        pa.field("tx_checked_at", INSTANT, nullable=False),
        *(pa.field(name, kind) for name, kind in FEATURES.items()),
    ]
)


def figure_values(cash_flow: CashFigures) -> dict[str, Any]:
    """Return a customer's figures with the types of their columns."""
    return {name: _value(cash_flow.figures.get(name), kind) for name, kind in FEATURES.items()}


def figures_document(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's figures for JSON: amounts and dates as text."""
    return {
        name: str(row[name]) if isinstance(row[name], Decimal | date) else row[name]
        for name in FEATURES
    }


def _value(text: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - any column's value
    if text is None:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(text)
    return date.fromisoformat(text) if pa.types.is_date(kind) else text
