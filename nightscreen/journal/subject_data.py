"""What the journal holds of one person: every call and every answer of some identifiers.

Found by pseudonym, opened with the data key. What of it may be shown is decided in `privacy/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from nightscreen.journal.calls import open_answer
from nightscreen.journal.engine import reading
from nightscreen.journal.schema import answers, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from nightscreen.journal.storage import Storage


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """One answer, opened."""

    check: str
    outcome: str
    answered_at: int
    run_id: str
    body: bytes = field(repr=False)


def calls_about(journal: Storage, subjects: Sequence[bytes]) -> Sequence[Row[Any]]:
    """Return every call about some identifiers as the table `calls` has it, oldest first."""
    query = select(calls).where(calls.c.subject.in_(subjects)).order_by(calls.c.call_id)
    with reading(journal.engine) as connection:
        return connection.execute(query).all()


def answers_about(journal: Storage, subjects: Sequence[bytes]) -> list[HeldAnswer]:
    """Return every answer about some identifiers, oldest first.

    Raises:
        JournalDamagedError: a sealed body does not open.
    """
    query = select(answers).where(answers.c.subject.in_(subjects)).order_by(answers.c.answer_id)
    with reading(journal.engine) as connection:
        rows = connection.execute(query).all()
    found = []
    for row in rows:
        sealed = (row.check, bytes(row.subject), row.outcome, bytes(row.body))
        body = open_answer(journal.sealer, *sealed)[1]
        found.append(HeldAnswer(row.check, row.outcome, row.answered_at, row.run_id, body))
    return found
