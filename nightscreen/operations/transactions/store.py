"""Pulled data in the journal: every version of every record, sealed, and how each pull ended.

One database transaction compares a list with what is known and saves it, so that a crash leaves all
of it or nothing. The service has no cursor: every pull brings the whole list, or as much of it as
the service cares to send. A list that lacks suspiciously much removes nothing until another pull
confirms it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import insert, literal, select, union_all, update

from nightscreen.journal.engine import reading, writing
from nightscreen.journal.records import Records
from nightscreen.journal.schema import TRANSACTION, records, transaction_records
from nightscreen.journal.statements import blocks
from nightscreen.schemas.pulls import (
    KEPT,
    Answered,
    Difference,
    Known,
    Pulled,
    PulledKind,
    PullOutcome,
    TransactionChange,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection, Row, Select

    from nightscreen.journal import Journal

HELD_SHARE = 0.5
"""A list that lacks more than this share of what was known is suspicious; so is an empty one."""
HELD_TAIL = 5  # so is one that lacks this many of the oldest in a row: it may have been cut short
LONG_LIST = 100  # records from which on a list may be as much as the service cares to send
_BLOCK = 2000
_ADDED, _MODIFIED, _REMOVED = TransactionChange
_records = transaction_records.c


class Version(NamedTuple):
    """One version of a record, opened; instants in microseconds."""

    customer: bytes
    key: bytes
    raw: bytes
    problem: str | None
    first_seen_at: int
    run_id: str
    change: TransactionChange
    ended_at: int | None
    ended_as: str | None
    kind: PulledKind


@dataclass(frozen=True, slots=True)
class AnsweredList:
    """What the service listed of one customer."""

    kind: PulledKind  # what the records are
    records: Sequence[Answered]  # each record once
    summary: dict[str, Any]  # what is noted of the answer itself


@dataclass(frozen=True, slots=True)
class PullStore:
    """Keeps records and pulls in an open journal."""

    _journal: Journal = field(repr=False)

    # --- pulls ---

    @property
    def pulls(self) -> Records[Pulled]:
        """Return how customers were pulled."""
        return Records(self._journal, Pulled)

    def settle(self, pulled: Pulled) -> None:
        """Save a customer's state, if there are no records."""
        self.pulls.put([pulled], self._journal.clock())

    def last_kept(self, customer: bytes, kind: PulledKind) -> Pulled | None:
        """Return the pull of a customer whose list was kept and answered last."""
        with reading(self._journal.engine) as connection:
            return self._last(connection, customer, kind)

    def _last(
        self, connection: Connection, customer: bytes, kind: PulledKind, but_of: str = ""
    ) -> Pulled | None:
        kept = records.c.state.in_([outcome.value for outcome in KEPT])
        found = self.pulls.read(
            connection, kept, records.c.customer == customer, records.c.run_id != but_of
        )
        mine = [each for each in found if each.pulled is kind]
        return max(mine, key=lambda each: each.answered_at or 0, default=None)

    # --- keeping lists ---

    def keep(self, pulled: Pulled, lists: Iterable[AnsweredList], *, old_before: int) -> Pulled:
        """Store lists beside what is known; return the customer's new state.

        That of the pull's own kind decides the outcome. A later answer that another run has kept
        meanwhile stays: then nothing is kept.

        Args:
            pulled: the customer, with the instant of the answers.
            lists: what was answered.
            old_before: what occurred before this instant, microseconds, may be older than what the
                service lists.
        """
        kind, now = pulled.pulled, self._journal.clock()
        with writing(self._journal.engine) as connection:
            last = self._last(connection, pulled.customer, kind, but_of=pulled.run_id)
            if last is not None and (last.answered_at or 0) > (pulled.answered_at or 0):
                done = pulled.model_copy(update={"state": PullOutcome.SUPERSEDED})
                self.pulls.update(connection, [done], now)
                return done
            confirms = last is not None and last.state is PullOutcome.SUSPICIOUS_SHORT
            summary = dict(pulled.summary)
            for each in lists:
                # A state is short: one of two accounts gone is no sign of a list cut short.
                sure = confirms or (each.kind.is_state and bool(each.records))
                known = _known(connection, pulled.customer, each.kind)
                found = compare(known, each.records, confirms=sure, old_before=old_before)
                self._write(connection, pulled, each.kind, found)
                summary[each.kind.value] = {
                    **each.summary,
                    "added": len(found.added),
                    "modified": len(found.modified),
                    "removed": len(found.removed),
                    "held": found.held,
                    "out_of_reach": found.out_of_reach,
                }
            held = summary[kind.value]["held"]
            outcome = PullOutcome.SUSPICIOUS_SHORT if held else PullOutcome.PULLED
            done = pulled.model_copy(update={"state": outcome, "summary": summary})
            self.pulls.update(connection, [done], now)
            return done

    def _write(
        self, connection: Connection, pulled: Pulled, kind: PulledKind, found: Difference
    ) -> None:
        now = self._journal.clock()

        def row(answered: Answered, change: TransactionChange) -> dict[str, Any]:
            context = TRANSACTION.context(pulled.customer, answered.key)
            return {
                "customer": pulled.customer,
                "record_key": answered.key,
                "content": answered.content,
                "problem": answered.problem,
                "occurred_at": answered.occurred_at,
                "first_seen_at": now,
                "run_id": pulled.run_id,
                "told_as": change.value,
                "kind": kind.value,
                "sealed": self._journal.sealer.seal(answered.raw, context),
            }

        new = [row(answered, _ADDED) for answered in found.added]
        new += [row(answered, _MODIFIED) for _, answered in found.modified]
        ended = (
            (_MODIFIED, [known.record_id for known, _ in found.modified]),
            (_REMOVED, [known.record_id for known in found.removed]),
        )
        for change, ids in ended:
            values = {"ended_at": now, "ended_as": change.value, "ended_by": pulled.run_id}
            for block in blocks(ids):
                mine = _records.record_id.in_(block)
                connection.execute(update(transaction_records).where(mine).values(values))
        for start in range(0, len(new), _BLOCK):
            connection.execute(insert(transaction_records), new[start : start + _BLOCK])

    # --- reading records ---

    def brought(self, run_id: str, kind: PulledKind) -> Iterator[list[Version]]:
        """Yield in blocks the versions of a kind that a run stored."""
        yield from self._versions((_records.run_id == run_id) & (_records.kind == kind.value))

    def of_customer(self, customer: bytes) -> Iterator[list[Version]]:
        """Yield in blocks every version that is kept of a customer."""
        yield from self._versions(_records.customer == customer)

    def current(
        self, customer: bytes, kind: PulledKind = PulledKind.TRANSACTION
    ) -> Iterator[list[Version]]:
        """Yield in blocks a customer's present records, in the order in which they were stored."""
        stands = (_records.customer == customer) & _records.ended_at.is_(None)
        yield from self._versions(stands & (_records.kind == kind.value))

    def _versions(self, which: ColumnElement[bool]) -> Iterator[list[Version]]:
        last = 0
        while True:
            query: Select[Any] = (
                select(transaction_records)
                .where(which, _records.record_id > last)
                .order_by(_records.record_id)
                .limit(_BLOCK)
            )
            with reading(self._journal.engine) as connection:
                rows = connection.execute(query).all()
            if not rows:
                return
            yield [self._version(row) for row in rows]
            last = rows[-1].record_id

    def _version(self, row: Row[Any]) -> Version:
        customer, key = bytes(row.customer), bytes(row.record_key)
        return Version(
            customer=customer,
            key=key,
            raw=self._journal.sealer.open(bytes(row.sealed), TRANSACTION.context(customer, key)),
            problem=row.problem,
            first_seen_at=row.first_seen_at,
            run_id=row.run_id,
            change=TransactionChange(row.told_as),
            ended_at=row.ended_at,
            ended_as=row.ended_as,
            kind=PulledKind(row.kind),
        )

    def changes(self, run_id: str) -> Iterator[Row[Any]]:
        """Yield what a run added and modified, then what it removed; no record is opened.

        Each has `customer`, `record_key`, `change`, `problem` and `at`, microseconds.
        """
        what = (_records.customer, _records.record_key, _records.problem)
        brought = select(
            *what, _records.told_as.label("change"), _records.first_seen_at.label("at")
        )
        removed = select(*what, literal(_REMOVED.value), _records.ended_at)
        gone = (_records.ended_by == run_id) & (_records.ended_as == _REMOVED.value)
        both = union_all(brought.where(_records.run_id == run_id), removed.where(gone))
        with reading(self._journal.engine) as connection:
            yield from connection.execute(both)


