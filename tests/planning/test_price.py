"""Ranking, funding, quoting and approval, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.config.settings import IN_FLIGHT
from nightscreen.planning.lookup_table import LookupRanking
from nightscreen.planning.price import (
    approval_reason,
    quote,
    rank,
)
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.money import MICRO
from nightscreen.schemas.plan import CheckIdentity, First, Quote, SeenCharges

PRICES = {"karma": 10 * MICRO, "bank_account": 10 * MICRO, "ecosystem": 25 * MICRO}


def needed(rows: Sequence[tuple[str, int, int]]) -> LookupRanking:
    """Return needed lookups of the given check, tier and exposure in naira (-1: unknown)."""
    slots = tuple(CheckIdentity(check, IdentityKind.BVN) for check in PRICES)
    checks = [*PRICES]
    columns = [
        [checks.index(check) for check, _, _ in rows],
        [tier for _, tier, _ in rows],
        [100 * naira if naira >= 0 else -1 for _, _, naira in rows],
        [*range(len(rows))],
    ]
    return LookupRanking(slots, *map(np.array, columns))


def ranked(rows: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    return [rows[place] for place in rank(needed(rows), PRICES)]


def test_lookups_are_asked_by_tier_then_exposure_then_price() -> None:
    """Never-screened customers, the greatest exposure, the cheapest decisive check.

    A blank exposure is unknown, and not zero: it is taken as the median.
    """
    assert ranked([("karma", 1, 900), ("karma", 0, 1)])[0] == ("karma", 0, 1)
    rows = [("karma", 1, 5), ("karma", 1, 700), ("karma", 1, -1), ("karma", 1, 60)]
    assert [naira for _, _, naira in ranked(rows)] in ([700, 60, -1, 5], [700, -1, 60, 5])
    rows = [("ecosystem", 0, 50), ("bank_account", 0, 50), ("karma", 0, 50)]
    assert [check for check, _, _ in ranked(rows)] == ["karma", "bank_account", "ecosystem"]


@given(
    calls=st.integers(1, 5000),
    answers=st.integers(0, 5000),
    share=st.floats(0, 1),
)
def test_a_quote_is_always_low_then_expected_then_high(
    calls: int, answers: int, share: float
) -> None:
    """Whatever was seen, the range holds the expectation and never more than every call."""
    seen = {("karma", "bvn"): SeenCharges(answers, int(share * answers))}
    table = needed([("karma", 0, 1)] * calls)
    found = quote(table, prices_micro=PRICES, seen=seen, seconds={}, max_in_flight=IN_FLIGHT)
    assert 0 <= found.low_micro <= found.expected_micro + MICRO
    assert found.expected_micro <= found.high_micro + MICRO
    assert found.high_micro <= calls * PRICES["karma"]


def test_what_the_money_affords_is_told() -> None:
    """A cap of fifty naira pays for five calls at ten; none goes before a dearer one."""

    def under(naira: int, rows: Sequence[tuple[str, int, int]]) -> Quote:
        return quote(
            needed(rows),
            prices_micro=PRICES,
            seen={},
            seconds={},
            max_in_flight=IN_FLIGHT,
            cap_micro=naira * MICRO,
        )

    found = under(50, [("karma", 0, 1)] * 9)
    assert found.affordable == 5
    assert found.rows_short == 4
    assert found.first == First(never_screened=5, overdue=0, least_exposure_kobo=100)
    found = under(20, [("karma", 0, 3), ("ecosystem", 0, 2), ("karma", 0, 1)])
    assert (found.affordable, found.rows_short) == (1, 2)


APPROVALS: list[tuple[int, int | None, list[int], bool]] = [
    (100, None, [], False),
    (100, 99, [], True),
    (100, 100, [], False),
    (100, None, [10, 10], False),
    (100, None, [10, 10, 10], True),
    (30, None, [10, 10, 10], False),
    (100, None, [0, 0, 0, 10], False),
    (100, 1000, [10, 10, 10], True),
]


def test_unusual_spending_wants_approval() -> None:
    """Above the lender's amount, or above three times what is usual for the batch."""
    for expected, above, earlier, asked in APPROVALS:
        reason = approval_reason(
            expected * MICRO,
            above_micro=None if above is None else above * MICRO,
            earlier_micro=[cost * MICRO for cost in earlier],
        )
        assert (reason is not None) == asked, (expected, above, earlier)
