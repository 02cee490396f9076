"""The page of contests: what customers object to, by when each is answered, and the answer.

Who may answer, and what an answer changes, is decided in `privacy/contests.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nightscreen.desk.context import DeskError
from nightscreen.desk.customer import SAID
from nightscreen.privacy.contests import (
    answer_contest,
    find_contest,
    list_contests,
    open_contest,
)
from nightscreen.schemas.contests import ContestAbout, ContestOutcome, ContestState
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.policy import Decision
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.context import Context

OUTCOMES = {
    ContestOutcome.STANDS: "the decision stands",
    ContestOutcome.CHANGED: "the decision is changed",
    ContestOutcome.WITHDRAWN: "the customer withdrew it",
}
DECISIONS = (Decision.APPROVE.value, Decision.REVIEW.value, Decision.DECLINE.value)


def contests(context: Context) -> Response:
    """Show open contests, the next due first; those answered below them."""
    return _page(context)


def _page(context: Context, status: int = 200, *, error: str = "", of: str = "") -> Response:
    found = _seen(context, list_contests(context.journal, answered=True))
    context.record("contests seen", rows=len(found))
    return context.page(
        "contests",
        status,
        open=[each for each in found if each["answered_at"] is None],
        answered=[each for each in found if each["answered_at"] is not None][-50:],
        outcomes=OUTCOMES,
        decisions=DECISIONS,
        abouts=tuple(ContestAbout),
        error=error,
        of=of,
        said=SAID.get(context.asked_first("said"), ""),
        typed={
            name: context.text(name)
            for name in ("customer_id", "said", "about", "answer", "outcome", "decision")
        },
    )


def record(context: Context) -> Response:
    """Write down a contest, from the page of contests or from a customer's."""
    customer_id = context.text("customer_id", 200)
    context.require_seen(customer_id, context.text("batch", 80))
    try:
        made = open_contest(
            context.journal,
            context.actor,
            context.settings.contest,
            customer_id,
            said=context.text("said"),
            batch=context.text("batch", 80),
            about=ContestAbout(context.text("about") or ContestAbout.DECISION),
            is_complex=bool(context.text("complex")),
        )
    except (InputError, ValueError) as error:
        return _page(context, 400, error=_plainly(error), of="record")
    if context.text("run", 60):
        back = f"/customers/{quote(customer_id, safe='')}?run={context.text('run', 60)}"
        return onward(f"{back}&said=contest")
    return onward(f"/contests#{made.key}")


def answer(context: Context) -> Response:
    """Answer a contest; somebody who decided what is contested may not."""
    key = context.request.path_params["contest_id"]
    decision = context.text("decision")
    if decision not in {"", *DECISIONS}:
        raise DeskError(400, "Choose one of the decisions.")
    try:
        contest = find_contest(context.journal, key)
        context.require_seen(contest.customer_id, contest.batch)
        answered = answer_contest(
            context.journal,
            context.actor,
            key,
            answer=context.text("answer"),
            outcome=ContestOutcome(context.text("outcome")),
            decision=Decision(decision) if decision else None,
            above=context.settings.override_above,
        )
    except NotAllowedError as error:
        return _page(context, 403, error=context.not_allowed(error), of=key)
    except (InputError, ValueError) as error:
        return _page(context, 400, error=_plainly(error), of=key)
    if answered.state == ContestState.OPEN:
        return onward(f"/contests?said=proposed#{key}")
    return onward("/contests")


def _plainly(error: Exception) -> str:
    """Return what is wrong as the page's own fields are named."""
    if not isinstance(error, InputError):
        return "Choose what becomes of the decision."
    return str(error).partition("; see: nightscreen")[0].partition(": nightscreen")[0]


def waiting(context: Context) -> list[dict[str, Any]]:
    """Return the open contests, for the front page."""
    return _seen(context, list_contests(context.journal)) if context.may("contest") else []


def _seen(context: Context, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the contests of customers whose branch the user sees."""
    return [each for each in found if context.sees(each["customer_id"], each["batch"])]
