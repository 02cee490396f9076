"""The money of a round: who is paid for, in rank, and what it takes to know."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

from nightscreen.calling.funding import Funding

LOOKUPS = 200_000


@pytest.mark.parametrize(("room", "bytes_each"), [(10 * LOOKUPS, 0.1), (5 * LOOKUPS, 16)])
def test_a_large_round_takes_little_memory(room: int, bytes_each: float) -> None:
    """Nothing where the money pays for all at their worst; some bytes a lookup elsewhere."""
    order, worst = np.arange(LOOKUPS)[::-1], np.full(LOOKUPS, 10)
    funding = Funding()
    tracemalloc.start()
    try:
        funding.begin(order, worst, room)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < bytes_each * LOOKUPS
    paid_for = [lookup for lookup in range(LOOKUPS) if funding.pays_for(lookup)]
    assert paid_for == list(range(LOOKUPS - room // 10, LOOKUPS))


def test_what_settles_below_its_worst_pays_for_the_next_in_rank() -> None:
    """One that is parked is let go as soon as there is money for it, and for all before it."""
    funding, released = Funding(), list[int]()
    funding.begin(np.array([7, 3, 9]), np.array([10, 10, 10]), 15)
    assert [funding.pays_for(lookup) for lookup in (7, 3, 9)] == [True, False, False]
    assert funding.pays_for(11), "none of the round"
    for lookup in (3, 9):
        funding.park(lookup, partial(released.append, lookup))
    funding.spend(0)
    funding.end(7)
    assert released == [3]
    funding.spend(10)
    funding.end(3)
    assert released == [3], "five are left"
    funding.end(3)
    assert [funding.pays_for(lookup) for lookup in (7, 3, 9)] == [True, True, False]
