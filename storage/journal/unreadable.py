"""Answers that were paid for and could not be read: found again, and settled once they can be.

An answer that is read after all keeps its call, its time and its cost; only what it says becomes
known. What a body says is decided in `steps/`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import delete, select, update

from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import Outcome
from nightscreen.storage.journal.calls import SEAL_KEY, answer_context, open_answer
from nightscreen.storage.journal.engine import reading, writing
from nightscreen.storage.journal.keyring import read_meta
from nightscreen.storage.journal.statements import adding_up
from nightscreen.storage.journal.tables import answers, calls, tallies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Connection

    from nightscreen.storage.journal.opening import Journal

BLOCK = 500
_UNREAD = Outcome.UNREADABLE.value
_TALLY = adding_up(tallies, ("answers", "cost_micro"))


@dataclass(frozen=True, slots=True)
class UnreadAnswer:
    """One answer that could not be read, with its body opened.

    Attributes:
        answer_id: its number in the journal.
        call_id: the call that brought it.
        run_id: the run that asked.
        check: the check or operation.
        kind: what kind of identifier was asked about.
        subject: pseudonym of the identifier.
        status: HTTP status of the answer.
        cost_micro: what it cost.
        asked: the identifier that was asked about.
        body: as received.
    """

    answer_id: int
    call_id: int
    run_id: str
    check: str
    kind: str
    subject: bytes = field(repr=False)
    status: int | None
    cost_micro: int
    asked: str = field(repr=False)
    body: bytes = field(repr=False)


def unread_answers(journal: Journal) -> Iterator[list[UnreadAnswer]]:
    """Yield the answers that could not be read, in blocks, oldest first.

    Raises:
        JournalDamagedError: a body does not open.
    """
    of_call = answers.join(calls, answers.c.call_id == calls.c.call_id)
    columns = (
        answers.c.answer_id,
        *(calls.c[name] for name in ("call_id", "run_id", "check", "kind", "status")),
        answers.c.subject,
        answers.c.cost_micro,
        answers.c.body,
    )
    query = select(*columns).select_from(of_call).where(answers.c.outcome == _UNREAD)
    last = 0
    while True:
        block = query.where(answers.c.answer_id > last).order_by(answers.c.answer_id).limit(BLOCK)
        with reading(journal.engine) as connection:
            rows = connection.execute(block).all()
        if not rows:
            return
        found = []
        for row in rows:
            subject = bytes(row.subject)
            asked, body = open_answer(journal.sealer, row.check, subject, _UNREAD, bytes(row.body))
            found.append(
                UnreadAnswer(
                    row.answer_id,
                    row.call_id,
                    row.run_id,
                    row.check,
                    row.kind,
                    subject,
                    row.status,
                    row.cost_micro or 0,
                    asked,
                    body,
                )
            )
        yield found
        last = rows[-1].answer_id


def settle_read(journal: Journal, read: Sequence[tuple[UnreadAnswer, Outcome]]) -> int:
    """Write down what answers say that can be read by now; return how many there were.

    One that was erased or read meanwhile is left as it is, so that this may be done twice.

    Raises:
        JournalError: nothing of it was committed.
    """
    if not read:
        return 0
    with writing(journal.engine) as connection:
        journal.sealer.switch(read_meta(connection)[SEAL_KEY])
        return sum(_settle_one(connection, journal, each, outcome) for each, outcome in read)


def _settle_one(
    connection: Connection, journal: Journal, each: UnreadAnswer, outcome: Outcome
) -> int:
    sealed = journal.sealer.seal(each.body, answer_context(each.check, each.subject))
    done = connection.execute(
        update(answers)
        .where(answers.c.answer_id == each.answer_id, answers.c.outcome == _UNREAD)
        .values(outcome=outcome.value, body=sealed)
    ).rowcount
    if not done:
        return 0
    connection.execute(
        update(calls)
        .where(calls.c.call_id == each.call_id)
        .values(state=CallState.ANSWERED.value, outcome=outcome.value, trouble=None)
    )
    moved = Counter({_UNREAD: -1, outcome.value: 1})
    key = (each.run_id, each.check, each.kind)
    _TALLY.run(
        connection,
        [(*key, word, number, number * each.cost_micro) for word, number in sorted(moved.items())],
    )
    connection.execute(delete(tallies).where(tallies.c.answers == 0))
    return 1
