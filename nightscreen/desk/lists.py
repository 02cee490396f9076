"""The lists of customers: one run's decisions, a user's own work over all batches, contests.

`rows` reads rows, facets and open cases; `journal/cases.py` says who has which case. Reviews are
saved on the customer's page. The texts of reasons come from the policy that decided. Who may answer
a contest, and what an answer changes, is decided in `privacy/contests.py`.
"""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import xlsxwriter  # type: ignore[import-untyped]  # ships no types

from nightscreen.desk.books import about_export, csv_response
from nightscreen.desk.context import DeskError
from nightscreen.desk.rows import (
    IN_FILE,
    PAGE_ROWS,
    SORTS,
    Filter,
    Listing,
    file_columns,
    one_of_each,
)
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.cases import IN_TURN, SHARED_BY, WAITS_FOR
from nightscreen.privacy.contests import (
    answer_contest,
    find_contest,
    list_contests,
    open_contest,
)
from nightscreen.results.final_decision import FINAL_COLUMNS, final_columns, standing_reviews
from nightscreen.results.wording import Words, said_of, team_sentences
from nightscreen.schemas.clock import LAGOS, lagos_day, span_micros, to_micros
from nightscreen.schemas.contests import ContestAbout, ContestOutcome, ContestState
from nightscreen.schemas.decisions import LISTED
from nightscreen.schemas.policy import Decision, Policy
from nightscreen.web.guard import attachment, see_other

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.desk.rows import RunRows
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.contests import Contest
    from nightscreen.schemas.users import User

L = TypeVar("L", bound=Listing)
MOST_EXPORTED: Final = 1_000_000  # rows, all in memory; a sheet of XLSX has 1,048,576
MOST_BY: Final = 5  # columns of the file that a list is narrowed by at once
USUAL_WAIT_DAYS: Final = 7  # a choice: what the form proposes
LONGEST_WAIT_DAYS: Final = 365  # a choice: no case is put off for more than a year
_WORKBOOK: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_EXPORTED = (
    *("customer_id", "decision", "why", "branch", "officer", "exposure"),
    *FINAL_COLUMNS,
)
_ON_CASE: Final = {"take": "case taken", "back": "case given back", "wait": "case waits"}
"""What each button does with a case, and its name in the audit."""
DECISIONS: Final = (Decision.APPROVE, Decision.REVIEW, Decision.DECLINE)
_OWN_FIRST: Final = "CASE whose WHEN 'mine' THEN 0 WHEN 'free' THEN 1 ELSE 2 END, "

# --- what both lists have ---


def in_words(
    context: Context, rows: list[dict[str, Any]], purpose: str | None = None
) -> list[dict[str, Any]]:
    """Return rows with why they were decided so, in the policy's words.

    Where no purpose of a run is given, each row has its own.
    """
    sentences: dict[tuple[str, str | None], Words] = {}
    for row in rows:
        said_as = row["policy"] or "", purpose or row.get("purpose")
        if said_as not in sentences:
            text = context.reviews.policy_text(said_as[0]) if said_as[0] else None
            policy = None if text is None else Policy.model_validate_json(text)
            sentences[said_as] = {} if policy is None else team_sentences(policy, said_as[1])
        row["why"] = said_of(row, sentences[said_as])["reason_text"]
    return rows


def _narrowed(
    context: Context, rows: L, runs: Iterable[RunRecord | None]
) -> tuple[L, Filter, list[str]]:
    """Return rows, the filter that the address names, and columns that may be facets as well.

    These are the columns of the files of runs; the rows have those that the filter is by.
    """
    columns = one_of_each(name for run in runs if run is not None for name in file_columns(run))
    shown, in_file = context.asked("by"), [f"{IN_FILE}{name}" for name in columns]
    by = tuple(name for name in in_file if name in shown or context.asked(name))[:MOST_BY]
    chosen = {name: tuple(dict.fromkeys(context.asked(name)))[:50] for name in (*rows.facets, *by)}
    chosen = {name: values for name, values in chosen.items() if values}
    sort = context.asked_first("sort")
    sort = sort if sort in SORTS else "exposure"
    asked = Filter(chosen, context.asked_first("search").strip()[:200], sort, by)
    return rows.with_file(context.journal.runs, asked) if asked.by else rows, asked, columns


