"""The report of a run beside screening as a page for people; no identifiers, as in `report_page`.

Everything on it comes from the report's dictionary: what each line counts stands in parts of words
and numbers, which become tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.schemas.stops import WHY
from nightscreen.steps.report.components import Section, Table, Tile
from nightscreen.steps.report.format import (
    CHECKS,
    NEXT,
    ZONE,
    count,
    from_to,
    naira,
    sentence,
    some,
)
from nightscreen.steps.report.money import provenance, service
from nightscreen.steps.report.page import laid_out
from nightscreen.steps.report.summary_section import RunVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


def errand_page(report: Mapping[str, Any]) -> str:
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
        told = ["Answers lost that may have been charged"]
        yield Tile("In doubt at most", naira(cost["in_doubt_exposure"]), told, "warn")
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
        [CHECKS[name], count(part["paid"]), count(part["free"]), naira(part["cost"])]
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
