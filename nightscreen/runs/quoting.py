"""Quoting: the quote as a document for programs; nothing is asked, nothing spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.schemas.money import naira_text

if TYPE_CHECKING:
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.plan import First


def quote_document(run: ScreeningRun) -> dict[str, Any]:
    """Return the quote of a priced run; money is decimal text in naira."""
    quote, plan = run.quote, run.plan
    if quote is None or plan is None:
        raise ValueError("a run is quoted once it is planned and priced")
    return {
        "schema_version": 1,
        "run_id": None,
        "batch": run.batch,
        "purpose": run.purpose,
        "quoted": quote.in_naira(),
        "hours": round(quote.hours, 4),
        "rows": run.rows(),
        "calls": quote.calls,
        "cap": naira_text(quote.cap_micro),
        "balance": naira_text(quote.balance_micro),
        "affordable": quote.affordable,
        "affordable_rows": None if quote.affordable is None else plan.rows - quote.rows_short,
        "goes_first": first_document(quote.first),
        "checks": {
            check: {
                "rows_refused": counts.rows_refused,
                "rows_ineligible": counts.rows_ineligible,
                "rows_invalid": counts.rows_invalid,
                "lookups": counts.lookups,
                "distinct": counts.distinct,
                "reused": counts.reused,
            }
            for check, counts in plan.checks.items()
        },
        "lines": [
            {
                "check": each.check,
                "identity": each.kind,
                "calls": each.calls,
                "likely_calls": each.likely_calls,
                "price": naira_text(each.price_micro),
                "charged_pct": round(each.hit_pct, 2),
                "low": naira_text(each.low_micro),
                "expected": naira_text(each.expected_micro),
                "high": naira_text(each.high_micro),
                "hours": round(each.expected_s / 3600, 4),
            }
            for each in quote.lines
        ],
        "saved_by_reuse": naira_text(
            sum(counts.saved_by_reuse_micro for counts in plan.checks.values())
        ),
    }


def first_document(first: First | None) -> dict[str, Any] | None:
    """Return what the money goes to first; exposure as decimal text in naira."""
    if first is None:
        return None
    kobo = first.least_exposure_kobo
    return {
        "never_screened": first.never_screened,
        "overdue": first.overdue,
        "down_to_exposure": None if kobo < 0 else f"{kobo // 100}.{kobo % 100:02d}",
    }
