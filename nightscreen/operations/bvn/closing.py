"""The last station of both stages of BVN consent: states, table, calls, report, manifest.

Everything is made from the journal, so that a run that was cancelled is closed as honestly as one
that went through.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.journal.bvn_consents import BvnConsents
from nightscreen.operations.bvn import confirming as bvn_confirming
from nightscreen.operations.bvn import requesting as bvn_requesting
from nightscreen.operations.bvn.consent import bring_up_to_date
from nightscreen.operations.bvn.links import link_for
from nightscreen.operations.bvn.table import BvnRecord, lines_of, write_changes, write_table
from nightscreen.report.api_run import OperationEnds, close_api_run
from nightscreen.runs.run_report import run_end
from nightscreen.schemas.checks import NoAnswer, Operation
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.quote import Quote
from nightscreen.schemas.stops import TEST_MODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nightscreen.calling.run import Run
    from nightscreen.operations.bvn.confirming import Confirming
    from nightscreen.operations.bvn.consent import Transitions
    from nightscreen.operations.bvn.requesting import BvnRequests
    from nightscreen.schemas.calls import LookupStatus


def close_request(run: Run, asking: BvnRequests) -> dict[str, Any]:
    """Write what there is to say of a run that asked customers; return its report."""
    _settle(run, asking.moved)
    newest = BvnConsents.of(run.journal).current([case.customer for case in asking.cases])
    in_test = run.stops.ending()[0] == TEST_MODE
    lines = []
    for case in asking.cases:
        request = newest.get(case.customer)
        if request is not None and request.subject != case.subject:
            request = None
        if case.task is None:
            case.request = request
        why = case.why
        if request is None and not why:
            why = NoAnswer.PENDING.value
        if in_test and why in (NoAnswer.PENDING.value, NoAnswer.FAILED.value):
            why = NoAnswer.TEST_MODE.value
        link = None if request is None else link_for(run.journal, run.settings, request)
        lines.append(BvnRecord(case.customer_id, run.batch, why, request, link))
    bvn_requesting.write_problems(run, asking)
    return _close(
        run,
        Operation.BVN_START,
        lines,
        moved=asking.moved,
        statuses=bvn_requesting.statuses(run, asking),
        rows=_rows(asking.rows_read, asking.rows_quarantined),
    )


def close_confirm(run: Run, confirming: Confirming) -> dict[str, Any]:
    """Write what there is to say of a run that sent passwords on; return its report.

    The table has every customer of the batch names that the file is about, so that those who
    supplied nothing are seen too.
    """
    confirming.forget()
    _settle(run, confirming.moved)
    bvn_confirming.look_again(run, confirming)
    read = confirming.file.read
    return _close(
        run,
        Operation.BVN_FINISH,
        lines_of(run.journal, confirming.batches),
        moved=confirming.moved,
        statuses=bvn_confirming.statuses(run, confirming),
        rows=_rows(read, len(confirming.file.refused)),
    )


def _rows(read: int, quarantined: int) -> dict[str, int]:
    return {"read": read, "screened": read - quarantined, "quarantined": quarantined}


def _settle(run: Run, moved: Transitions) -> None:
    """Learn what came of calls that were in flight when the run was cancelled."""
    late = bring_up_to_date(run.journal, run.settings.bvn_consent, run_id=run.run_id)
    moved.moves.update(late.moves)
    moved.rows += late.rows


def _close(
    run: Run,
    operation: Operation,
    lines: list[BvnRecord],
    *,
    moved: Transitions,
    statuses: Iterable[LookupStatus],
    rows: Mapping[str, int],
) -> dict[str, Any]:
    states = write_table(run, lines, run.clock())
    changes = write_changes(run, moved)
    return close_api_run(
        run_end(run),
        rows=rows,
        operations={operation: OperationEnds(Counter(statuses), states)},
        more={"states": states, "changes": changes},
        cost={"to_come": to_come(run, states)} if operation == Operation.BVN_START else {},
    )


def to_come(run: Run, states: Mapping[str, int]) -> dict[str, str | None]:
    """Return what confirming would cost: the charge falls on the finish, not on the start."""
    waiting = states.get("awaiting_otp", 0) + states.get("requested", 0)
    return quoted(bvn_requesting.quote(run, Operation.BVN_FINISH, waiting))


def quoted(quote: Quote) -> dict[str, str | None]:
    """Return a quote as decimal text."""
    return {
        "low": naira_text(quote.low_micro),
        "expected": naira_text(quote.expected_micro),
        "high": naira_text(quote.high_micro),
    }


def quote_request(run: Run, asking: BvnRequests) -> dict[str, Any]:
    """Return what asking would cost, and confirming after it; leave nothing of the run."""
    calls = run.progress[Operation.BVN_START].wanted
    document = _quote(run, _rows(asking.rows_read, asking.rows_quarantined), calls)
    document["to_come"] = quoted(bvn_requesting.quote(run, Operation.BVN_FINISH, calls))
    return document


def quote_confirm(run: Run, confirming: Confirming) -> dict[str, Any]:
    """Return what confirming would cost; leave nothing of the run."""
    confirming.forget()
    rows = _rows(confirming.file.read, len(confirming.file.refused))
    return _quote(run, rows, run.progress[Operation.BVN_FINISH].wanted)


def _quote(run: Run, rows: Mapping[str, int], calls: int) -> dict[str, Any]:
    quote = run.quote or Quote()
    return {
        "quoted": quoted(quote),
        "hours": round(quote.hours, 3),
        "rows": dict(rows),
        "calls": calls,
        "cap": naira_text(run.caps.run_micro),
    }
