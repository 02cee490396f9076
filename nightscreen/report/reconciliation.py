"""Reconciliation: what the wallet lost over a run, compared with the known cost of its calls.

Works on calls as the journal has them; a pure reading, nothing is asked here. A few numbers a call
are stored until the end, 28 bytes, so that millions fit.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nightscreen.report.timeline import BLOCK_CALLS, NO_BALANCE, timeline
from nightscreen.schemas.clock import MICROS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LATE_MICROS = 300 * MICROS
"""A call whose answer was lost is charged as long after as it took so far, but not later than this:
four times the longest timeout by default."""
_FIRST_LOOK = 8
"""How many calls next to an end of the run are tried first to confirm its balance."""


@dataclass(frozen=True, slots=True)
class WalletCalls:
    """The data of calls that the reconciliation needs; instants in microseconds, micro-naira.

    Attributes:
        sent: when each was sent.
        settled: when each settled.
        cost: its known cost, else 0.
        doubt: the most it may have cost if that is not known, else 0.
        balance: the balance in the answer, else `NO_BALANCE`.
    """

    sent: NDArray[np.int64]
    settled: NDArray[np.int64]
    cost: NDArray[np.int64]
    doubt: NDArray[np.int64]
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
        """Return the numbers without copying; none can be added while the view is held."""
        return np.frombuffer(self.numbers, self.numbers.typecode)


@dataclass(slots=True)
class _Columns:
    """A run's calls, a number of each in every column, as `WalletCalls` has them.

    Attributes:
        settled: when each settled, after it was sent.
        took: from sending to settling.
    """

    settled: array[int] = field(default_factory=lambda: array("q"))
    took: Narrow = field(default_factory=Narrow)
    cost: Narrow = field(default_factory=Narrow)
    doubt: Narrow = field(default_factory=Narrow)
    balance: array[int] = field(default_factory=lambda: array("q"))

    @property
    def bytes(self) -> int:
        """Return how much memory they take."""
        narrow = (column.numbers for column in (self.took, self.cost, self.doubt))
        return sum(
            len(numbers) * numbers.itemsize for numbers in (self.settled, self.balance, *narrow)
        )

    def views(self) -> tuple[NDArray[np.int64], ...]:
        """Return the columns without copying, in their order."""
        settled, balance = (
            np.frombuffer(column, np.int64) for column in (self.settled, self.balance)
        )
        return settled, self.took.view(), self.cost.view(), self.doubt.view(), balance


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance over a run, in micro-naira; all None if no answer had one.

    Attributes:
        drift_since: instant of the first answer whose balance neither known costs nor calls in
            doubt account for; None if there is none.
    """

    opening_micro: int | None
    closing_micro: int | None
    lowest_micro: int | None
    explained_in_doubt_micro: int
    drift_micro: int
    exact: bool
    drift_since: int | None = None


