"""Verify a journal: the database, every seal, that counters equal calls, and the desk's audit."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, not_, or_, select, text

from nightscreen.files.sealing import SUBJECT_BYTES
from nightscreen.journal.audit import Audit
from nightscreen.journal.calls import NO_ANSWER
from nightscreen.journal.disputes import DisputeState
from nightscreen.journal.engine import snapshot
from nightscreen.journal.money import RESERVING, disputed_scope, scopes_of
from nightscreen.journal.schema import (
    PASSING_TABLES,
    TOMBSTONE,
    answers,
    audit,
    calls,
    disputes,
    metadata,
    sightings,
    spend,
    tallies,
)
from nightscreen.schemas.calls import KEPT_STATES, CallState
from nightscreen.schemas.clock import DAY_MICROS, NOON_MICROS
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, ColumnElement, Connection, Row

    from nightscreen.journal.schema import Seal
    from nightscreen.journal.storage import Storage

_BLOCK = 2000
_KEPT_STATES = sorted(state.value for state in KEPT_STATES)


def verify_journal(journal: Storage) -> list[str]:
    """Return a sentence for each thing that is wrong; empty where the journal is sound.

    Everything is read from one instant of the journal, so that runs may go on meanwhile.
    """
    with snapshot(journal.engine) as connection:
        return [
            *_database(connection),
            *broken_seals(journal, connection),
            *_answers(connection),
            *_sightings(connection),
            *_tallies(connection),
            *_money(connection),
            *Audit(journal).findings(connection),
        ]


def _database(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    found = [row[0] for row in connection.execute(text("PRAGMA integrity_check"))]
    return [] if found == ["ok"] else [f"the database is damaged: {each}" for each in found]


def broken_seals(journal: Storage, connection: Connection) -> list[str]:
    """Return a sentence for each table where what is sealed does not open under the data key.

    Of the audit the entries themselves are named.
    """
    broken = Counter(
        table.name
        for table in metadata.sorted_tables
        for column in table.c
        if "seal" in column.info and table not in (*PASSING_TABLES, audit)
        for _ in _broken(journal, connection, column)
    )
    return [
        f"{number} sealed values of the table {table} do not open under the data key"
        for table, number in broken.items()
    ]


def _broken(journal: Storage, connection: Connection, sealed: Column[bytes]) -> Iterator[Row[Any]]:
    """Yield the rows in which a sealed column does not open."""
    seal: Seal = sealed.info["seal"]
    binding = (sealed.table.c[name] for name in seal.bound_by)
    query = select(sealed, *binding).where(sealed.is_not(None))
    for row in connection.execute(query, execution_options={"yield_per": _BLOCK}):
        try:
            journal.sealer.open(bytes(row[0]), seal.context(*row[1:]))
        except (JournalDamagedError, JournalKeyError):
            yield row


def _answers(connection: Connection) -> list[str]:
    """Count answered calls without an answer, and answers without their call."""
    answered = select(calls.c.call_id).where(calls.c.state.in_(_KEPT_STATES))
    kept = select(answers.c.call_id)
    lacking = _count(
        connection,
        calls.c.call_id.in_(answered),
        calls.c.call_id.not_in(kept),
        calls.c.subject != TOMBSTONE,
    )
    stray = connection.execute(
        select(func.count())
        .select_from(answers)
        .where(answers.c.call_id.not_in(answered), answers.c.outcome != NO_ANSWER)
    ).scalar()
    found = []
    if lacking:
        found.append(f"{lacking} answered calls have no stored answer")
    if stray:
        found.append(f"{stray} stored answers have no answered call")
    return found


def _count(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(calls).where(*conditions)
    return int(connection.execute(query).scalar() or 0)


def _sightings(connection: Connection) -> list[str]:
    """Count sightings that cannot have been written as they are."""
    kept = sightings.c
    sound = (
        (func.length(kept.identifier) == SUBJECT_BYTES)
        & (func.length(kept.customer) == SUBJECT_BYTES)
        & or_(kept.bvn.is_(None), func.length(kept.bvn) == SUBJECT_BYTES)
        & (kept.first_at <= kept.last_at)
    )
    query = select(func.count()).select_from(sightings).where(not_(sound))
    broken = connection.execute(query).scalar()
    return [f"{broken} sightings of customers are not whole"] if broken else []


def _tallies(connection: Connection) -> list[str]:
    """Compare the tallies that quotes are made from with the answers."""
    counted = select(
        calls.c.run_id,
        calls.c.check,
        calls.c.kind,
        calls.c.outcome,
        func.count(),
        func.sum(func.coalesce(calls.c.cost_micro, 0)),
    ).where(calls.c.state.in_(_KEPT_STATES))
    groups = counted.group_by(calls.c.run_id, calls.c.check, calls.c.kind, calls.c.outcome)
    truth = {
        (run, check, kind, outcome or ""): (int(number), int(cost))
        for run, check, kind, outcome, number, cost in connection.execute(groups)
    }
    kept = {tuple(row[:4]): (row[4], row[5]) for row in connection.execute(select(tallies))}
    return [] if truth == kept else ["the tallies do not equal the answered calls"]


def _money(connection: Connection) -> list[str]:
    """Add up every call again and compare with the counters the caps rest on."""
    truth: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for run_id, check, day, spent, reserved, number in connection.execute(_SUMS):
        at = int(day) * DAY_MICROS + NOON_MICROS
        for scope in scopes_of(run_id, check, at):
            truth[scope].update(spent=int(spent), reserved=int(reserved), calls=int(number))
    left_out = select(calls.c.run_id, calls.c.check, calls.c.intent_at, disputes.c.excess_micro)
    for run_id, check, at, excess in connection.execute(
        left_out.where(calls.c.call_id == disputes.c.call_id)
    ):
        for scope in scopes_of(run_id, check, at):
            truth[disputed_scope(scope)].update(spent=excess)
    kept = {scope: tuple(rest) for scope, *rest in connection.execute(select(spend))}
    wrong = []
    for scope in sorted({*truth, *kept}):
        sums = truth[scope]
        if kept.get(scope, (0, 0, 0)) != (sums["spent"], sums["reserved"], sums["calls"]):
            wrong.append(f"the counters of {scope} do not equal its calls")
    differ = _count(
        connection,
        calls.c.call_id == disputes.c.call_id,
        disputes.c.state == DisputeState.SETTLED.value,
        disputes.c.settled_at.is_not(None),  # else another figure waits for a second person
        calls.c.cost_micro.is_distinct_from(disputes.c.invoice_micro),
    )
    return [*wrong, f"{differ} calls do not cost what their invoice says"] if differ else wrong


_KEPT = calls.c.state.in_(sorted(RESERVING)) & calls.c.cost_micro.is_(None)
_DAY = ((calls.c.intent_at - NOON_MICROS) // DAY_MICROS).label("day")
_SUMS = select(
    calls.c.run_id,
    calls.c.check,
    _DAY,
    func.sum(case((_KEPT, 0), else_=func.coalesce(calls.c.cost_micro, 0))),
    func.sum(case((_KEPT, calls.c.reserved_micro), else_=0)),
    func.sum(case((calls.c.state == CallState.NOT_SENT.value, 0), else_=1)),
).group_by(calls.c.run_id, calls.c.check, _DAY)
