"""Report: one account of a run for programs and people, from plan, journal and enriched rows.

It holds no identifier. The page for people is made from the same dictionary in `page`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import QUARANTINE
from nightscreen.report.coverage import Coverage, weigh
from nightscreen.report.decided import Decided
from nightscreen.report.findings import findings_of
from nightscreen.report.run_end import cost_of, head_of, notices_of, versions_used
from nightscreen.runs.screening_run import PROBLEMS
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.checks import NoAnswer, Source
from nightscreen.schemas.clock import MICROS, instant_text, spending_day, spending_month
from nightscreen.schemas.money import MICRO, naira_text
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from nightscreen.report.call_log import CallLog
    from nightscreen.report.reconciliation import Balance
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.plan import CheckCounts
    from nightscreen.schemas.policy import PolicyApproval

DAY = 24 * 3600 * MICROS
_OPEN = frozenset(
    {
        NoAnswer.PENDING.value,
        NoAnswer.FAILED.value,
        NoAnswer.UNREADABLE.value,
        NoAnswer.IN_DOUBT.value,
        NoAnswer.TEST_MODE.value,
        NoAnswer.REFUSED.value,
        NoAnswer.INVALID.value,
    }
)


@dataclass(slots=True)
class RowTally:
    """Counts enriched rows as they are written."""

    rows: int = 0
    statuses: dict[str, Counter[str]] = field(
        default_factory=lambda: {check: Counter() for check in CHECKS}
    )
    decisions: Counter[str] = field(default_factory=Counter)
    exposure: Counter[str] = field(default_factory=Counter)
    exposure_unknown_rows: int = 0
    shared_micro: Counter[str] = field(default_factory=Counter)
    coverage: Coverage = field(default_factory=Coverage)
    decided: Decided = field(default_factory=Decided)
    unread: Counter[str] = field(default_factory=Counter)
    asked: dict[str, Counter[str]] = field(
        default_factory=lambda: {check: Counter() for check in CHECKS}
    )

    def take(self, table: pa.Table) -> None:
        """Add a chunk of enriched rows; exposure is summed in naira, as given."""
        self.rows += table.num_rows
        self.coverage.take(table)
        self.decided.take(table)
        exposure = table["exposure"] if "exposure" in table.column_names else None
        for check in CHECKS:
            own = pc.equal(table[f"{check}_source"].cast("string"), Source.ASKED.value)
            keys = {"status": table[f"{check}_status"].cast("string"), "own": own}
            for (status, is_own), weight in weigh(keys, exposure, table.num_rows):
                self.statuses[check][status] += weight.rows
                self.asked[check].update({status: weight.rows} if is_own else {})
                if exposure is not None and status in _OPEN:
                    self.exposure[f"{check}_{status}"] += weight.kobo
        keys = {"decision": table["decision"].cast("string")}
        for (decision,), weight in weigh(keys, exposure, table.num_rows):
            self.decisions[decision] += weight.rows
            self.exposure_unknown_rows += weight.unknown_rows
            if exposure is not None:
                self.exposure["total"] += weight.kobo
                self.exposure[f"decision_{decision}"] += weight.kobo


def check_report(
    counts: CheckCounts,
    ends: Counter[LookupStatus],
    call_log: CallLog,
    check: str,
    statuses: Counter[str],
    *,
    asked: Counter[str],
    shared_micro: int,
    test_mode: bool,
) -> dict[str, Any]:
    """Return one check's part of the report.

    A lookup whose consent ended before it could be asked is none any more: its rows are refused.

    Args:
        counts: the plan before any call.
        ends: the end of the lookups that were needed.
        call_log: the run's calls.
        check: the check.
        statuses: statuses of the rows.
        asked: statuses of the rows that this run made calls for: tonight's answers.
        shared_micro: what rows saved that shared an answer of this run.
        test_mode: no answer counts: all is pending.
    """
    calls = call_log.checks[check]
    ended = 0 if test_mode else statuses[NoAnswer.REFUSED.value] - counts.rows_refused
    lapsed = 0 if test_mode else ends[LookupStatus.LAPSED]
    return {
        "rows_refused": counts.rows_refused + ended,
        "rows_ineligible": counts.rows_ineligible,
        "rows_invalid": counts.rows_invalid,
        "lookups": counts.lookups - ended,
        "distinct": counts.distinct - lapsed,
        **settled_counts(counts, ends, test_mode=test_mode),
        "attempts": calls.attempts,
        "retries": calls.retries,
        "cost": naira_text(calls.cost_micro),
        "in_doubt_exposure": naira_text(calls.in_doubt_micro),
        "saved_by_reuse": naira_text(counts.saved_by_reuse_micro),
        "saved_by_sharing": naira_text(shared_micro),
        "answers": dict(sorted(statuses.items())),
        "asked_answers": dict(sorted(asked.items())),
        "troubles": dict(sorted(calls.troubles.items())),
        "latency_ms": calls.latency(),
    }


def settled_counts(
    counts: CheckCounts, ends: Counter[LookupStatus], *, test_mode: bool
) -> dict[str, int]:
    """Return how many of the distinct lookups had which end; all of them, each once."""
    settled = {
        "paid": counts.paid + ends[LookupStatus.PAID],
        "free": counts.free + ends[LookupStatus.FREE],
        "reused": counts.reused + ends[LookupStatus.REUSED],
        "spared": ends[LookupStatus.SPARED],
        "unreadable": counts.unreadable + ends[LookupStatus.UNREADABLE],
        "failed": ends[LookupStatus.FAILED],
        "in_doubt": counts.in_doubt + ends[LookupStatus.IN_DOUBT],
    }
    if test_mode:
        settled = dict.fromkeys(settled, 0)
    lapsed = 0 if test_mode else ends[LookupStatus.LAPSED]
    return {**settled, "pending": counts.distinct - lapsed - sum(settled.values())}


def make_report(
    run: ScreeningRun, *, checks: Mapping[str, Any], call_log: CallLog, rows: RowTally
) -> dict[str, Any]:
    """Return the whole report, as `report.json` has it; money is decimal text in naira."""
    counts = {} if run.plan is None else run.plan.checks
    nightly_micro = nightly_spend(run)
    balance = call_log.reconciliation.balance()
    return {
        **head_of(run),
        "rows": {
            "read": run.rows_read,
            "screened": run.rows_read - run.rows_quarantined,
            "quarantined": run.rows_quarantined,
            **({"customers": run.customers} if run.merging else {}),
        },
        "coverage": {
            "due_rows": rows.coverage.due_rows,
            "answered_rows": rows.coverage.answered_rows,
        },
        "checks": dict(checks),
        "cost": cost_report(run, call_log, rows, counts),
        "spending": spending_report(run),
        "balance": {
            **balance_report(balance, nightly_micro or call_log.cost_micro),
            "last_known": last_known(run.journal.runs.last_balance(), nightly_micro),
        },
        "timeline": call_log.reconciliation.timeline(),
        "freshness": {
            **freshness_report(counts, run.freshness.at),
            "fresh": rows.coverage.fresh(),
            "ages": rows.coverage.ages(),
        },
        "exposure": exposure_report(rows),
        "decisions": dict(sorted(rows.decisions.items())),
        "evidence": rows.decided.evidence(),
        "reasons": rows.decided.reasons(),
        "groups": rows.decided.by_group(),
        "nights": [],
        "changes": {},
        "news": None,
        "shadow": None,
        "overrides": [],
        "customer_notices": None,
        "contests": {},
        "outcomes": None,
        "findings": findings_of(run.folder.path / QUARANTINE, run.folder.path / PROBLEMS),
        "notices": notices_of(run),
        "files": {},
        "provenance": provenance(run),
    }


def cost_report(
    run: ScreeningRun, call_log: CallLog, rows: RowTally, counts: Mapping[str, CheckCounts]
) -> dict[str, Any]:
    """Return the cost part: what was charged, against quote and cap, and what was saved."""
    cap_micro, cost_micro = run.caps.run_micro, call_log.cost_micro
    rises = run.journal.money.surprises(run.run_id)
    return {
        **cost_of(
            run,
            call_log,
            by_reuse_micro=sum(each.saved_by_reuse_micro for each in counts.values()),
            by_sharing_micro=sum(rows.shared_micro.values()),
        ),
        "over_cap": None if cap_micro is None else naira_text(max(0, cost_micro - cap_micro)),
        "price_rises": naira_text(sum(each.excess_micro for each in rises)),
        **flagged_report(rows, cost_micro),
    }


def flagged_report(rows: RowTally, cost_micro: int) -> dict[str, Any]:
    """Return how many customers the policy flags, to decline or to review, and naira for each."""
    flagged = sum(rows.decisions[word.value] for word in (Decision.DECLINE, Decision.REVIEW))
    naira_each = Decimal(cost_micro) / (flagged * MICRO) if flagged else None
    return {
        "flagged_rows": flagged,
        "per_flagged": None if naira_each is None else f"{naira_each:.2f}",
    }


def balance_report(balance: Balance, nightly_micro: int) -> dict[str, Any]:
    """Return the balance part: opening less cost, explained and drift is closing."""
    closing = balance.closing_micro
    nights = closing // nightly_micro if closing is not None and nightly_micro > 0 else None
    return {
        "opening": naira_text(balance.opening_micro),
        "closing": naira_text(closing),
        "lowest": naira_text(balance.lowest_micro),
        "explained_in_doubt": naira_text(balance.explained_in_doubt_micro),
        "drift": naira_text(balance.drift_micro),
        "drift_since": instant_text(balance.drift_since),
        "exact": balance.exact,
        "nights_left": nights,
    }


def last_known(known_micro: int | None, nightly_micro: int | None) -> dict[str, Any]:
    """Return the newest balance of any run, and the nights it lasts at this month's mean."""
    return {
        "balance": naira_text(known_micro),
        "nights_left": known_micro // nightly_micro
        if known_micro is not None and nightly_micro
        else None,
    }


