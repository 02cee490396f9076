"""The lookups of runs under way: one table, from which every process of a run claims its work.

The plan fills it in rank; a claim takes the next lookups of a check, together with the intents and
the reservation (`calls`); an outcome ends a lookup. Identities are sealed. Rows exist only while a
run is under way, and no backup has them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import bindparam, case, delete, exists, func, insert, select, text, update

from nightscreen.journal.database import insert_rows
from nightscreen.journal.schema import LOOKUP, askers, lookup_runs, lookups, run_stops
from nightscreen.journal.storage import Part, with_retries
from nightscreen.schemas.calls import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row


WHOLE_RUN = ""
"""Scope of a stop that is not of one check."""

_AT_ONCE = 20_000
"""Lookups written or deleted in one transaction, so that other runs do not wait longer."""

_LEFT = text("lookups.state IN (0, 10)")
_CLAIMED = text("lookups.state = 9")
"""Conditions of the two indexes; a query must repeat them literally to use them."""


@dataclass(frozen=True, slots=True)
class LookupRun:
    """The lookups of a run.

    Attributes:
        run_id: the run.
        first_id: its first lookup; `end_id` is the number after its last.
        terms: the terms for every process of the run, with its `checks`.
        closer_id: the lookup reserved for the closing balance, if any; `closer_check` is its check,
            `closer_micro` its planned worst cost.
    """

    run_id: str
    first_id: int
    end_id: int
    terms: dict[str, Any]
    closer_id: int | None = None
    closer_check: str = ""
    closer_micro: int = 0

    @property
    def kept_id(self) -> int:
        """Return the number of the lookup reserved for the end; -1 for none."""
        return -1 if self.closer_id is None else self.closer_id

    @property
    def span(self) -> dict[str, int]:
        """Return the values of `_SPAN`."""
        return {"first": self.first_id, "end": self.end_id}

    @property
    def own(self) -> ColumnElement[bool]:
        """The condition of the run's lookups."""
        return lookups.c.lookup_id.between(self.first_id, self.end_id - 1)

    @property
    def checks(self) -> tuple[str, ...]:
        """Return the checks of the run."""
        return tuple(self.terms["checks"])


@dataclass(slots=True)
class ClaimedLookup:
    """A lookup that a claim has taken or ended.

    Attributes:
        worst_micro: its planned worst cost, micro-naira.
        attempts: earlier attempts in this run.
        sealed: its identities; `Lookups.identities` opens them.
        state: its new status: claimed, or how it ended without a call.
    """

    lookup_id: int
    check: str
    kind: str
    subject: bytes
    worst_micro: int
    consent_reference: str | None
    consent_ends_at: int | None
    attempts: int
    sealed: bytes = field(repr=False)
    state: LookupStatus = LookupStatus.CLAIMED

    @property
    def attempt(self) -> int:
        """Return the number of the current attempt, from 1."""
        return self.attempts + 1


@dataclass(frozen=True, slots=True)
class Left:
    """The lookups of a run that have not ended.

    Attributes:
        waiting: whether lookups of the check wait.
        later: whether lookups of the check wait for an earlier stage.
        claimed: the number of claimed lookups of the check.
        claimed_in_run: the number of claimed lookups of all checks.
    """

    waiting: bool
    later: bool
    claimed: int
    claimed_in_run: int


# --- within a claim ---


_RUN = (
    select(lookup_runs, lookups.c.check, lookups.c.worst_micro)
    .select_from(lookup_runs.outerjoin(lookups, lookups.c.lookup_id == lookup_runs.c.closer_id))
    .where(lookup_runs.c.run_id == bindparam("run_id"))
)
_STOPS = select(run_stops).where(run_stops.c.run_id == bindparam("run_id"))


def find_run(connection: Connection, run_id: str) -> LookupRun | None:
    """Return a run's lookups; None if it has none."""
    row = connection.execute(_RUN, {"run_id": run_id}).first()
    if row is None:
        return None
    return LookupRun(
        run_id,
        row.first_id,
        row.end_id,
        json.loads(row.terms),
        row.closer_id,
        row.check or "",
        row.worst_micro or 0,
    )


def stops_of(connection: Connection, run_id: str) -> dict[str, str]:
    """Return the stops of a run and its checks, by scope."""
    return {row.scope: row.reason for row in connection.execute(_STOPS, {"run_id": run_id})}


