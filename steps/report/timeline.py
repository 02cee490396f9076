"""The timeline: balance, spending and answers over a run, in sixty-odd points.

Long silences (a run taken up again, an outage waited out) are cut out of the time that counts, and
said. A pure reading of the calls; what lies between opening and closing is explained in `books`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from schemas.money import naira_text
from storage.clock import MICROS, instant_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 60
PAUSE_S = 600
"""A silence longer than this is cut out."""

_MOST_PAUSES = 12
NO_BALANCE = -(2**63)


def timeline(
    settled: NDArray[np.int64],
    cost: NDArray[np.int64],
    doubt: NDArray[np.int64],
    balance: NDArray[np.int64],
) -> dict[str, list[Any]]:
    """Return columns of equal length, one entry for each stretch of the run, oldest first.

    Args:
        settled: instants calls settled at, microseconds, in any order; the others alike.
        cost: known costs in micro-naira.
        doubt: worst costs of calls in doubt, else 0.
        balance: balances told, `NO_BALANCE` where none was.

    Returns:
        `at` (end of the stretch), `active_s` (seconds since the first answer, pauses left out),
        `pause_before_s`, `balance` (lowest told in the stretch, or None), `spent` (known cost so
        far), `calls` and `in_doubt` (settled in the stretch).
    """
    names = ("at", "active_s", "pause_before_s", "balance", "spent", "calls", "in_doubt")
    if not len(settled):
        return {name: [] for name in names}
    order = np.argsort(settled, kind="stable").astype(np.int32)
    settled = settled[order]
    steps = np.diff(settled, prepend=settled[0])
    paused = _pauses(steps)
    pauses = steps[paused]
    steps[paused] = 0
    active = np.cumsum(steps, out=steps)
    stretch = active // (active[-1] // POINTS + 1)
    for place in np.flatnonzero(paused):
        stretch[place:] += POINTS + 1
    begins = np.ones(len(settled), dtype=bool)
    np.not_equal(stretch[1:], stretch[:-1], out=begins[1:])
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(settled)) - 1
    active, settled = active[last], settled[last]
    paused_before = np.zeros(len(first), dtype=np.int64)
    paused_before[np.searchsorted(first, np.flatnonzero(paused))] = pauses
    del stretch, steps, paused, begins
    told = balance[order]
    told[told == NO_BALANCE] = np.iinfo(np.int64).max
    lowest = np.minimum.reduceat(told, first)
    spent = np.cumsum(np.add.reduceat(cost[order], first))
    calls = last - first + 1
    lost = np.add.reduceat((doubt > 0)[order].astype(np.int8), first, dtype=np.int64)
    nothing = np.iinfo(np.int64).max
    return {
        "at": [instant_text(int(each)) for each in settled],
        "active_s": [round(int(each) / MICROS, 3) for each in active],
        "pause_before_s": [int(each) // MICROS for each in paused_before],
        "balance": [None if each == nothing else naira_text(int(each)) for each in lowest],
        "spent": [naira_text(int(each)) for each in spent],
        "calls": calls.tolist(),
        "in_doubt": lost.tolist(),
    }


def _pauses(steps: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which steps are silences to be cut out: the longest few."""
    long = steps > PAUSE_S * MICROS
    if int(long.sum()) > _MOST_PAUSES:
        least = np.partition(steps, -_MOST_PAUSES)[-_MOST_PAUSES]
        long &= steps >= least
    return long
