"""Needed lookups: the columns that rank them are in memory, the others are sealed by chunk.

A lookup is identified by its number: its index in the order of chunks. Identities and consents are
read again after ranking, and written to the journal's table of lookups. `plan` finds the needed
lookups, `price` ranks them.

Sparing: karma asks a row's identities one after the other, until one is listed. It works in stages:
all lookups of a stage have ended before the next stage starts. This module decides which lookups
are asked and which are spared, given those that have ended; `calling` makes the calls.
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
"""Lookups in memory at a time while they are ranked; each time all pieces are read once."""


@dataclass(frozen=True, slots=True)
class LookupRanking:
    """The columns that rank and price a batch's needed lookups, one array each."""

    slots: tuple[CheckIdentity, ...]  # the checks and identities of the run
    slot: NDArray[np.int8]  # each lookup's index in `slots`
    tier: NDArray[np.int8]  # 0 if the customer was never screened, else 1
    exposure_kobo: NDArray[np.int64]  # -1 if unknown
    row: NDArray[np.int32]  # the batch's row in whose name the call is made

    def __len__(self) -> int:
        return len(self.slot)

    def is_of(self, check: str) -> NDArray[np.bool_]:
        """Return which lookups are of a check."""
        return np.array([slot.check == check for slot in self.slots], bool)[self.slot]

    def by_check(self, values: Mapping[str, int]) -> NDArray[np.int64]:
        """Return for each lookup the value of its check."""
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
    """The needed lookups of a run, sealed in pieces, in the schema `schemas.plan.NEEDED`."""

    space: Workspace
    ends: list[int] = field(default_factory=list)
    """Number of the first lookup after each piece; empty pieces are not written."""

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, piece: pa.Table) -> None:
        """Seal the lookups of the next chunk."""
        if piece.num_rows:
            self.space.put(_PIECE.format(len(self.ends)), piece)
            self.ends.append(len(self) + piece.num_rows)

    def in_rank(self, order: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int32], pa.Table]]:
        """Yield the lookups in an order of their numbers, in portions: numbers and rows."""
        for start in range(0, len(order), RANKED_AT_ONCE):
            numbers = order[start : start + RANKED_AT_ONCE]
            ascending = np.sort(numbers)
            bounds = np.searchsorted(ascending, [0, *self.ends])
            pieces = []
            for place in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
                in_piece = ascending[bounds[place] : bounds[place + 1]]
                first = self.ends[place - 1] if place else 0
                pieces.append(self.space.get(_PIECE.format(place)).take(pa.array(in_piece - first)))
            places = np.searchsorted(ascending, numbers)
            yield numbers, pa.concat_tables(pieces).take(pa.array(places))


# --- sparing ---


NOTHING = -1  # in a chain: this identity of the row is not asked, or already has an answer


@dataclass(frozen=True, slots=True)
class Chains:
    """The karma lookups that are still open for each row."""

    # a row for each customer with open lookups, a column for each identity in the order of asking:
    # numbers of needed lookups, or `NOTHING`
    lookups: NDArray[np.int32]
    listed: NDArray[np.bool_]  # rows that a stored answer already lists
    needed: int  # how many lookups the batch needs, including those of other checks

    def states(
        self, ended: NDArray[np.bool_] | None = None, listed: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int8]:
        """Return which needed lookups are asked now, later if needed, or are spared.

        A lookup is asked when a row has reached it, and spared when no row can reach it any more.
        Lookups of other checks are asked. `listed` are those of `ended` with a listing.
        """
        nothing = np.zeros(self.needed, dtype=bool)
        ended, listed = nothing if ended is None else ended, nothing if listed is None else listed
        known, reached, reachable = nothing.copy(), nothing.copy(), nothing.copy()
        continues, waits = ~self.listed, np.zeros(len(self.listed), dtype=bool)
        for column in self.lookups.T:
            rows = np.flatnonzero(column >= 0)
            numbers = column[rows]
            known[numbers] = True
            reached[numbers[continues[rows] & ~waits[rows]]] = True
            reachable[numbers[continues[rows] & waits[rows]]] = True
            waits[rows] |= ~ended[numbers]
            continues[rows] &= ~listed[numbers]
        states = np.full(self.needed, LookupStatus.SPARED.value, dtype=np.int8)
        states[reachable] = LookupStatus.LATER.value
        states[reached | ~known] = LookupStatus.WAITING.value
        return states

    def spared(self) -> NDArray[np.bool_]:
        """Return which needed lookups are spared because of stored answers."""
        spared: NDArray[np.bool_] = self.states() == LookupStatus.SPARED.value
        return spared
