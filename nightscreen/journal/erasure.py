"""Erasure in the journal: answers deleted, calls left as tombstones, and a line for the auditor.

A tombstone keeps run, check, times and cost, so that every naira still adds up, but no pseudonym
and no consent reference. Whose identifiers are meant, and what is too old, is decided in
`privacy/`; files are rewritten in `results/run_files.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import LargeBinary, delete, false, func, insert, or_, select, update

from nightscreen.journal.approvals import approvals_before
from nightscreen.journal.customer_tables import (
    customer_history,
    customer_states,
    erasures,
    holds,
)
from nightscreen.journal.engine import reading, sqlite_file, told, writing
from nightscreen.journal.grant_tables import (
    grants_before,
    grants_of_person,
)
from nightscreen.journal.identifier_history import sightings
from nightscreen.journal.lookups import runs_about
from nightscreen.journal.records import records_before, records_of_person
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.tables import (
    TOMBSTONE,
    answers,
    calls,
    meta,
    metadata,
    put_meta,
    read_meta,
    runs,
)
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.errors import InputError, JournalBusyError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from sqlalchemy import ColumnElement, Connection, Engine

    from nightscreen.config.settings import Cutoffs
    from nightscreen.journal import Journal
    from nightscreen.journal.holders import Holders
    from nightscreen.journal.lookups import Lookups
    from nightscreen.schemas.clock import Clock

ERASURE, RETENTION = "erasure", "retention"
_PAGES, _FRESH, _OLDER = "removed_pages", "1", "older"
"""Name in `meta` of the note that the database's files may hold what was removed; and whether an
earlier removal, whose traces are not known any more, was not done with."""
_SEARCH_BLOCK = 1 << 22
_SEALED_START = 16  # key id and nonce: unlike in any two sealed texts


class Removed(NamedTuple):
    """What goes from the journal.

    Attributes:
        answers: answers deleted.
        calls: calls left as tombstones.
        states: states of customers, their history and reviews, deleted.
        cost_micro: what the tombstones' calls cost.
        sightings: sightings deleted.
    """

    answers: int = 0
    calls: int = 0
    states: int = 0
    cost_micro: int = 0
    sightings: int = 0


class Hold(NamedTuple):
    """A run under legal hold."""

    run_id: str
    held_at: int
    reason: str


class Done(NamedTuple):
    """One line of the audit: no identifier, no pseudonym."""

    kind: str
    begun_at: int
    finished_at: int | None
    answers: int
    calls: int
    states: int
    file_rows: int
    files: int
    cost_micro: int
    sightings: int


@dataclass(frozen=True, slots=True)
class ErasedPseudonyms:
    """All pseudonyms of a person.

    Attributes:
        subjects: of the identifiers.
        customers: of the customer in each batch name.
        anywhere: of the customer whatever the batch name, each with the batch names that are meant.
    """

    subjects: Collection[bytes] = ()
    customers: Collection[bytes] = ()
    anywhere: Mapping[bytes, Collection[str]] = field(default_factory=dict)

    @property
    def all(self) -> list[bytes]:
        """Return every one of them."""
        return [*self.subjects, *self.customers, *self.anywhere]


@dataclass(frozen=True, slots=True)
class _Which:
    """Which rows of the journal go: a condition for each table.

    `accounts` are other people's sightings of accounts that lose a BVN which goes, `nameless` calls
    that lose their pseudonym alone.
    """

    answers: ColumnElement[bool]
    calls: ColumnElement[bool]
    states: tuple[tuple[Any, ColumnElement[bool]], ...]
    sightings: ColumnElement[bool]
    accounts: ColumnElement[bool]
    nameless: ColumnElement[bool] = field(default_factory=false)


@dataclass(frozen=True, slots=True)
class Erasures:
    """Removes people and what is too old from the journal, and keeps the audit of it."""

    _engine: Engine = field(repr=False)
    _holders: Holders = field(repr=False)
    _clock: Clock = field(repr=False)
    _lookups: Lookups = field(repr=False)

    @classmethod
    def of(cls, journal: Journal) -> Erasures:
        """Return the erasures of an open journal."""
        return cls(journal.engine, journal.holders, journal.clock, journal.lookups)

    def held_of(self, person: ErasedPseudonyms) -> Removed:
        """Return what the journal holds of a person."""
        with reading(self._engine) as connection:
            return _count(connection, _of_person(person))

    def held_before(self, cutoffs: Cutoffs, applicants: Sequence[str] = ()) -> Removed:
        """Return what the journal holds that is too old, as `purge` would remove it."""
        with reading(self._engine) as connection:
            return _count(connection, _before(cutoffs, applicants))

    def traces_of(self, person: ErasedPseudonyms) -> list[bytes]:
        """Return bytes that would betray that something of a person is left in a file.

        They are the pseudonyms, and the start of every sealed text about them.
        """
        which = _of_person(person)
        queries = [select(answers.c.body).where(which.answers)]
        for table, condition in which.states:
            columns = [table.c[name] for name in ("sealed", "state", "tokens") if name in table.c]
            binary = (each for each in columns if isinstance(each.type, LargeBinary))
            queries += [select(each).where(condition, each.is_not(None)) for each in binary]
        with reading(self._engine) as connection:
            sealed = [body for query in queries for body in connection.execute(query).scalars()]
        return [*person.all, *(bytes(body[:_SEALED_START]) for body in sealed)]

    def erase(self, person: ErasedPseudonyms) -> int:
        """Remove a person in one transaction; return the number of the audit's line.

        Raises:
            InputError: a run under way has the person among its lookups.
        """
        self._lookups.sweep()
        with writing(self._engine) as connection:
            self._refuse_asked(connection, person.subjects)
            return self._remove(connection, ERASURE, _of_person(person))

    def purge(self, cutoffs: Cutoffs, applicants: Sequence[str] = ()) -> int:
        """Remove what is too old by its ground; return the number of the audit's line.

        Args:
            cutoffs: the instant of each ground.
            applicants: runs of applicants that are past their period: what was answered in them
                goes; each call stays with its cost and consent, and is found by nobody's pseudonym.
        """
        with writing(self._engine) as connection:
            return self._remove(connection, RETENTION, _before(cutoffs, applicants))

    def _refuse_asked(self, connection: Connection, subjects: Collection[bytes]) -> None:
        query = select(calls.c.holder).where(
            calls.c.subject.in_(subjects), calls.c.state == CallState.INTENT.value
        )
        holders = {*connection.execute(query).scalars(), *runs_about(connection, subjects)}
        if any(self._holders.alive(holder, connection) for holder in holders):
            raise InputError(
                "a run under way is asking about this person; erase again once it has ended"
            )

    def _remove(self, connection: Connection, kind: str, which: _Which) -> int:
        going = _count(connection, which)
        connection.execute(delete(answers).where(which.answers))
        connection.execute(
            update(calls).where(which.calls).values(subject=TOMBSTONE, consent_reference=None)
        )
        connection.execute(update(calls).where(which.nameless).values(subject=TOMBSTONE))
        for table, condition in which.states:
            connection.execute(delete(table).where(condition))
        connection.execute(delete(sightings).where(which.sightings))
        connection.execute(update(sightings).where(which.accounts).values(bvn=None))
        line = {"kind": kind, "begun_at": self._clock(), "file_rows": 0, "files": 0}
        put_meta(connection, _PAGES, _OLDER if _PAGES in read_meta(connection) else _FRESH)
        values = {**line, **going._asdict()}
        query = insert(erasures).values(values).returning(erasures.c.erasure_id)
        return int(connection.execute(query).scalar_one())

    def finish(self, number: int, *, file_rows: int, files: int) -> None:
        """Note that the files of an erasure are rewritten too."""
        with writing(self._engine) as connection:
            connection.execute(
                update(erasures)
                .where(erasures.c.erasure_id == number)
                .values(finished_at=self._clock(), file_rows=file_rows, files=files)
            )

    def audit(self) -> list[Done]:
        """Return every erasure and purge, newest first."""
        columns = [erasures.c[name] for name in Done._fields]
        query = select(*columns).order_by(erasures.c.erasure_id.desc())
        with reading(self._engine) as connection:
            return [Done(*row) for row in connection.execute(query)]

    def holds(self) -> dict[str, Hold]:
        """Return the runs under legal hold."""
        query = select(holds.c.run_id, holds.c.held_at, holds.c.reason).where(
            holds.c.released_at.is_(None)
        )
        with reading(self._engine) as connection:
            return {row.run_id: Hold(*row) for row in connection.execute(query)}

    def hold(self, run_id: str, reason: str) -> None:
        """Put a run under legal hold, unless it is already."""
        with writing(self._engine) as connection:
            if connection.execute(select(holds.c.hold_id).where(_held(run_id))).first() is None:
                row = {"run_id": run_id, "held_at": self._clock(), "reason": reason}
                connection.execute(insert(holds), row)

    def release(self, run_id: str) -> bool:
        """End a run's legal hold; the hold stays written down. Tell whether there was one."""
        with writing(self._engine) as connection:
            done = connection.execute(
                update(holds).where(_held(run_id)).values(released_at=self._clock())
            )
            return bool(done.rowcount)


