"""Quote and report of a screening run as documents.

`finalize` writes the files; `report/run_end.py` has the parts that every flow's report has.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import PROBLEMS, QUARANTINE
from nightscreen.report.facts import findings_of
from nightscreen.report.run_end import RunEnd, check_report, lookup_counts, versions_used
from nightscreen.schemas.calls import NOT_ENDED, LookupStatus
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.clock import DAY_MICROS, instant_text, spending_day, spending_month
from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.report.calls import CallFigures
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.plan import First

_EARLIER = {
    "unreadable": LookupStatus.UNREADABLE,
    "in_doubt": LookupStatus.IN_DOUBT,
    "failed": LookupStatus.FAILED,
}
_QUOTED = ("rows_refused", "rows_ineligible", "rows_invalid", "lookups", "distinct", "reused")
"""The plan's counts of a check that a quote shows."""
_OPEN = NOT_ENDED | {LookupStatus.FAILED, LookupStatus.LAPSED}
"""States that the result of an earlier session replaces."""


def quote_document(run: ScreeningRun) -> dict[str, Any]:
    """Return the quote of a priced run; money is decimal text in naira."""
    quote, rows = run.quote, run.rows()
    if quote is None:
        raise ValueError("a run is quoted once it is planned and priced")
    screened = rows.get("customers", rows["screened"])
    return {
        "schema_version": 1,
        "run_id": None,
        "batch": run.batch,
        "purpose": run.purpose,
        "quoted": quote.in_naira(),
        "hours": round(quote.hours, 4),
        "rows": rows,
        "calls": quote.calls,
        "cap": naira_text(quote.cap_micro),
        "balance": naira_text(quote.balance_micro),
        "affordable": quote.affordable,
        "goes_first": None if quote.first is None else _first_document(quote.first),
        "affordable_rows": None if quote.affordable is None else screened - quote.rows_short,
        "checks": {
            check: {name: getattr(counts, name) for name in _QUOTED}
            for check, counts in run.counts.items()
        },
        "lines": quote.line_documents(),
        "saved_by_reuse": naira_text(
            sum(counts.saved_by_reuse_micro for counts in run.counts.values())
        ),
    }


# --- the report ---


@dataclass(slots=True)
class WrittenRows:
    """Figures of enriched rows that are known only while they are made."""

    # by check, what rows saved by sharing an answer of this run
    shared_micro: Counter[str] = field(default_factory=Counter)
    pending: int = 0  # answers that have not come yet


def _first_document(first: First) -> dict[str, Any]:
    """Return which lookups the money is spent on first; exposure is decimal text in naira."""
    kobo = first.least_exposure_kobo
    return {
        "never_screened": first.never_screened,
        "overdue": first.overdue,
        "down_to_exposure": None if kobo < 0 else f"{kobo // 100}.{kobo % 100:02d}",
    }


def lookup_ends(run: ScreeningRun, *, test_mode: bool) -> dict[str, dict[str, int]]:
    """Return the lookups of each check by how they ended (`report.run_end.lookup_counts`)."""
    ends = _ends(run)
    return {
        check: lookup_counts(run.counts[check], ends.get(check, Counter()), test_mode=test_mode)
        for check in run.wanted.checks
    }


def _ends(run: ScreeningRun) -> dict[str, Counter[LookupStatus]]:
    """Return the needed lookups by check and how they ended.

    A lookup that failed or was not reached in this session may have ended in an earlier one, which
    the journal knows.
    """
    ends: dict[str, Counter[LookupStatus]] = {}
    if run.lookups is None:
        return ends
    for (check, status), number in run.journal.lookups.counts(run.lookups).items():
        of_check = ends.setdefault(check, Counter())
        if status not in _OPEN:
            of_check[status] = number
    earlier = run.journal.runs.unanswered(run.run_id)
    states = _OPEN if earlier else {LookupStatus.LAPSED}
    for block in run.journal.lookups.in_states(run.lookups, states):
        for each in block:
            end = _EARLIER.get(earlier.get((each.check, bytes(each.subject)), ""))
            if end is None and each.state == LookupStatus.LAPSED.value:
                end = LookupStatus.LAPSED
            if end is not None:
                ends[each.check][end] += 1
    return ends


def without_answer(run: ScreeningRun) -> dict[tuple[str, bytes], str]:
    """Return the lookups that the run has no answer to, by check and pseudonym.

    The value is the status of the rows that need the lookup.
    """
    closed = {(check, each) for check, lookups in run.closed.items() for each in lookups}
    statuses = dict.fromkeys(closed, NoAnswer.IN_DOUBT.value)
    statuses |= run.journal.runs.unanswered(run.run_id)
    if run.lookups is not None:  # consent ended before the call
        for block in run.journal.lookups.in_states(run.lookups, {LookupStatus.LAPSED}):
            for key in ((each.check, bytes(each.subject)) for each in block):
                if statuses.get(key, NoAnswer.PENDING) == NoAnswer.PENDING:
                    statuses[key] = NoAnswer.REFUSED.value
    return statuses


