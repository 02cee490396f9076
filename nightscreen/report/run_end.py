"""The end of a run of any flow: common parts of the report, the files, the end in the journal."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nightscreen.files.outputs import MANIFEST, REPORT
from nightscreen.journal.settling import disputed_calls
from nightscreen.schemas.calls import LookupStatus
from nightscreen.schemas.clock import instant_text
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.plan import Quote
from nightscreen.schemas.stops import COMPLETED, TEST_MODE

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from nightscreen.calling.run import Run
    from nightscreen.report.calls import CallFigures, CheckCalls
    from nightscreen.schemas.plan import CheckCounts

SCHEMA_VERSION = 3
PAGE = "report.html"
_DISPUTED_NAMED = 20
"""Most disputed calls that a report lists; the desk's page Money has all of them."""
_PACKAGES = ("nightscreen", "prefect", "pyarrow", "httpx", "pydantic")


class RunEnd:
    """A run of any flow that ends now.

    Attributes:
        run: the run.
        state: `completed`, `stopped` or `test_mode`.
        stop_reason: why it stopped early, or None.
        notices: sentences for people about how it went.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.state, self.stop_reason = run.stops.ending()
        self.notices = [*run.stops.refusals(), *run.stops.notices]
        self._finished_at = run.clock()

    @property
    def in_test(self) -> bool:
        """Return whether the service was in test mode, so that no answer counts."""
        return self.state == TEST_MODE

    def head(self) -> dict[str, Any]:
        """Return the first part of every report; instants are ISO 8601 text in UTC."""
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run.run_id,
            "batch": self.run.batch,
            "purpose": self.run.purpose,
            "state": self.state,
            "stop_reason": self.stop_reason,
            "publishable": self.state == COMPLETED,
            "started_at": instant_text(self.run.started_at),
            "finished_at": instant_text(self._finished_at),
        }

    def cost(
        self, calls: CallFigures, *, by_reuse_micro: int = 0, by_sharing_micro: int = 0
    ) -> dict[str, Any]:
        """Return the charges with quote and cap, and the savings.

        The report is cumulative, and so is its quote: both include what earlier sessions spent.
        """
        run, quote = self.run, self.run.quote or Quote()
        disputed = disputed_calls(run.journal, run.run_id, limit=_DISPUTED_NAMED)
        return {
            "total": naira_text(calls.cost_micro),
            "quoted": quote.in_naira(run.spent_before_micro),
            "cap": naira_text(run.caps.run_micro),
            "saved_by_reuse": naira_text(by_reuse_micro),
            "saved_by_sharing": naira_text(by_sharing_micro),
            "in_doubt_exposure": naira_text(calls.in_doubt_micro),
            "disputed": [each.document() for each in disputed],
        }

    def files(self) -> dict[str, int]:
        """Return the number of rows of each file in the run's folder that has rows."""
        return dict(sorted(self.run.folder.rows.items()))

    def finish(
        self,
        report: dict[str, Any],
        page: str,
        manifest: Mapping[str, Any],
        *,
        before_end: Callable[[], object] | None = None,
    ) -> dict[str, Any]:
        """Write report, page and manifest, and save the end in the journal; return the report.

        In test mode there is no manifest. `before_end` is called after the files are written and
        before the run counts as finished.
        """
        self.run.folder.write_json(REPORT, report)
        self.run.folder.write_text(PAGE, page)
        if not self.in_test:
            self.run.folder.write_json(
                MANIFEST,
                {
                    "schema_version": 1,
                    "run_id": self.run.run_id,
                    "batch": self.run.batch,
                    "state": self.state,
                    "publishable": report["publishable"],
                    **manifest,
                    "files": self.run.folder.files(),
                    "versions": dict(versions_used()),
                },
            )
        self.run.folder.publish()
        if before_end is not None:
            before_end()
        self.run.journal.runs.finish(
            self.run.run_id, state=self.state, stop_reason=self.stop_reason, report=report
        )
        return report


@cache
def versions_used() -> Mapping[str, str]:
    """Return the versions that a manifest names; cached, because each is read from a long file."""
    return MappingProxyType({name: version(name) for name in _PACKAGES})


def lookup_counts(
    counts: CheckCounts, ends: Counter[LookupStatus], *, test_mode: bool
) -> dict[str, int]:
    """Return the distinct lookups of a check by how they ended, each counted once.

    A lookup whose consent ended before the call is no longer counted. In test mode all are pending.
    """
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
    distinct = counts.distinct - (0 if test_mode else ends[LookupStatus.LAPSED])
    return {"distinct": distinct, **settled, "pending": distinct - sum(settled.values())}


def check_report(
    counts: CheckCounts,
    lookups: Mapping[str, int],
    calls: CheckCalls,
    *,
    answers: Mapping[str, int],
    asked: Mapping[str, int],
    refused_since: int = 0,
    shared_micro: int = 0,
) -> dict[str, Any]:
    """Return one check's part of the report.

    Args:
        counts: the plan's counts.
        lookups: those of `lookup_counts`.
        calls: the figures of the check's calls.
        answers: rows by status.
        asked: rows by status, of those that this run made calls for.
        refused_since: rows whose consent ended between plan and call.
        shared_micro: what rows saved by sharing an answer of this run.
    """
    return {
        "rows_refused": counts.rows_refused + refused_since,
        "rows_ineligible": counts.rows_ineligible,
        "rows_invalid": counts.rows_invalid,
        "lookups": counts.lookups - refused_since,
        **lookups,
        "attempts": calls.attempts,
        "retries": calls.retries,
        "cost": naira_text(calls.cost_micro),
        "in_doubt_exposure": naira_text(calls.in_doubt_micro),
        "saved_by_reuse": naira_text(counts.saved_by_reuse_micro),
        "saved_by_sharing": naira_text(shared_micro),
        "answers": dict(sorted(answers.items())),
        "asked_answers": dict(sorted(asked.items())),
        "troubles": dict(sorted(calls.troubles.items())),
        "latency_ms": calls.latency_ms,
    }