def nightly_spend(run: ScreeningRun) -> int | None:
    """Return what a night of this month costs on average, over all runs, in micro-naira."""
    money = run.journal.money
    month = spending_month(run.clock())
    days = {day for day, _, spent in money.by_day() if day.startswith(month) and spent.spent_micro}
    return money.this_month().spent_micro // len(days) if days else None


def spending_report(run: ScreeningRun) -> dict[str, Any]:
    """Return what all runs spent in the present day and month, and under which caps."""
    now, money, caps = run.clock(), run.journal.money, run.caps
    each = (
        ("day", spending_day(now), money.today(), caps.day_micro),
        ("month", spending_month(now), money.this_month(), caps.month_micro),
    )
    return {
        name: {
            "name": label,
            "spent": naira_text(spent.spent_micro),
            "reserved": naira_text(spent.reserved_micro),
            "cap": naira_text(cap),
        }
        for name, label, spent, cap in each
    }


def provenance(run: ScreeningRun) -> dict[str, Any]:
    """Return what the report rests on: input, policy, identities asked by, versions, sessions."""
    earlier = run.folder.path.glob("report-*.json")
    return {
        "input_digest": run.input_digest,
        "policy": run.policy.label,
        "policy_approval": approval_report(run.policy_approval),
        "karma_identities": [kind.value for kind in run.wanted.karma_kinds],
        "evidence_judged_at": instant_text(run.freshness.at),
        "date_orders": run.date_orders,
        "deadline_at": instant_text(run.stops.deadline_at),
        "earlier_reports": len(list(earlier)),
        "versions": dict(versions_used()),
    }


