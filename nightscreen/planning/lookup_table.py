"""Needed lookups: the columns that rank them are in memory, the rest is sealed by chunk.

A lookup is known by its number: its index in the order of chunks, as the plan found it. Identities
and consents are read again only where they are asked, a piece at a time. Finding what is needed is
`plan`'s, its order `price`'s.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import NEEDED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nightscreen.files.workspace import Workspace

_CHECKS = tuple(check for check in CHECKS)
_KINDS = tuple(kind.value for kind in IdentityKind)
PLANNED = "needed"
"""Is in the workspace of a run once all its needed lookups are."""
_PIECE = "needed-{:05d}"
_SORTING = "sorting-{:03d}-{:03d}"
_PLACE = "place"
SORTED_AT_ONCE = 100_000
"""Lookups in memory at a time while those of a round are sorted into shards."""
_MOST_GROUPS = 64
_NAMES = ("check", "kind", "tier", "exposure_kobo", "row")


def check_number(check: str) -> int:
    """Return the number of a check."""
    return _CHECKS.index(check)


def kind_number(kind: str) -> int:
    """Return the number of a kind of identity."""
    return _KINDS.index(kind)


def check_of(number: int) -> str:
    """Return the check of a number."""
    return _CHECKS[number]


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

    def slimmed(self) -> LookupRanking:
        """Return what is still asked once all is ranked and priced: of which check each is."""
        return replace(self, **{name: getattr(self, name)[:0].copy() for name in _NAMES[2:]})

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
        """Record that all pieces are there: observers then know that the run has planned."""
        self.space.put(PLANNED, pa.table({"end": pa.array(self.ends, pa.int64())}))

    def _piece(self, number: int) -> tuple[int, pa.Table]:
        """Return the number of a piece's first lookup, and the piece."""
        start = self.ends[number - 1] if number else 0
        return start, self.space.get(_PIECE.format(number))

    def pieces(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the number of each piece's first lookup, and the piece."""
        for number in range(len(self.ends)):
            yield self._piece(number)

    def one(self, index: int) -> pa.Table:
        """Return one lookup."""
        start, piece = self._piece(int(np.searchsorted(self.ends, index, side="right")))
        return piece.slice(index - start, 1)

    def shards(self, shards: Sequence[NDArray[np.int64]]) -> Iterator[pa.Table]:
        """Yield the lookups of each shard in turn, each in its order.

        Every piece is read once. A table too large for memory is sorted through the
        workspace: its pieces are split into groups of shards, then the groups are read one by one.

        Args:
            shards: numbers of lookups; a lookup is in one shard at most.
        """
        sizes = np.array([len(shard) for shard in shards], dtype=np.int64)
        most = max(SORTED_AT_ONCE, math.ceil(int(sizes.sum()) / _MOST_GROUPS))
        starts = np.cumsum(sizes) - sizes
        groups, first = np.unique(starts // most, return_index=True)
        places = _Places.of(shards)
        if len(groups) <= 1:
            tables = list(self._chosen(places))
            yield from _cut(tables, sizes)
            return
        runs = self._spill(places, starts[first], most)
        for number, group_sizes in enumerate(np.split(sizes, first[1:])):
            names = [_SORTING.format(run, number) for run in range(runs)]
            yield from _cut([self.space.get(name) for name in names], group_sizes)
            for name in names:
                self.space.drop(name)

    def _chosen(self, places: _Places) -> Iterator[pa.Table]:
        """Yield those lookups of each piece that are in a shard, with their places."""
        bounds = np.searchsorted(places.indexes, [0, *self.ends])
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            if begin < end:
                start, piece = self._piece(number)
                selected = piece.take(pa.array(places.indexes[begin:end] - start))
                yield selected.append_column(_PLACE, pa.array(places.places[begin:end]))

    def _spill(self, places: _Places, begins: NDArray[np.int64], most: int) -> int:
        """Seal the lookups in runs of some pieces, each run apart by group; return how many."""
        runs, held, rows = 0, [], 0
        for table in self._chosen(places):
            held.append(table)
            rows += table.num_rows
            if rows >= most:
                self._put_run(runs, held, begins)
                runs, held, rows = runs + 1, [], 0
        if held:
            self._put_run(runs, held, begins)
            runs += 1
        return runs

    def _put_run(self, run: int, held: list[pa.Table], begins: NDArray[np.int64]) -> None:
        table = pa.concat_tables(held)
        group = np.searchsorted(begins, table[_PLACE].to_numpy(), side="right") - 1
        order = np.argsort(group, kind="stable")
        bounds = np.searchsorted(group[order], np.arange(len(begins) + 1))
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            part = table.take(pa.array(order[begin:end]))
            self.space.put(_SORTING.format(run, number), part.combine_chunks())


@dataclass(frozen=True, slots=True)
class _Places:
    """Lookups in ascending order, and the place of each in the order of the shards."""

    indexes: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, shards: Iterable[NDArray[np.int64]]) -> _Places:
        """Return the places of the lookups of some shards."""
        indexes = np.concatenate([np.zeros(0, np.int64), *shards])
        places = np.argsort(indexes, kind="stable")
        return cls(indexes[places], places)


def _cut(tables: Sequence[pa.Table], sizes: NDArray[np.int64]) -> Iterator[pa.Table]:
    """Yield shards of the given sizes from the lookups of all of them."""
    if not tables:
        return
    together = pa.concat_tables(tables)
    order = np.argsort(together[_PLACE].to_numpy(), kind="stable")
    plain = together.drop_columns([_PLACE])
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        yield plain.take(pa.array(order[start : start + size])).combine_chunks()