@dataclass(slots=True)
class BalanceReconciliation:
    """Takes a run's calls, in any order, and reconciles them with the balances at the end.

    A call in doubt accounts for any amount up to its worst cost: that is reserved at the highest
    price known, and the service may have charged less.

    An end is exact where its call was alone on the wire and settled at a known cost, where no call
    in doubt may have been charged outside of it, and where other balances confirm it: the service
    may report the balance before the call's charge, which one balance alone does not show.

    Attributes:
        block: how many calls are looked at together; far more than are ever in flight.
        columns: the calls until it is closed.
    """

    block: int = BLOCK_CALLS
    columns: _Columns = field(default_factory=_Columns)
    _found: tuple[Balance, dict[str, list[Any]]] | None = None

    def close(self) -> None:
        """Reconcile a run whose calls are all entered, and keep nothing of each call."""
        self._found = self.balance(), self.timeline()
        self.columns = _Columns()

    def add(self, calls: WalletCalls) -> None:
        """Enter calls."""
        columns = self.columns
        settled = np.maximum(calls.sent + 1, calls.settled)
        columns.settled.frombytes(settled.tobytes())
        columns.took.extend(settled - calls.sent)
        columns.cost.extend(calls.cost)
        columns.doubt.extend(calls.doubt)
        columns.balance.frombytes(calls.balance.tobytes())

    def timeline(self) -> dict[str, list[Any]]:
        """Return balance, spending and answers over the run (`report.timeline`)."""
        if self._found is not None:
            return self._found[1]
        settled, _, cost, doubt, balance = self.columns.views()
        return timeline(settled, cost, doubt, balance, block=self.block)

    def balance(self) -> Balance:
        """Return opening, closing and what is between."""
        if self._found is not None:
            return self._found[0]
        calls = _Calls.of(self.columns, self.block)
        if not calls.told.any():
            return Balance(None, None, None, 0, 0, exact=False)
        opening, opening_exact = calls.opening()
        closing, closing_exact = calls.closing()
        lost = opening - closing - int(calls.cost.sum())
        explained = min(max(0, lost), calls.in_doubt())
        gaps = calls.gaps()
        if gaps is None:
            drift_since = calls.first_unexplained(opening) if lost != explained else None
        else:
            in_gaps, drift_since = gaps
            explained = min(explained, in_gaps)
        return Balance(
            opening,
            closing,
            calls.lowest(),
            explained,
            lost - explained,
            opening_exact and closing_exact and not calls.lag(),
            drift_since,
        )


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls in the order they were sent, as arrays; `told` are those with a balance."""

    settled: NDArray[np.int64]
    took: NDArray[np.int64]
    cost: NDArray[np.int64]
    doubt: NDArray[np.int64]
    balance: NDArray[np.int64]
    told: NDArray[np.bool_]
    block: int

    @classmethod
    def of(cls, columns: _Columns, block: int) -> _Calls:
        """Return the calls of some columns, which are sorted in place.

        The journal has them nearly so: they are sorted in short stretches that overlap, and as a
        whole only where some were further away.
        """
        settled, took, cost, doubt, balance = columns.views()
        calls = cls(settled, took, cost, doubt, balance, balance != NO_BALANCE, block)
        size = len(settled)
        for start in range(0, size, block):
            calls._sort(slice(start, start + 2 * block))
        if not calls._in_order():
            calls._sort(slice(0, size))
        return calls

    def _in_order(self) -> bool:
        starts = range(0, len(self.settled), self.block)
        parts = (self.sent(slice(start, start + self.block + 1)) for start in starts)
        return not any((part[1:] < part[:-1]).any() for part in parts)

    def _sort(self, part: slice) -> None:
        sent = self.sent(part)
        if (sent[1:] < sent[:-1]).any():
            order = np.argsort(sent, kind="stable").astype(np.uint32)
            del sent
            columns = (self.settled, self.took, self.cost, self.doubt, self.balance, self.told)
            for column in columns:
                column[part] = column[part][order]

    def sent(self, indices: NDArray[np.int64] | slice) -> NDArray[np.int64]:
        """Return when some calls were sent."""
        return self.settled[indices] - self.took[indices]

    def lowest(self) -> int:
        """Return the lowest balance reported."""
        return int(self.balance.min(where=self.told, initial=np.iinfo(np.int64).max))

    def _blocks(self) -> Iterator[tuple[NDArray[np.int64], bool]]:
        """Yield indices of calls with a balance, some at a time, and whether they are the last."""
        for start in range(0, len(self.told), self.block):
            end = start + self.block
            yield start + np.flatnonzero(self.told[start:end]), end >= len(self.told)

    # --- both ends ---

    @property
    def first(self) -> int:
        """Return the index of the first call with a balance."""
        return int(self.told.argmax())

    def in_doubt(self) -> int:
        """Return the worst cost of calls that may have been charged after the opening."""
        return int(self.doubt[self.first if self._alone(self.first) else 0 :].sum())

    def opening(self) -> tuple[int, bool]:
        """Return the balance before the first call, and whether it is exact."""
        first = self.first
        if not self._alone(first) or self.doubt[first]:
            had = self.balance[self.told] + self.cost[self.told]
            return int(had.max()), False
        before = int(self.cost[:first].sum())
        exact = not self.doubt[:first].any() and self._is_confirmed(last=False)
        return int(self.balance[first]) + int(self.cost[first]) + before, exact

    def closing(self) -> tuple[int, bool]:
        """Return the balance after the last call, and whether it is exact."""
        last = len(self.told) - 1 - int(self.told[::-1].argmax())
        if not self._alone(last) or self.doubt[last:].any():
            return self.lowest(), False
        doubtful = np.flatnonzero(self.doubt)
        late = self.settled[doubtful] + np.minimum(self.took[doubtful], _LATE_MICROS)
        sent = int(self.sent(slice(last, last + 1))[0])
        exact = not (late > sent).any() and self._is_confirmed(last=True)
        return int(self.balance[last]) - int(self.cost[last + 1 :].sum()), exact

    def _alone(self, index: int) -> bool:
        """Return whether nothing else was under way while a call was."""
        before, after = self.settled[:index], slice(index + 1, index + 2)
        sent, settled = int(self.sent(slice(index, index + 1))[0]), int(self.settled[index])
        quiet_before = not len(before) or int(before.max()) <= sent
        return quiet_before and bool((self.sent(after) >= settled).all())

    def _is_confirmed(self, *, last: bool) -> bool:
        """Return whether the first or last balance is confirmed by those next to it.

        A balance from before its own call is off by that call's cost. Two such balances in a row
        agree with each other only where both calls cost the same. So an end is confirmed by a chain
        of balances without a gap in which not all calls cost the same.
        """
        part = self.told[-self.block :] if last else self.told[: self.block]
        near = np.flatnonzero(part)
        near = (near + len(self.told) - len(part))[::-1] if last else near
        if not self.cost[near].any():
            return True
        size = _FIRST_LOOK
        while True:
            chain, lost = self._chain(near[:size])
            breaks = np.append((lost != 0) | self._contradicts(chain), True)
            if last:
                chain, breaks = chain[::-1], np.append(breaks[-2::-1], True)
            reach = int(breaks.argmax()) + 1
            differ = self.cost[chain[:reach]] != self.cost[near[0]]
            if chain[0] == near[0] and differ.any():
                return True
            if size >= len(near):
                return False
            size *= 2

    def lag(self) -> bool:
        """Return whether balances seem to come from before the last charge, throughout.

        Then what is lost from one charge to the next is what the call before cost. That shows it
        where the price differs, and shows nothing where it is the same.
        """
        charged = np.flatnonzero(self.told[: self.block] & (self.cost[: self.block] > 0))
        chain, lost = self._chain(charged)
        other = self.cost[chain[1:]] != self.cost[chain[:-1]]
        return bool(other.any() and 2 * int((lost[other] == 0).sum()) < int(other.sum()))

    def _chain(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return calls from the highest balance to the lowest, and what was lost before each.

        While nothing is paid in the wallet only falls, so that balances show the order of charges,
        whatever the order of answers; what a call's own cost does not account for was lost before
        it.
        """
        cost, balance = self.cost[indices].astype(np.int64), self.balance[indices]
        order = np.lexsort((-cost, -balance))
        cost, balance = cost[order], balance[order]
        return indices[order], balance[:-1] - balance[1:] - cost[1:]

    def _contradicts(self, chain: NDArray[np.int64], newest: int = NO_BALANCE) -> NDArray[np.bool_]:
        """Which calls of a chain settled before one above them was sent, all but the first."""
        latest = np.maximum(np.maximum.accumulate(self.sent(chain)), newest)
        found: NDArray[np.bool_] = self.settled[chain][1:] < latest[:-1]
        return found

    # --- what was lost between the ends ---

    def gaps(self) -> tuple[int, int | None] | None:
        """Return what calls in doubt account for, gap by gap, and when the first rest appeared.

        A gap is explained only by calls that were under way between its two answers; a service that
        we gave up on may charge for as long again. None if money was paid in, or if charges without
        a balance would hide in the gaps: then no chain is reliable.
        """
        if ((self.cost > 0) & ~self.told).any():
            return None
        doubts = _Doubts.of(self)
        explained, moments, newest = 0, [], NO_BALANCE
        rest = np.zeros(0, np.int64)
        for indices, is_last in self._blocks():
            chain, lost = self._chain(np.concatenate([rest, indices]))
            if newest != NO_BALANCE and chain[0] != rest[0]:
                return None  # a balance above those that were looked at before: money was paid in
            sure = len(chain) if is_last else len(chain) - self.block
            if sure < 1:  # what comes next may belong anywhere among these
                rest = chain
                continue
            rest = chain[sure - 1 :]
            chain, lost = chain[:sure], lost[: sure - 1]
            if (lost < 0).any() or self._contradicts(chain, newest).any():
                return None
            sent, settled = self.sent(chain), self.settled[chain]
            newest = max(newest, int(sent.max()))
            at = np.flatnonzero(lost)
            within = np.minimum(lost[at], doubts.under_way(sent[at], settled[at + 1]))
            explained += int(within.sum())
            moments += settled[at + 1][within < lost[at]].tolist()
        return explained, min(moments, default=None)

    def first_unexplained(self, opening: int) -> int | None:
        """Return the instant of the first balance that costs and doubts cannot account for.

        Needs no order of charges, and so holds where money was paid in: the charges included in a
        balance are between the costs of calls that settled before its own was sent and those of
        calls that were sent before its own settled; calls in doubt may count or not.
        """
        order = np.argsort(self.settled, kind="stable").astype(np.uint32)
        ends, surely = self.settled[order], _running(self.cost[order])
        sent, perhaps = self.sent(slice(None)), _running(self.cost, self.doubt)
        moments: list[int] = []
        for indices, _ in self._blocks():
            lost = opening - self.balance[indices]
            settled = self.settled[indices]
            least = surely[np.searchsorted(ends, self.sent(indices), side="right")]
            most = perhaps[np.searchsorted(sent, settled, side="right")]
            wrong = (lost < least + self.cost[indices]) | (lost > most)
            moments += settled[wrong].tolist()
        return min(moments, default=None)


@dataclass(frozen=True, slots=True)
class _Doubts:
    """Calls in doubt by when they were sent, and by when they can be charged no more."""

    sent: NDArray[np.int64]
    begun: NDArray[np.int64]
    ends: NDArray[np.int64]
    over: NDArray[np.int64]

    @classmethod
    def of(cls, calls: _Calls) -> _Doubts:
        """Return those of some calls."""
        indices = np.flatnonzero(calls.doubt)
        sent, most = calls.sent(indices), calls.doubt[indices]
        ends = calls.settled[indices] + calls.took[indices]
        order = np.argsort(ends)
        return cls(sent, _running(most), ends[order], _running(most[order]))

    def under_way(self, since: NDArray[np.int64], until: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the worst cost of those that were under way between some instants and others."""
        begun = self.begun[np.searchsorted(self.sent, until, side="right")]
        over = self.over[np.searchsorted(self.ends, np.minimum(since, until), side="left")]
        found: NDArray[np.int64] = begun - over
        return found


def _running(*columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sums of columns up to each place, nothing at first."""
    sums = np.zeros(len(columns[0]) + 1, np.int64)
    for column in columns:
        sums[1:] += column
    return np.cumsum(sums, out=sums)