def _held(run_id: str) -> ColumnElement[bool]:
    return (holds.c.run_id == run_id) & holds.c.released_at.is_(None)


def _of_person(person: ErasedPseudonyms) -> _Which:
    seen = [
        (sightings.c.customer == customer) & sightings.c.batch.in_(batches)
        for customer, batches in person.anywhere.items()
    ]
    return _Which(
        answers.c.subject.in_(person.subjects),
        calls.c.subject.in_(person.subjects),
        (
            *(
                (table, table.c.customer.in_(person.customers))
                for table in (customer_states, customer_history)
            ),
            *records_of_person(person),
            *grants_of_person(person.anywhere),
        ),
        or_(sightings.c.identifier.in_(person.subjects), *seen),
        sightings.c.bvn.in_(person.subjects),
    )


def _before(cutoffs: Cutoffs, applicants: Sequence[str]) -> _Which:
    answered, decided = cutoffs.journal_answers, cutoffs.decisions
    applied = calls.c.run_id.in_(applicants) & (calls.c.state != CallState.INTENT.value)
    ended = func.coalesce(calls.c.settled_at, calls.c.intent_at)
    return _Which(
        or_(
            answers.c.answered_at < answered,
            answers.c.call_id.in_(select(calls.c.call_id).where(applied)),
        ),
        (ended < answered)
        & (calls.c.state != CallState.INTENT.value)
        & or_(calls.c.subject != TOMBSTONE, calls.c.consent_reference.is_not(None)),
        (
            (customer_states, customer_states.c.decided_at < decided),
            (customer_history, customer_history.c.replaced_at < decided),
            *records_before(cutoffs),
            approvals_before(cutoffs.approvals),
            *grants_before(cutoffs),
        ),
        sightings.c.last_at < decided,
        false(),
        applied,
    )


