"""Needed lookups: the columns that rank them are in memory, the rest is sealed by chunk.

A lookup is known by its number: its index in the order of chunks, as the plan found it. Identities
and consents are read again once they are ranked, and go into the journal's table of lookups.
Finding what is needed is `plan`'s, its order `price`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from nightscreen.files.workspace import Workspace
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
