"""The front page: what waits for this user, how the last nights went, money against its caps."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk import contests, policy
from nightscreen.desk.decisions import NEEDS_SOMEBODY
from nightscreen.desk.pages import line_points
from nightscreen.desk.runs import state_and_ending
from nightscreen.desk.uploads import TYPED
from nightscreen.journal.wallet import open_gaps
from nightscreen.schemas.clock import spending_day
from nightscreen.schemas.money import from_micro

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord

NIGHTS: Final = 14
_LOOKED_AT: Final = 200


def tonight(context: Context) -> Response:
    """Show what waits and how things stand."""
    runs = [run for run in context.journal.runs.newest(limit=_LOOKED_AT) if run.flow == SCREEN_FLOW]
    newest: dict[str, RunRecord] = {}
    for run in runs:
        if run.batch in newest:
            continue
        upload = context.uploads.of_run(run)
        if upload is None or TYPED not in upload.choices:  # one customer is not a batch's night
            newest[run.batch] = run
    ended = [
        run
        for run in newest.values()
        if run.finished_at and run.stop_reason != "approval" and (run.report or {}).get("rows")
    ]
    money = context.journal.money
    waiting = context.approvals.waiting() if context.may("approvals") else []
    return context.page(
        "tonight",
        last=ended[0] if ended else None,
        last_ending=state_and_ending(context, ended[0])[1] if ended else "",
        batches=[(run, state_and_ending(context, run)[0]) for run in [*newest.values()][:12]],
        waiting=waiting,
        uploaded_by={
            each.run_id: upload.user
            for each in waiting
            if (upload := context.uploads.of_run(context.journal.runs.find(each.run_id)))
        },
        lists=[
            found
            for run in ended
            if context.may("people")
            and _needing(run)
            and (found := _to_work_on(context, run))["rows"]
        ],
        to_fix=[
            run
            for run in ended
            if run.report and run.report["rows"]["quarantined"] and not context.branches
        ],
        today=money.today(),
        month=money.this_month(),
        balance=context.journal.runs.last_balance(),
        nights_left=_nights_left(ended),
        settings=context.settings,
        missing=open_gaps(context.journal) if context.may("money") else [],
        contests=contests.waiting(context),
        proposals=policy.waiting(context),
        to_confirm=[] if context.user is None else context.accounts.unconfirmed(context.user),
        made_alone=context.accounts.made_alone(),
        lines=_lines(
            [] if context.branches else runs, money.by_day() if context.may("money") else ()
        ),
        needs_somebody=[("decision", word) for word in NEEDS_SOMEBODY],
    )


def _needing(run: RunRecord) -> int:
    decided = (run.report or {}).get("decisions") or {}
    return sum(int(decided.get(word, 0)) for word in NEEDS_SOMEBODY)


def _to_work_on(context: Context, run: RunRecord) -> dict[str, Any]:
    if context.branches:
        rows = context.rows_of(run)
        needing, at_risk = (0, Decimal(0)) if rows is None else rows.at_stake()
        return {"run": run, "rows": needing, "exposure": at_risk}
    exposure = (run.report or {}).get("exposure") or {}
    total = sum(
        (Decimal(exposure.get(f"decision_{word}") or 0) for word in NEEDS_SOMEBODY), Decimal(0)
    )
    return {"run": run, "rows": _needing(run), "exposure": total}


def _nights_left(ended: Sequence[RunRecord]) -> int | None:
    for run in ended:
        balance = (run.report or {}).get("balance") or {}
        left = balance.get("nights_left")
        if left is None:
            left = (balance.get("last_known") or {}).get("nights_left")
        if left is not None:
            return int(left)
    return None


def _lines(
    runs: Sequence[RunRecord], by_day: Sequence[tuple[str, str, Any]]
) -> list[dict[str, Any]]:
    """Return the last nights' spend, coverage and declines, each with the points of its line."""
    spend: dict[str, int] = defaultdict(int)
    for day, _, spent in by_day:
        spend[day] += spent.spent_micro
    answered: dict[str, tuple[Decimal, Decimal]] = {}
    declined: dict[str, tuple[int, int]] = {}
    for run in runs:
        day = spending_day(run.started_at)
        if len({*answered, day}) > NIGHTS:
            break
        if run.finished_at is None or not (run.report or {}).get("decisions"):
            continue
        assert run.report is not None  # noqa: S101 - it has decisions
        exposure, decided = run.report.get("exposure") or {}, run.report.get("decisions") or {}
        whole = Decimal(exposure.get("total") or 0)
        missed = Decimal((exposure.get("not_screened") or {}).get("exposure") or 0)
        before = answered.get(day, (Decimal(0), Decimal(0)))
        answered[day] = (before[0] + whole - missed, before[1] + whole)
        was = declined.get(day, (0, 0))
        declined[day] = (was[0] + decided.get("decline", 0), was[1] + sum(decided.values()))
    days = sorted({*spend, *answered, *declined})[-NIGHTS:]
    naira = [float(from_micro(spend.get(day, 0))) for day in days if spend]
    cover = [_pct(*answered[day]) for day in days if day in answered]
    decline = [_pct(*declined[day]) for day in days if day in declined]
    kinds: tuple[tuple[str, str, list[float], str], ...] = (
        ("Spend", "", naira, "₦{:,.0f}"),
        ("Answered, % of exposure", "blue", cover, "{:.1f} %"),
        ("Declined, % of customers", "red", decline, "{:.1f} %"),
    )
    return [
        {
            "name": name,
            "tone": tone,
            "points": line_points(values),
            "end": line_points(values).rpartition(" ")[2].split(","),
            "newest": form.format(values[-1]),
            "said": "; ".join(form.format(value) for value in values),
        }
        for name, tone, values, form in kinds
        if values
    ]


def _pct(part: Decimal | int, whole: Decimal | int) -> float:
    return float(100 * part / whole) if whole else 0.0
