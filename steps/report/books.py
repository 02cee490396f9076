"""Books: a balance opened and closed exactly, and what was lost between the two explained.

Works on calls as the journal has them; a pure reading, nothing is asked here. A few numbers a call
are kept until the end, 28 bytes, and balanced some at a time, so that millions fit.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nightscreen.steps.report.timeline import BLOCK_CALLS, NO_BALANCE, timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

UNKNOWN = NO_BALANCE
_MOST_SUMS = 2_000_000
_MOST_SAMPLED = 4096


@dataclass(frozen=True, slots=True)
class BookedCalls:
    """What the books need to know of some calls; instants in microseconds, money in micro-naira.

    Attributes:
        sent: when each was sent.
        settled: when each settled.
        lost: whether no answer to it is known, so that it may have been charged.
        reserved: its worst cost.
        cost: what it cost, `UNKNOWN` where that was not said.
        balance: what the answer said is left, `UNKNOWN` where it did not.
    """

    sent: NDArray[np.int64]
    settled: NDArray[np.int64]
    lost: NDArray[np.bool_]
    reserved: NDArray[np.int64]
    cost: NDArray[np.int64]
    balance: NDArray[np.int64]


@dataclass(slots=True)
class Narrow:
    """Whole numbers, four bytes each while all of them fit, else eight."""

    numbers: array[int] = field(default_factory=lambda: array("I"))

    def extend(self, numbers: NDArray[np.int64]) -> None:
        """Enter some numbers."""
        narrow = np.iinfo(np.uint32)
        fits = bool(((numbers >= narrow.min) & (numbers <= narrow.max)).all())
        if not fits and self.numbers.typecode != "q":
            self.numbers = array("q", self.numbers)
        self.numbers.frombytes(numbers.astype(self.numbers.typecode).tobytes())

    def view(self) -> NDArray[np.int64]:
        """Return the numbers where they lie; they cannot be added to while it is held."""
        return np.frombuffer(self.numbers, self.numbers.typecode)


@dataclass(slots=True)
class _Columns:
    """A run's calls, a number of each in every column; instants in microseconds, micro-naira.

    Attributes:
        settled: when each settled, after it was sent.
        took: from sending to settling.
        cost: what is known to have been charged.
        doubt: worst cost of a call in doubt, else 0.
        balance: what was told, else `NO_BALANCE`.
    """

    settled: array[int] = field(default_factory=lambda: array("q"))
    took: Narrow = field(default_factory=Narrow)
    cost: Narrow = field(default_factory=Narrow)
    doubt: Narrow = field(default_factory=Narrow)
    balance: array[int] = field(default_factory=lambda: array("q"))

    @property
    def bytes(self) -> int:
        """Return how much memory they take."""
        narrow = (each.numbers for each in (self.took, self.cost, self.doubt))
        return sum(len(each) * each.itemsize for each in (self.settled, self.balance, *narrow))

    def views(self) -> tuple[NDArray[np.int64], ...]:
        """Return the columns where they lie, in their order."""
        settled, balance = (np.frombuffer(each, np.int64) for each in (self.settled, self.balance))
        return settled, self.took.view(), self.cost.view(), self.doubt.view(), balance


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance over a run, in micro-naira; all None where no answer bore one.

    Attributes:
        drift_since: instant of the first answer whose balance neither known costs nor calls in
            doubt account for; None where there is no such one.
    """

    opening_micro: int | None
    closing_micro: int | None
    lowest_micro: int | None
    explained_in_doubt_micro: int
    drift_micro: int
    exact: bool
    drift_since: int | None = None


