"""People's decisions on customers: judged, saved, and confirmed by a second person.

They come from a returned list (`decision_files` reads it) or from the desk. Command line and desk
call the same functions, which check the right, save the decision, close the case, rewrite the
notices and write to the audit. A decline changed to approve above a threshold waits for a second
person: until then it is a record of the journal, not a review.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.config.declarations import read_declarations
from nightscreen.journal.actor import OVERRIDE, REVIEW
from nightscreen.journal.audit import same_person
from nightscreen.journal.cases import Cases, Reviews
from nightscreen.journal.customers import Customers
from nightscreen.journal.records import Records
from nightscreen.results.changes import evidence_digest, listed_decision, rests_on
from nightscreen.results.enriched import find_row
from nightscreen.results.notices import rewrite_reviewed
from nightscreen.schemas.clock import DAY_MICROS, lagos_day
from nightscreen.schemas.contests import ENDED, Contest, ContestOutcome, Review
from nightscreen.schemas.decisions import REVIEWED, ReviewIssue, ReviewRow
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision
from nightscreen.values.dates import read_written_date

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.actor import Actor
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.decisions import KnownCustomer

DEFAULT_DAYS = 30  # a choice, documented in docs/decisions.md; `--days` overrides it
_LONGEST_NOTE = 2000  # characters: the desk's limit
_LONGEST_REVIEWER = 120  # characters, a choice: a full name and a title
_HINTS = {
    "run_unknown": "No run of this id wrote a decision list here; keep the run_id column as the "
    "list had it.",
    "customer_missing": "Every row needs the customer's id.",
    "decision_invalid": "Write approve, decline or review.",
    "reviewer_missing": "Say who decided.",
    "note_missing": "A decision other than the policy's needs a note that says why.",
    "note_long": f"A note has at most {_LONGEST_NOTE} characters, a reviewer {_LONGEST_REVIEWER}.",
    "rows_disagree": "Rows of this file disagree about this customer; leave one of them.",
    "two_reviewers": "Another reviewer decided otherwise on this very list; settle it with them, "
    "and send the row back under that reviewer's name or wait for the next list.",
    "evidence_changed": "The customer's evidence has changed since this list; decide on the newest "
    "list instead.",
    "review_ended": "The review would have ended by now; decide on the newest list instead.",
}
_RUNS_SEARCHED = 60
"""The newest runs of a batch in which a customer's exposure is looked up."""


@dataclass(slots=True)
class Imported:
    """The result of an import."""

    sound: list[Review] = field(default_factory=list)  # those not imported before
    # those of `sound` that differ from the policy's decision, on the list or the latest
    overrides: list[Review] = field(default_factory=list)
    known: int = 0  # rows that were imported before
    mistakes: list[ReviewIssue] = field(default_factory=list)  # why rows are refused, by line
    saved: int = 0
    waiting: int = 0  # rows that wait for a second person

    def refuse(self, row: ReviewRow, column: str, code: str, hint: str = "") -> None:
        """Add why a row is refused."""
        hint = hint or _HINTS[code]
        self.mistakes.append(ReviewIssue(row.line, row.sheet, column, code, hint))


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
    result = _judge_rows(journal, rows, days)
    if result.overrides:
        actor.require(journal, OVERRIDE)
    if not result.sound or (result.mistakes and not partial):
        return result
    _save(journal, actor, result, settings)
    run_ids = list(dict.fromkeys(each.run_id for each in result.sound))
    if result.saved:
        rewrite_reviewed(journal, run_ids, read_declarations(settings))
    if actor.account:
        saved, waiting, runs = result.saved, result.waiting, sorted(run_ids)
        actor.note(journal, "reviews imported", rows=saved, waiting=waiting, runs=runs)
        return result
    (review,) = result.sound
    actor.note(
        journal,
        "review saved" if result.saved else "override proposed",
        run_id=review.run_id,
        customer_id=review.customer_id,
        decision=review.decision,
        reason=reason,
        overrides=bool(result.overrides),
    )
    return result


def _judge_rows(journal: Journal, rows: Sequence[ReviewRow], days: int) -> Imported:
    """Judge the rows of a returned list against the journal, those of one customer together.

    Sound reviews keep the order of the rows: of two on a customer, from two runs, the later counts.
    """
    result, now = Imported(), journal.clock()
    runs = {
        run_id: run
        for run_id in {row["run_id"] for row in rows}
        if run_id
        and (run := journal.runs.find(run_id)) is not None
        and run.states_first_at is not None
    }
    written: dict[tuple[str, bytes], list[tuple[ReviewRow, dict[str, Any]]]] = defaultdict(list)
    for row in rows:
        run = runs.get(row["run_id"])
        if run is None:
            result.refuse(row, "run_id", "run_unknown")
        elif (given := _read_row(row, run, now, result)) is not None:
            subject = journal.pseudonyms.customer(run.batch, row["customer_id"])
            until = given["reviewed_at"] + days * DAY_MICROS
            written[run.run_id, subject].append((row, {**given, "until": until, "at": now}))
    _judge_customers(journal, runs, written, result)
    result.mistakes.sort(key=lambda each: (each.sheet, each.line))
    return result