def approval_report(approval: PolicyApproval | None) -> dict[str, Any] | None:
    """Return who wrote and approved the policy in force, and from when; None: nobody."""
    if approval is None:
        return None
    return {
        "written_by": approval.written_by,
        "approved_by": approval.approved_by,
        "approved_at": instant_text(approval.approved_at),
        "in_force_from": instant_text(approval.in_force_from),
    }


def freshness_report(counts: Mapping[str, CheckCounts], now: int) -> dict[str, Any]:
    """Return the age of the oldest evidence used."""
    oldest = [counted.oldest_reused_at for counted in counts.values() if counted.oldest_reused_at]
    return {
        "oldest_evidence_at": instant_text(min(oldest)) if oldest else None,
        "oldest_evidence_days": round((now - min(oldest)) / DAY, 1) if oldest else None,
    }


def exposure_report(rows: RowTally) -> dict[str, Any]:
    """Return naira at risk: in all, by what is still open in each check, and by decision."""
    amounts = {name: f"{kobo // 100}.{kobo % 100:02d}" for name, kobo in rows.exposure.items()}
    found: dict[str, Any] = {"total": amounts.pop("total", "0.00")}
    found["unknown_rows"] = rows.exposure_unknown_rows
    found["not_screened"] = rows.coverage.not_screened()
    found["nothing_to_ask"] = rows.coverage.nothing_to_ask()
    found.update(sorted(amounts.items()))
    return found
