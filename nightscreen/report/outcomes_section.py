"""The section on outcomes: how the loans were paid that this batch decided on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nightscreen.report.components import Section, Table
from nightscreen.report.format import count, naira, plain, sentence, some

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HEADS = ("Loans", "Good", "Bad", "Too young", "Bad rate", "Lost")
_MOST_ROWS = 20
_LAST_MONTHS = 12


def outcomes(report: Mapping[str, Any]) -> Section | None:
    """Return the section; None if no loan is known, or in an earlier report."""
    found = report.get("outcomes")
    if not found:
        return None
    tables = [
        _table("By the decision that was valid", "Decision", "decision", found["decisions"]),
        _table("By policy", "Policy", "policy", found["policies"]),
        _table("By month of disbursal", "Month", "vintage", found["vintages"][-_LAST_MONTHS:]),
        *([_rules(found["reasons"])] if found["reasons"] else []),
        *([_tried(found["shadow"])] if found["shadow"] else []),
    ]
    return Section("outcomes", "How the loans were paid", _intro(found), (), tables, ())


def _intro(found: Mapping[str, Any]) -> list[str]:
    bad, total = found["bad"], found["total"]
    return [
        (
            f"Of {some(total['loans'], 'loan')} that this batch decided on, {count(total['bad'])} "
            f"are bad, {count(total['good'])} good, and "
            f"{count(total['young'])} too young to say."
        ),
        (
            f"Bad is {bad['days_past_due']} days past due within {bad['within_days']} of the due "
            "date, and what else the settings BAD_LOAN say. Rates are followed by their 95 % "
            "interval: where two overlap, the loans show no difference between the groups."
        ),
        "Those who were never lent to are in no rate.",
    ]


def _cells(rates: Mapping[str, Any]) -> list[str]:
    unknown = f" and {count(rates['lost_unknown'])} unknown" if rates["lost_unknown"] else ""
    counts = [count(rates[name]) for name in ("loans", "good", "bad", "young")]
    return [*counts, rate(rates), naira(rates["lost"]) + unknown]


def rate(rates: Mapping[str, Any]) -> str:
    """Return a bad rate with its interval, in hundredths."""
    found = rates["bad_rate"]
    if found is None:
        return "not known yet"
    value, low, high = (f"{100 * found[name]:.1f}" for name in ("value", "low", "high"))
    return f"{value} % ({low} to {high})"


def _table(caption: str, head: str, key: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    named = [[plain(row[key]), *_cells(row)] for row in rows[:_MOST_ROWS]]
    return Table(caption, (head, *_HEADS), named)


def _rules(reasons: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [
            sentence(reason["reason"].casefold()),
            _share(reason["caught"]),
            _share(reason["cost"]),
            *_cells(reason),
        ]
        for reason in reasons[:_MOST_ROWS]
    ]
    heads = ("Reason", "Of all bad loans", "Of all good loans", *_HEADS)
    return Table("What each rule catches, and what it costs in good customers", heads, rows)


def _tried(moves: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        [move["shadow_policy"], f"{plain(move['from'])} to {plain(move['to'])}", *_cells(move)]
        for move in moves[:_MOST_ROWS]
    ]
    heads = ("Policy tried", "Decision of each", *_HEADS)
    return Table("By the decision of the shadow policy", heads, rows, words=frozenset({1}))


def _share(part: float | None) -> str:
    return "not known yet" if part is None else f"{100 * part:.1f} %"
