"""Books: a balance opened and closed exactly, and what was lost between the two explained.

Works on calls as the journal has them; a pure reading, nothing is asked here. A few numbers a call
are kept until the end, some forty bytes, so that millions fit.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from steps.report.timeline import NO_BALANCE, timeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

IN_DOUBT, INTENT = "in_doubt", "intent"
_MOST_SUMS = 2_000_000
_NONE = NO_BALANCE


@dataclass(frozen=True, slots=True)
class BookedCall:
    """What the books need to know of a call; instants in microseconds, money in micro-naira."""

    sent_at: int
    settled_at: int
    state: str
    reserved_micro: int
    cost_micro: int | None
    balance_micro: int | None


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
    """

    _sent: array[int] = field(default_factory=lambda: array("q"))
    _settled: array[int] = field(default_factory=lambda: array("q"))
    _cost: array[int] = field(default_factory=lambda: array("q"))
    _doubt: array[int] = field(default_factory=lambda: array("q"))
    _balance: array[int] = field(default_factory=lambda: array("q"))
    _told: tuple[Balance, dict[str, list[Any]]] | None = None

    def close(self) -> None:
        """Balance the books of a run whose calls are all entered, and keep nothing of each call."""
        self._told = self.balance(), self.timeline()
        for column in (self._sent, self._settled, self._cost, self._doubt, self._balance):
            del column[:]

    def add(self, calls: Iterable[BookedCall]) -> None:
        """Enter calls."""
        for call in calls:
            unknown = call.cost_micro is None
            doubtful = call.state in {IN_DOUBT, INTENT} or (
                unknown and call.balance_micro is not None
            )
            self._sent.append(call.sent_at)
            self._settled.append(max(call.sent_at + 1, call.settled_at))
            self._cost.append(call.cost_micro or 0)
            self._doubt.append(call.reserved_micro if doubtful else 0)
            self._balance.append(_NONE if call.balance_micro is None else call.balance_micro)

    def timeline(self) -> dict[str, list[Any]]:
        """Return balance, spending and answers over the run (`steps.report.timeline`)."""
        if self._told is not None:
            return self._told[1]
        columns = (self._settled, self._cost, self._doubt, self._balance)
        return timeline(*(np.frombuffer(column, np.int64) for column in columns))

    def balance(self) -> Balance:
        """Return opening, closing and what lies between."""
        if self._told is not None:
            return self._told[0]
        sheet = _Sheet.of(self._sent, self._settled, self._cost, self._doubt, self._balance)
        if not len(sheet.told):
            return Balance(None, None, None, 0, 0, exact=False)
        opening, opened_alone = sheet.opening()
        closing, closed_alone = sheet.closing()
        doubts = Counter(sheet.doubts_inside(alone=opened_alone))
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
            int(sheet.balance[sheet.told].min()),
            explained,
            lost - explained,
            opened_alone and closed_alone and not sheet.doubt[: sheet.told[0]].any(),
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

    def near(self, sent: NDArray[np.int64], settled: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each gap how many of some calls were under way in it."""
        begun = np.searchsorted(np.sort(sent), self.until, side="right")
        over = np.searchsorted(np.sort(settled), np.minimum(self.since, self.until), side="left")
        found: NDArray[np.int64] = np.maximum(0, begun - over).astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class _Sheet:
    """The calls as arrays, in the order they were sent; `told` are those that bore a balance."""

    sent: NDArray[np.int64]
    settled: NDArray[np.int64]
    cost: NDArray[np.int64]
    doubt: NDArray[np.int64]
    balance: NDArray[np.int64]
    told: NDArray[np.int64]

    @classmethod
    def of(cls, *columns: array[int]) -> _Sheet:
        """Return the sheet of five columns, which are brought into order where they lie."""
        plain = [np.frombuffer(column, np.int64) for column in columns]
        order = np.argsort(plain[0], kind="stable")
        for column in plain:
            column[:] = column[order]
        sent, settled, cost, doubt, balance = plain
        return cls(sent, settled, cost, doubt, balance, np.flatnonzero(balance != _NONE))

    def opening(self) -> tuple[int, bool]:
        """Return the balance before the first call, and whether it is exact."""
        first = int(self.told[0])
        before = self.settled[:first]
        after = self.sent[first + 1 :]
        quiet_before = not len(before) or int(before.max()) <= int(self.sent[first])
        quiet_after = not len(after) or int(after[0]) >= int(self.settled[first])
        had = self.balance[self.told] + self.cost[self.told]
        if quiet_before and quiet_after:
            return int(had[0]) + int(self.cost[:first].sum()), True
        return int(had.max()), False

    def closing(self) -> tuple[int, bool]:
        """Return the balance after the last call, and whether it is exact."""
        last = int(self.told[-1])
        before, after = self.settled[:last], self.sent[last + 1 :]
        quiet_before = not len(before) or int(before.max()) <= int(self.sent[last])
        quiet_after = not len(after) or int(after[0]) >= int(self.settled[last])
        sure_after = not self.doubt[last + 1 :].any()
        if quiet_before and quiet_after and sure_after:
            return int(self.balance[last]) - int(self.cost[last + 1 :].sum()), True
        return int(self.balance[self.told].min()), False

    def doubts_inside(self, *, alone: bool) -> list[int]:
        """Return the worst costs of calls in doubt that the books must account for."""
        start = int(self.told[0]) if alone else 0
        inside = self.doubt[start:]
        return [int(each) for each in inside[inside > 0]]

    def gaps(self) -> _Gaps | None:
        """Return what was lost between one balance and the next; None where money was paid in.

        While nothing is paid in the wallet only falls, so that balances tell the order of charges,
        whatever the order of answers; what a call's own cost does not account for was lost before
        it. Charges without a balance would hide in the gaps: then there are none to rely on.
        """
        if ((self.cost > 0) & (self.balance == _NONE)).any():
            return None
        balance, had = self.balance[self.told], self.cost[self.told]
        np.negative(balance, out=balance)
        np.negative(had, out=had)
        order = np.lexsort((had, balance))
        had += balance
        balance, had = balance[order], had[order]
        lost = np.subtract(had[1:], balance[:-1], out=had[1:])
        del balance
        chain = self.told[order]
        del order
        if (lost < 0).any() or self._out_of_turn(chain):
            return None
        open_ = np.flatnonzero(lost)
        return _Gaps(lost[open_], self.sent[chain[open_]], self.settled[chain[open_ + 1]])

    def _out_of_turn(self, chain: NDArray[np.int64]) -> bool:
        """Tell whether a call of a chain settled before one ahead of it was sent."""
        newest = np.maximum.accumulate(self.sent[chain])
        return bool((self.settled[chain][1:] < newest[:-1]).any())

    def explained(self, gaps: _Gaps) -> tuple[int, int | None]:
        """Return what calls in doubt account for, gap by gap, and when the first rest appeared.

        A gap is explained only by calls that were under way between its two answers; a service that
        we gave up on may charge for as long again.
        """
        late = 2 * self.settled - self.sent
        near = {
            int(cost): gaps.near(self.sent[self.doubt == cost], late[self.doubt == cost])
            for cost in np.unique(self.doubt[self.doubt > 0])
        }
        explained, since = 0, None
        for place, lost in enumerate(gaps.lost.tolist()):
            part = explain(lost, Counter({cost: int(found[place]) for cost, found in near.items()}))
            explained += part
            moment = int(gaps.until[place])
            if part < lost and (since is None or moment < since):
                since = moment
        return explained, since

    def first_unexplained(self, opening: int) -> int | None:
        """Return the instant of the first balance that costs and doubts cannot account for.

        Needs no order of charges, and so holds where money was paid in.

        What a balance knows of lies between the costs of calls that settled before its own was sent
        and those of calls that were sent before its own settled; calls in doubt may count or not.
        """
        settled_order = np.argsort(self.settled, kind="stable")
        ends = self.settled[settled_order]
        known = np.concatenate(([0], np.cumsum(self.cost[settled_order])))
        begun = np.concatenate(([0], np.cumsum(self.cost + self.doubt)))
        told = self.told
        own = self.cost[told]
        least = known[np.searchsorted(ends, self.sent[told], side="right")] + own
        most = begun[np.searchsorted(self.sent, self.settled[told], side="right")]
        lost = opening - self.balance[told]
        wrong = (lost < least) | (lost > most)
        moments = self.settled[told][wrong]
        return int(moments.min()) if len(moments) else None


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