_WAITING = LookupStatus.WAITING.value
_SPAN = (lookups.c.lookup_id >= bindparam("first"), lookups.c.lookup_id < bindparam("end"))
_OF_CHECK = lookups.c.check == bindparam("check")
_LEFT_OF_CHECK = (_LEFT, _OF_CHECK, *_SPAN, lookups.c.lookup_id != bindparam("closer"))
_NEXT = (
    select(*(lookups.c[each.name] for each in fields(ClaimedLookup) if each.name != "state"))
    .where(*_LEFT_OF_CHECK, lookups.c.state == _WAITING)
    .order_by(lookups.c.lookup_id)
    .limit(bindparam("number"))
)


def next_in_rank(
    connection: Connection, run: LookupRun, check: str, number: int, *, only: int | None = None
) -> list[ClaimedLookup]:
    """Return the waiting lookups of a check, in rank, without the one reserved for the end.

    `only` selects one lookup by its number, even the reserved one.
    """
    values = {
        "check": check,
        "first": run.first_id if only is None else only,
        "end": run.end_id if only is None else only + 1,
        "closer": run.kept_id if only is None else -1,
        "number": number,
    }
    return [ClaimedLookup(*row) for row in connection.execute(_NEXT, values)]


def reach(
    connection: Connection,
    run: LookupRun,
    prices_micro: Mapping[str, int],
    money_micro: int,
    last_id: int,
) -> int:
    """Return the last lookup that money pays for, over all checks in rank; `last_id` at most.

    Args:
        connection: of the claim.
        run: the run's lookups.
        prices_micro: the lowest cost that a lookup counts at, for each check that is still asked.
        money_micro: the money left for waiting lookups.
        last_id: the last lookup to consider.
    """
    if not prices_micro:
        return run.first_id - 1
    price = case(prices_micro, value=lookups.c.check, else_=0)
    worst = case((lookups.c.worst_micro > price, lookups.c.worst_micro), else_=price)
    left = (
        _LEFT,
        lookups.c.check.in_(list(prices_micro)),
        lookups.c.lookup_id.between(run.first_id, last_id),
        lookups.c.lookup_id != run.kept_id,
    )
    total = connection.execute(select(func.coalesce(func.sum(worst), 0)).where(*left)).scalar_one()
    if int(total) <= money_micro:
        return last_id
    running = select(
        lookups.c.lookup_id,
        func.sum(worst).over(order_by=lookups.c.lookup_id).label("total"),
    ).where(*left)
    found = running.subquery()
    query = select(func.max(found.c.lookup_id)).where(found.c.total <= money_micro)
    last = connection.execute(query).scalar()
    return run.first_id - 1 if last is None else int(last)


_CLAIMED_MICRO = select(func.coalesce(func.sum(lookups.c.worst_micro), 0)).where(_CLAIMED, *_SPAN)


def claimed_micro(connection: Connection, run: LookupRun) -> int:
    """Return the worst cost of a run's claimed lookups, whether their call is under way or not."""
    return int(connection.execute(_CLAIMED_MICRO, run.span).scalar_one())


_CLAIMED_IN_RUN = select(func.count()).where(_CLAIMED, *_SPAN)
_WHAT_IS_LEFT = select(
    exists().where(*_LEFT_OF_CHECK, lookups.c.state == _WAITING),
    exists().where(*_LEFT_OF_CHECK, lookups.c.state == LookupStatus.LATER.value),
    _CLAIMED_IN_RUN.where(_OF_CHECK).scalar_subquery(),
    _CLAIMED_IN_RUN.scalar_subquery(),
)


def left_of(connection: Connection, run: LookupRun, check: str) -> Left:
    """Return the lookups that have not ended, without the one reserved for the end."""
    values = {**run.span, "check": check, "closer": run.kept_id}
    waiting, later, claimed, claimed_in_run = connection.execute(_WHAT_IS_LEFT, values).one()
    return Left(bool(waiting), bool(later), int(claimed), int(claimed_in_run))


NOBODY = ""
"""The owner of a waiting lookup."""

_CHANGE = (
    update(lookups)
    .where(
        lookups.c.lookup_id.in_(bindparam("numbers", expanding=True)),
        func.coalesce(lookups.c.holder, NOBODY) == bindparam("owner"),
    )
    .values(state=bindparam("becomes"), attempts=bindparam("made"), holder=bindparam("new_holder"))
)


