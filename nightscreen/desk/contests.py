"""The page of contests: what customers object to, by when each is answered, and the answer.

Who may answer, and what an answer changes, is decided in `privacy/contests.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from nightscreen.desk.customer import SAID
from nightscreen.desk.visit import DeskError
from nightscreen.privacy.contests import (
    answer_contest,
    find_contest,
    list_contests,
    open_contest,
)
from nightscreen.schemas.contests import ContestAbout, ContestOutcome, ContestState
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.policy import Decision
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.visit import Visit

OUTCOMES = {
    ContestOutcome.STANDS: "the decision stands",
    ContestOutcome.CHANGED: "the decision is changed",
    ContestOutcome.WITHDRAWN: "the customer withdrew it",
}
DECISIONS = (Decision.APPROVE.value, Decision.REVIEW.value, Decision.DECLINE.value)


def contests(visit: Visit) -> Response:
    """Show open contests, the next due first; those answered below them."""
    return _page(visit)


def _page(visit: Visit, status: int = 200, *, error: str = "", of: str = "") -> Response:
    found = _seen(visit, list_contests(visit.seat.journal, answered=True))
    visit.seat.audit.write(visit.name, "contests seen", rows=len(found))
    return visit.page(
        "contests",
        status,
        open=[each for each in found if each["answered_at"] is None],
        answered=[each for each in found if each["answered_at"] is not None][-50:],
        outcomes=OUTCOMES,
        decisions=DECISIONS,
        abouts=tuple(ContestAbout),
        error=error,
        of=of,
        said=SAID.get(visit.asked_first("said"), ""),
        typed={
            name: visit.text(name)
            for name in ("customer_id", "said", "about", "answer", "outcome", "decision")
        },
    )


def record(visit: Visit) -> Response:
    """Write down a contest, from the page of contests or from a customer's."""
    seat, customer_id = visit.seat, visit.text("customer_id", 200)
    visit.require_seen(customer_id, visit.text("batch", 80))
    try:
        made = open_contest(
            seat.journal,
            seat.settings.contest,
            customer_id,
            by=visit.name,
            said=visit.text("said"),
            batch=visit.text("batch", 80),
            about=ContestAbout(visit.text("about") or ContestAbout.DECISION),
            is_complex=bool(visit.text("complex")),
        )
    except (InputError, ValueError) as error:
        return _page(visit, 400, error=_plainly(error), of="record")
    seat.audit.write(visit.name, "contest recorded", customer_id=customer_id, contest=made.key)
    if visit.text("run", 60):
        back = f"/customers/{quote(customer_id, safe='')}?run={visit.text('run', 60)}"
        return onward(f"{back}&said=contest")
    return onward(f"/contests#{made.key}")


def answer(visit: Visit) -> Response:
    """Answer a contest; somebody who decided what is contested may not."""
    seat, key = visit.seat, visit.request.path_params["contest_id"]
    decision = visit.text("decision")
    if decision not in {"", *DECISIONS}:
        raise DeskError(400, "Choose one of the decisions.")
    if decision:
        visit.require("override")
    try:
        contest = find_contest(seat.journal, key)
        visit.require_seen(contest.customer_id, contest.batch)
        answered = answer_contest(
            seat.journal,
            key,
            by=visit.name,
            answer=visit.text("answer"),
            outcome=ContestOutcome(visit.text("outcome")),
            decision=Decision(decision) if decision else None,
            above=seat.settings.override_above,
        )
    except (InputError, ValueError) as error:
        return _page(visit, 400, error=_plainly(error), of=key)
    if answered.state == ContestState.OPEN:
        about = {"run_id": answered.run_id, "customer_id": answered.customer_id}
        seat.audit.write(visit.name, "override proposed", **about, contest=key)
        return onward(f"/contests?said=proposed#{key}")
    seat.audit.write(
        visit.name,
        "contest answered",
        customer_id=answered.customer_id,
        contest=key,
        outcome=visit.text("outcome"),
        decision=decision,
    )
    return onward("/contests")


def _plainly(error: Exception) -> str:
    """Return what is wrong as the page's own fields are named."""
    if not isinstance(error, InputError):
        return "Choose what becomes of the decision."
    said = str(error)
    for option, field in (("--said", "What the customer says"), ("--answer", "Answer")):
        said = said.replace(option, field)
    return said.partition("; see: nightscreen")[0].partition(": nightscreen")[0]


def waiting(visit: Visit) -> list[dict[str, Any]]:
    """Return the open contests, for the front page."""
    return _seen(visit, list_contests(visit.seat.journal)) if visit.may("contest") else []


def _seen(visit: Visit, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the contests of customers whose branch the user sees."""
    return [each for each in found if visit.sees(each["customer_id"], each["batch"])]
