"""Cash flow beside a naive rule: salary found, income within ten percent, repayments found.

    python -m benchmarks.cash_flow              # 400 lives of the simulator, against their truth
    python -m benchmarks.cash_flow --pulled 1000    # so many lives, pulled as they are at night
    python -m benchmarks.cash_flow --speed 1000000   # so many transactions, beside pandas

The lives and their narrations are the simulator's, which knows nothing of `data/narrations.toml`.
The naive rule takes the largest credit of each month for the salary where three months or more have
one, and knows a repayment by the word LOAN.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.alternatives import cash_flow_pandas
from benchmarks.measured import run_words
from nightscreen.config.settings import Settings
from nightscreen.files.outputs import CASHFLOW_FILE
from nightscreen.operations.transactions.cashflow import CUSTOMERS, INPUT, CashFlow
from nightscreen.operations.transactions.cashflow_run import BLOCK
from nightscreen.operations.transactions.record_fields import load_fields
from nightscreen.sandbox.lives import KINDS, Truth, life_of, truth_of
from nightscreen.sandbox.transactions import Owner, person_of_customer, transactions_of
from nightscreen.schemas.cashflow import FEATURES
from tests.steps.pulls_in_a_test import Lender, username

AS_OF = datetime(2026, 7, 2, 9, tzinfo=UTC)
CLOSE = 0.01
"""Naira by which a figure made of floats may differ."""


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
    return _both(lives, rows)


def pulled(number: int) -> dict[str, dict[str, float]]:
    """Return how both rules did on customers who consented, with half a year of history.

    Their lists are answered by the simulator, kept in a journal and worked out at the pull's end;
    figures are read from `cashflow.parquet`, the naive rule takes the typed transactions.
    """
    with tempfile.TemporaryDirectory() as folder:
        lender = Lender(Path(folder))
        names = [f"LIFE-{each:05d}" for each in range(number)]
        lender.consent(names)
        begun = time.process_time()
        report = lender.pull()
        cpu_s = time.process_time() - begun
        file = lender.folder / "out" / report["run_id"] / CASHFLOW_FILE
        rows = sorted(pq.read_table(file).to_pylist(), key=lambda row: str(row["customer_id"]))
        items: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for each in lender.typed(report["run_id"]):
            items[each["customer_id"]].append(each)
    lives = [Lived(name, truth_of(username(name)), items[name]) for name in names]
    customers = report["customers"]
    print(
        f"{customers['pulled']:,} of {customers['due']:,} lives pulled, "
        f"{report['transactions']['written']:,} transactions, {cpu_s:.0f} CPU seconds with the "
        "simulator's"
    )
    return _both(lives, rows)


def _both(lives: list[Lived], rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
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
    """Return CPU seconds for so many transactions: all figures, and eight of them in pandas.

    Raises:
        ValueError: pandas came to another figure.
    """
    lives = made(400)
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
    blocks = [whole.slice(start, BLOCK) for start in range(0, number, BLOCK)]
    begun = time.process_time()
    found = []
    for block in blocks:
        names = block["customer_id"].unique().to_pylist()
        rows = [{"customer_id": name, "checked_at": AS_OF} for name in names]
        found.append(lender.features(block, pa.Table.from_pylist(rows, CUSTOMERS)))
    ours = time.process_time() - begun
    begun = time.process_time()
    in_pandas = [cash_flow_pandas.figures(block, lender.narrations) for block in blocks]
    theirs = time.process_time() - begun
    for table, other in zip(found, in_pandas, strict=True):
        for row in table.to_pylist():
            for name, value in other.loc[row["customer_id"]].items():
                if abs(float(row[name] or 0) - (0 if value != value else value)) > CLOSE:  # noqa: PLR0124 - NaN
                    raise ValueError(
                        f"{name} of {row['customer_id']} differs: {row[name]}, {value}"
                    )
    return ours, theirs


def main() -> None:
    """Print both rules beside each other, or the speed."""
    parser = argparse.ArgumentParser(description="Cash flow beside a naive rule.")
    parser.add_argument("--lives", type=int, default=400)
    parser.add_argument("--speed", type=int, default=0, metavar="TRANSACTIONS")
    parser.add_argument("--pulled", type=int, default=0, metavar="LIVES")
    given = parser.parse_args()
    print(run_words())
    lender = CashFlow.of(Settings(home=Path("no-home")))
    if given.speed:
        ours, pandas_s = speed(given.speed, lender)
        print(
            f"{given.speed:,} transactions, CPU seconds: {len(FEATURES)} figures {ours:.1f}; "
            f"{len(cash_flow_pandas.FIGURES)} of them in pandas, all equal, {pandas_s:.1f}; "
            f"ours / pandas {ours / pandas_s:.2f}"
        )
        return
    found = pulled(given.pulled) if given.pulled else compared(made(given.lives), lender)
    for rule, scores in found.items():
        print(f"{rule:<11}", "  ".join(f"{name} {share:.3f}" for name, share in scores.items()))


if __name__ == "__main__":
    main()