def change(
    connection: Connection,
    changes: Iterable[tuple[int, LookupStatus, int]],
    holder: str,
    *,
    owner: str,
) -> None:
    """Change the status of lookups that still have their owner, each at most once.

    A lookup that was released meanwhile, because its process seemed dead, has another owner.

    Args:
        connection: of the claim, or of the transaction that writes the outcomes.
        changes: number, new status, and attempts made.
        holder: the new owner of claimed lookups.
        owner: the owner so far; `NOBODY` for waiting lookups.
    """
    # most are alike: one statement for each lookup takes longer, while other processes wait
    alike: dict[tuple[LookupStatus, int], list[int]] = defaultdict(list)
    for number, state, attempts in changes:
        alike[state, attempts].append(number)
    for (state, attempts), numbers in alike.items():
        values = {
            "numbers": numbers,
            "owner": owner,
            "becomes": state.value,
            "made": attempts,
            "new_holder": holder if state is LookupStatus.CLAIMED else None,
        }
        connection.execute(_CHANGE, values)


def is_changed(connection: Connection, made: tuple[int, LookupStatus, int], holder: str) -> bool:
    """Return whether a change of a waiting lookup, as in `change`, was committed."""
    number, state, _ = made
    owner = holder if state is LookupStatus.CLAIMED else NOBODY
    query = select(lookups.c.lookup_id).where(
        lookups.c.lookup_id == number,
        lookups.c.state == state.value,
        func.coalesce(lookups.c.holder, NOBODY) == owner,
    )
    return connection.execute(query).first() is not None


CLAIMANTS = (select(lookups.c.holder).where(_CLAIMED), select(askers.c.holder))
"""The processes that have claimed lookups of any run, or ask for one."""


def release_dead_claims(connection: Connection, holders: Collection[str]) -> None:
    """Release the lookups that dead processes had claimed, and their parts of shared caps.

    The last attempt of each lookup counts.
    """
    freed = {"state": _WAITING, "holder": None, "attempts": lookups.c.attempts + 1}
    change_ = update(lookups).where(_CLAIMED, lookups.c.holder.in_(holders)).values(freed)
    connection.execute(change_)
    connection.execute(delete(askers).where(askers.c.holder.in_(holders)))


def caps_of_all(connection: Connection) -> dict[str, dict[str, int]]:
    """Return the caps that each process shares, by check or family of operations."""
    found: dict[str, dict[str, int]] = {}
    for row in connection.execute(select(askers.c.holder, askers.c.caps)):
        found.setdefault(row.holder, {}).update(json.loads(row.caps))
    return found


# --- the table as a whole ---


class NewLookup(NamedTuple):
    """A lookup from the plan, in rank.

    Attributes:
        state: its first `LookupStatus`: waiting, later, or spared.
        identity: unencrypted; sealed before it is written.
        together_with: the second identity of the call, if any.
        row: the batch's row in whose name it is asked.
    """

    check: str
    kind: str
    subject: bytes
    worst_micro: int
    consent_reference: str | None
    consent_ends_at: int | None
    state: int
    identity: str
    together_with: str | None
    row: int


