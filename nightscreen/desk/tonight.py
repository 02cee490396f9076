"""The front page: what waits for this user as things are now, the last nights, money and caps.

What waits is read from the open cases, the journal and the runs that wait; a run's report is read
only for how its night went.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk import contests, fix, policy
from nightscreen.desk.runs import may_resume, standings
from nightscreen.desk.uploads import TYPED
from nightscreen.journal.wallet import open_gaps
from nightscreen.schemas.clock import spending_day
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord

NIGHTS: Final = 14
_LOOKED_AT: Final = 200
_BATCHES: Final = 12
_WIDE, _HIGH, _EDGE = 172, 22, 3
"""Of the small lines, in their own units."""


def tonight(context: Context) -> Response:
    """Show what waits and how things stand."""
    runs = [run for run in context.journal.runs.newest(limit=_LOOKED_AT) if run.flow == SCREEN_FLOW]
    newest: dict[str, RunRecord] = {}
    for run in runs:
        if run.batch not in newest and not _is_part(context, run):
            newest[run.batch] = run
    batches = standings(context, list(newest.values())[:_BATCHES])
    ended = [each for each in batches if each.run.finished_at and each.run.report and each.has_rows]
    money, may = context.journal.money, context.may
    by_day = money.by_day() if may("money") else []
    balance = context.journal.runs.last_balance()
    waiting = context.waiting_approvals if may("approvals") else []
    uploads = {
        each.run_id: context.uploads.of_run(context.journal.runs.find(each.run_id))
        for each in waiting
    }
    return context.page(
        "tonight",
        last=ended[0] if ended else None,
        batches=batches,
        waiting=waiting,
        uploaded_by={run_id: upload.user for run_id, upload in uploads.items() if upload},
        resting=[
            (each, may_resume(context, each.run))
            for each in batches
            if may("runs") and each.is_resting
        ],
        lists=context.open_cases.to_review() if may("people") else [],
        overrides=len(context.proposals()) + len(fix.waiting(context)),
        to_fix=[
            (each.run, which, left)
            for each in ended
            for which in (fix.REFUSED, fix.VALUES)
            if may("screen")
            and not context.branches
            and (left := fix.left(context, each.run, which))
        ],
        today=money.today(),
        month=money.this_month(),
        balance=balance,
        nights_left=_nights_left(by_day, balance),
        settings=context.settings,
        missing=open_gaps(context.journal) if may("money") else [],
        contests=contests.waiting(context),
        proposals=policy.waiting(context),
        to_confirm=[] if context.user is None else context.accounts.unconfirmed(context.user),
        made_alone=context.accounts.made_alone(),
        lines=_lines([] if context.branches else runs, by_day),
    )


def _is_part(context: Context, run: RunRecord) -> bool:
    """Tell whether a run is of rows typed at the desk: one customer is not a batch's night."""
    upload = context.uploads.of_run(run)
    return upload is not None and TYPED in upload.choices


def _nights_left(by_day: Sequence[tuple[str, str, Any]], balance: int | None) -> int | None:
    """Return how many nights the wallet pays for, at what the last ones cost; None where unknown.

    Args:
        by_day: the journal's counters by day and check, newest first.
        balance: what is in the wallet, micro-naira; None where no answer said.
    """
    spent: dict[str, int] = defaultdict(int)
    for day, _, each in by_day:
        spent[day] += each.spent_micro
    nights = [each for each in list(spent.values())[:NIGHTS] if each]
    return None if balance is None or not nights else balance * len(nights) // sum(nights)


def _lines(
    runs: Sequence[RunRecord], by_day: Sequence[tuple[str, str, Any]]
) -> list[dict[str, Any]]:
    """Return the last nights' spend, coverage and declines, each with the points of its line."""
    shares: dict[str, dict[str, list[Decimal]]] = defaultdict(dict)
    for run in runs:
        report = run.report or {}
        decided, exposure = report.get("decisions") or {}, report.get("exposure") or {}
        if run.finished_at is None or not decided or run.stop_reason == StopReason.APPROVAL:
            continue  # nothing was asked: it is no night of its day
        whole = Decimal(exposure.get("total") or 0)
        missed = Decimal((exposure.get("not_screened") or {}).get("exposure") or 0)
        parts = {
            "Answered, % of exposure": (whole - missed, whole),
            "Declined, % of customers": (decided.get("decline", 0), sum(decided.values())),
        }
        for name, part in parts.items():
            sums = shares[name].setdefault(spending_day(run.started_at), [Decimal(0), Decimal(0)])
            sums[:] = [one + Decimal(more) for one, more in zip(sums, part, strict=True)]
    spend: dict[str, Decimal] = defaultdict(Decimal)
    for day, _, each in by_day:
        spend[day] += from_micro(each.spent_micro)
    nights = {"Spend": spend} | {
        name: {day: 100 * part / (whole or 1) for day, (part, whole) in sums.items()}
        for name, sums in shares.items()
    }
    return [
        _line(name, [float(values[day]) for day in sorted(values)[-NIGHTS:]])
        for name, values in nights.items()
        if values
    ]


def _line(name: str, values: list[float]) -> dict[str, Any]:
    """Return the line of some nights, the newest at its right end."""
    low, step = min(values), _WIDE / max(len(values) - 1, 1)
    span = (max(values) - low) or 1.0
    points = [
        (_EDGE + step * place, _HIGH + 2 * _EDGE - (value - low) / span * _HIGH)
        for place, value in enumerate(values)
    ]
    form = "₦{:,.0f}" if name == "Spend" else "{:.1f} %"
    return {
        "name": name,
        "tone": {"A": "blue", "D": "red"}.get(name[0], ""),
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "end": points[-1],
        "newest": form.format(values[-1]),
        "said": "; ".join(map(form.format, values)),
    }
