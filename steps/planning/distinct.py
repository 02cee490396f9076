"""Distinct lookups: rows of one slot grouped by pseudonym, so that each is asked once.

`plan` decides what is fresh or needed; this module only groups and numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

UNKNOWN_EXPOSURE = -1


@dataclass(slots=True)
class Distinct:
    """The distinct lookups of one slot, as parallel arrays.

    `row` is the row in whose name the call is made; `inverse` leads from each asking row (`asking`)
    to its lookup. `listed` where an answer at hand is a listing.
    """

    subjects: bytes
    row: NDArray[np.int32]
    asking: NDArray[np.int32]
    inverse: NDArray[np.int32]
    exposure: NDArray[np.int64]
    needed: NDArray[np.bool_]
    banded: NDArray[np.bool_]
    listed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)

    def without(self, dropped: NDArray[np.bool_]) -> Distinct:
        """Return the lookups that are left, and the rows that ask them."""
        kept = ~dropped
        renumbered = np.cumsum(kept, dtype=np.int32) - 1
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


def ascending(halves: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the order of pseudonyms by their bytes, as the journal sorts; equal ones stay put.

    Args:
        halves: two big-endian numbers each; the first nearly always settles it alone.
    """
    order = np.argsort(halves[:, 0].astype(np.uint64), kind="stable")
    if len(order) and _is_settled(halves, order):
        return order
    return np.lexsort((halves[:, 1], halves[:, 0]))


def _is_settled(halves: NDArray[np.uint64], order: NDArray[np.int64]) -> bool:
    """Return whether those whose first halves are equal are equal altogether."""
    first = halves[:, 0][order]
    twins = np.flatnonzero(first[1:] == first[:-1])
    second = halves[:, 1]
    return bool((second[order[twins]] == second[order[twins + 1]]).all())


def first_of_each(halves: NDArray[np.uint64], order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of some sorted pseudonyms differ from the one before."""
    first = np.zeros(len(order), dtype=bool)
    first[:1] = True
    for half in halves.T:
        ordered = half[order]
        first[1:] |= ordered[1:] != ordered[:-1]
    return first


def make_distinct(
    subjects: bytes | bytearray,
    asking: NDArray[np.int32],
    exposure: NDArray[np.int64],
    allowed_until: NDArray[np.int64] | None = None,
) -> Distinct:
    """Group a slot's asking rows by subject; the first row in input order owns the lookup.

    Where consent is needed, it is the first row whose consent lasts longest: once it has ended, the
    consent of every other row has ended too.

    Args:
        subjects: the pseudonyms they ask about, sixteen bytes each, joined.
        asking: the rows, ascending.
        exposure: naira at risk of every row of the batch in kobo, `UNKNOWN_EXPOSURE` where it is
            not known.
        allowed_until: when consent of every row of the batch ends; None where none is needed.
    """
    halves = np.frombuffer(subjects, dtype=">u8").reshape(-1, 2)
    order = ascending(halves)
    first = first_of_each(halves, order)
    inverse = np.empty(len(order), dtype=np.int32)
    inverse[order] = np.cumsum(first, dtype=np.int32) - 1
    owner = order[first]
    size = len(owner)
    if allowed_until is not None and size:
        until = allowed_until[asking[order]]
        longest = np.maximum.reduceat(until, np.flatnonzero(first))
        lasting = np.flatnonzero(until == longest[inverse[order]])
        _, earliest = np.unique(inverse[order[lasting]], return_index=True)
        owner = order[lasting[earliest]]
    at_risk = exposure[asking[order]]
    best = np.maximum.reduceat(at_risk, np.flatnonzero(first)) if size else at_risk
    return Distinct(
        subjects=halves[owner].tobytes(),
        row=asking[owner],
        asking=asking,
        inverse=inverse,
        exposure=best,
        needed=np.ones(size, dtype=bool),
        banded=np.zeros(size, dtype=bool),
        listed=np.zeros(size, dtype=bool),
    )


def number_needed(slots: Sequence[Distinct], starts: Sequence[int]) -> list[NDArray[np.int32]]:
    """Return for each slot the row of each lookup among the needed ones of the batch; -1 elsewhere.

    They are in the order of chunks, and in each chunk by slot.
    """
    numbers = [np.full(len(slot_rows), -1, dtype=np.int32) for slot_rows in slots]
    needed_rows = [np.flatnonzero(slot_rows.needed) for slot_rows in slots]
    rows = [slot_rows.row[needed] for slot_rows, needed in zip(slots, needed_rows, strict=True)]
    if not rows:
        return numbers
    slot = np.repeat(np.arange(len(slots)), [len(numbers_of_slot) for numbers_of_slot in rows])
    chunk = np.searchsorted(np.asarray(starts), np.concatenate(rows), side="right")
    order = np.lexsort((np.concatenate(needed_rows), slot, chunk))
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    for number, lookups in enumerate(numbers):
        lookups[needed_rows[number]] = rank[slot == number]
    return numbers
