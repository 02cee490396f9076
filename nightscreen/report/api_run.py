"""The report of a run beside screening, for programs and as a page; no identifiers.

It has the fields of a screening report, for its own calls. What its rows and answers mean each flow
says itself, as `checks`, `rows`, `changes` and what else it counts; parts of words and numbers
become tables of the page.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nightscreen.report.components import Section, Table, Tile
from nightscreen.report.format import (
    NEXT,
    TITLES,
    ZONE,
    count,
    from_to,
    naira,
    sentence,
    some,
)
from nightscreen.report.money import provenance, service
from nightscreen.report.page import laid_out
from nightscreen.report.report_json import balance_report, check_report
from nightscreen.report.run_end import (
    cost_of,
    finish,
    head_of,
    notices_of,
    rows_of_files,
)
from nightscreen.report.summary import bullets, markdown_table
from nightscreen.report.summary_section import RunVerdict
from nightscreen.schemas.plan import CheckCounts
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from nightscreen.calling.lookup_task import LookupTask
    from nightscreen.calling.run import Run
    from nightscreen.report.call_log import CallLog
    from nightscreen.schemas.calls import LookupStatus
    from nightscreen.schemas.checks import Operation

_TITLES = {
    "pull_transactions": "Transactions of customers who consented",
    "pull_accounts": "Accounts and balances of customers who consented",
    "request_bvns": "BVN consent: passwords asked for",
    "confirm_bvns": "BVN consent: passwords confirmed",
    "confirm_by_link": "BVN consent: a password typed on the page",
    "offer_loans": "Loan offers",
    "track_loans": "Loans followed",
}
_PARTS = (
    *("customers", "states", "offers", "followed", "statuses", "changes"),
    *("transactions", "accounts", "profiles"),
)
"""Parts of a report that count what became of whom, in the order in which they are shown."""
_PART_TITLES = {
    "customers": "Customers",
    "states": "Where each customer stands",
    "offers": "Offers",
    "followed": "Loans asked about",
    "statuses": "In the service's own words",
    "changes": "What is new",
    "transactions": "Transactions written",
    "accounts": "Accounts written",
    "profiles": "Profiles written",
}


def statuses_of(tasks: Iterable[LookupTask]) -> Counter[LookupStatus]:
    """Return how many calls came to which end."""
    return Counter(task.status for task in tasks)


def operation_report(
    call_log: CallLog,
    operation: Operation,
    ended: Counter[LookupStatus],
    *,
    answers: Mapping[str, int],
    test_mode: bool,
) -> dict[str, Any]:
    """Return one operation's part of the report, in the fields of a check.

    Args:
        call_log: the run's calls.
        operation: the operation.
        ended: how many of its calls came to which end, those not reached as `WAITING`.
        answers: what they came to, in the flow's own words.
        test_mode: nothing that was said counts.
    """
    wanted = sum(ended.values())
    return check_report(
        CheckCounts(lookups=wanted, distinct=wanted),
        ended,
        call_log,
        operation,
        Counter(answers),
        asked=Counter(answers),
        shared_micro=0,
        test_mode=test_mode,
    )


def api_run_report(
    run: Run,
    call_log: CallLog,
    *,
    rows: Mapping[str, int],
    checks: Mapping[str, Any],
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the report of a run.

    Args:
        run: the run.
        call_log: its calls.
        rows: `read`, `screened` and `quarantined`, where read is the sum of the others.
        checks: the part of each operation.
        more: what the flow adds, such as `changes`; it may replace a field.
    """
    return {
        **head_of(run),
        "flow": run.flow,
        "rows": dict(rows),
        "checks": dict(checks),
        "cost": cost_of(run, call_log),
        "balance": balance_report(call_log.reconciliation.balance(), call_log.cost_micro),
        "exposure": {},
        "decisions": {},
        "changes": {},
        "notices": notices_of(run),
        "files": rows_of_files(run),
        **more,
    }


def finish_api_run(run: Run, report: dict[str, Any]) -> dict[str, Any]:
    """Write report, page and manifest, and note the run's end in the journal; return the report."""
    manifest = {
        "flow": run.flow,
        "input": {"digest": run.input_digest},
        "parameters": run.parameters.model_dump(exclude={"output", "run"}),
    }
    return finish(run, report, page=api_run_page(report), manifest=manifest)


