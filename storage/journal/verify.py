"""Verify a journal: the database itself, every seal, and that the counters equal the calls."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sqlalchemy import select, text

from schemas.calls import CallState
from schemas.errors import JournalDamagedError, JournalKeyError
from storage.journal.calls import answer_context
from storage.journal.engine import reading
from storage.journal.money import scopes_of
from storage.journal.tables import answers, calls, spend

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from storage.journal.opening import Journal

_BLOCK = 2000
_KEPT = (CallState.INTENT.value, CallState.IN_DOUBT.value)


def verify_journal(journal: Journal) -> list[str]:
    """Return a sentence for each thing that is wrong; empty where the journal is sound."""
    with reading(journal.engine) as connection:
        return [
            *_database(connection),
            *_seals(journal, connection),
            *_money(connection),
        ]


def _database(connection: Connection) -> list[str]:
    if connection.dialect.name != "sqlite":
        return []
    found = [row[0] for row in connection.execute(text("PRAGMA integrity_check"))]
    return [] if found == ["ok"] else [f"the database is damaged: {each}" for each in found]


def _seals(journal: Journal, connection: Connection) -> list[str]:
    columns = (answers.c.answer_id, answers.c.check, answers.c.subject, answers.c.body)
    broken = 0
    result = connection.execution_options(yield_per=_BLOCK).execute(select(*columns))
    for _, check, subject, body in result:
        try:
            journal.sealer.open(bytes(body), answer_context(check, bytes(subject)))
        except (JournalDamagedError, JournalKeyError):
            broken += 1
    return [f"{broken} stored answers do not open under the data key"] if broken else []


def _money(connection: Connection) -> list[str]:
    """Add up every call again and compare with the counters the caps rest on."""
    spent: dict[str, int] = defaultdict(int)
    reserved: dict[str, int] = defaultdict(int)
    columns = (
        calls.c.run_id,
        calls.c.check,
        calls.c.intent_at,
        calls.c.state,
        calls.c.cost_micro,
        calls.c.reserved_micro,
    )
    result = connection.execution_options(yield_per=_BLOCK).execute(select(*columns))
    for run_id, check, intent_at, state, cost, worst in result:
        unknown = state == CallState.ANSWERED.value and cost is None
        for scope in scopes_of(run_id, check, intent_at):
            spent[scope] += cost or 0
            reserved[scope] += worst if state in _KEPT or unknown else 0
    wrong = []
    for scope, was_spent, was_reserved in connection.execute(
        select(spend.c.scope, spend.c.spent_micro, spend.c.reserved_micro)
    ):
        if (was_spent, was_reserved) != (spent[scope], reserved[scope]):
            wrong.append(f"the counters of {scope} do not equal its calls")
    return wrong