def _page_of(
    context: Context, rows: Listing, asked: Filter, first: str = ""
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of the page that the address names; its facets, and where it is."""
    number, facets = rows.counted(asked)
    start, where = context.slice(number, PAGE_ROWS)
    return rows.page(asked, start, first=first), {"facets": facets, "where": where}


def _kinds(asked: Filter) -> str:
    """Return a filter for the audit: a search or a column of the file is named, not its values."""
    own = {name: values for name, values in asked.chosen.items() if name not in asked.by}
    said = [Filter(own).words(), *(f"by {name.removeprefix(IN_FILE)}" for name in asked.by)]
    return "; ".join([*said, *(["a search"] if asked.search else [])])


# --- a run's decisions ---


def run_decisions(context: Context) -> Response:
    """Show a run's list: facets, sort, search by the beginning of a customer id."""
    run, rows, asked, columns = _asked(context)
    found, shown = _page_of(context, rows, asked)
    context.record("decisions seen", run_id=run.run_id, filter=_kinds(asked), rows=len(found))
    total, needing = rows.count_to_review()
    return context.page(
        "run_decisions",
        run=run,
        **shown,
        asked=asked,
        columns=columns,
        rows=_settled(context, run, found),
        total=total,
        needing=needing,
        needs_somebody=[("decision", word) for word in LISTED],
    )


def export(context: Context) -> Response:
    """Give what a list shows as CSV or XLSX, with who exported it, when and by which filter."""
    run, rows, asked, _ = _asked(context)
    kind = context.request.path_params["kind"]
    if kind not in {"csv", "xlsx"}:
        raise DeskError(404, "A list is exported as CSV or XLSX.")
    found = _settled(context, run, rows.page(asked, 0, MOST_EXPORTED))
    about = about_export(context, asked.words(), len(found), run_id=run.run_id)
    told = {"kind": kind, "rows": len(found), "filter": _kinds(asked)}
    context.record("list exported", run_id=run.run_id, **told)
    name = f"{run.run_id}-decisions.{kind}"
    if kind == "csv":
        lines = ([row[column] for column in _EXPORTED] for row in found)
        return csv_response(name, _EXPORTED, lines, about)
    return attachment(_workbook(found, about), name, _WORKBOOK)


def _asked(context: Context) -> tuple[RunRecord, RunRows, Filter, list[str]]:
    run = context.run
    rows = context.rows_of(run)
    if rows is None:
        raise DeskError(
            404, "This run has no rows here: it has not written them yet, or they were removed."
        )
    return run, *_narrowed(context, rows, [run])


def _settled(context: Context, run: RunRecord, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in words, with the final decision where a person settled the case."""
    joined = context.journal.pseudonyms.customers(run.batch, [row["customer_id"] for row in rows])
    keys = pieces_of(joined)
    few = keys if len(keys) <= PAGE_ROWS else []
    found = standing_reviews(context.journal, run.batch, few) if rows else {}
    for key, row in zip(keys, rows, strict=True):
        row.update(final_columns(found.get(key)))
    return in_words(context, rows, run.purpose)


def _workbook(rows: list[dict[str, Any]], about: list[tuple[str, str]]) -> bytes:
    sink = io.BytesIO()
    as_text = {
        "strings_to_formulas": False,
        "strings_to_urls": False,
    }  # whatever a cell begins with
    with xlsxwriter.Workbook(sink, {"in_memory": True, **as_text}) as book:
        sheet, notes = book.add_worksheet("Decisions"), book.add_worksheet("About")
        exposure = _EXPORTED.index("exposure")
        sheet.set_column(0, len(_EXPORTED) - 1, 18)
        sheet.set_column(exposure, exposure, 18, book.add_format({"num_format": "#,##0.00"}))
        sheet.freeze_panes(1, 1)
        sheet.write_row(0, 0, _EXPORTED, book.add_format({"bold": True}))
        for line, row in enumerate(rows, start=1):
            values = (row[name] for name in _EXPORTED)
            cells = (v if v is None or isinstance(v, Decimal) else str(v) for v in values)
            sheet.write_row(line, 0, cells)
        for line, said in enumerate(about):
            notes.write_row(line, 0, said)
    return sink.getvalue()


# --- one's own work ---


def my_work(context: Context) -> Response:
    """Show one's own cases and those nobody has."""
    cases = context.open_cases
    newest = (context.journal.runs.find(run_id) for _, run_id in context.work.newest)
    cases, asked, columns = _narrowed(context, cases, newest)
    shown = asked
    if "whose" not in asked.chosen and context.may("review"):
        shown = replace(asked, chosen={**asked.chosen, "whose": ("mine", "free")})
    rows, page = _page_of(context, cases, shown, _OWN_FIRST)
    context.record("work seen", filter=_kinds(asked), rows=len(rows))
    may_share = context.may("review") and not context.branches
    return context.page(
        "my_work",
        **page,
        asked=asked,
        columns=columns,
        rows=in_words(context, rows),
        within=span_micros(context.settings.review_within),
        back=context.text("back", 2000) or context.request.url.query,
        usual_wait=lagos_day(context.clock()) + timedelta(days=USUAL_WAIT_DAYS),
        waits_for=WAITS_FOR,
        proposals=context.proposals(),
        may_share=may_share,
        shares=context.cases.shares() if may_share else [],
        values=context.work.values if may_share else [],
        in_turn=IN_TURN,
        users=_reviewers(context) if may_share else [],
        lists=context.work.newest,
    )


def _reviewers(context: Context) -> list[User]:
    return [each for each in context.accounts.users() if each.password and each.may("review")]


def act(context: Context) -> Response:
    """Take a case, give it back or postpone it; share work out, or hand it over."""
    does = context.text("do", 20)
    if does in _ON_CASE:
        _on_case(context, does)
    else:
        context.require_branch()
        if does not in _SHARING:
            raise DeskError(400, "Press one of the buttons of the page.")
        _SHARING[does](context)
    if context.text("to") == "customer":
        address = f"/customers/{quote(context.text('customer_id'), safe='')}"
        return see_other(f"{address}?{urlencode({'run': context.text('run', 60)})}")
    back = urlencode(parse_qsl(context.text("back")))
    return see_other("/decisions" + (f"?{back}" if back else ""))


def _on_case(context: Context, does: str) -> None:
    batch, customer_id = context.text("batch", 200), context.text("customer_id")
    case = context.open_cases.case(batch, customer_id)
    if case is None:
        raise DeskError(409, "This case is closed: somebody reviewed the customer, or nobody must.")
    if case["holder"] not in {context.name, ""}:
        raise DeskError(409, f"{case['holder']} has this case.")
    given: dict[str, Any] = {"back": does == "back"}
    said: dict[str, Any] = {}
    if does == "wait":
        until, waits = _until(context), "Choose who is waited for: customer or reporter."
        waits_for = context.chosen("waits_for", WAITS_FOR, waits)
        given = {"until": to_micros(until), "waits_for": waits_for}
        said = {"until": f"{until:%Y-%m-%d}", "waits_for": waits_for}
    context.cases.take(batch, customer_id, context.name, **given)
    about = {"run_id": case["run_id"], "customer_id": customer_id}
    context.record(_ON_CASE[does], **about, **said)


def _until(context: Context) -> datetime:
    """Return the beginning of the day that was typed, in Lagos."""
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


def _end_share(context: Context) -> None:
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


_SHARING: Final = {"share": _share, "end": _end_share, "hand over": _hand_over}


def _chosen_users(context: Context, names: list[str], branch: str = "") -> list[str]:
    """Return users who may review, by name; of cases of all branches, where none is named."""
    reviewers = {each.name: each for each in _reviewers(context)}
    chosen = list(dict.fromkeys(name for name in names if name))
    if not chosen or not set(chosen) <= set(reviewers):
        raise DeskError(400, "Choose users who review customers: analysts or approvers.")
    for name in chosen:
        seen = {each.casefold() for each in reviewers[name].branches}
        if seen and branch.casefold() not in seen:
            raise DeskError(400, f"{name} sees customers of some branches alone, not all of these.")
    return chosen


# --- contests ---


def contests(context: Context) -> Response:
    """Show open contests, the next due first, and below them the answered ones."""
    found = _seen(context, list_contests(context.journal, answered=True))
    context.record("contests seen", rows=len(found))
    return context.page(
        "contests",
        open=[each for each in found if each.answered_at is None],
        answered=[each for each in found if each.answered_at is not None][-50:],
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


def waiting_contests(context: Context) -> list[Contest]:
    """Return the open contests, for the front page."""
    return _seen(context, list_contests(context.journal)) if context.may("contest") else []


def _seen(context: Context, found: list[Contest]) -> list[Contest]:
    """Return the contests of customers whose branch the user sees."""
    return [each for each in found if context.sees(each.customer_id, each.batch)]
