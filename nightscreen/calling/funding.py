"""Funding: which lookups of a round the money pays for by now, in rank.

A cap pays at first for as many lookups as fit at their worst cost. Each that settles below it pays
for more, so that a round goes on until the money is spent and not merely reserved once. A lookup
that is not paid for yet is parked; nothing behind it in rank goes before it. The journal holds the
caps whatever is funded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nightscreen.calling.window import Window


_NONE = np.zeros(0, np.int64)


class Funding:
    """The money of one round; before a round begins, and without a cap, everything is paid for."""

    def __init__(self) -> None:
        self._lookups = self._worst = _NONE
        self._place = np.zeros(0, np.int32)
        """The place of each lookup in rank, -1 for others."""
        self._ended = np.zeros(0, bool)
        self._paid_for = 0
        self._open_micro = 0
        self._room_micro = 0
        self._parked: dict[int, Callable[[], None]] = {}
        self._windows: list[Window] = []

    def begin(
        self, lookups: NDArray[np.int64], worst_micro: NDArray[np.int64], room_micro: int | None
    ) -> None:
        """Begin a round.

        Args:
            lookups: those of the round, in rank.
            worst_micro: the most each may cost.
            room_micro: what there is to spend; None where nothing limits it. Where it pays for all
                at their worst, it limits nothing either: a million lookups are not kept in mind.
        """
        limited = room_micro is not None and int(worst_micro.sum()) > room_micro
        self._lookups, self._worst = (lookups, worst_micro) if limited else (_NONE, _NONE)
        self._place = np.full(int(lookups.max()) + 1 if limited else 0, -1, np.int32)
        self._place[self._lookups] = np.arange(len(self._lookups))
        self._ended = np.zeros(len(self._lookups), bool)
        self._paid_for = self._open_micro = 0
        self._room_micro = room_micro or 0
        self._advance()

    def pays_for(self, lookup: int) -> bool:
        """Return whether there is money for a lookup by now."""
        return self._place_of(lookup) < self._paid_for

    def _place_of(self, lookup: int) -> int:
        return int(self._place[lookup]) if lookup < len(self._place) else -1

    def park(self, lookup: int, release: Callable[[], None]) -> None:
        """Call back once there is money for a lookup."""
        self._parked[lookup] = release

    def spend(self, micro: int) -> None:
        """Take off what an attempt cost, or may have cost."""
        self._room_micro -= micro

    def end(self, lookup: int) -> None:
        """Give back what was set aside for a lookup that has come to its end."""
        self._parked.pop(lookup, None)
        place = self._place_of(lookup)
        if place < 0 or self._ended[place]:
            return
        self._ended[place] = True
        if place < self._paid_for:
            self._open_micro -= int(self._worst[place])
        self._advance()

    def _advance(self) -> None:
        """Pay for the next lookups in rank as far as the room goes, and let them go on."""
        while self._paid_for < len(self._lookups):
            place = self._paid_for
            cost = 0 if self._ended[place] else int(self._worst[place])
            if self._open_micro + cost > self._room_micro:
                return
            self._open_micro += cost
            self._paid_for += 1
            if release := self._parked.pop(int(self._lookups[place]), None):
                release()

    # --- the end of the money ---

    def joins(self, window: Window) -> None:
        """Take note of a window that the money is for."""
        self._windows.append(window)

    def is_over(self) -> bool:
        """Return whether nothing is under way that could give money back; wake who waits for it."""
        if not all(window.is_stranded for window in self._windows):
            return False
        for window in self._windows:
            window.nudge()
        return True
