"""The decision on a customer as of a moment: the policy's, until a person settles the case.

A review, an override or the answer to a contest settles it. Each is saved as a review, which stands
until it ends or the customer's evidence changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from nightscreen.files.sealing import pieces_of
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.results.changes import decided_reasons, listed_decision, rests_on
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.outcomes import DecisionAsOf
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer

FINAL_COLUMNS = ("final_decision", "decided_by", "decided_at")


def current_reviews(
    journal: Journal, batch: str, among: Sequence[bytes] = ()
) -> dict[bytes, Review]:
    """Return the reviews in a batch made on their customer's current evidence, by customer.

    If `among` names customers, only their reviews are returned.
    """
    reviews = Reviews(journal).active(batch, journal.clock(), among)
    known = Customers(journal).known(list(reviews))
    return {
        customer: review
        for customer, review in reviews.items()
        if rests_on(review, known.get(customer))
    }


def standing_reviews(
    journal: Journal, batch: str, among: Sequence[bytes] = ()
) -> dict[bytes, Review]:
    """Return the reviews that settle a case, by customer; a decision `review` leaves it open."""
    reviews = current_reviews(journal, batch, among)
    still_open = Decision.REVIEW.value
    return {customer: each for customer, each in reviews.items() if each.decision != still_open}


def final_columns(review: Review | None) -> dict[str, str | None]:
    """Return the final columns of lists and exports; all None if no person settled the case."""
    if review is None:
        return dict.fromkeys(FINAL_COLUMNS)
    by = review.reviewer + (f", {review.confirmed_by}" if review.confirmed_by else "")
    settled = (review.decision, by, instant_text(review.decided_at))
    return dict(zip(FINAL_COLUMNS, settled, strict=True))


def overrides_of(journal: Journal, batch: str, at: int) -> list[dict[str, Any]]:
    """Return how many customers each reviewer decided differently, by the policy's main reason.

    Cases that the policy left to a person are included: their `from` is `review` or `undecided`.
    """
    reviews = Reviews(journal).active(batch, at)
    differing = {customer: each for customer, each in reviews.items() if each.overrides}
    known = Customers(journal).known(list(differing))
    counts: Counter[tuple[str, str, str, str]] = Counter()
    for customer, review in differing.items():
        reasons = decided_reasons(known[customer].state) if customer in known else []
        reason = reasons[0] if reasons else ""
        counts[reason, review.reviewer, review.listed, review.decision] += 1
    names = ("reason", "reviewer", "from", "to")
    return [
        {**dict(zip(names, (key[0] or None, *key[1:]), strict=True)), "customers": number}
        for key, number in sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    ]


def decisions_as_of(
    journal: Journal, asked: Sequence[tuple[str, int]]
) -> list[DecisionAsOf | None]:
    """Return the newest decision in any batch on each customer as of an instant.

    A batch that the customer had left by then counts as the oldest.

    Args:
        journal: the journal.
        asked: customers' ids with instants in microseconds.
    """
    newest: list[tuple[int, DecisionAsOf] | None] = [None] * len(asked)
    for batch, runs in sorted(journal.runs.that_wrote_states().items()) if asked else ():
        for place, since, decided in _of_batch(journal, batch, runs, asked):
            before = newest[place]
            if before is None or before[0] < since:
                newest[place] = since, decided
    return [None if each is None else each[1] for each in newest]


def _of_batch(
    journal: Journal,
    batch: str,
    runs: Sequence[tuple[str, int]],
    asked: Sequence[tuple[str, int]],
) -> Iterable[tuple[int, int, DecisionAsOf]]:
    """Yield the decisions in one batch: index into `asked`, since when, and the decision.

    States change only when a run is committed, so all instants between two runs are looked up
    together.
    """
    customers = Customers(journal)
    ends = [at for _, at in runs]
    places: dict[int, list[int]] = defaultdict(list)
    for place, (_, at) in enumerate(asked):
        if number := bisect_right(ends, at):
            places[number - 1].append(place)
    if not places:
        return
    reviews: dict[bytes, list[Review]] = defaultdict(list)
    for review in Reviews(journal).of_batch(batch):
        reviews[review.customer].append(review)
    for number, places_of_run in places.items():
        run_id, ended_at = runs[number]
        ids = [asked[place][0] for place in places_of_run]
        run = journal.runs.find(run_id)
        report = (run and run.report) or {}
        policy = report.get("provenance", {}).get("policy")
        subjects = pieces_of(journal.pseudonyms.customers(batch, ids))
        known = customers.known_before(subjects, ended_at + 1)
        for place, subject in zip(places_of_run, subjects, strict=True):
            if (state := known.get(subject)) is not None:
                decision = _decision_at(state, reviews.get(subject, ()), asked[place][1])
                since = 0 if state.gone_run_id else ended_at
                about = {"batch": batch, "run_id": run_id, "policy": policy}
                yield place, since, DecisionAsOf(**about, **decision)


def _decision_at(known: KnownCustomer, reviews: Iterable[Review], at: int) -> dict[str, Any]:
    listed = listed_decision(known)
    standing = [r for r in reviews if r.decided_at <= at < r.until and rests_on(r, known)]
    return {
        "decision": standing[-1].decision if standing else listed,
        "decided_by": "review" if standing else "policy",
        "reasons": tuple(decided_reasons(known.state, listed)),
    }
