"""Rotation of the data key: a new key beside the old one, every answer resealed, the old retired.

Runs may go on meanwhile, and a crash at any moment leaves a journal that opens with either key;
rotating again goes on where it stopped. The key of pseudonyms is resealed but never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select, update

from nightscreen.files.keys import decode_key, new_key, replace_key
from nightscreen.files.sealing import KEY_ID_BYTES, key_id
from nightscreen.journal.calls import SEAL_KEY, answer_context
from nightscreen.journal.engine import reading, told, writing
from nightscreen.journal.keyring import begin_rotation, end_rotation, read_meta, under_way
from nightscreen.journal.runs import RUNNING
from nightscreen.journal.seals import reseal
from nightscreen.journal.statements import Many
from nightscreen.journal.tables import answers, runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.journal.opening import Journal

_BLOCK = 500
_RESEAL = Many(
    lambda _: (
        update(answers)
        .where(answers.c.answer_id == bindparam("id_"))
        .values(body=bindparam("body_"))
    ),
    ("body_", "id_"),
)


@dataclass(frozen=True, slots=True)
class Rotation:
    """How far a rotation came.

    Attributes:
        resealed: answers that were sealed anew this time.
        finished: the old key is retired; otherwise both are still accepted.
        waiting_for: runs under way that may still hold the old key alone.
    """

    resealed: int
    finished: bool
    waiting_for: tuple[str, ...]


def rotate_key(
    journal: Journal,
    *,
    configured: str = "",
    new: bytes | None = None,
    beside: Callable[[Journal], int] = lambda _: 0,
) -> Rotation:
    """Seal everything under a new key; retire the old one once nothing can need it.

    Args:
        journal: the open journal.
        configured: the data key of the settings; empty where it is kept under HOME, and then
            replaced there.
        new: the new key; a random one by default. Ignored where a rotation is under way.
        beside: seals anew what lies outside the journal, and says how much that was.

    Raises:
        JournalError: the journal cannot be written; both keys are accepted, rotate again.
    """
    with writing(journal.engine) as connection:
        if not under_way(connection):
            fresh = new if new is not None else new_key()
            begin_rotation(connection, journal.sealer.key, fresh, journal.clock())
        wanted = read_meta(connection)[SEAL_KEY]
    journal.sealer.switch(wanted)
    resealed = _reseal(journal) + reseal(journal)
    resealed += beside(journal)
    if not configured:
        replace_key(journal.home, journal.sealer.key)
    settled = not configured or decode_key(configured, "the data key") == journal.sealer.key
    waiting = _running(journal)
    finished = settled and not waiting
    if finished:
        with writing(journal.engine) as connection:
            end_rotation(connection, journal.sealer, journal.pseudonyms.key, journal.clock())
        _empty_log(journal)
    return Rotation(resealed, finished, waiting)


def _reseal(journal: Journal) -> int:
    """Seal each answer under the present key, in blocks, so that runs are not kept waiting."""
    current = key_id(journal.sealer.key)
    last = done = 0
    query = (
        select(answers.c.answer_id, answers.c.check, answers.c.subject, answers.c.body)
        .where(answers.c.answer_id > bindparam("last"))
        .order_by(answers.c.answer_id)
        .limit(_BLOCK)
    )
    while True:
        with writing(journal.engine) as connection:
            rows = connection.execute(query, {"last": last}).all()
            sealed = []
            for answer_id, check, subject, body in rows:
                if bytes(body[:KEY_ID_BYTES]) != current:
                    context = answer_context(check, bytes(subject))
                    plain = journal.sealer.open(bytes(body), context)
                    sealed.append((journal.sealer.seal(plain, context), answer_id))
            _RESEAL.run(connection, sealed)
        if not rows:
            return done
        done += len(sealed)
        last = rows[-1].answer_id


def _running(journal: Journal) -> tuple[str, ...]:
    """Return the runs that another living process works on."""
    with reading(journal.engine) as connection:
        query = select(runs.c.run_id, runs.c.holder).where(runs.c.state == RUNNING)
        return tuple(
            run_id
            for run_id, holder in connection.execute(query).all()
            if holder and holder != journal.holders.name
            if journal.holders.alive(holder, connection)
        )


def _empty_log(journal: Journal) -> None:
    """Leave nothing that was sealed under the old key in SQLite's write-ahead log."""
    if journal.engine.dialect.name == "sqlite":
        with told(journal.engine), journal.engine.connect() as connection:
            cursor = connection.connection.cursor()  # outside a transaction, as it must be
            cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            cursor.close()
