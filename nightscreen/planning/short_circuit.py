"""Sparing: karma asks a row's identities one after the other, and no further once one is listed.

It is done in stages: what is left of a stage has ended before the next is asked. What is asked, and
what is spared, is worked out here from what has ended so far; the asking is `calling`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nightscreen.schemas.calls import LookupStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOTHING = -1  # in a chain: the row is not asked by this identity, or the answer is at hand


@dataclass(frozen=True, slots=True)
class Chains:
    """The karma lookups still open for each row."""

    # a line for each row with anything to ask, a column for each identity in the order of asking:
    # numbers of needed lookups, or `NOTHING`
    lookups: NDArray[np.int32]
    listed: NDArray[np.bool_]  # rows that an answer at hand already lists
    needed: int  # how many lookups the batch needs, those of other checks included

    def states(
        self, ended: NDArray[np.bool_] | None = None, listed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int8]:
        """Return which needed lookups are to be asked now, later if at all, or are spared.

        A lookup is asked once a row has reached it, and spared once no row can reach it any more.
        Those of other checks are asked. `listed` are those of the `ended` that brought a listing.
        """
        nothing = np.zeros(self.needed, dtype=bool)
        ended, listed = nothing if ended is None else ended, nothing if listed is None else listed
        known, reached, reachable = nothing.copy(), nothing.copy(), nothing.copy()
        goes_on, waits = ~self.listed, np.zeros(len(self.listed), dtype=bool)
        for column in self.lookups.T:
            rows = np.flatnonzero(column >= 0)
            numbers = column[rows]
            known[numbers] = True
            reached[numbers[goes_on[rows] & ~waits[rows]]] = True
            reachable[numbers[goes_on[rows] & waits[rows]]] = True
            waits[rows] |= ~ended[numbers]
            goes_on[rows] &= ~listed[numbers]
        found = np.full(self.needed, LookupStatus.SPARED.value, dtype=np.int8)
        found[reachable] = LookupStatus.LATER.value
        found[reached | ~known] = LookupStatus.WAITING.value
        return found

    def spared(self) -> NDArray[np.bool_]:
        """Return which needed lookups are spared by what is at hand alone."""
        spared: NDArray[np.bool_] = self.states() == LookupStatus.SPARED.value
        return spared
