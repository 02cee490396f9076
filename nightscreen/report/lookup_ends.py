"""The end of a run's lookups: what each of them came to.

The report as a whole is made in `report`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nightscreen.schemas.calls import NOT_ENDED, LookupStatus
from nightscreen.schemas.checks import NoAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.runs.screening_run import ScreeningRun

Ends = dict[str, Counter[LookupStatus]]
"""How many lookups of a check had which end."""

_EARLIER = {
    "unreadable": LookupStatus.UNREADABLE,
    "in_doubt": LookupStatus.IN_DOUBT,
    "failed": LookupStatus.FAILED,
}
_OPEN = NOT_ENDED | {LookupStatus.FAILED, LookupStatus.LAPSED}
"""Ends that an earlier session's knows better than."""


def statuses(run: ScreeningRun) -> Ends:
    """Return what became of the needed lookups, by check.

    A lookup that this session did not reach, or that failed, may have been lost or used up in an
    earlier one: the journal knows.
    """
    found: Ends = {}
    if run.lookups is None:
        return found
    for (check, status), number in run.journal.lookups.counts(run.lookups).items():
        of_check = found.setdefault(check, Counter())
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
                found[each.check][end] += 1
    return found


def without_answer(run: ScreeningRun) -> dict[tuple[str, bytes], str]:
    """Return the lookups of a run that have no answer from it, and why where it is known.

    For each check and pseudonym it is the status of the rows that need it.
    """
    closed = {(check, each) for check, lookups in run.closed.items() for each in lookups}
    found = dict.fromkeys(closed, NoAnswer.IN_DOUBT.value)
    found |= run.journal.runs.unanswered(run.run_id)
    for key in _lapsed(run):
        if found.get(key, NoAnswer.PENDING) == NoAnswer.PENDING:
            found[key] = NoAnswer.REFUSED.value
    return found


def _lapsed(run: ScreeningRun) -> Iterator[tuple[str, bytes]]:
    """Yield check and pseudonym of the lookups whose consent ended before they could be asked."""
    if run.lookups is not None:
        for block in run.journal.lookups.in_states(run.lookups, {LookupStatus.LAPSED}):
            yield from ((each.check, bytes(each.subject)) for each in block)
