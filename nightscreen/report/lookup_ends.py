"""The end of a run's lookups: what each of them came to.

The report as a whole is made in `report`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.plan import LookupStatus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nightscreen.runs.screening_run import ScreeningRun

Ends = dict[str, Counter[LookupStatus]]
"""How many lookups of a check had which end."""

_EARLIER = {
    "unreadable": LookupStatus.UNREADABLE,
    "in_doubt": LookupStatus.IN_DOUBT,
    "failed": LookupStatus.FAILED,
}


def statuses(run: ScreeningRun) -> Ends:
    """Return what became of the needed lookups, by check.

    A lookup that this session did not reach, or that failed, may have been lost or used up in an
    earlier one: the journal knows.
    """
    found: Ends = {}
    open_ = np.isin(run.status, [LookupStatus.WAITING, LookupStatus.FAILED, LookupStatus.LAPSED])
    for check in {check for check, _ in run.ranked.slots()}:
        mine = ~open_ & run.ranked.is_of(check)
        ends, numbers = np.unique(run.status[mine], return_counts=True)
        pairs = zip(ends, numbers, strict=True)
        found[check] = Counter({LookupStatus(int(end)): int(number) for end, number in pairs})
    if open_.any():
        _count_earlier(run, open_, found)
    return found


def _count_earlier(run: ScreeningRun, unreached: NDArray[np.bool_], found: Ends) -> None:
    earlier = run.journal.runs.unanswered(run.run_id)
    if not earlier and not (run.status == LookupStatus.LAPSED.value).any():
        return
    for start, piece in run.needed.pieces():
        indices = np.flatnonzero(unreached[start : start + piece.num_rows])
        rows = piece.select(["check", "subject"]).take(pa.array(indices))
        for index, row in zip(indices, rows.to_pylist(), strict=True):
            status = _EARLIER.get(earlier.get((row["check"], row["subject"]), ""))
            if status is None and run.status[start + index] == LookupStatus.LAPSED.value:
                status = LookupStatus.LAPSED
            if status is not None:
                found[row["check"]][status] += 1


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
