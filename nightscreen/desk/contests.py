"""The page of contests: what customers object to, the date by which to answer, and the answer.

Who may answer, and what an answer changes, is decided in `privacy/contests.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nightscreen.privacy.contests import (
    answer_contest,
    find_contest,
    list_contests,
    open_contest,
)
from nightscreen.schemas.contests import ContestAbout, ContestOutcome, ContestState
from nightscreen.schemas.policy import Decision
from nightscreen.web.guard import see_other

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.context import Context

DECISIONS = (Decision.APPROVE, Decision.REVIEW, Decision.DECLINE)


def contests(context: Context) -> Response:
    """Show open contests, the next due first, and below them the answered ones."""
    found = _seen(context, list_contests(context.journal, answered=True))
    context.record("contests seen", rows=len(found))
    return context.page(
        "contests",
        open=[each for each in found if each["answered_at"] is None],
        answered=[each for each in found if each["answered_at"] is not None][-50:],
        decisions=DECISIONS,
        abouts=tuple(ContestAbout),
    )


def record(context: Context) -> Response:
    """Record a contest, from the page of contests or from a customer's."""
    customer_id, batch = context.text("customer_id", 200), context.text("batch", 80)
    context.require_seen(customer_id, batch)
    about = ContestAbout.DECISION
    if context.text("about"):
        about = context.chosen("about", ContestAbout, "Choose what the contest is about.")
    made = open_contest(
        context.journal,
        context.actor,
        context.settings.contest,
        customer_id,
        said=context.text("said"),
        batch=batch,
        about=about,
        is_complex=bool(context.text("complex")),
    )
    if run := context.text("run", 60):
        return see_other(f"/customers/{quote(customer_id, safe='')}?run={run}&said=contest")
    return see_other(f"/contests#{made.key}")


def answer(context: Context) -> Response:
    """Answer a contest; whoever decided what is contested may not."""
    key = context.request.path_params["contest_id"]
    contest = find_contest(context.journal, key)
    context.require_seen(contest.customer_id, contest.batch)
    outcome = context.chosen("outcome", ContestOutcome, "Choose what becomes of the decision.")
    decision = context.chosen("decision", ("", *DECISIONS), "Choose one of the decisions.")
    answered = answer_contest(
        context.journal,
        context.actor,
        key,
        answer=context.text("answer"),
        outcome=outcome,
        decision=Decision(decision) if decision else None,
        above=context.settings.override_above,
    )
    is_open = answered.state == ContestState.OPEN
    return see_other(f"/contests?said=proposed#{key}" if is_open else "/contests")


def waiting(context: Context) -> list[dict[str, Any]]:
    """Return the open contests, for the front page."""
    return _seen(context, list_contests(context.journal)) if context.may("contest") else []


def _seen(context: Context, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the contests of customers whose branch the user sees."""
    return [each for each in found if context.sees(each["customer_id"], each["batch"])]
