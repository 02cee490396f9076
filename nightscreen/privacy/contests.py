"""Contests: a customer's objection to a decision or to how their data are handled.

A contest can be opened at any time after a decision. A person who did not decide answers it by its
due date. While it is open, the customer gets no notice (`results/notices.py`) and no loan offer.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from nightscreen.journal.actor import CONTEST, OVERRIDE
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.privacy.lookup_subject import lookup_subject
from nightscreen.results.changes import evidence_digest, listed_decision
from nightscreen.results.notices import withdraw_notices
from nightscreen.results.reviews import DEFAULT_DAYS, close_cases, needs_second
from nightscreen.schemas.clock import DAY_MICROS, MICROS, to_instant
from nightscreen.schemas.contests import (
    Confirmation,
    Contest,
    ContestAbout,
    ContestOutcome,
    ContestState,
    CustomerAction,
    Review,
)
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from decimal import Decimal

    from nightscreen.config.settings import ContestClocks
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor

_HOUR = 3600 * MICROS  # settings are in hours, the journal in microseconds


def open_contest(
    journal: Journal,
    actor: Actor,
    clocks: ContestClocks,
    customer_id: str,
    *,
    said: str,
    batch: str = "",
    about: ContestAbout = ContestAbout.DECISION,
    is_complex: bool = False,
) -> Contest:
    """Record a customer's contest; there is no deadline for opening one.

    The batch name is needed if no data of the customer are held any more.

    Raises:
        NotAllowedError: the actor may not record contests.
        InputError: the batch or the customer is unknown, a text is missing, or the customer has
            already contested the same.
    """
    actor.require(journal, CONTEST)
    _require(said, "What the customer says")
    batch = batch or lookup_subject(journal, customer_id)[0].batch
    runs = journal.runs.newest(batch=batch, limit=None)
    if not runs:
        raise InputError(f"there is no batch {batch}; see: nightscreen runs list")
    customer = journal.pseudonyms.customer(batch, customer_id)
    store = Records(journal, Contest)
    for contest in store.of_customers([customer]):
        if contest.state == ContestState.OPEN and contest.about is about:
            raise InputError(f"this customer contests already: {contest.key}; answer it first")
    known = Customers(journal).known([customer]).get(customer)
    listed = None if known is None else known.state.get(LISTED_PART)
    now = journal.clock()
    hours = {
        ContestAbout.DECISION: clocks.complex_hours if is_complex else clocks.hours,
        ContestAbout.DATA_PROTECTION: clocks.data_protection_hours,
    }
    made = Contest(
        key=f"{to_instant(now):%Y%m%d}-{secrets.token_hex(4)}",
        customer=customer,
        batch=batch,
        run_id=listed.run_id if listed is not None else "",
        at=now,
        customer_id=customer_id,
        about=about,
        is_complex=is_complex,
        decision=None if listed is None else Decision(listed.values["decision"]),
        said=said,
        opened_by=actor.name,
        due_at=now + round(hours[about] * _HOUR),
    )
    store.add([made])
    withdraw_notices(journal, customer_id)
    actor.note(journal, "contest recorded", customer_id=customer_id, contest=made.key)
    return made


def find_contest(journal: Journal, contest_id: str) -> Contest:
    """Return a contest.

    Raises:
        InputError: there is none of this id.
    """
    found = Records(journal, Contest).find(contest_id)
    if found is None:
        raise InputError(f"there is no contest {contest_id}")
    return found


def answer_contest(
    journal: Journal,
    actor: Actor,
    contest_id: str,
    *,
    answer: str,
    outcome: ContestOutcome,
    decision: Decision | None = None,
    above: Decimal | None = None,
) -> Contest:
    """Answer a contest; a changed decision is saved as a review by the person who answers.

    A decline changed to approve above `above` naira needs a second person: the contest stays open
    until that person confirms it.

    Raises:
        NotAllowedError: the actor may not answer contests or override decisions, or made the
            contested decision.
        InputError: there is no such open contest, or the outcome and the decision do not agree.
    """
    actor.require(journal, CONTEST)
    if decision is not None:
        actor.require(journal, OVERRIDE)
    _require(answer, "Answer")
    contest = find_contest(journal, contest_id)
    if contest.state != ContestState.OPEN:
        raise InputError(f"contest {contest_id} is answered already")
    actor.require_other(
        deciders(journal, contest),
        f"You decided what is contested: contest {contest_id} is answered by somebody else.",
    )
    changed = outcome is ContestOutcome.CHANGED and contest.about is ContestAbout.DECISION
    if changed != (decision is not None):
        raise InputError(
            "a decision that is changed needs the new one (approve, review or decline), and no "
            "other outcome has one"
        )
    now = journal.clock()
    review = None if decision is None else _review(journal, contest, decision, actor.name, answer)
    if review is not None and needs_second(
        journal,
        above,
        batch=contest.batch,
        customer_id=contest.customer_id,
        decision=review.decision,
        run_id=contest.run_id,
    ):
        waits = {"contest": contest.key, "customer_id": contest.customer_id}
        Reviews(journal).propose([review.model_copy(update=waits)])
        about = {"run_id": contest.run_id, "customer_id": contest.customer_id}
        actor.note(journal, "override proposed", **about, contest=contest.key)
        return contest
    answered = contest.answered(actor.name, outcome, answer, decision, now)
    decided = []
    if review is not None:
        note = f"Contest {contest.key}: {review.note}"
        decided = [review.model_copy(update={"note": note, "at": now})]
    with journal.database.writing() as connection:
        if not Records(journal, Contest).swap(connection, answered, contest, now):
            raise InputError(f"contest {contest_id} was changed meanwhile: look at it again")
        Records(journal, Review).insert(connection, decided)
    Reviews(journal).end_waiting(contest.customer)
    if review is not None:
        close_cases(journal, [review])
    actor.note(
        journal,
        "contest answered",
        customer_id=contest.customer_id,
        contest=contest.key,
        outcome=outcome,
        decision=decision or "",
    )
    return answered


def _review(
    journal: Journal, contest: Contest, decision: Decision, by: str, answer: str
) -> Review | None:
    """Return the new decision as a review, which stands while the evidence is unchanged."""
    known = Customers(journal).known([contest.customer]).get(contest.customer)
    if known is None:
        return None
    now, listed = journal.clock(), known.state.get(LISTED_PART)
    return Review(
        customer=contest.customer,
        batch=contest.batch,
        run_id=known.run_id if listed is None else listed.run_id,
        listed=listed_decision(known),
        decision=decision.value,
        reviewer=by,
        note=answer,
        reviewed_at=now,
        until=now + DEFAULT_DAYS * DAY_MICROS,
        evidence=evidence_digest(known.state),
    )


def deciders(journal: Journal, contest: Contest) -> list[str]:
    """Return the people who decided on the customer before the contest.

    They reviewed the customer, confirmed an override, recorded an action against the customer, or
    confirmed all proposals of the contested run.
    """
    reviews = Reviews(journal).of_customer(contest.customer)
    actions = Records(journal, CustomerAction).of_customers([contest.customer])
    confirmed = Records(journal, Confirmation).of_run(contest.run_id) if contest.run_id else []
    return [
        *(review.reviewer for review in reviews),
        *(review.confirmed_by for review in reviews if review.confirmed_by),
        *(action.by for action in actions),
        *(each.by for each in confirmed),
    ]


def list_contests(journal: Journal, *, answered: bool = False) -> list[Contest]:
    """Return the open contests, the next due first, then the answered ones if `answered`."""
    found = Records(journal, Contest).all(state=None if answered else ContestState.OPEN)
    return sorted(found, key=lambda each: (each.state != ContestState.OPEN, each.due_at))


def _require(text: str, field: str) -> None:
    if not text:
        raise InputError(f"{field} is blank")
