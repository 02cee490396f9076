"""The end of a run's lookups, by check and identity, and karma's figures of each identity.

The report as a whole is made in `report`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nightscreen.report.report_json import settled_counts
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nightscreen.report.call_log import CallLog
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.schemas.plan import CheckCounts, CheckIdentity

Ends = dict[tuple[str, str], Counter[LookupStatus]]
"""How many lookups of a check and an identity had which end."""

_EARLIER = {
    "unreadable": LookupStatus.UNREADABLE,
    "in_doubt": LookupStatus.IN_DOUBT,
    "failed": LookupStatus.FAILED,
}


def statuses(run: ScreeningRun) -> Ends:
    """Return what became of the needed lookups, by check and identity.

    A lookup that this session did not reach, or that failed, may have been lost or used up in an
    earlier
    one: the journal knows.
    """
    found: Ends = {}
    open_ = np.isin(run.status, [LookupStatus.WAITING, LookupStatus.FAILED, LookupStatus.LAPSED])
    for check, kind in run.ranked.slots():
        mine = ~open_ & run.ranked.is_of(check, kind)
        ends, numbers = np.unique(run.status[mine], return_counts=True)
        pairs = zip(ends, numbers, strict=True)
        found[(check, kind)] = Counter(
            {LookupStatus(int(end)): int(number) for end, number in pairs}
        )
    if open_.any():
        _count_earlier(run, open_, found)
    return found


def _count_earlier(run: ScreeningRun, unreached: NDArray[np.bool_], found: Ends) -> None:
    earlier = run.journal.runs.unanswered(run.run_id)
    if not earlier and not (run.status == LookupStatus.LAPSED.value).any():
        return
    for start, piece in run.needed.pieces():
        indices = np.flatnonzero(unreached[start : start + piece.num_rows])
        rows = piece.select(["check", "kind", "subject"]).take(pa.array(indices))
        for index, row in zip(indices, rows.to_pylist(), strict=True):
            status = _EARLIER.get(earlier.get((row["check"], row["subject"]), ""))
            if status is None and run.status[start + index] == LookupStatus.LAPSED.value:
                status = LookupStatus.LAPSED
            if status is not None:
                found[(row["check"], row["kind"])][status] += 1


def without_answer(run: ScreeningRun) -> dict[tuple[str, bytes], str]:
    """Return the lookups of a run that have no answer from it, and why where it is known.

    For each check and pseudonym it is the status of the rows that need it.
    """
    closed = {(check, each) for check, lookups in run.closed.items() for each in lookups}
    found = dict.fromkeys(closed, NoAnswer.IN_DOUBT.value)
    found |= run.journal.runs.unanswered(run.run_id)
    lapsed = run.status == LookupStatus.LAPSED.value
    if not lapsed.any():
        return found
    for start, piece in run.needed.pieces():
        indices = np.flatnonzero(lapsed[start : start + piece.num_rows])
        for row in piece.select(["check", "subject"]).take(pa.array(indices)).to_pylist():
            key = (row["check"], row["subject"])
            if found.get(key, NoAnswer.PENDING) == NoAnswer.PENDING:
                found[key] = NoAnswer.REFUSED.value
    return found


def of_check(ends: Ends, check: str) -> Counter[LookupStatus]:
    """Return how many lookups of a check had which end, over all identities."""
    total = Counter[LookupStatus]()
    for (name, _), numbers in ends.items():
        if name == check:
            total.update(numbers)
    return total


def identities_report(
    slots: Mapping[CheckIdentity, CheckCounts],
    ends: Ends,
    call_log: CallLog,
    listed_by: Mapping[str, int],
    *,
    test_mode: bool,
) -> dict[str, dict[str, Any]]:
    """Return karma's part of the report for each identity, in the order of asking.

    They add up to the numbers of the check, except its rows: a row may have several identities.

    Args:
        slots: the plan before any call.
        ends: the end of the lookups that were needed.
        call_log: the run's calls.
        listed_by: rows listed by each identity.
        test_mode: no answer counts: all is pending.
    """
    found = {}
    for slot, counts in slots.items():
        if slot.check != "karma":
            continue
        kind = slot.kind.value
        calls = call_log.identities[(slot.check, kind)]
        settled = settled_counts(
            counts, ends.get((slot.check, kind), Counter()), test_mode=test_mode
        )
        found[kind] = {
            "rows_ineligible": counts.rows_ineligible,
            "rows_invalid": counts.rows_invalid,
            "rows_listed": listed_by.get(kind, 0),
            "lookups": counts.lookups,
            "distinct": counts.distinct,
            **settled,
            "attempts": calls.attempts,
            "cost": naira_text(calls.cost_micro),
        }
    return found
