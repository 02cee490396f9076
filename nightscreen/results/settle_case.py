"""A person decides on customers, by a review at the desk, a returned list, or an override.

Command line and desk call the same functions, which check the right, save the decision, close the
case, rewrite the notices and write to the audit. A decline changed to approve above a threshold
waits for a second person: until then it is a record of the journal, not a review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.config.declarations import read_declarations
from nightscreen.files.person import same_person
from nightscreen.journal.actor import OVERRIDE, REVIEW
from nightscreen.journal.cases import Cases, Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.results.enriched import find_row
from nightscreen.results.notices import rewrite_reviewed
from nightscreen.results.reviews import DEFAULT_DAYS, judge_rows
from nightscreen.results.tracked_state import listed_decision, rests_on
from nightscreen.schemas.contests import ENDED, Contest, ContestOutcome, Review
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.results.reviews import Judged
    from nightscreen.schemas.decisions import ReviewRow


_RUNS_SEARCHED = 60
"""The newest runs of a batch in which a customer's exposure is looked up."""


class Imported(NamedTuple):
    """The result of an import: rows saved, and rows that wait for a second person."""

    judged: Judged
    saved: int
    waiting: int


def import_reviews(
    journal: Journal,
    actor: Actor,
    rows: Sequence[ReviewRow],
    settings: Settings,
    *,
    days: int = DEFAULT_DAYS,
    partial: bool = False,
    reason: str = "",
) -> Imported:
    """Save people's decisions on customers: every row or, if any is mistaken, none.

    Args:
        journal: the journal.
        actor: who saves them.
        rows: the rows of a returned list, or one row filled in at the desk.
        settings: has the threshold of overrides.
        days: how long a review stands.
        partial: save sound rows even if others are mistaken.
        reason: the reason that was chosen at the desk.

    Raises:
        NotAllowedError: the actor may not review, or may not override the policy.
    """
    actor.require(journal, REVIEW)
    judged = judge_rows(journal, rows, days=days)
    if judged.overrides:
        actor.require(journal, OVERRIDE)
    if not judged.sound or (judged.mistakes and not partial):
        return Imported(judged, 0, 0)
    waiting = _save(journal, actor, judged, settings)
    saved = len(judged.sound) - waiting
    if saved:
        rewrite_reviewed(journal, judged.runs, read_declarations(settings))
    if actor.account:
        runs = sorted(judged.runs)
        actor.note(journal, "reviews imported", rows=saved, waiting=waiting, runs=runs)
        return Imported(judged, saved, waiting)
    (sound,) = judged.sound
    review, customer_id = sound.review, sound.customer_id
    actor.note(
        journal,
        "review saved" if saved else "override proposed",
        run_id=review.run_id,
        customer_id=customer_id,
        decision=review.decision,
        reason=reason,
        overrides=bool(judged.overrides),
    )
    return Imported(judged, saved, waiting)


def _save(journal: Journal, actor: Actor, judged: Judged, settings: Settings) -> int:
    """Save sound reviews, or propose them to a second person; return how many wait."""
    reviews, saved, waiting = Reviews(journal), list[Review](), list[Review]()
    for each in judged.sound:
        review, customer_id = each.review, each.customer_id
        imported = review.model_copy(update={"imported_by": actor.account})
        if needs_second(
            journal,
            settings.override_above,
            batch=review.batch,
            customer_id=customer_id,
            decision=review.decision,
            run_id=review.run_id,
        ):
            waiting.append(imported.model_copy(update={"customer_id": customer_id}))
        else:
            saved.append(imported)
            reviews.end_waiting(review.customer)
    reviews.add(saved)
    reviews.propose(waiting)
    close_cases(journal, saved)
    return len(waiting)


