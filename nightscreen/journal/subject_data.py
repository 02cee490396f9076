"""What the journal holds of one person: every call and every answer of some identifiers.

Found by pseudonym, opened with the data key. What of it may be shown is decided in `privacy/`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import select

from nightscreen.journal.calls import open_answer
from nightscreen.journal.engine import reading
from nightscreen.journal.schema import answers, calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Engine

    from nightscreen.files.sealing import Sealer
    from nightscreen.journal.storage import Storage


@dataclass(frozen=True, slots=True)
class HeldCall:
    """One call as the journal keeps it; instants in microseconds, money in micro-naira."""

    call_id: int
    run_id: str
    check: str
    kind: str
    subject: bytes
    purpose: str
    attempt: int
    consent_reference: str | None
    intent_at: int
    sent_at: int | None
    settled_at: int | None
    state: str
    trouble: str | None
    outcome: str | None
    cost_micro: int | None
    reserved_micro: int


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """One answer, opened."""

    check: str
    subject: bytes
    outcome: str
    answered_at: int
    run_id: str
    body: bytes = field(repr=False)


_CALL_FIELDS = tuple(HeldCall.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Held:
    """Reads what is held of some identifiers."""

    _engine: Engine = field(repr=False)
    _sealer: Sealer = field(repr=False)

    @classmethod
    def of(cls, journal: Storage) -> Held:
        """Return what an open journal holds."""
        return cls(journal.engine, journal.sealer)

    def calls(self, subjects: Sequence[bytes]) -> list[HeldCall]:
        """Return every call about some identifiers, oldest first."""
        columns = [calls.c[name] for name in _CALL_FIELDS]
        query = select(*columns).where(calls.c.subject.in_(subjects)).order_by(calls.c.call_id)
        with reading(self._engine) as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return [HeldCall(**{**row, "subject": bytes(row["subject"])}) for row in rows]

    def answers(self, subjects: Sequence[bytes]) -> list[HeldAnswer]:
        """Return every answer about some identifiers, oldest first.

        Raises:
            JournalDamagedError: a sealed body does not open.
        """
        query = select(answers).where(answers.c.subject.in_(subjects)).order_by(answers.c.answer_id)
        with reading(self._engine) as connection:
            rows = connection.execute(query).all()
        return [
            HeldAnswer(
                row.check,
                bytes(row.subject),
                row.outcome,
                row.answered_at,
                row.run_id,
                open_answer(
                    self._sealer, row.check, bytes(row.subject), row.outcome, bytes(row.body)
                )[1],
            )
            for row in rows
        ]
