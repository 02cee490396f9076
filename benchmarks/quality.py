"""Measure how often nightscreen's conclusions are right, for names and for cash flow.

    python -m benchmarks.quality [names|cash-flow] [--pairs N] [--seed N] [--misses] [--lives N]

`names`: precision and recall of `strong` compared with rapidfuzz, by naming tradition and by kind
of pair, on pairs that no rule was tuned on; 0.97 and 0.90 are the targets. `cash-flow`: salary,
income within ten percent and repayments of fictional lives against their truth, compared with a
naive rule (the largest credit of each month is the salary if three months or more have one; LOAN is
a repayment). The simulator makes the lives and narrations without `data/narrations.toml`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rapidfuzz import fuzz

from benchmarks.measured import run_words
from benchmarks.name_pairs import SETS, TRADITIONS, Pair, labelled, rates, verified
from nightscreen.config.settings import Settings
from nightscreen.operations.cashflow import CUSTOMERS, TRANSACTIONS, CashFlow
from nightscreen.operations.pulled_records import load_fields
from nightscreen.sandbox.lives import KINDS, Truth, life_of, truth_of
from nightscreen.sandbox.transactions import Owner, person_of_customer, transactions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Judge = Callable[[Pair], bool]

AS_OF = datetime(2026, 7, 2, 9, tzinfo=UTC)
_RATIOS = ("token_sort_ratio", "token_set_ratio", "WRatio")


def best_ratio(name: str, tuned: Sequence[Pair]) -> Judge:
    """Return one of rapidfuzz's ratios, with the threshold of the best F1 on the tuning set."""
    score: Callable[..., float] = getattr(fuzz, name)

    def at(least: float) -> Judge:
        return lambda pair: score(" ".join(pair.ours).upper(), pair.theirs) >= least

    def f1(least: int) -> float:
        precision, recall = rates(tuned, at(least))
        return 2 * precision * recall / (precision + recall or 1)

    return at(max(range(50, 101), key=f1))


def names(which: str, seed: int, size: int, *, misses: bool) -> None:
    """Print precision / recall overall and by tradition, and the share of right results by kind."""
    pairs, tuned = labelled(which, seed, size), labelled("tune", seed, size)
    judges = {"strong": verified, **{name: best_ratio(name, tuned) for name in _RATIOS}}
    same = sum(pair.same for pair in pairs)
    print(f"{len(pairs):,} pairs of the set {which!r}, {same:,} the same; precision / recall\n")
    print(f"| | {' | '.join(judges)} |\n|---|{'---|' * len(judges)}")
    groups = {"all": pairs}
    groups |= {name: [pair for pair in pairs if pair.tradition == name] for name in TRADITIONS}
    for label, group in groups.items():
        cells = ["{:.3f} / {:.3f}".format(*rates(group, judge)) for judge in judges.values()]
        print(f"| {label} | {' | '.join(cells)} |")
    kinds: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        kinds[pair.category].append(pair)
    right = {
        kind: sum(verified(pair) == pair.same for pair in group) / len(group)
        for kind, group in sorted(kinds.items())
    }
    print(
        "\nRightly judged by kind:", ", ".join(f"{kind} {each:.3f}" for kind, each in right.items())
    )
    for pair in pairs if misses else ():
        if verified(pair) != pair.same:
            print(pair.category, "|", *pair.ours, "|", pair.theirs)


@dataclass(frozen=True)
class Lived:
    """A customer, the truth about them, and their bank's transactions."""

    name: str
    truth: Truth
    items: list[dict[str, Any]]


def made(number: int) -> list[Lived]:
    """Return `number` lives of a year, all kinds equally often."""
    kinds, fields, lives = list(KINDS), load_fields(), []
    for each in range(number):
        name = f"C{each}"
        life = replace(life_of(name), kind=kinds[each % len(kinds)], months=12)
        records = transactions_of(name, 0, Owner(person_of_customer(name), life))
        items = [{**fields.view(record).values, "customer_id": name} for record in records]
        lives.append(Lived(name, truth_of(name, life), items))
    return lives


def naive(life: Lived) -> tuple[bool, float, int]:
    """Return the naive rule's salary, income and repayments of the last 180 days."""
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
    """Return the scores of both rules."""
    table = pa.Table.from_pylist([each for life in lives for each in life.items], TRANSACTIONS)
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


def _scores(lives: list[Lived], results: list[tuple[bool, float, int]]) -> dict[str, float]:
    both = list(zip((life.truth for life in lives), results, strict=True))
    right = sum(truth.salary and salary for truth, (salary, _, _) in both)
    close = [abs(income - truth.income_monthly) for truth, (_, income, _) in both]
    near = [off <= 0.1 * truth.income_monthly for off, (truth, _) in zip(close, both, strict=True)]
    repaid = sum(min(number, truth.repayments) for truth, (_, _, number) in both)
    return {
        "salary precision": right / max(sum(salary for _, (salary, _, _) in both), 1),
        "salary recall": right / sum(truth.salary for truth, _ in both),
        "income within 10 %": sum(near) / len(lives),
        "repayments found": repaid / sum(truth.repayments for truth, _ in both),
    }


def cash_flow(lives: int) -> None:
    """Print the scores of both rules."""
    scored = compared(made(lives), CashFlow.of(Settings(home=Path("no-home"))))
    first = next(iter(scored.values()))
    print(f"{lives:,} lives of a year\n\n| | {' | '.join(first)} |\n|---|{'---|' * len(first)}")
    for rule, scores in scored.items():
        print(f"| {rule} | {' | '.join(f'{share:.3f}' for share in scores.values())} |")


def main() -> None:
    """Print what is asked for, else both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("what", nargs="?", choices=("names", "cash-flow"), help="else both")
    parser.add_argument("--set", choices=SETS, default="report")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=2500)
    parser.add_argument("--misses", action="store_true", help="list the pairs judged wrongly")
    parser.add_argument("--lives", type=int, default=400)
    given = parser.parse_args()
    print(f"{run_words()}\n")
    if given.what != "cash-flow":
        names(given.set, given.seed, given.pairs, misses=given.misses)
        print()
    if given.what != "names":
        cash_flow(given.lives)


if __name__ == "__main__":
    main()
