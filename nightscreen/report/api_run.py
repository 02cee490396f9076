"""The report of a run beside screening, for programs and as a page; no identifiers.

It has the fields of a screening report, for its own calls. What its rows and answers mean each flow
says itself, as `checks`, `rows`, `changes` and what else it counts; parts of words and numbers
become tables of the page.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nightscreen.report.calls import write_calls
from nightscreen.report.page import api_run_page
from nightscreen.report.run_end import check_report, lookup_counts
from nightscreen.schemas.plan import CheckCounts

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from nightscreen.report.calls import CheckCalls
    from nightscreen.report.run_end import RunEnd
    from nightscreen.schemas.calls import LookupStatus
    from nightscreen.schemas.checks import Operation


def close_api_run(
    end: RunEnd,
    *,
    rows: Mapping[str, int],
    ends: Mapping[Operation, Counter[LookupStatus]],
    answers: Mapping[Operation, Mapping[str, int]] = MappingProxyType({}),
    more: Mapping[str, Any] = MappingProxyType({}),
    cost: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write calls, report, page and manifest, and note the run's end; return the report.

    `rows` are `read`, `screened` and `quarantined`, where read is the sum of the others; `ends`
    how many questions of each operation came to which end, those not reached as `WAITING`;
    `answers` what they came to, in the flow's own words. What the flow adds, such as `changes`,
    may replace a field.
    """
    calls = write_calls(end.folder, end.journal, end.run_id, end.declared)
    report = {
        **end.head(),
        "flow": end.flow,
        "rows": dict(rows),
        "checks": {
            operation.value: _operation(
                calls.of(operation), each, answers.get(operation, {}), test_mode=end.in_test
            )
            for operation, each in ends.items()
        },
        "cost": {**end.cost(calls), **cost},
        "balance": calls.balance.document(calls.cost_micro),
        "exposure": {},
        "decisions": {},
        "changes": {},
        "notices": list(end.notices),
        "files": end.files(),
        **more,
    }
    manifest = {
        "flow": end.flow,
        "input": {"digest": end.input_digest},
        "parameters": dict(end.parameters),
    }
    return end.finish(report, api_run_page(report), manifest)


def _operation(
    calls: CheckCalls,
    ends: Counter[LookupStatus],
    answers: Mapping[str, int],
    *,
    test_mode: bool,
) -> dict[str, Any]:
    """Return one operation's part of the report, in the fields of a check."""
    wanted = ends.total()
    counts = CheckCounts(lookups=wanted, distinct=wanted)
    lookups = lookup_counts(counts, ends, test_mode=test_mode)
    return check_report(counts, lookups, calls, answers=answers, asked=answers)