def _count(connection: Connection, which: _Which) -> Removed:
    def number(table: Any, condition: ColumnElement[bool]) -> int:  # noqa: ANN401 - any table
        query = select(func.count()).select_from(table).where(condition)
        return int(connection.execute(query).scalar() or 0)

    cost = select(func.sum(calls.c.cost_micro)).where(which.calls)
    return Removed(
        answers=number(answers, which.answers),
        calls=number(calls, which.calls),
        states=sum(number(table, condition) for table, condition in which.states),
        cost_micro=int(connection.execute(cost).scalar() or 0),
        sightings=number(sightings, which.sightings),
    )


def leave_no_trace(journal: Journal, traces: Sequence[bytes] | None = None) -> bool:
    """Leave nothing of what was removed in the database's own files; tell whether that was done.

    SQLite overwrites what it deletes, but its write-ahead log keeps older pages until it is
    emptied, and a page that was split or merged may keep a stale copy: where any of `traces` is
    still found, the file is written anew. PostgreSQL gives the space of dead rows back for use.
    Where another process stands in the way, it is done by the next call.

    Args:
        journal: the journal.
        traces: bytes that must not be found any more; None where they are not known, so that the
            file is written anew whenever anything was removed from it.
    """
    with reading(journal.engine) as connection:
        pages = read_meta(connection).get(_PAGES)
    if pages is None:
        return True
    file = sqlite_file(journal.engine)
    try:
        if file is None:
            _vacuum_tables(journal)
        elif not _rid_of(journal, file, None if pages == _OLDER else traces):
            return False
    except JournalBusyError:
        return False
    with writing(journal.engine) as connection:
        connection.execute(delete(meta).where(meta.c.name == _PAGES))
    return True


def _vacuum_tables(journal: Journal) -> None:
    with told(journal.engine), journal.engine.connect() as connection:
        plain = connection.execution_options(isolation_level="AUTOCOMMIT")
        plain.exec_driver_sql(f"VACUUM {', '.join(metadata.tables)}")


def _rid_of(journal: Journal, file: Path, traces: Sequence[bytes] | None) -> bool:
    """Empty the log and, where anything is left in the file or may be, write the file anew."""
    emptied = _empty_log(journal)
    if traces is None or _found(file, traces):
        if _run_under_way(journal):
            return False
        _outside_transaction(journal, "VACUUM")
        emptied = _empty_log(journal)
    return emptied


def _run_under_way(journal: Journal) -> bool:
    """Whether a run would be kept waiting, perhaps too long, while a file is written anew."""
    with reading(journal.engine) as connection:
        running = connection.execute(select(runs.c.holder).where(runs.c.state == RUNNING)).scalars()
        return any(each and journal.holders.alive(each, connection) for each in running.all())


def _empty_log(journal: Journal) -> bool:
    """Empty SQLite's write-ahead log; False where a reader kept part of it in use."""
    busy, *_ = _outside_transaction(journal, "PRAGMA wal_checkpoint(TRUNCATE)") or (1,)
    return not busy


def _outside_transaction(journal: Journal, statement: str) -> tuple[Any, ...] | None:
    with told(journal.engine), journal.engine.connect() as connection:
        cursor = connection.connection.cursor()
        try:
            cursor.execute(statement)
            found: tuple[Any, ...] | None = cursor.fetchone()
        finally:
            cursor.close()
    return found


def _found(file: Path, traces: Sequence[bytes]) -> bool:
    """Return whether a file holds any of some byte strings; read in blocks that overlap."""
    if not traces:
        return False
    wanted = re.compile(b"|".join(re.escape(each) for each in traces))
    overlap = max(map(len, traces))
    tail = b""
    with file.open("rb") as content:
        while block := content.read(_SEARCH_BLOCK):
            if wanted.search(tail + block):
                return True
            tail = block[-overlap:]
    return False
