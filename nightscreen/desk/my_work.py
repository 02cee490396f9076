"""The page of one's own work over all batches: taken, given back, waited for, shared out.

Who needs somebody is `work_list`, who has what `cases`; reviews are saved on the customer's page.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from nightscreen.desk import fix
from nightscreen.desk.context import DeskError
from nightscreen.desk.decisions import asked_filter, in_words, kinds
from nightscreen.desk.run_rows import PAGE_ROWS, file_columns, one_of_each
from nightscreen.desk.work_list import FACETS
from nightscreen.journal.cases import IN_TURN, SHARED_BY, WAITS_FOR
from nightscreen.schemas.clock import LAGOS, lagos_day, span_micros, to_micros
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.schemas.users import User

USUAL_WAIT_DAYS: Final = 7
LONGEST_WAIT_DAYS: Final = 365
_OWN_FIRST: Final = "CASE whose WHEN 'mine' THEN 0 WHEN 'free' THEN 1 ELSE 2 END, "


def my_work(context: Context) -> Response:
    """Show one's own cases and those nobody has."""
    cases = context.open_cases
    newest = (context.journal.runs.find(run_id) for _, run_id in context.work.newest)
    of_runs = [file_columns(run) for run in newest if run is not None]
    columns = one_of_each(name for names in of_runs for name in names)
    asked = shown = asked_filter(context, FACETS, columns)
    if asked.by:
        cases = cases.with_file(context.journal.runs, asked)
    if "whose" not in asked.chosen and context.may("review"):
        shown = replace(asked, chosen={**asked.chosen, "whose": ("mine", "free")})
    number, facets = cases.counted(shown)
    first, where = context.slice(number, PAGE_ROWS)
    rows = cases.page(shown, first, first=_OWN_FIRST)
    for row in rows:
        add_clock(context, row)
    context.record("work seen", filter=kinds(asked), rows=len(rows))
    may_share = context.may("review") and not context.branches
    return context.page(
        "my_work",
        asked=asked,
        facets=facets,
        columns=columns,
        rows=in_words(context, rows),
        where=where,
        back=context.text("back", 2000) or context.request.url.query,
        usual_wait=lagos_day(context.clock()) + timedelta(days=USUAL_WAIT_DAYS),
        waits_for=WAITS_FOR,
        proposals=context.proposals(),
        typed_rows=fix.waiting(context),
        may_share=may_share,
        shares=context.cases.shares() if may_share else [],
        values=context.work.values if may_share else [],
        in_turn=IN_TURN,
        users=_reviewers(context) if may_share else [],
        lists=context.work.newest,
    )


def _reviewers(context: Context) -> list[User]:
    return [each for each in context.accounts.users() if each.password and each.may("review")]


def add_clock(context: Context, row: dict[str, Any]) -> None:
    """Add to a case when it is due, and whether that is over."""
    within = span_micros(context.settings.review_within)
    row["due_at"] = row["waits_until"] if row["whose"] == "waiting" else row["since"] + within
    row["overdue"] = row["due_at"] < context.clock()


def act(context: Context) -> Response:
    """Take a case, give it back, have it wait; share work out, or hand it over."""
    does = context.text("do", 20)
    if does in {"take", "back", "wait"}:
        _on_case(context, does)
    else:
        context.require_all_branches()
        {"share": _share, "end": _end, "hand over": _hand_over}.get(does, _nothing)(context)
    if context.text("to") == "customer":
        address = f"/customers/{quote(context.text('customer_id'), safe='')}"
        return onward(f"{address}?{urlencode({'run': context.text('run', 60)})}")
    back = urlencode(parse_qsl(context.text("back")))
    return onward("/decisions" + (f"?{back}" if back else ""))


def _nothing(_context: Context) -> None:
    raise DeskError(400, "Press one of the buttons of the page.")


def _on_case(context: Context, does: str) -> None:
    batch, customer_id = context.text("batch", 200), context.text("customer_id")
    case = context.open_cases.case(batch, customer_id)
    if case is None:
        raise DeskError(409, "This case is closed: somebody reviewed the customer, or nobody must.")
    if case["holder"] not in {context.name, ""}:
        raise DeskError(409, f"{case['holder']} has this case.")
    about = {"run_id": case["run_id"], "customer_id": customer_id}
    if does == "take":
        context.cases.take(batch, customer_id, context.name)
        context.record("case taken", **about)
    elif does == "back":
        context.cases.give_back(batch, customer_id, context.name)
        context.record("case given back", **about)
    else:
        until = _until(context)
        waits = "Choose who is waited for: customer or reporter."
        waits_for = context.chosen("waits_for", WAITS_FOR, waits)
        at = to_micros(until)
        context.cases.take(batch, customer_id, context.name, until=at, waits_for=waits_for)
        context.record("case waits", **about, until=f"{until:%Y-%m-%d}", waits_for=waits_for)


def _until(context: Context) -> datetime:
    """Return the beginning of the day that was typed, in Lagos.

    Raises:
        DeskError: it is no day to wait for.
    """
    today = lagos_day(context.clock())
    try:
        day = date.fromisoformat(context.text("until", 20))
    except ValueError:
        raise DeskError(400, "Wait until: write the day as 2026-03-04.") from None
    if not today < day <= today + timedelta(days=LONGEST_WAIT_DAYS):
        raise DeskError(400, "Wait until: choose a day after today, within a year.")
    return datetime.combine(day, time(), LAGOS)


def _share(context: Context) -> None:
    facet, _, value = context.text("which", 300).partition(":")
    if facet not in SHARED_BY or (facet != IN_TURN and not value):
        raise DeskError(400, "Share out: choose which cases.")
    branch = value if facet == "branch" else ""
    users = _chosen_users(context, context.form.get("user", []), branch)
    context.cases.share(facet, value, users, context.name)
    context.record("work shared out", by=facet, value=value, users=users)


def _end(context: Context) -> None:
    ended = context.cases.end_share(context.text("share", 500))
    if ended is not None:
        context.record("share ended", by=ended.facet, value=ended.value)


def _hand_over(context: Context) -> None:
    known = [each.name for each in context.accounts.users()]
    giver = context.chosen("from", known, "Hand over: choose whose work it is.")
    (taker,) = _chosen_users(context, [context.text("taker", 200)])
    if giver == taker:
        raise DeskError(400, "Hand over: choose two users.")
    number = context.cases.hand_over(giver, taker)
    context.record("work handed over", giver=giver, taker=taker, cases=number)


def _chosen_users(context: Context, names: list[str], branch: str = "") -> list[str]:
    """Return users who may review, by name; of cases of all branches, where none is named.

    Raises:
        DeskError: none was chosen, or one may not.
    """
    reviewers = {each.name: each for each in _reviewers(context)}
    chosen = list(dict.fromkeys(name for name in names if name))
    if not chosen or not set(chosen) <= set(reviewers):
        raise DeskError(400, "Choose users who review customers: analysts or approvers.")
    for name in chosen:
        seen = {each.casefold() for each in reviewers[name].branches}
        if seen and branch.casefold() not in seen:
            raise DeskError(400, f"{name} sees customers of some branches alone, not all of these.")
    return chosen
