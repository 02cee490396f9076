"""Lives with money: what the truth says is what the list shows, for every kind of life."""

from __future__ import annotations

from collections import defaultdict
from statistics import median

import pytest

from nightscreen.sandbox.lives import KINDS, Life, Truth, entries_of, truth_of
from nightscreen.sandbox.transactions import Owner, person_of_customer, transactions_of

PAY = 200_000


def lived(kind: str, **more: int) -> Life:
    """Return the plan of a life of a year."""
    return Life(kind, PAY, "HARBOUR LOGISTICS", months=12, **more)


def listed(name: str, life: Life) -> list[dict[str, object]]:
    """Return what the service lists of somebody who lives so."""
    return transactions_of(name, 0, Owner(person_of_customer(name), life))


@pytest.mark.parametrize("kind", KINDS)
def test_truth_is_what_the_entries_add_up_to(kind: str) -> None:
    """Income is the median of what each month paid; who gets no salary has no employer."""
    truth = truth_of("ada", lived(kind))
    earned: dict[int, int] = defaultdict(int)
    for month in range(-12, 0):
        for one in entries_of("ada", lived(kind), month):
            earned[month] += one.kobo if one.tag == "pay" else 0
    assert truth.income_monthly == round(median(earned.values()) / 100 if earned else 0)
    assert truth.salary is (kind in {"monthly", "weekly", "gambler", "borrower"})
    assert bool(truth.employer) is truth.salary
    if truth.salary:
        assert abs(truth.income_monthly - PAY) <= 4
    assert (
        (truth.loans > 0) is (truth.repayments > 0) is bool(truth.lenders) is (kind == "borrower")
    )


def test_the_list_holds_the_life() -> None:
    """Every entry is there with its amount and narration; some stand twice under one reference."""
    life = lived("borrower")
    records = listed("ada", life)
    entries = [one for month in range(-12, 1) for one in entries_of("ada", life, month)]
    shown = {(one["narration"], one["amount"], one["entry_type"]) for one in records}
    for one in entries:
        if one.day <= 0 and one.tag:
            side = "credit" if one.kobo > 0 else "debit"
            assert (one.narration, f"{abs(one.kobo) / 100:.2f}", side) in shown
    several = [listed(f"C{number}", lived("monthly")) for number in range(8)]
    assert any(len({one["reference"] for one in each}) < len(each) for each in several)
    narrations = [str(one["narration"]) for each in several for one in each]
    assert any(each.startswith("RVSL ") for each in narrations)


def test_a_month_may_be_missing() -> None:
    """The feed lost a month: nothing of it is listed, and what was repaid in it is not expected."""
    whole, lost = lived("borrower"), lived("borrower", lost=3)
    months = {str(one["transaction_date"])[:7] for one in listed("ada", lost)}
    assert "2026-04" not in months
    assert {"2026-03", "2026-05"} <= months
    truth: Truth = truth_of("ada", lost)
    assert truth.repayments == truth_of("ada", whole).repayments - 2
    assert truth.income_monthly == truth_of("ada", whole).income_monthly


def test_december_is_paid_early_and_nobody_is_paid_at_a_weekend() -> None:
    """Pay days slide to the Friday before, as they do."""
    paid = [
        str(one["transaction_date"])[:10]
        for number in range(6)
        for one in listed(f"C{number}", lived("monthly"))
        if one["entry_type"] == "credit" and "HARBOUR" in str(one["narration"])
    ]
    december = [each for each in paid if each.startswith("2025-12")]
    assert december
    assert all("2025-12-12" <= each <= "2025-12-22" for each in december)
