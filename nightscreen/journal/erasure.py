"""Erasure and retention in the journal, as loops over the declarations in its schema.

An erased person's rows are deleted. Calls stay as tombstones with run, check, times and cost, so
that every naira still adds up, but without pseudonym and consent reference. `privacy/` decides
whose data and which age; `files/run_folder.py` rewrites files.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import delete, false, func, or_, select, update

from nightscreen.journal.audit import Audit
from nightscreen.journal.lookups import ASKING, Lookups
from nightscreen.journal.runs import living_runs
from nightscreen.journal.schema import (
    PASSING_TABLES,
    TOMBSTONE,
    Owner,
    answers,
    audit,
    calls,
    meta,
    metadata,
    put_meta,
    read_meta,
    sightings,
)
from nightscreen.journal.storage import Part
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.errors import InputError, JournalBusyError
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Column, ColumnElement, Connection, Table

    from nightscreen.journal.schema import ErasedPseudonyms, Ownership
    from nightscreen.journal.storage import Storage

_PAGES = "removed_pages"
"""Name in `meta` of the note that the database's files may still have removed data."""
_COUNTED = {answers: "answers", calls: "calls", sightings: "sightings", audit: "entries"}
"""How removed rows are counted; rows of other tables count as states."""


class Removed(NamedTuple):
    """Numbers of data removed from the journal."""

    answers: int = 0  # answers deleted
    calls: int = 0  # calls left as tombstones
    states: int = 0  # customers' states, history, records and consented data deleted
    cost_micro: int = 0  # the cost of the tombstones' calls
    sightings: int = 0  # sightings deleted
    entries: int = 0  # entries of the audit that no longer name the customer

    def numbers(self) -> dict[str, Any]:
        """Return it as a JSON document, without the audit's entries."""
        counted = {name: getattr(self, name) for name in ("answers", "calls", "states")}
        return {**counted, "sightings": self.sightings, "cost": naira_text(self.cost_micro)}


class _Going(NamedTuple):
    """Rows of a table to delete, or to overwrite with other values."""

    table: Table
    which: ColumnElement[bool]
    leaves: Mapping[str, bytes | None] | None = None  # the values; None to delete the rows
    counts: bool = True  # whether they count as removed


class Erasures(Part):
    """Removes persons and old data from the journal; the caller writes the audit."""

    def held_of(self, person: ErasedPseudonyms) -> Removed:
        """Return the numbers of data that the journal holds about a person."""
        with self._database.reading() as connection:
            return _number(connection, _of_person(person))

    def held_before(self, cutoffs: Mapping[str, int], applicants: Sequence[str] = ()) -> Removed:
        """Return the numbers of old data that `purge` would remove."""
        with self._database.reading() as connection:
            return _number(connection, _before(cutoffs, applicants))

    def erase(self, person: ErasedPseudonyms) -> Removed:
        """Remove a person in one transaction; return the numbers.

        Raises:
            InputError: a run is under way, or a call about the person.
        """
        Lookups(self.journal).sweep()
        with self._database.writing() as connection:
            self.require_rest(connection, person.subjects)
            return self._remove(connection, list(_of_person(person)), person.audited)

    def purge(self, cutoffs: Mapping[str, int], applicants: Sequence[str] = ()) -> Removed:
        """Remove data that are older than the period of their ground; return the numbers.

        Args:
            cutoffs: the instant of each ground.
            applicants: runs of applicants past their period: their answers are deleted; each call
                stays with its cost and consent, but without a pseudonym.
        """
        with self._database.writing() as connection:
            return self._remove(connection, list(_before(cutoffs, applicants)))

    def require_rest(self, connection: Connection, subjects: Collection[bytes] = ()) -> None:
        """Refuse to erase while a run is under way, since it may write the person's data.

        Raises:
            InputError: a run is under way, or a call about one of the pseudonyms.
        """
        holders = self._holders
        workers = connection.execute(ASKING).all()  # they may outlive their run's own process
        asked = [run_id for run_id, worker in workers if holders.alive(worker, connection)]
        for run_id in (*living_runs(connection, holders), *asked):
            raise InputError(
                f"run {run_id} is under way and may involve this person; erase again after it"
            )
        asking = select(calls.c.holder).where(
            calls.c.subject.in_(subjects), calls.c.state == CallState.INTENT.value
        )
        if any(holders.alive(each, connection) for each in connection.execute(asking).scalars()):
            raise InputError("a call about this person is under way; erase again after it")

    def _remove(
        self, connection: Connection, going: Sequence[_Going], audited: Collection[bytes] = ()
    ) -> Removed:
        removed = _number(connection, going)
        Audit(self.journal).forget(connection, audited)
        for table, which, leaves, _ in going:
            if leaves is None:
                connection.execute(delete(table).where(which))
            elif leaves:
                connection.execute(update(table).where(which).values(leaves))
        put_meta(connection, _PAGES, "1")
        return removed


