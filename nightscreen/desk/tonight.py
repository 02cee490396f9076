"""The front page: what waits for this user as things are now, the last nights, money and caps.

What waits is read from the open cases, the journal and the runs that wait; a run's report is read
only for how its night went.
"""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from nightscreen.config.parameters import SCREEN_FLOW
from nightscreen.desk import contests, fix, policy
from nightscreen.desk.runs import may_resume, standings
from nightscreen.journal.settling import open_gaps
from nightscreen.schemas.clock import spending_day
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.stops import StopReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.responses import Response

    from nightscreen.desk.context import Context
    from nightscreen.journal.runs import RunRecord

NIGHTS: Final = 14  # two weeks, so that each day of the week counts twice
_LOOKED_AT: Final = 200  # newest runs: a batch without one among them is not shown
_BATCHES: Final = 12  # a choice: how each stands is worked out when the page is opened


def tonight(context: Context) -> Response:
    """Show what waits and how things stand."""
    runs = [run for run in context.journal.runs.newest(limit=_LOOKED_AT) if run.flow == SCREEN_FLOW]
    newest: dict[str, RunRecord] = {}
    for run in runs:
        if run.batch not in newest and not context.uploads.is_part(run):
            newest[run.batch] = run
    batches = standings(context, list(newest.values())[:_BATCHES])
    ended = [each for each in batches if each.run.finished_at and each.run.report and each.has_rows]
    money, may = context.journal.money, context.may
    spend: dict[str, int] = defaultdict(int)  # by day, the newest first
    for day, _, each in money.by_day() if may("money") else []:
        spend[day] += each.spent_micro
    nights = [micro for micro in list(spend.values())[:NIGHTS] if micro]
    balance = context.journal.runs.last_balance()
    lasts = None if balance is None or not nights else balance * len(nights) // sum(nights)
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
        overrides=len(context.proposals()),
        to_fix=[
            (each.run, which, left)
            for each in ended
            for which in (fix.REFUSED, fix.VALUES)
            if may("screen")
            and not context.branches
            and (left := fix.count_open_rows(context, each.run, which))
        ],
        today=money.today(),
        month=money.this_month(),
        balance=balance,
        nights_left=lasts,  # at what the last nights cost; None where it is unknown
        settings=context.settings,
        missing=open_gaps(context.journal) if may("money") else [],
        contests=contests.waiting(context),
        proposals=policy.waiting(context),
        to_confirm=[] if context.user is None else context.accounts.unconfirmed(context.user),
        made_alone=context.accounts.made_alone(),
        nights=_nights([] if context.branches else runs, spend),
    )


def _nights(runs: Sequence[RunRecord], spend: Mapping[str, int]) -> dict[str, list[float]]:
    """Return the last nights' spend, coverage and declines, the oldest first."""
    sums: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    for run in runs:
        report = run.report or {}
        decided, exposure = report.get("decisions") or {}, report.get("exposure") or {}
        if run.finished_at is None or not decided or run.stop_reason == StopReason.APPROVAL:
            continue  # nothing was asked: it is no night of its day
        whole = Decimal(exposure.get("total") or 0)
        missed = Decimal((exposure.get("not_screened") or {}).get("exposure") or 0)
        found = (whole - missed, whole, decided.get("decline", 0), sum(decided.values()))
        day = spending_day(run.started_at)
        sums[day] = [one + more for one, more in zip(sums[day], found, strict=True)]
    nights = {
        "Spend": {day: from_micro(micro) for day, micro in spend.items()},
        "Answered, % of exposure": {day: 100 * s[0] / (s[1] or 1) for day, s in sums.items()},
        "Declined, % of customers": {day: 100 * s[2] / (s[3] or 1) for day, s in sums.items()},
    }
    return {
        name: [float(values[day]) for day in sorted(values)[-NIGHTS:]]
        for name, values in nights.items()
        if values
    }
