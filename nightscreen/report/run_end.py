"""The end of a run of any flow: what every report has, the files, and the end in the journal."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.journal.disputes import disputed_calls
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.quote import Quote
from nightscreen.schemas.stops import COMPLETED, TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.calling.run import Run
    from nightscreen.report.call_log import CallLog

SCHEMA_VERSION = 2
_DISPUTED_NAMED = 20
"""So many calls whose cost was not believed stand in a report; the desk's page of money has all."""
_PACKAGES = ("nightscreen", "prefect", "pyarrow", "httpx", "pydantic")


def head_of(run: Run) -> dict[str, Any]:
    """Return what every report begins with; instants as ISO 8601 text in UTC."""
    state, stop_reason = run.stops.ending()
    return {
        "schema_version": SCHEMA_VERSION,
        "run_id": run.run_id,
        "batch": run.batch,
        "purpose": run.purpose,
        "state": state,
        "stop_reason": stop_reason,
        "publishable": state == COMPLETED,
        "started_at": instant_text(run.started_at),
        "finished_at": instant_text(run.clock()),
    }


def cost_of(
    run: Run, call_log: CallLog, *, by_reuse_micro: int = 0, by_sharing_micro: int = 0
) -> dict[str, Any]:
    """Return what was charged, against quote and cap, and what was saved.

    The report is cumulative, and so is its quote: what earlier sessions had spent is part of it.
    """
    quote, before = run.quote or Quote(), run.spent_before_micro
    return {
        "total": naira_text(call_log.cost_micro),
        "quoted": {
            "low": naira_text(before + quote.low_micro),
            "expected": naira_text(before + quote.expected_micro),
            "high": naira_text(before + quote.high_micro),
        },
        "cap": naira_text(run.caps.run_micro),
        "saved_by_reuse": naira_text(by_reuse_micro),
        "saved_by_sharing": naira_text(by_sharing_micro),
        "in_doubt_exposure": naira_text(call_log.in_doubt_micro),
        "disputed": [
            each.document()
            for each in disputed_calls(run.journal, run.run_id, limit=_DISPUTED_NAMED)
        ],
    }


def notices_of(run: Run) -> list[str]:
    """Return what a person should know of how the run went."""
    return [*run.stops.refusals(), *run.stops.notices]


def rows_of_files(run: Run) -> dict[str, int]:
    """Return the files of the run's folder that have rows, and how many."""
    return dict(sorted(run.folder.rows.items()))


@cache
def versions_used() -> Mapping[str, str]:
    """Return the versions that a report names; read once, for each is a file of some length."""
    return MappingProxyType({name: version(name) for name in _PACKAGES})


def finish(
    run: Run,
    report: dict[str, Any],
    *,
    page: str,
    manifest: Mapping[str, Any],
    before_end: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Write report, page and manifest, and the run's end into the journal; return the report.

    In test mode there is no manifest.

    Args:
        run: the run.
        report: its report.
        page: the report for people, as HTML.
        manifest: what the flow's manifest says beside what every one says.
        before_end: called once the files are there, before the run counts as finished.
    """
    state = report["state"]
    run.folder.write_json(REPORT, report)
    run.folder.write_text("report.html", page)
    if state != TEST_MODE:
        run.folder.write_json(
            MANIFEST,
            {
                "schema_version": 1,
                "run_id": run.run_id,
                "batch": run.batch,
                "state": state,
                "publishable": report["publishable"],
                **manifest,
                "files": run.folder.files(),
                "versions": dict(versions_used()),
            },
        )
    run.folder.publish()
    if before_end is not None:
        before_end()
    run.journal.runs.finish(
        run.run_id, state=state, stop_reason=report["stop_reason"], report=report
    )
    return report
