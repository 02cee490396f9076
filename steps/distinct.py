"""Distinct lookups: rows of one slot grouped by pseudonym, so that each is asked once.

What is fresh or needed is judged in `plan`; this module only groups and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

UNKNOWN_EXPOSURE = -1


@dataclass(slots=True)
class Distinct:
    """The distinct lookups of one slot, as parallel arrays.

    `row` is the first row that asks, in whose name the call is made; `inverse` leads from each
    asking row (`asking`) to its lookup. `listed` where an answer at hand is a listing.
    """

    subjects: bytes
    row: NDArray[np.int64]
    asking: NDArray[np.int64]
    inverse: NDArray[np.int64]
    exposure: NDArray[np.int64]
    needed: NDArray[np.bool_]
    banded: NDArray[np.bool_]
    listed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def subject(self, index: int) -> bytes:
        """Return the pseudonym of one lookup."""
        return self.subjects[16 * index : 16 * index + 16]

    def without(self, dropped: NDArray[np.bool_]) -> Distinct:
        """Return the lookups that are left, and the rows that ask them."""
        kept = ~dropped
        renumbered = np.cumsum(kept) - 1
        still = kept[self.inverse]
        halves = np.frombuffer(self.subjects, dtype=">u8").reshape(-1, 2)
        return Distinct(
            subjects=halves[kept].tobytes(),
            row=self.row[kept],
            asking=self.asking[still],
            inverse=renumbered[self.inverse[still]],
            exposure=self.exposure[kept],
            needed=self.needed[kept],
            banded=self.banded[kept],
            listed=self.listed[kept],
        )


@dataclass(slots=True)
class Gathered:
    """One slot over the whole batch, chunk by chunk."""

    why: list[NDArray[np.int8]] = field(default_factory=list)
    rows: list[NDArray[np.int64]] = field(default_factory=list)
    subjects: list[bytes] = field(default_factory=list)


def make_distinct(gathered: Gathered, exposure: NDArray[np.int64]) -> Distinct:
    """Group a slot's asking rows by subject; the first row in input order owns the lookup."""
    asking = np.concatenate(gathered.rows) if gathered.rows else np.zeros(0, np.int64)
    joined = b"".join(gathered.subjects)
    halves = np.frombuffer(joined, dtype=">u8").reshape(-1, 2)  # by bytes, as the journal sorts
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    ordered = halves[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.cumsum(first) - 1
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = group
    owner = order[first]
    best = np.full(len(owner), UNKNOWN_EXPOSURE, dtype=np.int64)
    np.maximum.at(best, inverse, exposure[asking])
    return Distinct(
        subjects=halves[owner].tobytes(),
        row=asking[owner],
        asking=asking,
        inverse=inverse,
        exposure=best,
        needed=np.ones(len(owner), dtype=bool),
        banded=np.zeros(len(owner), dtype=bool),
        listed=np.zeros(len(owner), dtype=bool),
    )


def number_needed(slots: Sequence[Distinct], starts: Sequence[int]) -> list[NDArray[np.int32]]:
    """Return for each slot the row of each lookup among the needed ones of the batch; -1 elsewhere.

    They stand chunk by chunk, in each chunk slot by slot.
    """
    numbers = [np.full(len(each), -1, dtype=np.int32) for each in slots]
    places = [np.flatnonzero(each.needed) for each in slots]
    rows = [each.row[place] for each, place in zip(slots, places, strict=True)]
    if not rows:
        return numbers
    slot = np.repeat(np.arange(len(slots)), [len(each) for each in rows])
    chunk = np.searchsorted(np.asarray(starts), np.concatenate(rows), side="right")
    order = np.lexsort((np.concatenate(places), slot, chunk))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    for number, each in enumerate(numbers):
        each[places[number]] = rank[slot == number]
    return numbers
