"""Shares: how a cap on calls in flight is divided among the processes that want some of it.

Plain arithmetic that every process does for itself and comes to the same end; the engine's limit
holds whatever they come to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def share_of(name: str, claimants: Sequence[str], cap: int, turn: int) -> int:
    """Return how much of a cap belongs to one of those who want some.

    Equal shares; what is left over goes to the first ones. Where there are more of them than calls,
    they take turns.

    Args:
        name: whose share.
        claimants: all who want some, in an order that all agree on.
        cap: calls that may be in flight over all of them.
        turn: goes up by one now and then.
    """
    if name not in claimants:
        return 0
    number = len(claimants)
    place = claimants.index(name)
    if cap < number:
        return int((place + turn) % number < cap)
    return cap // number + (place < cap % number)


def blocks(slots: int) -> list[int]:
    """Return a number as powers of two, greatest first: what is held in blocks can be halved."""
    return [1 << bit for bit in reversed(range(slots.bit_length())) if slots >> bit & 1]