@dataclass(slots=True)
class Books:
    """Takes a run's calls, in any order, and balances them at the end.

    The opening is exact where the first call that bore a balance was alone on the wire; the closing
    where the last one was, and nothing after it is in doubt. What was in doubt before the opening
    lies outside the books, which then are not exact: no balance tells of it.

    Attributes:
        block: how many calls are balanced together.
        columns: the calls until the books are closed.
    """

    block: int = BLOCK_CALLS
    columns: _Columns = field(default_factory=_Columns)
    _told: tuple[Balance, dict[str, list[Any]]] | None = None

    def close(self) -> None:
        """Balance the books of a run whose calls are all entered, and keep nothing of each call."""
        self._told = self.balance(), self.timeline()
        self.columns = _Columns()

    def add(self, calls: BookedCalls) -> None:
        """Enter calls."""
        columns = self.columns
        settled = np.maximum(calls.sent + 1, calls.settled)
        unknown, told = calls.cost == UNKNOWN, calls.balance != UNKNOWN
        doubtful = calls.lost | (unknown & told)
        columns.settled.frombytes(settled.tobytes())
        columns.took.extend(settled - calls.sent)
        columns.cost.extend(np.where(unknown, 0, calls.cost))
        columns.doubt.extend(np.where(doubtful, calls.reserved, 0))
        columns.balance.frombytes(calls.balance.tobytes())

    def timeline(self) -> dict[str, list[Any]]:
        """Return balance, spending and answers over the run (`steps.report.timeline`)."""
        if self._told is not None:
            return self._told[1]
        settled, _, cost, doubt, balance = self.columns.views()
        return timeline(settled, cost, doubt, balance, block=self.block)

    def balance(self) -> Balance:
        """Return opening, closing and what lies between."""
        if self._told is not None:
            return self._told[0]
        sheet = _Sheet.of(self.columns, self.block)
        if not sheet.told.any():
            return Balance(None, None, None, 0, 0, exact=False)
        opening, opened_alone = sheet.opening()
        closing, closed_alone = sheet.closing()
        doubts = sheet.doubts_inside(alone=opened_alone)
        lost = opening - closing - int(sheet.cost.sum())
        explained = explain(lost, doubts)
        gaps = sheet.gaps()
        if gaps is None:
            drift_since = sheet.first_unexplained(opening) if lost != explained else None
        else:
            in_gaps, drift_since = sheet.explained(gaps)
            explained = min(explained, in_gaps)
        return Balance(
            opening,
            closing,
            sheet.lowest(),
            explained,
            lost - explained,
            opened_alone and closed_alone and not sheet.doubt[: sheet.first].any(),
            drift_since,
        )


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Where balances lost more than the cost of the next call.

    Attributes:
        lost: micro-naira.
        since: instant the call before the gap was sent.
        until: instant the call after the gap settled.
    """

    lost: NDArray[np.int64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    @classmethod
    def joined(cls, pieces: Iterable[_Gaps]) -> _Gaps:
        """Return the gaps of several pieces."""
        nothing = np.zeros(0, np.int64)
        found = [cls(nothing, nothing, nothing), *pieces]
        return cls(
            np.concatenate([each.lost for each in found]),
            np.concatenate([each.since for each in found]),
            np.concatenate([each.until for each in found]),
        )

    def near(self, sent: NDArray[np.int64], settled: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each gap how many of some calls were under way in it."""
        begun = np.searchsorted(np.sort(sent), self.until, side="right")
        over = np.searchsorted(np.sort(settled), np.minimum(self.since, self.until), side="left")
        found: NDArray[np.int64] = np.maximum(0, begun - over).astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The calls in the order they were sent, as arrays; `told` are those that bore a balance."""

    settled: NDArray[np.int64]
    took: NDArray[np.int64]
    cost: NDArray[np.int64]
    doubt: NDArray[np.int64]
    balance: NDArray[np.int64]
    told: NDArray[np.bool_]
    block: int

    @classmethod
    def of(cls, columns: _Columns, block: int) -> _Sheet:
        """Return the sheet of some columns, which are brought into order where they lie."""
        settled, took, cost, doubt, balance = views = columns.views()
        sheet = cls(settled, took, cost, doubt, balance, balance != UNKNOWN, block)
        sheet._put_in_order(*views, sheet.told)
        return sheet

    def _put_in_order(self, *columns: NDArray[Any]) -> None:
        """Sort calls by when they were sent.

        The journal has them nearly so: they are sorted in short stretches that overlap, and as a
        whole only where some were further away.
        """
        size = len(self.settled)
        starts = range(0, size, self.block)
        for start in starts:
            self._sort(slice(start, start + 2 * self.block), columns)
        pairs = (self.sent(slice(start, start + self.block + 1)) for start in starts)
        if any((each[1:] < each[:-1]).any() for each in pairs):
            self._sort(slice(0, size), columns)

    def _sort(self, here: slice, columns: Iterable[NDArray[Any]]) -> None:
        sent = self.sent(here)
        if (sent[1:] < sent[:-1]).any():
            order = np.argsort(sent, kind="stable").astype(np.uint32)
            del sent
            for column in columns:
                column[here] = column[here][order]

    def sent(self, places: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        """Return when some calls were sent."""
        return self.settled[places] - self.took[places]

    @property
    def first(self) -> int:
        """Return the place of the first call that bore a balance."""
        return int(self.told.argmax())

    def _blocks(self) -> Iterator[NDArray[np.int64]]:
        """Yield the places of calls that bore a balance, some at a time."""
        for start in range(0, len(self.told), self.block):
            yield start + np.flatnonzero(self.told[start : start + self.block])

    def lowest(self) -> int:
        """Return the lowest balance told."""
        return int(self.balance.min(where=self.told, initial=np.iinfo(np.int64).max))

    def opening(self) -> tuple[int, bool]:
        """Return the balance before the first call, and whether it is exact."""
        first = self.first
        if self._alone(first):
            had = int(self.balance[first]) + int(self.cost[first])
            return had + int(self.cost[:first].sum()), True
        had_most = [
            (self.balance[each] + self.cost[each]).max(initial=UNKNOWN) for each in self._blocks()
        ]
        return int(max(had_most)), False

    def closing(self) -> tuple[int, bool]:
        """Return the balance after the last call, and whether it is exact."""
        last = len(self.told) - 1 - int(self.told[::-1].argmax())
        sure_after = not self.doubt[last + 1 :].any()
        if self._alone(last) and sure_after:
            return int(self.balance[last]) - int(self.cost[last + 1 :].sum()), True
        return self.lowest(), False

    def _alone(self, place: int) -> bool:
        """Tell whether nothing else was under way while a call was."""
        before, after = self.settled[:place], slice(place + 1, place + 2)
        sent, settled = int(self.sent(slice(place, place + 1))[0]), int(self.settled[place])
        quiet_before = not len(before) or int(before.max()) <= sent
        return quiet_before and bool((self.sent(after) >= settled).all())

    def doubts_inside(self, *, alone: bool) -> Counter[int]:
        """Return how many calls in doubt of which worst cost the books must account for."""
        inside = self.doubt[self.first if alone else 0 :]
        costs, numbers = np.unique(inside[inside > 0], return_counts=True)
        return Counter(dict(zip(costs.tolist(), numbers.tolist(), strict=True)))

    def gaps(self) -> _Gaps | None:
        """Return what was lost between one balance and the next; None where money was paid in.

        While nothing is paid in the wallet only falls, so that balances tell the order of charges,
        whatever the order of answers; what a call's own cost does not account for was lost before
        it. Charges without a balance would hide in the gaps: then there are none to rely on.
        """
        if ((self.cost > 0) & ~self.told).any():
            return None
        found: list[_Gaps] = []
        ahead, newest = np.zeros(0, np.int64), UNKNOWN
        for places in self._falling():
            chain = np.concatenate([ahead, places])
            balance = self.balance[chain]
            lost = balance[:-1] - (balance[1:] + self.cost[chain[1:]])
            sent, settled = self.sent(chain), self.settled[chain]
            latest = np.maximum(np.maximum.accumulate(sent), newest)
            if (lost < 0).any() or (settled[1:] < latest[:-1]).any():
                return None
            open_ = np.flatnonzero(lost)
            found.append(_Gaps(lost[open_], sent[open_], settled[open_ + 1]))
            ahead, newest = chain[-1:], int(latest[-1])
        return _Gaps.joined(found)

    def _falling(self) -> Iterator[NDArray[np.int64]]:
        """Yield the places of calls that bore a balance, the highest first, some at a time."""
        number = int(self.told.sum())
        step = max(1, len(self.told) // _MOST_SAMPLED)
        sample = np.sort(self.balance[::step][self.told[::step]])
        cuts = sample[:: max(1, len(sample) * self.block // number)][1:] if number else sample
        limits = [UNKNOWN, *np.unique(cuts).tolist(), np.iinfo(np.int64).max]
        for low, high in zip(limits[-2::-1], limits[:0:-1], strict=True):
            places = np.flatnonzero((self.balance > low) & (self.balance <= high))
            if len(places):
                costs, balance = self.cost[places].astype(np.int64), self.balance[places]
                yield places[np.lexsort((-costs, -balance))]

    def explained(self, gaps: _Gaps) -> tuple[int, int | None]:
        """Return what calls in doubt account for, gap by gap, and when the first rest appeared.

        A gap is explained only by calls that were under way between its two answers; a service that
        we gave up on may charge for as long again.
        """
        near: dict[int, NDArray[np.int64]] = {}
        for cost in np.unique(self.doubt[self.doubt > 0]).tolist():
            mine = np.flatnonzero(self.doubt == cost)
            near[cost] = gaps.near(self.sent(mine), self.settled[mine] + self.took[mine])
        explained = np.zeros(len(gaps.lost), np.int64)
        for place in np.flatnonzero(sum(near.values(), explained)).tolist():
            doubts = Counter({cost: int(found[place]) for cost, found in near.items()})
            explained[place] = explain(int(gaps.lost[place]), doubts)
        moments = gaps.until[explained < gaps.lost]
        return int(explained.sum()), int(moments.min()) if len(moments) else None

    def first_unexplained(self, opening: int) -> int | None:
        """Return the instant of the first balance that costs and doubts cannot account for.

        Needs no order of charges, and so holds where money was paid in.

        What a balance knows of lies between the costs of calls that settled before its own was sent
        and those of calls that were sent before its own settled; calls in doubt may count or not.
        """
        moments = [*self._too_little(opening), *self._too_much(opening)]
        return min(moments) if moments else None

    def _too_little(self, opening: int) -> Iterator[int]:
        """Yield instants of balances that lost less than what surely was charged before them."""
        order = np.argsort(self.settled, kind="stable").astype(np.uint32)
        ends = self.settled[order]
        known = _running(self.cost[order])
        for told in self._blocks():
            least = known[np.searchsorted(ends, self.sent(told), side="right")] + self.cost[told]
            yield from self._first_of(told, opening - self.balance[told] < least)

    def _too_much(self, opening: int) -> Iterator[int]:
        """Yield instants of balances that lost more than what can have been charged before them."""
        begun = _running(self.cost, self.doubt)
        sent = self.sent(slice(None))
        for told in self._blocks():
            most = begun[np.searchsorted(sent, self.settled[told], side="right")]
            yield from self._first_of(told, opening - self.balance[told] > most)

    def _first_of(self, places: NDArray[np.int64], wrong: NDArray[np.bool_]) -> list[int]:
        moments = self.settled[places[wrong]]
        return [int(moments.min())] if len(moments) else []


def _running(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of columns up to each place, nothing at first."""
    sums = np.zeros(len(columns[0]) + 1, np.int64)
    for column in columns:
        sums[1:] += column
    return np.cumsum(sums, out=sums)


def explain(lost_micro: int, doubts: Counter[int]) -> int:
    """Return the most of a loss that calls in doubt can account for, each charged wholly or not.

    Args:
        lost_micro: what the balance lost beyond known costs; a gain explains nothing.
        doubts: how many calls in doubt there are of each worst cost.
    """
    if lost_micro <= 0:
        return 0
    reachable = {0}
    for cost, number in sorted(doubts.items(), reverse=True):
        if cost <= 0:
            continue
        most = min(number, lost_micro // cost)
        grown = {base + cost * times for base in reachable for times in range(most + 1)}
        reachable = {each for each in grown if each <= lost_micro}
        if len(reachable) > _MOST_SUMS:
            break
    return max(reachable)