def needs_second(
    journal: Journal,
    above: Decimal | None,
    *,
    batch: str,
    customer_id: str,
    decision: str,
    run_id: str = "",
) -> bool:
    """Return whether a decision changes a decline to approve above what one person may.

    `above` is the setting OVERRIDE_ABOVE in naira; None if one person is always enough. Both the
    policy's latest decision and that of the reviewed run count, and so do their exposures. An
    unknown exposure counts as above.
    """
    if above is None or decision != Decision.APPROVE.value:
        return False
    customer = journal.pseudonyms.customer(batch, customer_id)
    known = Customers(journal).known([customer]).get(customer)
    decisions = {listed_decision(known)}
    exposures = []
    for row in _rows(journal, batch, customer_id, run_id):
        decisions.add(row["decision"])
        exposures.append(row.get("exposure"))
    if Decision.DECLINE.value not in decisions:
        return False
    return not exposures or any(each is None or each > above for each in exposures)


def _rows(journal: Journal, batch: str, customer_id: str, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield a customer's row in a run, and the customer's newest row in the batch."""
    reviewed_run = journal.runs.find(run_id) if run_id else None
    row = None if reviewed_run is None else find_row(reviewed_run, customer_id)
    if row is not None:
        yield row
    for run in journal.runs.newest(batch=batch, limit=_RUNS_SEARCHED):
        row = find_row(run, customer_id)
        if row is not None:
            yield row
            return


def close_cases(journal: Journal, saved: Sequence[Review]) -> None:
    """Close the cases of decided customers, and free those whose review leaves them open."""
    cases, still_open = Cases(journal), Decision.REVIEW.value
    cases.settle([each.customer for each in saved if each.decision != still_open])
    cases.free([each.customer for each in saved if each.decision == still_open])


def confirm_override(journal: Journal, actor: Actor, waiting: Review, settings: Settings) -> None:
    """Confirm an override that another user proposed.

    Raises:
        NotAllowedError: the actor has no right to it, or proposed it.
        InputError: it no longer waits, the customer's evidence has changed, or another reviewer
            decided differently.
    """
    actor.require(journal, OVERRIDE)
    actor.require_other(
        [waiting.reviewer, waiting.imported_by],
        "You cannot confirm your own override: another user does.",
    )
    reviews, by = Reviews(journal), actor.name
    now = journal.clock()
    known = Customers(journal).known([waiting.customer]).get(waiting.customer)
    if not rests_on(waiting, known):
        raise InputError(
            "the customer's evidence has changed since this was proposed: refuse it, and review "
            "the customer again"
        )
    contest = Records(journal, Contest).find(waiting.contest) if waiting.contest else None
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
    records, ended = Records(journal, Review), waiting.model_copy(update={"state": ENDED})
    with journal.database.writing() as connection:
        if not records.swap(connection, ended, waiting, now):
            raise InputError(
                "this override does not wait any more: somebody else decided on it first"
            )
        if contest is not None and not Records(journal, Contest).swap(
            connection, _answered(contest, waiting, now), contest, now
        ):
            raise InputError(f"contest {contest.key} was changed meanwhile: look at it again")
        records.insert(connection, [confirmed])
    close_cases(journal, [waiting])
    rewrite_reviewed(journal, [waiting.run_id], read_declarations(settings))
    _note(journal, actor, "override confirmed", waiting)


def end_override(journal: Journal, actor: Actor, waiting: Review) -> None:
    """Refuse an override that waits for a second person, or withdraw one's own.

    Raises:
        NotAllowedError: the actor has no right to it.
    """
    actor.require(journal, OVERRIDE)
    Reviews(journal).end(waiting)
    own = actor.is_one_of([waiting.reviewer])
    _note(journal, actor, "override taken back" if own else "override refused", waiting)


def _note(journal: Journal, actor: Actor, action: str, waiting: Review) -> None:
    about = {"run_id": waiting.run_id, "customer_id": waiting.customer_id}
    actor.note(journal, action, **about, by=waiting.reviewer)


def _answered(contest: Contest, waiting: Review, now: int) -> Contest:
    """Return the contest as answered by the confirmed override."""
    values = {
        "answered_at": now,
        "answered_by": waiting.reviewer,
        "outcome": ContestOutcome.CHANGED,
        "answer": waiting.note,
        "new_decision": Decision(waiting.decision),
    }
    return contest.model_copy(update=values)
