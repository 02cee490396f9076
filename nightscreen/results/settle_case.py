"""A person decides on customers: a review at the desk or by a list that came back, and overrides.

Each is one function for every door: who may, what is written, and what follows from it. The case
is closed, the notices are written anew, and the audit has it. A decline turned into approve above a
threshold waits for a second person: it is a record of the journal and no review yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.config.declarations import read_declarations
from nightscreen.files.person import same_person
from nightscreen.journal.actor import OVERRIDE, REVIEW
from nightscreen.journal.cases import Cases, Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.engine import writing
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


_LOOKED_AT = 60
"""Runs of a batch, from the newest on, in which a customer's exposure is looked for."""


class Imported(NamedTuple):
    """What became of the rows of a list: saved, or kept until a second person confirms them."""

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
    """Save what people decided of customers: every row or, on any mistake, none.

    The rows are of a list that came back, or the one that was filled in at the desk, with the
    reason that was chosen there. If `partial`, sound rows are saved even where others are mistaken.
    A review stands for so many days.

    Raises:
        NotAllowedError: the actor may not review, or not decide otherwise than the policy.
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
    """Save sound reviews, or have them wait for a second person; return how many wait."""
    reviews, saved, waiting = Reviews(journal), list[Review](), list[Review]()
    for each in judged.sound:
        review, customer_id = each.review, each.customer_id
        kept = review.model_copy(update={"imported_by": actor.account})
        if needs_second(
            journal,
            settings.override_above,
            batch=review.batch,
            customer_id=customer_id,
            decision=review.decision,
            run_id=review.run_id,
        ):
            waiting.append(kept.model_copy(update={"customer_id": customer_id}))
        else:
            saved.append(kept)
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
    """Tell whether a decision turns a decline into approve above what one person may.

    That is `above` naira, of the setting OVERRIDE_ABOVE; None where one person is enough. The
    policy's latest decision counts, and that of the run whose list was looked at; so does each of
    their exposures. An exposure that is not known counts as above.
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


def close_cases(journal: Journal, saved: Sequence[Review]) -> None:
    """End the cases of customers who are decided, and free those that a review leaves open."""
    cases, still = Cases(journal), Decision.REVIEW.value
    cases.settle([each.customer for each in saved if each.decision != still])
    cases.free([each.customer for each in saved if each.decision == still])


def confirm_override(journal: Journal, actor: Actor, waiting: Review, settings: Settings) -> None:
    """Let an override stand that somebody else proposed.

    Raises:
        NotAllowedError: the actor has no right to it, or proposed it.
        InputError: it does not wait any more, or the customer's evidence or another review is in
            its way.
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
    with writing(journal.engine) as connection:
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
    """Refuse an override that waits for a second person, or take one's own back.

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
    """Return the contest as it is answered by what was confirmed."""
    values = {
        "answered_at": now,
        "answered_by": waiting.reviewer,
        "outcome": ContestOutcome.CHANGED,
        "answer": waiting.note,
        "new_decision": Decision(waiting.decision),
    }
    return contest.model_copy(update=values)