class Lookups(Part):
    """Fills, reads and deletes the lookups of runs; `Calls.claim` claims them."""

    @with_retries
    def begin(self, run_id: str, number: int, terms: Mapping[str, Any]) -> LookupRun:
        """Reserve numbers for the lookups of a run; delete those of an earlier session.

        `terms` are the terms for every process of the run, without personal data.
        """
        self.clear(run_id)
        with self._database.writing() as connection:
            last = connection.execute(select(func.max(lookup_runs.c.end_id))).scalar()
            first = int(last or 0)
            row = {
                "run_id": run_id,
                "holder": self._holders.name,
                "first_id": first,
                "end_id": first + number,
                "closer_id": None,
                "terms": json.dumps(terms),
            }
            connection.execute(insert(lookup_runs), row)
        return LookupRun(run_id, first, first + number, dict(terms))

    def fill(self, run: LookupRun, ranked: Iterable[NewLookup]) -> None:
        """Write the lookups of a run, most important first."""
        first, every = run.first_id, iter(ranked)
        while block := list(islice(every, _AT_ONCE)):
            self._fill([self._row(number, each) for number, each in enumerate(block, first)])
            first += len(block)
        if self._database.on_postgresql:
            # PostgreSQL's statistics do not have the new rows yet
            with self._database.recording() as connection:
                connection.exec_driver_sql("ANALYZE lookups")

    def _row(self, number: int, new: NewLookup) -> tuple[Any, ...]:
        plain = json.dumps([new.identity, new.together_with, new.row]).encode()
        sealed = self._sealer.seal(plain, LOOKUP.context(number, new.subject))
        asked = (new.check, new.kind, new.subject, new.worst_micro)
        consent = (new.consent_reference, new.consent_ends_at)
        return (number, *asked, *consent, new.state, 0, None, sealed)

    @with_retries
    def _fill(self, rows: Sequence[tuple[Any, ...]]) -> None:
        with self._database.recording() as connection:
            known = select(lookups.c.lookup_id).where(lookups.c.lookup_id == rows[0][0])
            if connection.execute(known).first() is None:  # else the interrupted try was committed
                insert_rows(connection, lookups, rows)

    def identities(self, claimed: ClaimedLookup) -> tuple[str, str | None, int]:
        """Return identity, second identity and row of a lookup."""
        context = LOOKUP.context(claimed.lookup_id, claimed.subject)
        identity, other, of_row = json.loads(self._sealer.open(claimed.sealed, context))
        return identity, other, of_row

    @with_retries
    def find(self, run_id: str) -> LookupRun | None:
        """Return a run's lookups; None if it has none."""
        with self._database.reading() as connection:
            return find_run(connection, run_id)

    def set_closing_lookup(self, run: LookupRun, number: int | None) -> None:
        """Reserve a lookup for the closing balance, with the money for it; None for no lookup."""
        own = lookup_runs.c.run_id == run.run_id
        self._database.execute(update(lookup_runs).where(own).values(closer_id=number))

    @with_retries
    def reached(
        self, run: LookupRun, checks: Collection[str], money_micro: int | None
    ) -> tuple[int, int] | None:
        """Return the first and the last lookup of some checks that the money reaches, in rank.

        The money is for lookups of all checks; None means no limit.
        """
        with self._database.reading() as connection:
            last = run.end_id - 1
            if money_micro is not None:
                last = reach(connection, run, dict.fromkeys(run.checks, 0), money_micro, last)
            query = select(func.min(lookups.c.lookup_id), func.max(lookups.c.lookup_id)).where(
                _LEFT,
                run.own,
                lookups.c.lookup_id <= last,
                lookups.c.state == _WAITING,
                lookups.c.check.in_(list(checks)),
            )
            first, last = connection.execute(query).one()
        return None if first is None else (int(first), int(last))

    def next_affordable(
        self, run: LookupRun, but: Collection[str], money_micro: int | None
    ) -> tuple[str, int] | None:
        """Return check and number of the first waiting lookup in rank that the money pays for.

        Checks in `but` are no longer asked; `money_micro` None means no limit.
        """
        query = select(lookups.c.check, lookups.c.lookup_id).where(
            _LEFT,
            lookups.c.state == _WAITING,
            run.own,
            lookups.c.check.not_in(list(but)),
        )
        if money_micro is not None:
            query = query.where(lookups.c.worst_micro <= money_micro)
        found = self._database.fetch(query.order_by(lookups.c.lookup_id).limit(1))
        return (str(found[0].check), int(found[0].lookup_id)) if found else None

    def counts(self, run: LookupRun) -> dict[tuple[str, LookupStatus], int]:
        """Return the number of lookups by check and status."""
        query = (
            select(lookups.c.check, lookups.c.state, func.count())
            .where(run.own)
            .group_by(lookups.c.check, lookups.c.state)
        )
        rows = self._database.fetch(query)
        return {(check, LookupStatus(state)): number for check, state, number in rows}

    def in_states(
        self, run: LookupRun, states: Collection[LookupStatus], check: str = ""
    ) -> Iterator[Sequence[Row[Any]]]:
        """Yield lookups with some statuses in blocks, in rank: number, check, subject, status."""
        columns = (lookups.c.lookup_id, lookups.c.check, lookups.c.subject, lookups.c.state)
        wanted = lookups.c.state.in_([each.value for each in states])
        # `after` is the only lower bound: of two, SQLite would begin each block at the wrong one
        query = select(*columns).where(lookups.c.lookup_id < run.end_id, wanted)
        if check:
            query = query.where(lookups.c.check == check)
        number = lookups.c.lookup_id
        return self._database.in_blocks(query, number, size=_AT_ONCE, after=run.first_id - 1)

    @with_retries
    def set_state(self, numbers: Sequence[int], state: LookupStatus) -> None:
        """Change the status of unclaimed lookups: to be asked again, or spared."""
        with self._database.recording() as connection:
            for start in range(0, len(numbers), _AT_ONCE):
                block = [(number, state, 0) for number in numbers[start : start + _AT_ONCE]]
                change(connection, block, NOBODY, owner=NOBODY)

    def release_claims(self, run: LookupRun) -> None:
        """Release the lookups of a run that this process has claimed and will no longer ask."""
        mine = update(lookups).where(_CLAIMED, run.own, lookups.c.holder == self._holders.name)
        self._database.execute(mine.values(state=_WAITING, holder=None, attempts=0))

    # --- stops ---

    @with_retries
    def stop(self, run_id: str, scope: str, reason: str) -> None:
        """Save a stop of the run or one of its checks; the first reason stays."""
        with self._database.recording() as connection:
            insert_rows(connection, run_stops, [(run_id, scope, reason)], changed="")

    @with_retries
    def stops(self, run_id: str) -> dict[str, str]:
        """Return the stops of a run and its checks, by scope."""
        with self._database.reading() as connection:
            return stops_of(connection, run_id)

    def clear_stops(self, run_id: str) -> None:
        """Delete the stops of a run that is resumed."""
        self._database.execute(delete(run_stops).where(run_stops.c.run_id == run_id))

    # --- the end ---

    def clear(self, run_id: str) -> None:
        """Delete the lookups of a run in portions, and release their pages."""
        self.clear_stops(run_id)
        run = self.find(run_id)
        if run is None:
            return
        for start in range(run.first_id, run.end_id, _AT_ONCE):
            some = lookups.c.lookup_id.between(start, min(run.end_id, start + _AT_ONCE) - 1)
            self._database.execute(delete(lookups).where(some))
        self._database.execute(delete(lookup_runs).where(lookup_runs.c.run_id == run_id))
        self._database.release_pages()

    def sweep(self) -> None:
        """Delete the lookups of runs whose process is dead, since a killed run cannot do it."""
        known = select(lookup_runs.c.run_id, lookup_runs.c.holder)
        for run_id, holder in self._database.fetch(known):
            if holder != self._holders.name and not self._holders.alive(holder):
                self.clear(run_id)