# --- the loops over the schema ---


def _kept_tables() -> Iterator[Table]:
    """Yield tables in the order of their declaration: a condition's tables come first."""
    yield from (table for table in metadata.tables.values() if table not in PASSING_TABLES)


def _of_person(person: ErasedPseudonyms) -> Iterator[_Going]:
    for table in _kept_tables():
        rule = table.info.get("of_person")
        gone = [] if rule is None else [rule(person)]
        for column in table.c:
            whose = column.info.get("whose")
            if whose is None:
                continue
            mine = _named(column, whose, person)
            if whose.leaves is None:
                gone.append(mine)
            else:
                yield _Going(table, mine, whose.leaves, counts=table is not sightings)
        if gone:
            yield _Going(table, or_(*gone))


def _named(column: Column[Any], whose: Ownership, person: ErasedPseudonyms) -> ColumnElement[bool]:
    """Return the condition of a person's rows, by a column with a pseudonym."""
    if whose.owner is not Owner.ANYWHERE:
        return column.in_(getattr(person, whose.owner.value))
    meant = person.anywhere.items()
    if whose.batch:
        return column.in_([customer for customer, names in meant if whose.batch in names])
    of = column.table.c.batch
    return or_(false(), *((column == customer) & of.in_(names) for customer, names in meant))


def _before(cutoffs: Mapping[str, int], applicants: Sequence[str]) -> Iterator[_Going]:
    applied = calls.c.run_id.in_(applicants) & (calls.c.state != CallState.INTENT.value)
    of_applicants = answers.c.call_id.in_(select(calls.c.call_id).where(applied))
    for table in _kept_tables():
        rule = table.info.get("old")
        old = [] if rule is None else [rule(cutoffs)]
        for column in table.c:
            if "ground" in column.info:
                which = column < cutoffs[column.info["ground"]]
                old.append(which | of_applicants if table is answers else which)
        # of a call a tombstone, as an erasure leaves it
        leaves = calls.c.subject.info["whose"].leaves if table is calls else None
        yield from (_Going(table, which, leaves) for which in old)
    yield _Going(calls, applied, {"subject": TOMBSTONE}, counts=False)


def _number(connection: Connection, going: Iterator[_Going] | Sequence[_Going]) -> Removed:
    found: Counter[str] = Counter()
    for table, which, _, counts in going:
        if counts:
            query = select(func.count()).select_from(table).where(which)
            number = int(connection.execute(query).scalar_one())
            found[_COUNTED.get(table, "states")] += number
        if counts and table is calls:
            cost = select(func.sum(calls.c.cost_micro)).where(which)
            found["cost_micro"] += int(connection.execute(cost).scalar() or 0)
    return Removed(**found)


# --- the database's own files ---


def scrub_database(journal: Storage) -> bool:
    """Remove deleted data from the database's own files; return whether that was possible now.

    SQLite overwrites deleted rows, but its write-ahead log has older pages until it is emptied, and
    a page that was split or merged may have a stale copy. So the file is rewritten, unless a run is
    under way, which would have to wait. PostgreSQL frees the space of dead rows for reuse. If it is
    not possible now, the next call does it.
    """
    with journal.database.reading() as connection:
        if not read_meta(connection, _PAGES):
            return True
        under_way = living_runs(connection, journal.holders)
    try:
        if journal.database.on_postgresql:
            journal.database.run_alone(f"VACUUM {', '.join(metadata.tables)}")
        elif under_way:
            _empty_log(journal)
            return False
        else:
            journal.database.run_alone("VACUUM")
            if not _empty_log(journal):
                return False
    except JournalBusyError:
        return False
    journal.database.execute(delete(meta).where(meta.c.name == _PAGES))
    return True


def _empty_log(journal: Storage) -> bool:
    """Empty SQLite's write-ahead log; return False if a reader still uses part of it."""
    busy, *_ = journal.database.run_alone("PRAGMA wal_checkpoint(TRUNCATE)") or (1,)
    return not busy