def screening_report(
    run: ScreeningRun,
    end: RunEnd,
    *,
    lookups: Mapping[str, Mapping[str, int]],
    calls: CallFigures,
    facts: Mapping[str, Any],
    written: WrittenRows,
) -> dict[str, Any]:
    """Return the document `report.json`; money is decimal text in naira.

    `finalize` adds the parts that come from other runs and from files.
    """
    money, month = run.journal.money, spending_month(run.clock())
    nights = {day for day, _, of in money.by_day() if day.startswith(month) and of.spent_micro}
    # the average cost of a night in this month, over all runs
    nightly_micro = money.this_month().spent_micro // len(nights) if nights else None
    known_micro = run.journal.runs.last_balance()
    oldest = min(
        (each.oldest_reused_at for each in run.counts.values() if each.oldest_reused_at),
        default=None,
    )
    return {
        **end.head(),
        "rows": run.rows(),
        "coverage": facts["coverage"],
        "checks": _checks(run, lookups, calls, facts, written, test_mode=end.in_test),
        "cost": _cost(run, end, calls, written),
        "spending": _spending(run),
        "balance": {
            **calls.balance.document(nightly_micro or calls.cost_micro),
            "last_known": {
                "balance": naira_text(known_micro),
                "nights_left": known_micro // nightly_micro
                if known_micro is not None and nightly_micro
                else None,
            },
        },
        "freshness": {
            "oldest_evidence_at": instant_text(oldest),
            "oldest_evidence_days": oldest and round((run.freshness.at - oldest) / DAY_MICROS, 1),
            "fresh": facts["fresh"],
            "ages": facts["ages"],
        },
        "exposure": facts["exposure"],
        "decisions": facts["decisions"],
        "evidence": facts["evidence"],
        "largest_without_history": facts["largest_without_history"],
        "reasons": facts["reasons"],
        "groups": facts["groups"],
        "nights": [],
        "changes": {},
        "news": facts["news"],
        "shadow": None,
        "overrides": [],
        "customer_notices": None,
        "contests": {},
        "outcomes": None,
        "findings": findings_of(run.folder.path / QUARANTINE, run.folder.path / PROBLEMS),
        "notices": list(end.notices),
        "files": {},
        "provenance": _provenance(run),
    }


def _checks(
    run: ScreeningRun,
    lookups: Mapping[str, Mapping[str, int]],
    calls: CallFigures,
    facts: Mapping[str, Any],
    written: WrittenRows,
    *,
    test_mode: bool,
) -> dict[str, dict[str, Any]]:
    found = {}
    for check in run.wanted.checks:
        of_check, answers = run.counts[check], facts["answers"][check]
        refused = answers.get(NoAnswer.REFUSED.value, 0)
        part = check_report(
            of_check,
            lookups[check],
            calls.of(check),
            answers=answers,
            asked=facts["asked"][check],
            refused_since=0 if test_mode else refused - of_check.rows_refused,
            shared_micro=written.shared_micro[check],
        )
        again = run.journal.answers.before(run.run_id, check, run.started_at)
        found[check] = {**part, "asked_again": dict(sorted(again.items()))}
    return found


def _cost(
    run: ScreeningRun, end: RunEnd, calls: CallFigures, written: WrittenRows
) -> dict[str, Any]:
    cap_micro, cost_micro = run.caps.run_micro, calls.cost_micro
    return {
        **end.cost(
            calls,
            by_reuse_micro=sum(counted.saved_by_reuse_micro for counted in run.counts.values()),
            by_sharing_micro=sum(written.shared_micro.values()),
        ),
        "over_cap": None if cap_micro is None else naira_text(max(0, cost_micro - cap_micro)),
        "price_rises": naira_text(run.journal.money.price_rises(run.run_id)),
    }


def _spending(run: ScreeningRun) -> dict[str, Any]:
    """Return what all runs spent in the current day and month, with the caps."""
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


def _provenance(run: ScreeningRun) -> dict[str, Any]:
    """Return what the report is based on: input, policy, identities, versions, sessions."""
    approval = run.policy_approval
    return {
        "input_digest": run.input_digest,
        "policy": run.policy.label,
        "policy_approval": approval
        and {
            "written_by": approval.proposed_by,
            "approved_by": approval.decided_by,
            "approved_at": instant_text(approval.decided_at),
        },
        "karma_identities": [kind.value for kind in run.wanted.karma_kinds],
        "evidence_judged_at": instant_text(run.freshness.at),
        "date_orders": run.date_orders,
        "deadline_at": instant_text(run.stops.deadline_at),
        "earlier_reports": len(list(run.folder.path.glob("report-*.json"))),
        "versions": dict(versions_used()),
    }
