"""The timeline: balance, spending and answers over a run, in sixty-odd points.

Long silences (a run resumed, an outage waited out) are cut out of the time that counts, and
reported. A pure reading of the calls; `reconciliation` explains what is between opening and
closing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nightscreen.schemas.clock import MICROS, instant_text
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 60
PAUSE_S = 600
"""A silence longer than this is cut out."""

_MOST_PAUSES = 12
BLOCK_CALLS = 1 << 17
"""Calls that are looked at together."""
NO_BALANCE = -(2**63)


def timeline(
    settled: NDArray[np.int64],
    cost: NDArray[np.int64],
    doubt: NDArray[np.int64],
    balance: NDArray[np.int64],
    *,
    block: int = BLOCK_CALLS,
) -> dict[str, list[Any]]:
    """Return columns of equal length, one entry for each stretch of the run, oldest first.

    Args:
        settled: instants calls settled at, microseconds, in any order; the others alike.
        cost: known costs in micro-naira.
        doubt: worst costs of calls in doubt, else 0.
        balance: reported balances, else `NO_BALANCE`.
        block: how many calls are read together.

    Returns:
        `at` (end of the stretch), `active_s` (seconds since the first answer, pauses left out),
        `pause_before_s`, `balance` (lowest reported in the stretch, or None), `spent` (known cost
        so far), `calls` and `in_doubt` (settled in the stretch).
    """
    names = ("at", "active_s", "pause_before_s", "balance", "spent", "calls", "in_doubt")
    if not len(settled):
        return {name: [] for name in names}
    ends = np.sort(settled)
    paused = _pauses(ends, block)
    first = _beginnings(ends, paused)
    last = np.append(first[1:], len(ends)) - 1
    cut = np.cumsum(np.append(0, ends[paused] - ends[paused - 1]))
    active = ends[last] - ends[0] - cut[np.searchsorted(paused, last, side="right")]
    paused_before = np.where(np.isin(first, paused), ends[first] - ends[first - 1], 0)
    calls = last - first + 1
    lowest, spent, lost = _sums(ends[first], settled, cost, doubt, balance, block)
    settled = ends[last]
    nothing = np.iinfo(np.int64).max
    return {
        "at": [instant_text(int(at)) for at in settled],
        "active_s": [round(int(micros) / MICROS, 3) for micros in active],
        "pause_before_s": [int(micros) // MICROS for micros in paused_before],
        "balance": [None if balance == nothing else naira_text(int(balance)) for balance in lowest],
        "spent": [naira_text(int(micro)) for micro in spent],
        "calls": calls.tolist(),
        "in_doubt": lost.tolist(),
    }


def _beginnings(ends: NDArray[np.int64], paused: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of the first call of each stretch: one begins after each pause too.

    Args:
        ends: instants calls settled at, ascending.
        paused: places of calls before which there was a pause.
    """
    cut = np.cumsum(np.append(0, ends[paused] - ends[paused - 1]))
    width = int(ends[-1] - ends[0] - cut[-1]) // POINTS + 1
    limits = np.arange(1, POINTS + 1) * width
    found = [np.zeros(1, np.int64), paused]
    edges = np.concatenate([np.zeros(1, np.int64), paused, [len(ends)]])
    for begin, end, off in zip(edges[:-1], edges[1:], cut, strict=True):
        found.append(begin + np.searchsorted(ends[begin:end], limits + ends[0] + off))
    indices = np.unique(np.concatenate(found))
    return indices[indices < len(ends)]


def _sums(
    begins: NDArray[np.int64],
    settled: NDArray[np.int64],
    cost: NDArray[np.int64],
    doubt: NDArray[np.int64],
    balance: NDArray[np.int64],
    block: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each stretch's lowest balance, cost so far and calls in doubt."""
    lowest = np.full(len(begins), np.iinfo(np.int64).max)
    spent, lost = np.zeros((2, len(begins)), np.int64)
    for start in range(0, len(settled), block):
        block_rows = slice(start, start + block)
        stretch = np.searchsorted(begins, settled[block_rows], side="right") - 1
        reported = np.flatnonzero(balance[block_rows] != NO_BALANCE)
        np.minimum.at(lowest, stretch[reported], balance[block_rows][reported])
        np.add.at(spent, stretch, cost[block_rows])
        np.add.at(lost, stretch, doubt[block_rows] > 0)
    return lowest, np.cumsum(spent), lost


def _pauses(ends: NDArray[np.int64], block: int) -> NDArray[np.int64]:
    """Return the places of calls before which there was a silence to be cut out: the longest."""
    found = [np.zeros(0, np.int64)]
    for start in range(1, len(ends), block):
        steps = np.diff(ends[start - 1 : start + block])
        found.append(start + np.flatnonzero(steps > PAUSE_S * MICROS))
    indices = np.concatenate(found)
    if len(indices) > _MOST_PAUSES:
        steps = ends[indices] - ends[indices - 1]
        indices = indices[steps >= np.partition(steps, -_MOST_PAUSES)[-_MOST_PAUSES]]
    return indices