def _judge_customers(
    journal: Journal,
    runs: Mapping[str, RunRecord],
    written: Mapping[tuple[str, bytes], Sequence[tuple[ReviewRow, dict[str, Any]]]],
    result: Imported,
) -> None:
    """Judge what was written about each customer of each run's list."""
    customers = Customers(journal)
    latest: dict[bytes, KnownCustomer] = {}
    listed: dict[tuple[str, bytes], KnownCustomer] = {}
    for run_id, run in runs.items():
        subjects = [subject for of_run, subject in written if of_run == run_id]
        latest |= customers.known(subjects)
        then = customers.known_before(subjects, (run.states_last_at or 0) + 1)
        listed |= {(run_id, subject): state for subject, state in then.items()}
    for (run_id, subject), of_customer in written.items():
        row, last = of_customer[-1]
        said = {(given["decision"], _folded(given["reviewer"])) for _, given in of_customer}
        state = listed.get((run_id, subject))
        if len(said) > 1:
            for each, _ in of_customer:
                result.refuse(each, "reviewer_decision", "rows_disagree")
        elif state is None:
            result.refuse(row, "customer_id", "customer_unknown", _customer_hint(row))
        else:
            review = Review(
                customer=subject,
                batch=runs[run_id].batch,
                run_id=run_id,
                listed=listed_decision(state),
                evidence=evidence_digest(state.state),
                **last,
            )
            _judge_review(journal, review, row, latest.get(subject), result)


def _read_row(row: ReviewRow, run: RunRecord, now: int, result: Imported) -> dict[str, Any] | None:
    """Return what a row says, as fields of a review; None if it is mistaken and so refused."""
    word, reviewer = row["reviewer_decision"].casefold(), " ".join(row["reviewer"].split())
    at = read_written_date(row["reviewed_at"], run.states_first_at or 0, now)
    if not row["customer_id"]:
        result.refuse(row, "customer_id", "customer_missing")
    elif word not in REVIEWED:
        result.refuse(row, "reviewer_decision", "decision_invalid")
    elif not reviewer:
        result.refuse(row, "reviewer", "reviewer_missing")
    elif len(row["review_note"]) > _LONGEST_NOTE or len(reviewer) > _LONGEST_REVIEWER:
        result.refuse(row, "review_note", "note_long")
    elif isinstance(at, str):
        result.refuse(row, "reviewed_at", "reviewed_at_invalid", at)
    else:
        return {
            "customer_id": row["customer_id"],
            "decision": REVIEWED[word].value,
            "reviewer": reviewer,
            "note": row["review_note"],
            "reviewed_at": at or now,
        }
    return None


def _judge_review(
    journal: Journal,
    review: Review,
    row: ReviewRow,
    latest: KnownCustomer | None,
    result: Imported,
) -> None:
    """Accept a review, unless it conflicts with another decision or with newer evidence."""
    earlier = [
        old for old in Reviews(journal).of_customer(review.customer) if old.run_id == review.run_id
    ]
    overrides = {review.listed, listed_decision(latest)} != {review.decision}
    if any(_same(old, review, row["reviewed_at"]) for old in earlier):
        result.known += 1
    elif review.overrides and not review.note:
        result.refuse(row, "review_note", "note_missing")
    elif any(
        _contradicts(old, review, review.at) and _folded(old.reviewer) != _folded(review.reviewer)
        for old in earlier
    ):
        result.refuse(row, "reviewer_decision", "two_reviewers")
    elif not rests_on(review, latest):
        result.refuse(row, "run_id", "evidence_changed")
    elif review.until <= review.at:
        result.refuse(row, "reviewed_at", "review_ended")
    elif overrides and not review.note:
        result.refuse(row, "review_note", "note_missing")
    else:
        result.sound.append(review)
        result.overrides += [review] if overrides else []


def _contradicts(old: Review, new: Review, now: int) -> bool:
    """Return whether an active review has another decision."""
    return old.until > now and old.decision != new.decision


def _folded(name: str) -> str:
    """Return a reviewer's name as imports compare it: accounts in it are not looked at."""
    return unicodedata.normalize("NFKC", name).casefold()


def _same(old: Review, new: Review, written: str) -> bool:
    """Return whether a review was imported before, even if it has ended since.

    Dates with a time are compared with it. A date without one, or a time that was still in the
    future at the import, is compared by day, because it was saved as of the import.
    """
    by_day = len(written) <= len("2026-03-04") or new.reviewed_at >= old.at
    return (
        old.decision == new.decision
        and _folded(old.reviewer) == _folded(new.reviewer)
        and old.note == new.note
        and (
            not written
            or old.reviewed_at == new.reviewed_at
            or (by_day and lagos_day(old.reviewed_at) == lagos_day(new.reviewed_at))
        )
    )


def _customer_hint(row: ReviewRow) -> str:
    if row["customer_id"].isdecimal():
        return (
            "No such customer in this run; a spreadsheet may have dropped leading zeros: work in "
            "decisions.xlsx, which keeps them."
        )
    return "No such customer in this run; keep the customer_id column as the list had it."


def _save(journal: Journal, actor: Actor, result: Imported, settings: Settings) -> None:
    """Save sound reviews, or propose them to a second person; count both."""
    reviews, saved, waiting = Reviews(journal), list[Review](), list[Review]()
    for each in result.sound:
        review = each.model_copy(update={"imported_by": actor.account})
        if needs_second(
            journal,
            settings.override_above,
            batch=each.batch,
            customer_id=each.customer_id,
            decision=each.decision,
            run_id=each.run_id,
        ):
            waiting.append(review)
        else:
            saved.append(review.model_copy(update={"customer_id": ""}))
            reviews.end_waiting(each.customer)
    reviews.add(saved)
    reviews.propose(waiting)
    close_cases(journal, saved)
    result.saved, result.waiting = len(saved), len(waiting)


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
        and _contradicts(each, waiting, now)
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
            connection,
            contest.answered(
                waiting.reviewer,
                ContestOutcome.CHANGED,
                waiting.note,
                Decision(waiting.decision),
                now,
            ),
            contest,
            now,
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
