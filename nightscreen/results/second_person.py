"""The second person: a decline turned into approve above a threshold waits for one.

Every way to another decision asks `needs_second`: a review, an answer to a contest, a list that
comes back by command or inbox, and rows of a quarantine that somebody typed. What waits is a record
of the journal and no review yet. That whoever confirms has the right is the desk's to see to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.files.person import same_person
from nightscreen.journal.customers import Customers
from nightscreen.journal.engine import writing
from nightscreen.journal.records import Records
from nightscreen.journal.reviews import Reviews
from nightscreen.results.one_row import find_row
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.contests import ENDED, Contest, ContestOutcome, Review
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator
    from decimal import Decimal

    from nightscreen.journal import Journal

_LOOKED_AT = 60
"""Runs of a batch, from the newest on, in which a customer's exposure is looked for."""


def needs_second(
    journal: Journal,
    above: Decimal | None,
    *,
    batch: str,
    customer_id: str,
    decision: str,
    run_id: str = "",
) -> bool:
    """Tell whether a decision turns a decline into approve above what one person may.

    The policy's latest decision counts, and that of the run whose list was looked at; so does each
    of their exposures. An exposure that is not known counts as above.

    Args:
        journal: the journal.
        above: naira, of the setting OVERRIDE_ABOVE; None where one person is enough.
        batch: the batch name.
        customer_id: as the lender's file has it.
        decision: the new one.
        run_id: whose list or row was looked at; empty where none was.
    """
    if above is None or decision != Decision.APPROVE.value:
        return False
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers.of(journal).known([customer]).get(customer)
    listed = None if known is None else known.state.get(LISTED_PART)
    decisions = {"" if listed is None else listed.values["decision"]}
    exposures = []
    for row in _rows(journal, batch, customer_id, run_id):
        decisions.add(row["decision"])
        exposures.append(row.get("exposure"))
    if Decision.DECLINE.value not in decisions:
        return False
    return not exposures or any(each is None or each > above for each in exposures)


def _rows(journal: Journal, batch: str, customer_id: str, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield a customer's row in a run, and the newest one of the batch."""
    looked_at = journal.runs.find(run_id) if run_id else None
    row = None if looked_at is None else find_row(looked_at, customer_id)
    if row is not None:
        yield row
    for run in journal.runs.newest(batch=batch, limit=_LOOKED_AT):
        row = find_row(run, customer_id)
        if row is not None:
            yield row
            return


def confirm_override(journal: Journal, waiting: Review, by: str) -> Review:
    """Let an override stand that somebody else proposed; return the review that it is now.

    Raises:
        InputError: it is one's own, does not wait any more, or the customer's evidence or another
            review is in its way.
    """
    reviews = Reviews.of(journal)
    if any(same_person(by, each) for each in (waiting.reviewer, waiting.imported_by) if each):
        raise InputError("nobody confirms their own override: another user does")
    now = journal.clock()
    known = Customers.of(journal).known([waiting.customer]).get(waiting.customer)
    if known is None or evidence_digest(known.state) != waiting.evidence:
        raise InputError(
            "the customer's evidence has changed since this was proposed: refuse it, and review "
            "the customer again"
        )
    contest = Records.of(journal, Contest).find(waiting.contest) if waiting.contest else None
    if contest is not None and contest.answered_at is not None:
        raise InputError(f"contest {contest.key} is answered already: refuse this override")
    if contest is None and any(
        each.run_id == waiting.run_id
        and each.until > now
        and each.decision != waiting.decision
        and not same_person(each.reviewer, waiting.reviewer)
        for each in reviews.of_customer(waiting.customer)
    ):
        raise InputError("another reviewer decided otherwise meanwhile: settle it with them")
    note = waiting.note
    if contest is not None:
        note = f"Contest {contest.key}: {note}"
    change = {
        "key": f"{waiting.key}-confirmed",
        "state": "",
        "customer_id": "",
        "note": f"{note}. Confirmed by {by}",
        "confirmed_by": by,
        "until": now + waiting.until - waiting.reviewed_at,
    }
    confirmed = waiting.model_copy(update={**change, "at": now})
    records, ended = Records.of(journal, Review), waiting.model_copy(update={"state": ENDED})
    with writing(journal.engine) as connection:
        if not records.swap(connection, ended, waiting, now):
            raise InputError(
                "this override does not wait any more: somebody else decided on it first"
            )
        if contest is not None and not Records.of(journal, Contest).swap(
            connection, _answered(contest, waiting, now), contest, now
        ):
            raise InputError(f"contest {contest.key} was changed meanwhile: look at it again")
        records.insert(connection, [confirmed])
    return confirmed


def _answered(contest: Contest, waiting: Review, now: int) -> Contest:
    """Return the contest as it is answered by what was confirmed."""
    values = {
        "answered_at": now,
        "answered_by": waiting.reviewer,
        "outcome": ContestOutcome.CHANGED,
        "answer": waiting.note,
        "new_decision": Decision(waiting.decision),
    }
    return contest.model_copy(update=values)
