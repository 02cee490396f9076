"""Needed lookups: the columns that rank them are in memory, the rest is sealed by chunk.

A lookup is known by its number: its index in the order of chunks, as the plan found it. Identities
and consents are read again once they are ranked, and go into the journal's table of lookups.
Finding what is needed is `plan`'s, its order `price`'s.

Sparing: karma asks a row's identities one after the other, and no further once one is listed. It is
done in stages: what is left of a stage has ended before the next is asked. What is asked, and what
is spared, is worked out here from what has ended so far; the asking is `calling`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.calls import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from nightscreen.files.sealed_file import Workspace
    from nightscreen.schemas.plan import CheckIdentity


_PIECE = "needed-{:05d}"
RANKED_AT_ONCE = 400_000
"""Lookups in memory at a time while they are put in rank: each time all pieces are read once."""


@dataclass(frozen=True, slots=True)
class LookupRanking:
    """The columns that rank and price the needed lookups of a batch, an array each."""

    slots: tuple[CheckIdentity, ...]  # the checks and identities of the run
    slot: NDArray[np.int8]  # each lookup's place among them
    tier: NDArray[np.int8]  # 0 where the customer was never screened, else 1
    exposure_kobo: NDArray[np.int64]  # naira at risk, -1 where it is unknown
    row: NDArray[np.int32]  # the batch's row in whose name the call is made

    def __len__(self) -> int:
        return len(self.slot)

    def is_of(self, check: str) -> NDArray[np.bool_]:
        """Return which lookups are of a check."""
        return np.array([slot.check == check for slot in self.slots], bool)[self.slot]

    def by_check(self, values: Mapping[str, int]) -> NDArray[np.int64]:
        """Return for each lookup what is said of its check."""
        return np.array([values[slot.check] for slot in self.slots], np.int64)[self.slot]

    def take(self, places: NDArray[np.bool_]) -> LookupRanking:
        """Return some of the lookups."""
        return LookupRanking(
            self.slots,
            self.slot[places],
            self.tier[places],
            self.exposure_kobo[places],
            self.row[places],
        )


@dataclass(slots=True)
class NeededPieces:
    """The needed lookups of a run, sealed in pieces, in the shape of `schemas.plan.NEEDED`."""

    space: Workspace
    ends: list[int] = field(default_factory=list)
    """Number of the first lookup after each piece; pieces without any are not written."""

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, piece: pa.Table) -> None:
        """Seal the lookups of the next chunk."""
        if piece.num_rows:
            self.space.put(_PIECE.format(len(self.ends)), piece)
            self.ends.append(len(self) + piece.num_rows)

    def in_rank(self, order: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int32], pa.Table]]:
        """Yield the lookups in an order of their numbers, a portion at a time: numbers and rows."""
        for start in range(0, len(order), RANKED_AT_ONCE):
            numbers = order[start : start + RANKED_AT_ONCE]
            ascending = np.sort(numbers)
            bounds = np.searchsorted(ascending, [0, *self.ends])
            found = []
            for place in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
                wanted = ascending[bounds[place] : bounds[place + 1]]
                first = self.ends[place - 1] if place else 0
                found.append(self.space.get(_PIECE.format(place)).take(pa.array(wanted - first)))
            places = np.searchsorted(ascending, numbers)
            yield numbers, pa.concat_tables(found).take(pa.array(places))


# --- sparing ---


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
