"""Sparing: karma asks a row's identities one after the other, and no further once one is listed.

This module counts for the whole batch which lookups wait: a lookup is made as soon as one row has
reached it, and spared once no row can reach it any more. There are no stages over the batch: a row
goes on as soon as its own earlier lookup has ended. Plain values; the windows make the calls and
report the results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

NOTHING = -1
"""In a chain: the row is not asked by this identity, or the answer is at hand."""


class Step(Enum):
    """What to do about a lookup now."""

    ASK = "ask"
    WAIT = "wait"
    SPARE = "spare"


class Spares(Protocol):
    """The questions of a window about lookups that may wait for others."""

    def step(self, index: int) -> Step:
        """Return what to do about a lookup now."""

    def hold(self, index: int, release: Callable[[], None]) -> None:
        """Call back once it is known whether a waiting lookup must be made."""

    def end(self, index: int, *, listed: bool) -> None:
        """Record that a lookup has ended."""


@dataclass(frozen=True, slots=True)
class Chains:
    """The karma lookups still open for each row.

    Attributes:
        lookups: a line for each row with anything to ask, a column for each identity in the order
            of asking: numbers of needed lookups, or `NOTHING`.
        listed: rows that an answer at hand already lists.
        kinds: the identities, in the order of asking.
        needed: how many lookups the batch needs, those of other checks included.
    """

    lookups: NDArray[np.int32]
    listed: NDArray[np.bool_]
    kinds: tuple[str, ...]
    needed: int

    def in_order(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a ranking in which every lookup comes after those that may spare it.

        No lookup moves forward; a shared lookup moves behind the last row it waits for.
        """
        place = np.empty(self.needed, dtype=np.int64)
        place[order] = np.arange(self.needed)
        latest, stage = place.copy(), np.zeros(self.needed, dtype=np.int8)
        before = np.full(len(self.lookups), NOTHING, dtype=np.int64)
        for number, column in enumerate(self.lookups.T):
            asked = column >= 0
            chain_column = column[asked]
            stage[chain_column] = number
            np.maximum.at(latest, chain_column, before[asked])
            before[asked] = np.maximum(before[asked], latest[chain_column])
        return np.lexsort((place, stage, latest))

    def spared(self) -> NDArray[np.bool_]:
        """Return which needed lookups are spared by what is at hand alone."""
        nothing = np.zeros(self.needed, dtype=bool)
        return ShortCircuit(self, ended=nothing, listed=nothing).spared()

    def reached(self, hit_rates: Sequence[float]) -> NDArray[np.float64]:
        """Return the probability that each lookup is made; 1 for those of other checks.

        Args:
            hit_rates: for each identity in the order of asking, the share that is listed.
        """
        missed = np.ones(self.needed)
        chance = np.where(self.listed, 0.0, 1.0)
        for column, rate in zip(self.lookups.T, hit_rates, strict=True):
            asked = column >= 0
            np.multiply.at(missed, column[asked], 1 - chance[asked])
            chance[asked] *= 1 - rate
        known = np.zeros(self.needed, dtype=bool)
        known[self.lookups[self.lookups >= 0]] = True
        return np.where(known, 1 - missed, 1.0)


@dataclass(slots=True)
class ShortCircuit:
    """Decides which lookups are made, wait or are spared, while answers arrive.

    Args:
        chains: the lookups of each row, in order.
        ended: needed lookups that have ended.
        listed: those of them with a listing.
    """

    chains: Chains
    ended: NDArray[np.bool_]
    listed: NDArray[np.bool_]
    _wanting: NDArray[np.int32] = field(init=False)
    """Rows that have reached this lookup."""
    _undecided: NDArray[np.int32] = field(init=False)
    """Rows that may still reach it."""
    _at: NDArray[np.int8] = field(init=False)
    """The column each row has reached; past the last if nothing is left."""
    _done: NDArray[np.bool_] = field(init=False)
    """Rows that are listed, or have nothing left to ask."""
    _rows: NDArray[np.int64] = field(init=False)
    _first: NDArray[np.int64] = field(init=False)
    _chained: NDArray[np.bool_] = field(init=False)
    _held: dict[int, Callable[[], None]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        lookups, needed = self.chains.lookups, self.chains.needed
        self.ended, self.listed = self.ended.copy(), self.listed.copy()
        asked = lookups >= 0
        rows, columns = np.nonzero(asked)
        named = lookups[rows, columns]
        by_lookup = np.argsort(named, kind="stable")
        self._rows = rows[by_lookup]
        self._first = np.searchsorted(named[by_lookup], np.arange(needed + 1))
        self._chained = np.diff(self._first) > 0
        open_ = asked & ~self.ended[lookups]
        stopped = self.chains.listed | (asked & self.listed[lookups]).any(axis=1)
        self._at = np.argmax(open_, axis=1).astype(np.int8)
        self._done = stopped | ~open_.any(axis=1)
        self._at[~open_.any(axis=1)] = lookups.shape[1]
        going = np.flatnonzero(~self._done)
        come_to = lookups[going, self._at[going]]
        self._wanting = np.bincount(come_to, minlength=needed).astype(np.int32)
        later = open_ & (np.arange(lookups.shape[1]) > self._at[:, None]) & ~self._done[:, None]
        self._undecided = np.bincount(lookups[later], minlength=needed).astype(np.int32)

    def spared(self) -> NDArray[np.bool_]:
        """Return which lookups nothing hangs on any more, of those not asked."""
        idle = (self._wanting == 0) & (self._undecided == 0)
        spared: NDArray[np.bool_] = self._chained & idle & ~self.ended
        return spared

    def step(self, index: int) -> Step:
        """Return what to do about a lookup now."""
        if not self._chained[index] or self._wanting[index] > 0:
            return Step.ASK
        return Step.WAIT if self._undecided[index] > 0 else Step.SPARE

    def hold(self, index: int, release: Callable[[], None]) -> None:
        """Call back once it is known whether a waiting lookup must be made."""
        self._held[index] = release

    def end(self, index: int, *, listed: bool) -> None:
        """Record that a lookup has ended, and release the lookups that waited for it."""
        if self.ended[index]:
            return
        self.ended[index] = True
        self.listed[index] = listed
        for row in self._rows[self._first[index] : self._first[index + 1]]:
            if not self._done[row]:
                self._stop(row) if listed else self._go_on(row)

    def _stop(self, row: int) -> None:
        """Ask no more about a row that is listed."""
        self._done[row] = True
        at = self._at[row]
        for column, number in enumerate(self.chains.lookups[row]):
            if number >= 0 and not self.ended[number]:
                (self._wanting if column == at else self._undecided)[number] -= column >= at
                self._decide(number)

    def _go_on(self, row: int) -> None:
        """Go to the next lookup of a row whose present one has ended without a listing."""
        lookups = self.chains.lookups[row]
        column = int(self._at[row])
        while column < len(lookups) and (lookups[column] < 0 or self.ended[lookups[column]]):
            column += 1
        if column == self._at[row]:
            return
        self._at[row] = column
        if column == len(lookups):
            self._done[row] = True
            return
        number = lookups[column]
        self._undecided[number] -= 1
        self._wanting[number] += 1
        self._decide(number)

    def _decide(self, number: int) -> None:
        if self.step(number) is not Step.WAIT and (release := self._held.pop(int(number), None)):
            release()
