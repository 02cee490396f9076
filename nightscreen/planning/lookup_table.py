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
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import NEEDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nightscreen.files.workspace import Workspace

_CHECKS = tuple(check for check in CHECKS)
_KINDS = tuple(kind.value for kind in IdentityKind)
PLANNED = "needed"
"""Is in the workspace of a run once all its needed lookups are."""
_PIECE = "needed-{:05d}"
RANKED_AT_ONCE = 400_000
"""Lookups in memory at a time while they are put in rank: each time all pieces are read once."""
_NAMES = ("check", "kind", "tier", "exposure_kobo", "row")


def check_number(check: str) -> int:
    """Return the number of a check."""
    return _CHECKS.index(check)


def kind_number(kind: str) -> int:
    """Return the number of a kind of identity."""
    return _KINDS.index(kind)


@dataclass(frozen=True, slots=True)
class LookupRanking:
    """The columns that rank and price the needed lookups of a batch, an array each.

    Attributes:
        check: the check's number (`check_number`).
        kind: the number of the kind of identity (`kind_number`).
        tier: 0 where the customer was never screened, else 1.
        exposure_kobo: naira at risk in kobo, -1 where it is unknown.
        row: the batch's row in whose name the call is made.
    """

    check: NDArray[np.int8]
    kind: NDArray[np.int8]
    tier: NDArray[np.int8]
    exposure_kobo: NDArray[np.int64]
    row: NDArray[np.int32]

    @classmethod
    def of(cls, table: pa.Table) -> LookupRanking:
        """Return what ranks the lookups of a table in the shape of `schemas.plan.NEEDED`."""
        return cls(
            _numbers(table["check"], _CHECKS),
            _numbers(table["kind"], _KINDS),
            table["tier"].to_numpy(),
            table["exposure_kobo"].to_numpy(),
            table["row"].to_numpy().astype(np.int32),
        )

    @classmethod
    def joined(cls, parts: Sequence[LookupRanking]) -> LookupRanking:
        """Return the lookups of some parts one after the other."""
        parts = parts or [cls.of(NEEDED.empty_table())]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _NAMES))

    def __len__(self) -> int:
        return len(self.check)

    def is_of(self, check: str, kind: str | None = None) -> NDArray[np.bool_]:
        """Return which lookups are of a check, and of a kind of identity where one is given."""
        of_check: NDArray[np.bool_] = self.check == check_number(check)
        return of_check if kind is None else of_check & (self.kind == kind_number(kind))

    def take(self, places: NDArray[np.bool_]) -> LookupRanking:
        """Return some of the lookups."""
        return LookupRanking(*(getattr(self, name)[places] for name in _NAMES))

    def slots(self) -> list[tuple[str, str]]:
        """Return each check and kind of identity there are lookups of, sorted."""
        both = np.unique(self.check.astype(np.int16) * len(_KINDS) + self.kind)
        return sorted(
            (_CHECKS[number // len(_KINDS)], _KINDS[number % len(_KINDS)]) for number in both
        )


def _numbers(column: pa.ChunkedArray, words: tuple[str, ...]) -> NDArray[np.int8]:
    """Return the place of each word among all that there are."""
    found = pc.index_in(column, value_set=pa.array(words))
    numbers: NDArray[np.int8] = found.to_numpy().astype(np.int8)
    return numbers


@dataclass(slots=True)
class NeededPieces:
    """The needed lookups of a run, sealed in pieces, in the shape of `schemas.plan.NEEDED`.

    Attributes:
        space: the run's workspace.
        ends: number of the first lookup after each piece; pieces without any are not written.
    """

    space: Workspace
    ends: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def add(self, piece: pa.Table) -> None:
        """Seal the lookups of the next chunk."""
        if piece.num_rows:
            self.space.put(_PIECE.format(len(self.ends)), piece)
            self.ends.append(len(self) + piece.num_rows)

    def seal(self) -> None:
        """Record that all pieces are there: an erasure then knows whom the run is about."""
        self.space.put(PLANNED, pa.table({"end": pa.array(self.ends, pa.int64())}))

    def _piece(self, number: int) -> tuple[int, pa.Table]:
        """Return the number of a piece's first lookup, and the piece."""
        start = self.ends[number - 1] if number else 0
        return start, self.space.get(_PIECE.format(number))

    def pieces(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the number of each piece's first lookup, and the piece."""
        for number in range(len(self.ends)):
            yield self._piece(number)

    def in_rank(self, order: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int32], pa.Table]]:
        """Yield the lookups in rank, a portion at a time: their numbers, and their rows.

        Args:
            order: the numbers of all lookups, most important first.
        """
        for start in range(0, len(order), RANKED_AT_ONCE):
            numbers = order[start : start + RANKED_AT_ONCE]
            ascending = np.sort(numbers)
            bounds = np.searchsorted(ascending, [0, *self.ends])
            found = []
            for place in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
                first, piece = self._piece(place)
                wanted = ascending[bounds[place] : bounds[place + 1]] - first
                found.append(piece.take(pa.array(wanted)))
            places = np.searchsorted(ascending, numbers)
            yield numbers, pa.concat_tables(found).take(pa.array(places))
