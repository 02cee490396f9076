"""Shards: funded lookups, cut into pieces that are asked one by one.

In one process a shard is a convenience; among several it is the unit that one of them takes. Then
lookups that may spare each other stay together, since only who asks the one knows what becomes of
the other. Which lookups are funded is in `funding_rounds`, who takes which in `worker` and
`coordinator`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.planning.short_circuit import Chains, ShortCircuit, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nightscreen.files.workspace import Workspace

LEAST_ROWS = 50
"""Lookups that are worth a shard of their own for another process."""
SHARDS_A_WORKER = 4
"""Shards of a check for each worker, so that a quick one takes more of them than a slow one."""


@dataclass(slots=True)
class ShardLayout:
    """Where shards lie and how large they are.

    Attributes:
        space: where they lie, sealed.
        rows: most lookups of one shard.
        workers: processes that take them.
        chains: what waits for what; None where nothing does.
    """

    space: Workspace
    rows: int
    workers: int = 1
    chains: Chains | None = None
    _families: NDArray[np.int64] | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether other processes take shards."""
        return self.workers > 1

    def cut(self, lookups: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cut lookups of one check, in rank, into places of shards."""
        if not self.is_shared:
            return _slices(len(lookups), self.rows)
        even = math.ceil(len(lookups) / (self.workers * SHARDS_A_WORKER))
        rows = max(LEAST_ROWS, min(self.rows, even))
        if self.chains is None:
            return _slices(len(lookups), rows)
        return _whole_families(self.family_of(self.chains)[lookups], rows)

    def family_of(self, chains: Chains) -> NDArray[np.int64]:
        """Return for each needed lookup the family it is of."""
        if self._families is None:
            self._families = families(chains)
        return self._families


def _slices(number: int, rows: int) -> list[NDArray[np.int64]]:
    places = np.arange(number)
    return [places[start : start + rows] for start in range(0, number, rows)]


def families(chains: Chains) -> NDArray[np.int64]:
    """Return for each lookup a number it shares with all that wait for it, or it for them."""
    family = np.arange(chains.needed, dtype=np.int64)
    asked = chains.lookups >= 0
    while True:
        before = family.copy()
        lowest = np.where(asked, family[chains.lookups], chains.needed).min(axis=1)
        for column, used in zip(chains.lookups.T, asked.T, strict=True):
            np.minimum.at(family, column[used], lowest[used])
        family = family[family]
        if np.array_equal(family, before):
            return family


def _whole_families(family: NDArray[np.int64], rows: int) -> list[NDArray[np.int64]]:
    """Cut places into shards that hold whole families, in the order in which families begin."""
    _, first, inverse, sizes = np.unique(
        family, return_index=True, return_inverse=True, return_counts=True
    )
    in_order = np.argsort(first, kind="stable")
    begins = np.cumsum(sizes[in_order]) - sizes[in_order]
    shard = np.empty(len(first), dtype=np.int64)
    shard[in_order] = begins // rows
    mine = shard[inverse.reshape(-1)]
    return [np.flatnonzero(mine == number) for number in np.unique(mine)]


# --- what waits for what, taken along with a shard ---


def chains_of(
    chains: Chains, lookups: NDArray[np.int64], ended: NDArray[np.bool_], listed: NDArray[np.bool_]
) -> pa.Table:
    """Return the chains that touch some lookups: a line for each row, with how its lookups stand.

    Args:
        chains: those of the whole batch.
        lookups: the lookups of a shard.
        ended: needed lookups that have come to an end.
        listed: those of them that brought a listing.
    """
    here = np.zeros(chains.needed, dtype=bool)
    here[lookups] = True
    asked = chains.lookups >= 0
    rows = np.flatnonzero((asked & here[chains.lookups]).any(axis=1))
    columns: dict[str, pa.Array] = {"row_listed": pa.array(chains.listed[rows])}
    for place, kind in enumerate(chains.kinds):
        column = chains.lookups[rows, place]
        columns[f"lookup:{kind}"] = pa.array(column)
        columns[f"ended:{kind}"] = pa.array((column >= 0) & ended[column])
        columns[f"listed:{kind}"] = pa.array((column >= 0) & listed[column])
    return pa.table(columns)


@dataclass(slots=True)
class SparingOfShards:
    """Tells of each lookup what is to be done about it, as the shard it came with knows."""

    _of: dict[int, tuple[ShortCircuit, int]] = field(default_factory=dict)

    def add(self, table: pa.Table) -> None:
        """Take up the chains of one shard, as `chains_of` gives them."""
        kinds = [name.removeprefix("lookup:") for name in table.schema.names if "lookup:" in name]
        if not table.num_rows:
            return
        lookups = np.column_stack([table[f"lookup:{kind}"].to_numpy() for kind in kinds])
        numbers = np.unique(lookups[lookups >= 0])
        ended, listed = (np.zeros(len(numbers), dtype=bool) for _ in range(2))
        own = np.full(lookups.shape, -1, dtype=np.int32)
        for place, kind in enumerate(kinds):
            used = lookups[:, place] >= 0
            own[used, place] = np.searchsorted(numbers, lookups[used, place])
            for name, flags in (("ended", ended), ("listed", listed)):
                flags[own[used, place]] |= table[f"{name}:{kind}"].to_numpy()[used]
        rows = table["row_listed"].to_numpy()
        sparing = ShortCircuit(
            Chains(own, rows, tuple(kinds), len(numbers)), ended=ended, listed=listed
        )
        self._of.update({int(each): (sparing, place) for place, each in enumerate(numbers)})

    def step(self, index: int) -> Step:
        """Return what is to be done about a lookup now."""
        found = self._of.get(index)
        return Step.ASK if found is None else found[0].step(found[1])

    def hold(self, index: int, release: Callable[[], None]) -> None:
        """Call back once it is known whether a waiting lookup is to be asked."""
        sparing, place = self._of[index]
        sparing.hold(place, release)

    def end(self, index: int, *, listed: bool) -> None:
        """Take note that a lookup has come to its end."""
        found = self._of.get(index)
        if found is not None:
            found[0].end(found[1], listed=listed)
