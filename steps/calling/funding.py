"""Funding: which lookups of a round the money pays for by now, in rank.

A cap pays at first for as many lookups as fit at their worst cost. Each that settles below it pays
for more, so that a round goes on until the money is spent and not merely reserved once. A lookup
that is not paid for yet is parked; nothing behind it in rank goes before it. The journal holds the
caps whatever is funded here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from nightscreen.steps.calling.window import Window


class Funding:
    """The money of one round; before a round begins, and without a cap, everything is paid for."""

    def __init__(self) -> None:
        self._lookups: list[int] = []
        self._place: dict[int, int] = {}
        self._worst: list[int] = []
        self._ended: set[int] = set()
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
            room_micro: what there is to spend; None where nothing limits it.
        """
        limited = room_micro is not None
        self._lookups = lookups.tolist() if limited else []
        self._place = {lookup: place for place, lookup in enumerate(self._lookups)}
        self._worst = worst_micro.tolist() if limited else []
        self._ended = set()
        self._paid_for = self._open_micro = 0
        self._room_micro = room_micro or 0
        self._advance()

    def pays_for(self, lookup: int) -> bool:
        """Return whether there is money for a lookup by now."""
        return self._place.get(lookup, -1) < self._paid_for

    def park(self, lookup: int, release: Callable[[], None]) -> None:
        """Call back once there is money for a lookup."""
        self._parked[lookup] = release

    def spend(self, micro: int) -> None:
        """Take off what an attempt cost, or may have cost."""
        self._room_micro -= micro

    def end(self, lookup: int) -> None:
        """Give back what was set aside for a lookup that has come to its end."""
        self._parked.pop(lookup, None)
        place = self._place.get(lookup)
        if place is None or place in self._ended:
            return
        self._ended.add(place)
        if place < self._paid_for:
            self._open_micro -= self._worst[place]
        self._advance()

    def _advance(self) -> None:
        """Pay for the next lookups in rank as far as the room goes, and let them go on."""
        while self._paid_for < len(self._lookups):
            place = self._paid_for
            cost = 0 if place in self._ended else self._worst[place]
            if self._open_micro + cost > self._room_micro:
                return
            self._open_micro += cost
            self._paid_for += 1
            if release := self._parked.pop(self._lookups[place], None):
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