def _known(connection: Connection, customer: bytes, kind: PulledKind) -> list[Known]:
    query = select(
        _records.record_id, _records.record_key, _records.content, _records.occurred_at
    ).where(_records.customer == customer, _records.ended_at.is_(None), _records.kind == kind.value)
    rows = connection.execute(query).all()
    return [Known(id_, bytes(key), bytes(content), at) for id_, key, content, at in rows]


# --- comparing ---


def compare(
    known: Iterable[Known], answered: Sequence[Answered], *, confirms: bool, old_before: int
) -> Difference:
    """Return what a list says beside what is known.

    Args:
        known: the customer's records as they are kept.
        answered: the records of the list.
        confirms: the pull before held removals back: what still lacks is gone.
        old_before: what occurred before this instant, microseconds, may be older than what the
            service lists.
    """
    here = {each.key: each for each in answered}
    before = {each.key: each for each in known}
    lacking = [each for key, each in before.items() if key not in here]
    times = [each.occurred_at for each in answered if each.occurred_at is not None]
    oldest = min(times, default=None)
    reach = None  # a long list may be a window: what is older than both is not told by it
    if oldest is not None and len(answered) >= LONG_LIST:
        reach = min(oldest, old_before)
    within = [each for each in lacking if not _is_before(each, reach)]
    out_of_reach = len(lacking) - len(within)
    tail = sum(_is_before(each, oldest) for each in within)
    share = HELD_SHARE * (len(before) - out_of_reach)
    is_suspicious = not answered or len(within) > share or tail >= HELD_TAIL
    held = len(within) if is_suspicious and not confirms else 0
    return Difference(
        added=tuple(each for key, each in here.items() if key not in before),
        modified=tuple(
            (before[key], each)
            for key, each in here.items()
            if key in before and before[key].content != each.content
        ),
        removed=() if held else tuple(within),
        held=held,
        out_of_reach=out_of_reach,
    )


def _is_before(known: Known, instant: int | None) -> bool:
    return instant is not None and known.occurred_at is not None and known.occurred_at < instant