def api_run_page(report: Mapping[str, Any]) -> str:
    """Return the page as HTML; the same bytes for the same report."""
    return laid_out(
        title=_TITLES.get(report["flow"], sentence(report["flow"])),
        subtitle=(f"Run {report['run_id']}", from_to(report), f"All times are {ZONE}"),
        verdict=_verdict(report),
        attention=report["notices"],
        tiles=list(_tiles(report)),
        opening=(),
        sections=[_came_to(report), _money(report), service(report), provenance(report)],
    )


def api_run_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return how the run ended and its figures as Markdown; `folder` is where its files are."""
    said = _verdict(report)
    figures = [(tile.label, "; ".join((tile.value, *tile.notes))) for tile in _tiles(report)]
    parts = [
        f"# {said.mark} {said.line}",
        *said.more,
        f"Run `{report['run_id']}`, {from_to(report)}. Its files are in `{folder}`.",
        *((bullets(report["notices"]),) if report["notices"] else ()),
        markdown_table(("Figure", "This run"), figures),
    ]
    return "\n\n".join(parts) + "\n"


def _verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how the run ended."""
    rows = report["rows"]
    done = f"{count(rows['screened'])} of {some(rows['read'], 'row')} read"
    if report["state"] == "test_mode":
        said = "The service answered with samples. Nothing here may be used."
        return RunVerdict("Test mode", [said], "bad", loud=True)
    if report["state"] == "completed":
        return RunVerdict(f"Complete: {done}.", [], "good" if not rows["quarantined"] else "warn")
    reason = report["stop_reason"]
    why = f"Stopped early: {WHY.get(reason, sentence(reason or 'unknown'))}."
    return RunVerdict(why, [done, NEXT.get(reason, "The run can be resumed.")], "warn")


def _tiles(report: Mapping[str, Any]) -> Iterator[Tile]:
    rows, cost, balance = report["rows"], report["cost"], report["balance"]
    calls = sum(part["attempts"] for part in report["checks"].values())
    quarantined = [f"{count(rows['quarantined'])} in quarantine"] if rows["quarantined"] else []
    yield Tile("Rows read", count(rows["read"]), quarantined, "warn" if quarantined else "")
    yield Tile("Calls made", count(calls))
    notes = [f"Quoted {naira(cost['quoted']['expected'])}"]
    notes += [f"Cap {naira(cost['cap'])}"] if cost["cap"] else []
    yield Tile("Spent by this run", naira(cost["total"]), notes)
    if cost["in_doubt_exposure"] != "0.00":
        notes = ["Answers lost that may have been charged"]
        yield Tile("In doubt at most", naira(cost["in_doubt_exposure"]), notes, "warn")
    if balance["closing"] is not None:
        yield Tile("Balance", naira(balance["closing"]), [f"Drift {naira(balance['drift'])}"])


def _came_to(report: Mapping[str, Any]) -> Section:
    """Return what became of whom, a table for each part that counts it."""
    tables = []
    for name in _PARTS:
        part = report.get(name)
        if not isinstance(part, dict):
            continue
        rows = [
            [sentence(word), count(number)]
            for word, number in part.items()
            if isinstance(number, int) and not isinstance(number, bool)
        ]
        if rows:
            tables.append(Table(_PART_TITLES[name], ("", "Number"), rows))
    intro = [] if tables else ["There was nothing to do."]
    return Section("outcome", "What became of them", intro, (), tables)


def _money(report: Mapping[str, Any]) -> Section:
    """Return what was paid for which operation, and how the balance adds up."""
    rows = [
        [TITLES[name], count(part["paid"]), count(part["free"]), naira(part["cost"])]
        for name, part in report["checks"].items()
    ]
    heads = ("Operation", "Charged", "Free", "Spent")
    balance = report["balance"]
    adds_up = [
        [label, naira(balance[name])]
        for label, name in (
            ("Opening", "opening"),
            ("Explained by calls in doubt", "explained_in_doubt"),
            ("Drift, not explained", "drift"),
            ("Closing", "closing"),
        )
        if balance[name] is not None
    ]
    tables = [Table("Money by operation", heads, rows)]
    if balance["opening"] is not None:
        tables.append(Table("How the balance adds up", ("Item", "Naira"), adds_up))
    return Section("money", "Money", (), (), tables)