# --- the processes that ask now ---

_NO_CAPS = "{}"  # the caps of a process that no longer asks
ASKING = select(askers.c.run_id, askers.c.holder).where(askers.c.caps != _NO_CAPS)
"""The processes that ask now, dead ones included, each with its run."""


class Askers(Part):
    """Reads and writes the processes that ask for runs, workers included.

    Each has a row while it asks, with the caps on calls under way that it shares, of which a claim
    gives it an equal part, and its progress.
    """

    @with_retries
    def join(self, run_id: str, caps: Mapping[str, int]) -> None:
        """Record that this process asks for a run, and which caps it shares."""
        shared = json.dumps(dict(caps))
        row = (run_id, self._holders.name, shared, "{}")
        with self._database.recording() as connection:
            insert_rows(connection, askers, [row], changed="caps = excluded.caps")

    def report(self, run_id: str, numbers: Mapping[str, Any]) -> None:
        """Save this process's progress."""
        numbered = update(askers).values(numbers=json.dumps(numbers))
        self._database.execute(numbered.where(*self._mine(run_id)))

    def leave(self, run_id: str, *, forget: bool) -> None:
        """Record that this process no longer asks; its figures stay readable unless `forget`."""
        left = delete(askers) if forget else update(askers).values(caps=_NO_CAPS)
        self._database.execute(left.where(*self._mine(run_id)))

    def _mine(self, run_id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return askers.c.run_id == run_id, askers.c.holder == self._holders.name

    def others(self, run_id: str) -> dict[str, dict[str, Any]]:
        """Return the progress of a run's other processes, by process, including dead ones."""
        query = select(askers.c.holder, askers.c.numbers).where(
            askers.c.run_id == run_id, askers.c.holder != self._holders.name
        )
        return {row.holder: json.loads(row.numbers) for row in self._database.fetch(query)}

    def asks_elsewhere(self, run_id: str) -> bool:
        """Return whether a living process other than this one asks for a run."""
        query = ASKING.where(askers.c.run_id == run_id, askers.c.holder != self._holders.name)
        return any(self._holders.alive(row.holder) for row in self._database.fetch(query))

    def clear(self, run_id: str) -> None:
        """Delete the rows of a run."""
        self._database.execute(delete(askers).where(askers.c.run_id == run_id))
