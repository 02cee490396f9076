"""The decision on a customer as of a moment: the policy's, until a person settles the case.

A review, an override or the answer to a contest settles it, each as a review that stands: it has
not ended, and it rests on the evidence that there is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from nightscreen.files.sealing import pieces_of
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers
from nightscreen.results.tracked_state import decided_reasons, listed_decision, rests_on
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
    """Return the reviews in a batch that rest on their customer's present evidence.

    Those of some customers alone where any are named.
    """
    reviews = Reviews(journal).active(batch, journal.clock(), among)
    known = Customers(journal).known(list(reviews))
    return {who: each for who, each in reviews.items() if rests_on(each, known.get(who))}


def standing_reviews(
    journal: Journal, batch: str, among: Sequence[bytes] = ()
) -> dict[bytes, Review]:
    """Return the reviews that settle customers of a batch; `review` leaves them open."""
    found = current_reviews(journal, batch, among)
    return {who: each for who, each in found.items() if each.decision != Decision.REVIEW.value}


def final_columns(review: Review | None) -> dict[str, str | None]:
    """Return what lists and exports say of a customer; None in each where nobody settled it."""
    if review is None:
        return dict.fromkeys(FINAL_COLUMNS)
    by = review.reviewer + (f", {review.confirmed_by}" if review.confirmed_by else "")
    settled = (review.decision, by, instant_text(review.reviewed_at))
    return dict(zip(FINAL_COLUMNS, settled, strict=True))


def overrides_of(journal: Journal, batch: str, at: int) -> list[dict[str, Any]]:
    """Return how many customers each reviewer decided otherwise, by the policy's main reason.

    What the policy left to a person (`review`, `undecided`) stands here too, told by `from`.
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
    """Return the newest decision of any batch name on each customer by an instant.

    Whoever was gone from a batch by then counts there as decided before all others.

    Args:
        journal: the journal.
        asked: customers' ids with instants in microseconds.
    """
    found: list[tuple[int, DecisionAsOf] | None] = [None] * len(asked)
    for batch, wrote in sorted(journal.runs.that_wrote_states().items()) if asked else ():
        for place, since, decided in _of_batch(journal, batch, wrote, asked):
            before = found[place]
            if before is None or before[0] < since:
                found[place] = since, decided
    return [None if each is None else each[1] for each in found]


def _of_batch(
    journal: Journal,
    batch: str,
    wrote: Sequence[tuple[str, int]],
    asked: Sequence[tuple[str, int]],
) -> Iterable[tuple[int, int, DecisionAsOf]]:
    """Yield what stood in one batch name: place of who is asked about, since when, and what.

    States change only where a run is committed, so that all instants between two runs are
    looked up at once.
    """
    customers = Customers(journal)
    ends = [at for _, at in wrote]
    places: dict[int, list[int]] = defaultdict(list)
    for place, (_, at) in enumerate(asked):
        if number := bisect_right(ends, at):
            places[number - 1].append(place)
    if not places:
        return
    reviews: dict[bytes, list[Review]] = defaultdict(list)
    for review in Reviews(journal).of_batch(batch):
        reviews[review.customer].append(review)
    for number, mine in places.items():
        run_id, ended_at = wrote[number]
        run = journal.runs.find(run_id)
        report = (run and run.report) or {}
        policy = report.get("provenance", {}).get("policy")
        subjects = pieces_of(journal.pseudonyms.customers(batch, [asked[at][0] for at in mine]))
        known = customers.known_before(subjects, ended_at + 1)
        for place, subject in zip(mine, subjects, strict=True):
            if (state := known.get(subject)) is not None:
                stood = _stood(state, reviews.get(subject, ()), asked[place][1])
                since = 0 if state.gone_run_id else ended_at
                about = {"batch": batch, "run_id": run_id, "policy": policy}
                yield place, since, DecisionAsOf(**about, **stood)


def _stood(known: KnownCustomer, reviews: Iterable[Review], at: int) -> dict[str, Any]:
    word = listed_decision(known)
    holding = [r for r in reviews if r.reviewed_at <= at < r.until and rests_on(r, known)]
    return {
        "decision": holding[-1].decision if holding else word,
        "decided_by": "review" if holding else "policy",
        "reasons": tuple(decided_reasons(known.state, word)),
    }
