"""The account of a run beside screening: the same fields as a screening report, for its own calls.

What its rows and answers mean is reported by each line of its own, as `checks`, `rows`, `changes`
and what else it has to say.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.schemas.money import naira_text
from nightscreen.schemas.plan import CheckCounts
from nightscreen.schemas.quote import Quote
from nightscreen.steps.api_runs.page import errand_page
from nightscreen.steps.control import COMPLETED, TEST_MODE
from nightscreen.steps.report.report_json import (
    SCHEMA_VERSION,
    balance_report,
    check_report,
    versions_used,
)
from nightscreen.storage.clock import instant_text
from nightscreen.storage.outputs import MANIFEST, REPORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.schemas.checks import Operation
    from nightscreen.schemas.plan import LookupStatus
    from nightscreen.steps.calling.lookup_task import LookupTask
    from nightscreen.steps.report.call_log import CallLog
    from nightscreen.steps.run import Run


def standings_of(tasks: Iterable[LookupTask]) -> Counter[LookupStatus]:
    """Return how many calls came to which end."""
    return Counter(task.standing for task in tasks)


def operation_report(
    sheet: CallLog,
    operation: Operation,
    ended: Counter[LookupStatus],
    *,
    answers: Mapping[str, int],
    test_mode: bool,
) -> dict[str, Any]:
    """Return one operation's part of the report, in the fields of a check.

    Args:
        sheet: the run's calls.
        operation: the operation.
        ended: how many of its calls came to which end, those not reached as `WAITING`.
        answers: what they came to, in the words of the line.
        test_mode: nothing that was said counts.
    """
    wanted = sum(ended.values())
    return check_report(
        CheckCounts(lookups=wanted, distinct=wanted),
        ended,
        sheet,
        operation,
        Counter(answers),
        asked=Counter(answers),
        shared_micro=0,
        test_mode=test_mode,
    )


def errand_report(
    run: Run,
    sheet: CallLog,
    *,
    rows: Mapping[str, int],
    checks: Mapping[str, Any],
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the report of a run.

    Args:
        run: the run.
        sheet: its calls.
        rows: `read`, `screened` and `quarantined`, where read is the sum of the others.
        checks: the part of each operation.
        more: what the line adds, such as `changes`; it may replace a field.
    """
    state, stop_reason = run.control.ending()
    quote = run.quote or Quote()
    cap = run.caps.run_micro
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "purpose": run.flow,
        "state": state,
        "stop_reason": stop_reason,
        "publishable": state == COMPLETED,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.clock()),
        "rows": dict(rows),
        "checks": dict(checks),
        "cost": {
            "total": naira_text(sheet.cost_micro),
            "quoted": {
                "low": naira_text(quote.low_micro),
                "expected": naira_text(quote.expected_micro),
                "high": naira_text(quote.high_micro),
            },
            "cap": naira_text(cap),
            "saved_by_reuse": naira_text(0),
            "saved_by_sharing": naira_text(0),
            "in_doubt_exposure": naira_text(sheet.in_doubt_micro),
        },
        "balance": balance_report(sheet.reconciliation.balance(), sheet.cost_micro),
        "exposure": {},
        "decisions": {},
        "changes": {},
        "notices": [*run.control.refusals(), *run.control.notices],
        "files": {name: run.folder.rows.get(name) for name in sorted(run.folder.rows)},
        **more,
    }


def finish(run: Run, report: dict[str, Any]) -> dict[str, Any]:
    """Write report, page and manifest, and note the run's end in the journal; return the report."""
    run.folder.write_json(REPORT, report)
    run.folder.write_text("report.html", errand_page(report))
    if report["state"] != TEST_MODE:
        run.folder.write_json(MANIFEST, _manifest(run, report))
    run.journal.runs.finish(
        run.run_id, state=report["state"], stop_reason=report["stop_reason"], report=report
    )
    return report


def _manifest(run: Run, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return files with rows and digests, and what they were made from."""
    return {
        "schema_version": 1,
        "run_id": run.run_id,
        "flow": run.flow,
        "batch": run.batch,
        "state": report["state"],
        "publishable": report["publishable"],
        "input": {"digest": run.input_digest},
        "parameters": run.parameters.model_dump(exclude={"output", "run"}),
        "files": run.folder.files(),
        "versions": dict(versions_used()),
    }
