"""What people record about notices: proposals confirmed, actions taken, notices sent.

`notices` decides from these records who gets which notice.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from nightscreen.journal.actor import ACTION, CONFIRM
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.reading.open_file import returned_tables
from nightscreen.results.notices import NOTICE_COLUMNS, SENT_COLUMNS, rewrite_notices
from nightscreen.results.reviews import read_written_date
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import DAY_MICROS, LAGOS, lagos_day, to_micros
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    ContestOutcome,
    ContestState,
    CustomerAction,
    SentNotice,
)
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nightscreen.config.declarations import Declarations
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord

_NEEDED_BACK = ("customer_id", "reason_code", "sentence_digest", "run_id", "told_at", "told_how")


def confirm_proposals(
    journal: Journal, actor: Actor, run_id: str, declared: Declarations, *, note: str = ""
) -> dict[str, int]:
    """Record that a person confirms all proposals of a run, and write its notices.

    Raises:
        NotAllowedError: the actor may not approve.
        InputError: there is no such run, it is held, or its rows were purged.
    """
    actor.require(journal, CONFIRM, run_id=run_id)
    run = journal.runs.find(run_id)
    if run is None or run.purpose != Purpose.ORIGINATION.value:
        raise InputError(f"there is no run {run_id} for origination; see: nightscreen runs list")
    now = journal.clock()
    confirmation = Confirmation(
        key=f"{run_id}:{now}", batch=run.batch, run_id=run_id, at=now, by=actor.name, note=note
    )
    Records(journal, Confirmation).add([confirmation])
    counts = rewrite_notices(journal, run_id, declared)
    actor.note(journal, "proposals confirmed", run_id=run_id, to_send=counts["to_send"])
    return counts


def record_action(
    journal: Journal, actor: Actor, customer_id: str, *, batch: str, action: str
) -> CustomerAction:
    """Record an action against a customer, of which the customer must be notified.

    Raises:
        NotAllowedError: the actor may not decide on customers.
        InputError: the batch has no such customer, or the action is blank.
    """
    actor.require(journal, ACTION, customer_id=customer_id)
    if not action.strip():
        raise InputError("the action is blank: say what was done, in the words for the customer")
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers(journal).known([customer]).get(customer)
    if known is None:
        raise InputError(
            f"no such customer in batch {batch}; write the customer_id as the file has it"
        )
    now = journal.clock()
    recorded = CustomerAction(
        key=f"{customer.hex()}:{now}",
        customer=customer,
        batch=batch,
        run_id=known.run_id,
        at=now,
        customer_id=customer_id,
        action=action.strip(),
        by=actor.name,
    )
    Records(journal, CustomerAction).add([recorded])
    actor.note(journal, "action recorded", run_id=known.run_id, customer_id=customer_id)
    return recorded


class SentIssue(NamedTuple):
    """What is wrong with a row of a returned list of notices, without any value of the row."""

    line: int
    column: str
    hint: str


def import_sent(journal: Journal, path: Path) -> tuple[int, int, list[SentIssue]]:
    """Import when and how notices were sent: every row or, if any is wrong, none.

    Returns:
        Rows imported, rows imported before, and mistakes.

    Raises:
        InputError: the file is not a list of notices.
    """
    notices: list[SentNotice] = []
    mistakes: list[SentIssue] = []
    runs: dict[str, RunRecord | None] = {}
    now = journal.clock()
    for line, row in _read_sent(path):
        if row["run_id"] not in runs:
            runs[row["run_id"]] = journal.runs.find(row["run_id"])
        run = runs[row["run_id"]]
        if run is None:
            mistakes.append(SentIssue(line, "run_id", "There is no such run here."))
            continue
        at = read_written_date(row["told_at"], run.started_at, now)
        if not row["customer_id"]:
            mistakes.append(SentIssue(line, "customer_id", "Every row needs the customer's id."))
        elif not row["told_how"]:
            hint = "Say how: letter, text message, call, visit."
            mistakes.append(SentIssue(line, "told_how", hint))
        elif not isinstance(at, int):
            mistakes.append(SentIssue(line, "told_at", at or "Say when the customer was told."))
        else:
            notices.append(_sent(journal, run, row, sent_at=at))
    if mistakes:
        return 0, 0, mistakes
    added = Records(journal, SentNotice).add(notices)
    return added, len(notices) - added, []


def _read_sent(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line and cells of each notice that says when or how it was sent."""
    for table in returned_tables(path, NOTICE_COLUMNS):
        names = [" ".join(heading.split()).casefold() for heading in table.headings]
        if missing := [name for name in _NEEDED_BACK if name not in names]:
            raise InputError(
                f"{path}: this is no notices.csv that came back: it lacks {', '.join(missing)}; "
                "keep its headings, and save it as CSV"
            )
        for line, cells in table.rows:
            row = dict(zip(names, map(str.strip, cells), strict=False))
            if any(row.get(name) for name in SENT_COLUMNS):
                yield line, row


def record_sent(
    journal: Journal, run: RunRecord, notice: Mapping[str, str], *, how: str, by: str
) -> bool:
    """Record that a notice was just sent to a customer, and how.

    Returns:
        False if the same was recorded before, on the same day and by the same way.

    Raises:
        InputError: how or by is blank.
    """
    if not (how.strip() and by.strip()):
        raise InputError("Say how the customer was told, and who did it.")
    row = {**notice, "told_how": how.strip(), "told_by": by.strip()}
    sent = _sent(journal, run, row, sent_at=journal.clock())
    return bool(Records(journal, SentNotice).add([sent]))


def _sent(journal: Journal, run: RunRecord, row: Mapping[str, str], *, sent_at: int) -> SentNotice:
    """Return the record of a sent notice; its key has the day and the way it was sent."""
    customer = journal.pseudonyms.customer(run.batch, row["customer_id"])
    day = str(lagos_day(sent_at))
    parts = (customer.hex(), run.run_id, row["reason_code"], day, row["told_how"])
    return SentNotice(
        key=hashlib.sha256("\x1f".join(parts).encode()).hexdigest(),
        customer=customer,
        batch=run.batch,
        run_id=run.run_id,
        at=journal.clock(),
        customer_id=row["customer_id"],
        reason_code=row["reason_code"],
        sentence_digest=row["sentence_digest"],
        told_at=_not_before(row.get("decided_at", ""), sent_at),
        told_how=row["told_how"],
        told_by=row.get("told_by", ""),
    )


def _not_before(text: str, sent_at: int) -> int:
    """Return when a notice was sent; a date without a time is never before the decision."""
    try:
        decided_at = datetime.fromisoformat(text)
    except ValueError:
        return sent_at
    instant = to_micros(decided_at.replace(tzinfo=decided_at.tzinfo or LAGOS))
    return max(sent_at, instant) if abs(instant - sent_at) < DAY_MICROS else sent_at


def contests_report(journal: Journal, batch: str) -> dict[str, int]:
    """Return how many contests of a batch are open, overdue, answered, or changed a decision."""
    now = journal.clock()
    contests = Records(journal, Contest).all(batch=batch)
    waiting = [contest for contest in contests if contest.state == ContestState.OPEN]
    return {
        "open": len(waiting),
        "overdue": sum(contest.due_at < now for contest in waiting),
        "answered": len(contests) - len(waiting),
        "changed": sum(contest.outcome is ContestOutcome.CHANGED for contest in contests),
    }
