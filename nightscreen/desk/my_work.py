"""The page of one's own work over all batches: taken, given back, waited for, shared out.

Who needs somebody is `work_list`, who has what `cases`; reviews are saved on the customer's page.
"""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from nightscreen.desk import fix
from nightscreen.desk.cases import IN_TURN, SHARED_BY, WAITS_FOR, CaseTakenError
from nightscreen.desk.decisions import asked_filter, in_words, kinds
from nightscreen.desk.run_rows import PAGE_ROWS, Filter
from nightscreen.desk.visit import DeskError
from nightscreen.desk.work_list import FACETS
from nightscreen.schemas.clock import LAGOS, lagos_day, to_micros
from nightscreen.schemas.decisions import LISTED_PART
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.accounts import User
    from nightscreen.desk.visit import Visit

USUAL_WAIT_DAYS: Final = 7
LONGEST_WAIT_DAYS: Final = 365
_OWN_FIRST: Final = "CASE whose WHEN 'mine' THEN 0 WHEN 'free' THEN 1 ELSE 2 END, "


def my_work(visit: Visit) -> Response:
    """Show one's own cases and those nobody has."""
    return _page(visit)


def _page(visit: Visit, status: int = 200, *, error: str = "") -> Response:
    seat = visit.seat
    cases = seat.work.seen_by(visit.name, visit.branches)
    asked = asked_filter(visit, FACETS)
    shown = asked
    if "whose" not in asked.chosen and visit.may("review"):
        shown = Filter({**asked.chosen, "whose": ("mine", "free")}, asked.search, asked.sort)
    number, facets = cases.counted(shown)
    last = max(0, (number - 1) // PAGE_ROWS)
    page = min(visit.whole_number("page"), last)
    rows = cases.page(shown, page * PAGE_ROWS, first=_OWN_FIRST)
    _say(visit, rows)
    seat.audit.write(visit.name, "work seen", filter=kinds(asked), rows=len(rows))
    may_share = visit.may("review") and not visit.branches
    return visit.page(
        "my_work",
        status,
        error=error,
        asked=asked,
        facets={name: values for name, values in facets.items() if values},
        rows=rows,
        number=number,
        page=page,
        last=last,
        first_row=page * PAGE_ROWS,
        back=visit.request.url.query,
        typed={
            name: visit.text(name, 200) for name in ("batch", "customer_id", "until", "waits_for")
        },
        usual_wait=lagos_day(seat.clock()) + timedelta(days=USUAL_WAIT_DAYS),
        waits_for=WAITS_FOR,
        proposals=[
            each
            for each in seat.reviews.waiting()
            if visit.may("override")
            and (not visit.branches or cases.case(each.batch, each.customer_id))
        ],
        typed_rows=fix.waiting(visit),
        may_share=may_share,
        shares=seat.cases.shares() if may_share else [],
        values=seat.work.values if may_share else [],
        in_turn=IN_TURN,
        users=_reviewers(visit) if may_share else [],
        lists=seat.work.newest,
    )


def _reviewers(visit: Visit) -> list[User]:
    return [
        each for each in visit.seat.accounts.users() if each.has_password and each.may("review")
    ]


def _say(visit: Visit, rows: list[dict[str, Any]]) -> None:
    """Add to rows why they were decided so, since when they wait and when they are due."""
    seat = visit.seat
    for purpose in {row["purpose"] for row in rows}:
        in_words(seat, [row for row in rows if row["purpose"] == purpose], purpose)
    known = seat.customers.known([bytes(row["key"]) for row in rows]) if rows else {}
    for row in rows:
        add_clock(visit, row, known.get(bytes(row["key"])))


def add_clock(visit: Visit, row: dict[str, Any], known: Any) -> None:  # noqa: ANN401 - a known customer or None
    """Add to a case since when it needs somebody, and when it is due."""
    listed = None if known is None else known.state.get(LISTED_PART)
    row["since"] = None if listed is None else listed.at
    within = visit.seat.settings.review_within // timedelta(microseconds=1)
    row["due_at"] = None if listed is None else listed.at + within
    if row["whose"] == "waiting":
        row["due_at"] = row["waits_until"]
    row["overdue"] = row["due_at"] is not None and row["due_at"] < visit.seat.clock()


def act(visit: Visit) -> Response:
    """Take a case, give it back, have it wait; share work out, or hand it over."""
    does = visit.text("do", 20)
    try:
        if does in {"take", "back", "wait"}:
            _on_case(visit, does)
        elif does == "share":
            _share(visit)
        elif does == "end":
            _end(visit)
        elif does == "hand over":
            _hand_over(visit)
    except CaseTakenError as taken:
        return _page(visit, 409, error=f"{taken.holder} has this case.")
    except DeskError as error:
        if error.status != 400:  # noqa: PLR2004 - what can be mended on the page
            raise
        return _page(visit, 400, error=error.sentence)
    if visit.text("to") == "customer":
        address = f"/customers/{quote(visit.text('customer_id'), safe='')}"
        return onward(f"{address}?{urlencode({'run': visit.text('run', 60)})}")
    back = urlencode(parse_qsl(visit.text("back")))
    return onward("/decisions" + (f"?{back}" if back else ""))


def _on_case(visit: Visit, does: str) -> None:
    seat, batch, customer_id = visit.seat, visit.text("batch", 200), visit.text("customer_id")
    case = seat.work.seen_by(visit.name, visit.branches).case(batch, customer_id)
    if case is None:
        raise DeskError(409, "This case is closed: somebody reviewed the customer, or nobody must.")
    if case["holder"] not in {visit.name, ""}:
        raise CaseTakenError(case["holder"])
    about = {"run_id": case["run_id"], "customer_id": customer_id}
    if does == "take":
        seat.cases.take(batch, customer_id, visit.name)
        seat.audit.write(visit.name, "case taken", **about)
    elif does == "back":
        seat.cases.give_back(batch, customer_id, visit.name)
        seat.audit.write(visit.name, "case given back", **about)
    else:
        until = _until(visit)
        waits_for = visit.text("waits_for", 20)
        if waits_for not in WAITS_FOR:
            raise DeskError(400, "Choose who is waited for: customer or reporter.")
        seat.cases.take(batch, customer_id, visit.name, until=to_micros(until), waits_for=waits_for)
        seat.audit.write(
            visit.name, "case waits", **about, until=f"{until:%Y-%m-%d}", waits_for=waits_for
        )


def _until(visit: Visit) -> datetime:
    """Return the beginning of the day that was typed, in Lagos.

    Raises:
        DeskError: it is no day to wait for.
    """
    today = lagos_day(visit.seat.clock())
    try:
        day = date.fromisoformat(visit.text("until", 20))
    except ValueError:
        raise DeskError(400, "Wait until: write the day as 2026-03-04.") from None
    if not today < day <= today + timedelta(days=LONGEST_WAIT_DAYS):
        raise DeskError(400, "Wait until: choose a day after today, within a year.")
    return datetime.combine(day, time(), LAGOS)


def _share(visit: Visit) -> None:
    visit.require_all_branches()
    facet, _, value = visit.text("which", 300).partition(":")
    if facet not in SHARED_BY or (facet != IN_TURN and not value):
        raise DeskError(400, "Share out: choose which cases.")
    branch = value if facet == "branch" else ""
    users = _chosen_users(visit, visit.form.get("user", []), branch)
    visit.seat.cases.share(facet, value, users, visit.name)
    visit.seat.audit.write(visit.name, "work shared out", by=facet, value=value, users=users)


def _end(visit: Visit) -> None:
    visit.require_all_branches()
    number = visit.text("share", 9)
    ended = visit.seat.cases.end_share(int(number)) if number.isdecimal() else None
    if ended is not None:
        visit.seat.audit.write(visit.name, "share ended", by=ended.facet, value=ended.value)


def _hand_over(visit: Visit) -> None:
    visit.require_all_branches()
    giver, taker = visit.text("from", 200), visit.text("taker", 200)
    known = {each.name for each in visit.seat.accounts.users()}
    if giver not in known:
        raise DeskError(400, "Hand over: choose whose work it is.")
    (taker,) = _chosen_users(visit, [taker])
    if giver == taker:
        raise DeskError(400, "Hand over: choose two users.")
    number = visit.seat.cases.hand_over(giver, taker)
    visit.seat.audit.write(visit.name, "work handed over", giver=giver, taker=taker, cases=number)


def _chosen_users(visit: Visit, names: list[str], branch: str = "") -> list[str]:
    """Return users who may review, by name; of cases of all branches, where none is named.

    Raises:
        DeskError: none was chosen, or one may not.
    """
    reviewers = {each.name: each for each in _reviewers(visit)}
    chosen = list(dict.fromkeys(name for name in names if name))
    if not chosen or not set(chosen) <= set(reviewers):
        raise DeskError(400, "Choose users who review customers: analysts or approvers.")
    for name in chosen:
        seen = {each.casefold() for each in reviewers[name].branches}
        if seen and branch.casefold() not in seen:
            raise DeskError(400, f"{name} sees customers of some branches alone, not all of these.")
    return chosen
