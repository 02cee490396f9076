"""Cash flow beside a naive rule: salary found, income within ten percent, repayments found.

    python -m benchmarks.cash_flow              # 400 lives of the simulator, against their truth
    python -m benchmarks.cash_flow --speed 1000000   # so many transactions, beside pandas

The lives and their narrations are the simulator's, which knows nothing of `data/narrations.toml`.
The naive rule takes the largest credit of each month for the salary where three months or more have
one, and knows a repayment by the word LOAN.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from nightscreen.sandbox.lives import KINDS, Truth, life_of, truth_of
from nightscreen.sandbox.transactions import Owner, person_of_customer, transactions_of
from nightscreen.schemas.settings import Settings
from nightscreen.steps.transactions.cashflow import CUSTOMERS, INPUT, CashFlow
from nightscreen.steps.transactions.cashflow_run import BLOCK
from nightscreen.steps.transactions.record_fields import load_fields

AS_OF = datetime(2026, 7, 2, 9, tzinfo=UTC)


@dataclass(frozen=True)
class Lived:
    """A customer, what is true of them, and what their bank lists."""

    name: str
    truth: Truth
    items: list[dict[str, Any]]


def made(number: int) -> list[Lived]:
    """Return so many lives of a year, each kind as often as the others."""
    return [_lived(f"C{each}", list(KINDS)[each % len(KINDS)]) for each in range(number)]


def _lived(name: str, kind: str) -> Lived:
    life = replace(life_of(name), kind=kind, months=12)
    fields = load_fields()
    records = transactions_of(name, 0, Owner(person_of_customer(name), life))
    items = [{**fields.view(record).values, "customer_id": name} for record in records]
    return Lived(name, truth_of(name, life), items)


def naive(life: Lived) -> tuple[bool, float, int]:
    """Return what the naive rule says: salary, income, repayments of the last half year."""
    months: dict[tuple[int, int], Decimal] = {}
    since = max(each["transaction_date"] for each in life.items) - timedelta(days=180)
    repayments = 0
    for each in life.items:
        when = each["transaction_date"]
        if each["entry_type"] == "credit":
            key = (when.year, when.month)
            months[key] = max(months.get(key, Decimal(0)), each["amount"])
        elif "LOAN" in each["narration"] and when > since:
            repayments += 1
    income = float(median(months.values())) if len(months) >= 3 else 0.0
    return income > 0, income, repayments


def compared(lives: list[Lived], lender: CashFlow) -> dict[str, dict[str, float]]:
    """Return how both rules did."""
    table = pa.Table.from_pylist([each for life in lives for each in life.items], INPUT)
    customers = [{"customer_id": life.name, "checked_at": AS_OF} for life in lives]
    rows = lender.features(table, pa.Table.from_pylist(customers, CUSTOMERS)).to_pylist()
    ours = [
        (bool(row["tx_salary"]), float(row["tx_income_monthly"] or 0), row["tx_repayments"])
        for row in rows
    ]
    return {
        "cash flow": _scores(lives, ours),
        "naive rule": _scores(lives, [naive(life) for life in lives]),
    }


def _scores(lives: list[Lived], said: list[tuple[bool, float, int]]) -> dict[str, float]:
    found = sum(
        life.truth.salary and salary for life, (salary, _, _) in zip(lives, said, strict=True)
    )
    earning = [
        abs(income - life.truth.income_monthly) <= 0.1 * life.truth.income_monthly
        for life, (_, income, _) in zip(lives, said, strict=True)
    ]
    borrowers = [
        (life.truth.repayments, min(number, life.truth.repayments))
        for life, (_, _, number) in zip(lives, said, strict=True)
    ]
    return {
        "salary precision": found / max(sum(salary for salary, _, _ in said), 1),
        "salary recall": found / sum(life.truth.salary for life in lives),
        "income within 10 %": sum(earning) / len(lives),
        "repayments found": sum(got for _, got in borrowers) / sum(due for due, _ in borrowers),
    }


def speed(number: int, lender: CashFlow) -> tuple[float, float]:
    """Return CPU seconds for so many transactions: all figures, and six of them in pandas."""
    lives = made(80)
    records = pa.Table.from_pylist([each for life in lives for each in life.items], INPUT)
    copies = -(-number // records.num_rows)
    whole = pa.concat_tables(
        records.set_column(
            0,
            "customer_id",
            pa.array([f"{name}-{copy}" for name in records["customer_id"].to_pylist()]),
        )
        for copy in range(copies)
    ).slice(0, number)
    begun = time.process_time()
    for start in range(0, number, BLOCK):
        part = whole.slice(start, BLOCK)
        names = part["customer_id"].unique().to_pylist()
        rows = [{"customer_id": name, "checked_at": AS_OF} for name in names]
        lender.features(part, pa.Table.from_pylist(rows, CUSTOMERS))
    ours = time.process_time() - begun
    begun = time.process_time()
    frame = whole.to_pandas()
    frame["month"] = frame["transaction_date"].dt.strftime("%Y-%m")
    frame["loan"] = frame["narration"].str.contains("LOAN|OKASH|CREDITVILLE|MFB DD", regex=True)
    frame["bet"] = frame["narration"].str.contains("BET9JA|SPORTYBET", regex=True)
    frame["source"] = frame["narration"].str.replace(r"\W*\d+\W*", " ", regex=True).str[:12]
    for side in ("credit", "debit"):
        of_side = frame[frame["entry_type"] == side]
        of_side.groupby(["customer_id", "month"])["amount"].sum().groupby("customer_id").median()
        of_side.groupby(["customer_id", "source"])["month"].nunique()
    frame[frame["loan"]].groupby("customer_id")["amount"].sum()
    frame[frame["bet"]].groupby("customer_id")["amount"].sum()
    return ours, time.process_time() - begun


def main() -> None:
    """Print both rules beside each other, or the speed."""
    parser = argparse.ArgumentParser(description="Cash flow beside a naive rule.")
    parser.add_argument("--lives", type=int, default=400)
    parser.add_argument("--speed", type=int, default=0, metavar="TRANSACTIONS")
    given = parser.parse_args()
    lender = CashFlow.of(Settings(home=Path("no-home")))
    if given.speed:
        ours, pandas_s = speed(given.speed, lender)
        print(
            f"{given.speed:,} transactions, CPU seconds: 45 figures {ours:.1f}, "
            f"six in pandas {pandas_s:.1f}"
        )
        return
    for rule, scores in compared(made(given.lives), lender).items():
        print(f"{rule:<11}", "  ".join(f"{name} {share:.3f}" for name, share in scores.items()))


if __name__ == "__main__":
    main()
