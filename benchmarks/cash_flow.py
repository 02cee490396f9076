"""Cash flow beside a naive rule: salary found, income within ten percent, repayments found.

    python -m benchmarks.cash_flow              # 400 made-up lives, against their truth
    python -m benchmarks.cash_flow --speed 1000000   # so many transactions, beside pandas

The lives and their narrations are made here, in the manner of banks and without a look at
`data/narrations.toml`. The naive rule takes the largest credit of each month for the salary where
three months or more have one, and knows a repayment by the word LOAN.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from nightscreen.schemas.settings import Settings
from nightscreen.steps.transactions.cashflow import CUSTOMERS, INPUT, CashFlow

AS_OF = datetime(2026, 7, 2, 9, tzinfo=UTC)
MONTHS = [date(2025 + (6 + each) // 12, (6 + each) % 12 + 1, 1) for each in range(12)]
FIRST = ("ADA", "BOLA", "CHIDI", "DAMI", "EMEKA", "FATIMA", "GRACE", "HAUWA", "IFEOMA", "JOHN")
LAST = ("OKORO", "BELLO", "ADEYEMI", "EZE", "MUSA", "BALOGUN", "OBI", "LAWAL", "UDOH", "SANI")
FIRMS = (
    *("CRESTLINE FOODS", "DELTA WORKS NIG", "HARBOUR LOGISTICS", "KOLA & SONS", "NORTHGATE SCHOOL"),
    *("OAKVIEW HOTELS", "PRIME TEXTILES", "RIVERSIDE FARMS", "SUNRISE PRINT", "TAJ VENTURES"),
)
MONTH_WORDS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
KINDS = ("monthly", "wordless", "weekly", "trader", "gig", "gambler", "borrower", "jobless")
"""What people live on; gamblers and borrowers earn a salary as well, the jobless get gifts."""


@dataclass
class Life:
    """A person and what is true of them."""

    name: str
    kind: str
    salary: bool = False
    earned: dict[int, int] = field(default_factory=dict)
    repayments: int = 0
    items: list[dict[str, Any]] = field(default_factory=list)

    @property
    def income(self) -> float:
        """Return the truth: the median month."""
        return median(self.earned.get(month, 0) for month in range(12))


class Writer:
    """Writes one life day by day, as banks do."""

    def __init__(self, name: str, kind: str, seed: int) -> None:
        self.draw = random.Random(seed)
        self.life = Life(name, kind)
        self.own = f"{self.draw.choice(FIRST)} {self.draw.choice(LAST)}"

    def person(self) -> str:
        """Return somebody's name, at times cut."""
        whole = f"{self.draw.choice(FIRST)} {self.draw.choice(LAST)}"
        return whole[: self.draw.choice((30, 30, 9))]

    def item(self, month: int, day: int, amount: int, narration: str) -> None:
        """Write one transaction; a negative amount is a debit."""
        draw = self.draw
        first = MONTHS[month]
        moment = datetime(
            first.year, first.month, 1, draw.randrange(7, 21), draw.randrange(60), tzinfo=UTC
        )
        record = {
            "customer_id": self.life.name,
            "account_number": "0100000001",
            "currency": "NGN",
            "amount": Decimal(abs(amount)),
            "entry_type": "credit" if amount > 0 else "debit",
            "status": "success",
            "narration": narration,
            "reference": f"{draw.randrange(10**14):014d}",
            "transaction_date": moment + timedelta(days=day - 1),
        }
        self.life.items.append(record)
        if draw.random() < 0.01:
            self.life.items.append(dict(record))

    def earn(self, month: int, day: int, amount: int, narration: str) -> None:
        """Write what was earned."""
        self.life.earned[month] = self.life.earned.get(month, 0) + amount
        self.item(month, day, amount, narration)

    def write(self) -> Life:
        """Write the whole life."""
        base = self.draw.randrange(60_000, 400_000, 1_000)
        for month in range(12):
            self.everyday(month)
        match self.life.kind:
            case "monthly":
                self.monthly(base, worded=True)
            case "gambler":
                self.monthly(base, worded=True)
                self.gamble()
            case "borrower":
                self.monthly(base, worded=True)
                self.borrow(base)
            case "wordless":
                self.monthly(base, worded=False)
            case "weekly":
                self.weekly(base // 4)
            case "trader":
                self.trader(base)
            case "gig":
                self.gig(base)
            case _:
                pass
        self.blur(base)
        return self.life

    def blur(self, base: int) -> None:
        """Add what misleads: a large credit once, a month that the feed lost."""
        if self.draw.random() < 0.3:
            self.item(
                self.draw.randrange(12), 17, base * 6, f"NIP/UBA/{self.person()}/PROPERTY SALE"
            )
        if self.draw.random() < 0.15:
            gone = self.draw.randrange(3, 9)
            lost = MONTHS[gone]
            self.life.repayments -= 2 if self.life.repayments and gone >= 6 else 0
            self.life.items = [
                each
                for each in self.life.items
                if (each["transaction_date"].year, each["transaction_date"].month)
                != (lost.year, lost.month)
            ]

    def everyday(self, month: int) -> None:
        """Write spending, gifts and noise."""
        draw = self.draw
        for day in (1, *sorted(draw.sample(range(2, 28), 12)), 28):
            text = draw.choice(
                (
                    f"VC POS Loc-{draw.randrange(10**6)}--SUPERMART LAGOS NG",
                    f"App Transfer To {self.person()}",
                    f"ATM WDL {draw.randrange(10**5)} ALLEN",
                    f"Airtime//080{draw.randrange(10**8):08d}//MTN",
                    f"NIP/ZEN/{self.person()}/UPKEEP",
                    "SMS CHARGE",
                    f"IKEDC TOKEN {draw.randrange(10**9)}",
                    f"*737*1*{draw.randrange(5000)}#",
                )
            )
            self.item(month, day, -draw.randrange(200, 9_000), text)
        for _ in range(draw.randrange(3)):
            self.item(
                month,
                draw.randrange(1, 28),
                draw.randrange(2_000, 30_000),
                f"TRF FROM {self.person()}",
            )
        if draw.random() < 0.2:
            amount, day = draw.randrange(5_000, 60_000), draw.randrange(3, 25)
            self.item(month, day, -amount, f"WEB PYMT STORE {day}")
            self.item(month, day + 1, amount, f"RVSL WEB PYMT STORE {day}")

    def monthly(self, base: int, *, worded: bool) -> None:
        """Write a monthly salary; its day slides, December's comes early, one in four is split."""
        draw, firm, usual = self.draw, self.draw.choice(FIRMS), self.draw.choice((24, 25, 27, 28))
        split = draw.random() < 0.25
        self.life.salary = True
        for month in range(12):
            word = MONTH_WORDS[MONTHS[month].month - 1]
            text = (
                draw.choice(
                    (f"{firm} {word} SALARY", f"SAL PAYMENT {firm}", f"{firm} {word} SALRY")
                )
                if worded
                else draw.choice(
                    (f"NIP/GTB/{firm}/", f"TRF FROM {firm}", f"NIP CR/{firm[:12]}/{word}")
                )
            )
            day = usual - (9 if word == "DEC" else 0) + draw.randrange(-2, 3)
            parts = (base * 6 // 10, base - base * 6 // 10) if split else (base,)
            for number, part in enumerate(parts):
                self.earn(month, day + 2 * number, part, text)

    def weekly(self, base: int) -> None:
        """Write wages of every Friday."""
        firm = self.draw.choice(FIRMS)
        self.life.salary = True
        for month in range(12):
            for day in (5, 12, 19, 26):
                self.earn(month, day, base, f"{firm} WAGES WK{day // 7 + 1}")

    def trader(self, base: int) -> None:
        """Write many customers' payments; the dry season sells less."""
        for month in range(12):
            for _ in range(self.draw.randrange(14, 22)):
                amount = int(base / 18 * self.draw.uniform(0.5, 1.5))
                text = self.draw.choice(
                    (
                        f"TRF FROM {self.person()}",
                        "CASH DEPOSIT SHOP",
                        f"NIP/UBA/{self.person()}/GOODS",
                    )
                )
                self.earn(month, self.draw.randrange(1, 28), amount, text)

    def gig(self, base: int) -> None:
        """Write payouts of one platform, of other amounts each week."""
        for month in range(12):
            for day in (3, 10, 17, 24):
                amount = int(base / 4 * self.draw.uniform(0.6, 1.4))
                self.earn(month, day, amount, f"RIDEWAY PAYOUT {self.draw.randrange(10**6)}")

    def gamble(self) -> None:
        """Write stakes, and winnings that are larger than the salary at times."""
        for month in range(12):
            for _ in range(8):
                self.item(
                    month,
                    self.draw.randrange(1, 28),
                    -self.draw.randrange(1_000, 15_000),
                    f"SPORTYBET {self.draw.randrange(10**5)}",
                )
            self.item(
                month,
                self.draw.randrange(1, 28),
                self.draw.randrange(5_000, 600_000),
                "BET9JA PAYOUT",
            )

    def borrow(self, base: int) -> None:
        """Write loans of several lenders, and what is paid back."""
        texts = (
            "LOAN RPMT {}",
            "OKASH {}",
            "NIBSS DD CREDITVILLE {}",
            "PRINCIPAL LIQUIDATION {}",
            "SOLID MFB DD {}",
        )
        for month in range(12):
            number = self.draw.randrange(10**5)
            self.item(
                month,
                9,
                base // 2,
                self.draw.choice(("LOAN DISBURSEMENT", "PALMCREDIT", "SALARY ADVANCE"))
                + f" {number}",
            )
            for day in (15, 21):
                self.item(month, day, -base // 5, self.draw.choice(texts).format(number))
                if month >= 6:
                    self.life.repayments += 1


def made(number: int) -> list[Life]:
    """Return so many lives."""
    return [Writer(f"C{each}", KINDS[each % len(KINDS)], each).write() for each in range(number)]


def naive(life: Life) -> tuple[bool, float, int]:
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


def compared(lives: list[Life], lender: CashFlow) -> dict[str, dict[str, float]]:
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


def _scores(lives: list[Life], said: list[tuple[bool, float, int]]) -> dict[str, float]:
    found = sum(life.salary and salary for life, (salary, _, _) in zip(lives, said, strict=True))
    earning = [
        abs(income - life.income) <= 0.1 * life.income
        for life, (_, income, _) in zip(lives, said, strict=True)
    ]
    borrowers = [
        (life.repayments, min(number, life.repayments))
        for life, (_, _, number) in zip(lives, said, strict=True)
    ]
    return {
        "salary precision": found / max(sum(salary for salary, _, _ in said), 1),
        "salary recall": found / sum(life.salary for life in lives),
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
    block = 100_000
    for start in range(0, number, block):
        part = whole.slice(start, block)
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
