"""Verify a journal: the database, every seal, that counters equal calls, and the desk's audit."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import case, func, select, text

from nightscreen.journal.audit import Audit
from nightscreen.journal.calls import NO_ANSWER
from nightscreen.journal.money import RESERVING, Changes, DisputeState, Spent, scopes_of
from nightscreen.journal.schema import (
    PASSING_TABLES,
    TOMBSTONE,
    answers,
    audit,
    calls,
    disputes,
    metadata,
    spend,
)
from nightscreen.schemas.calls import KEPT_STATES, CallState
from nightscreen.schemas.clock import DAY_MICROS, NOON_MICROS
from nightscreen.schemas.errors import JournalDamagedError, JournalKeyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, ColumnElement, Connection, Row

    from nightscreen.journal.schema import Seal
    from nightscreen.journal.storage import Storage

_BLOCK = 50  # a record may hold an attachment of some megabytes
_KEPT_STATES = sorted(state.value for state in KEPT_STATES)


def verify_journal(journal: Storage) -> list[str]:
    """Return a sentence for each problem; empty if the journal is sound.

    Everything is read from one snapshot, so that runs can continue meanwhile.
    """
    with journal.database.snapshot() as connection:
        return [
            *_database(connection),
            *broken_seals(journal, connection),
            *_answers(connection),
            *_money(connection),
            *Audit(journal).findings(connection),
        ]


def _database(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    found = [row[0] for row in connection.execute(text("PRAGMA integrity_check"))]
    return [] if found == ["ok"] else [f"the database is damaged: {each}" for each in found]


def broken_seals(journal: Storage, connection: Connection) -> list[str]:
    """Return a sentence for each table with sealed values that the data key does not open.

    The audit is left out: its own check names the entries.
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
    """Yield the rows whose value in a sealed column does not open."""
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
    answered = calls.c.state.in_(_KEPT_STATES)
    lacking = _count(
        connection,
        *(answered, calls.c.subject != TOMBSTONE),
        calls.c.call_id.not_in(select(answers.c.call_id)),
    )
    stray = _count(
        connection,
        answers.c.call_id.not_in(select(calls.c.call_id).where(answered)),
        answers.c.outcome != NO_ANSWER,
    )
    found = [f"{lacking} answered calls have no stored answer"] * bool(lacking)
    return found + [f"{stray} stored answers have no answered call"] * bool(stray)


def _count(connection: Connection, *conditions: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).where(*conditions)).scalar_one())


def _money(connection: Connection) -> list[str]:
    """Add up all calls again and compare the sums with the counters of the caps."""
    truth = Changes()
    for run_id, check, day, *sums in connection.execute(_SUMS):
        at = int(day) * DAY_MICROS + NOON_MICROS
        truth.add(scopes_of(run_id, check, at), Spent(*map(int, sums)))
    left_out = select(calls.c.run_id, calls.c.check, calls.c.intent_at, disputes.c.excess_micro)
    for *call, excess in connection.execute(left_out.where(calls.c.call_id == disputes.c.call_id)):
        truth.add(scopes_of(*call), Spent(disputed_micro=excess))
    kept = {scope: Spent(*rest) for scope, *rest in connection.execute(select(spend))}
    wrong = [
        f"the counters of {scope} do not equal its calls"
        for scope in sorted({*truth, *kept})
        if kept.get(scope, Spent()) != truth.get(scope, Spent())
    ]
    differ = _count(
        connection,
        calls.c.call_id == disputes.c.call_id,
        disputes.c.dispute == DisputeState.SETTLED.value,
        disputes.c.invoice_at.is_not(None),  # else another figure waits for a second person
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
