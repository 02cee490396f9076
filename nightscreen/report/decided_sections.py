"""The report's sections on decisions: why, in which branch, by which officer, and night by night.

Everything is read off the report's dictionary.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.report.charts import Lines
from nightscreen.report.components import Picture, Section, Table, spoken
from nightscreen.report.format import (
    count,
    decision_titles,
    naira_at_risk,
    naira_tight,
    sentence,
    share,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_CODE = "no rule: evidence is missing"
_GROUP_TITLES = {"branch": "Branch", "officer": "Officer"}
_ENOUGH_NIGHTS = 2
_ONCE = (
    "Each customer is counted once, under the reason that decided. Also: customers with this "
    "reason beside the main one."
)
_SMALL = (
    "From the columns of the file. A branch or officer of fewer than five customers is counted "
    "among the others."
)


def reasons(report: Mapping[str, Any]) -> Section | None:
    """Return the section on the reasons of decisions: the main one of each, and further ones."""
    found = report.get("reasons")
    if not found:
        return None
    titles = decision_titles(report)
    tables = []
    for decision, title in titles.items():
        reasons = [reason for reason in found if reason["decision"] == decision]
        whole = sum(reason["main"]["rows"] for reason in reasons)
        rows = [
            [
                sentence(reason["code"].casefold()) if reason["code"] else _NO_CODE,
                reason["code"] or "",
                count(reason["main"]["rows"]),
                share(reason["main"]["rows"], whole) or "",
                naira_at_risk(reason["main"]),
                count(reason["further"]["rows"]),
                naira_at_risk(reason["further"]),
            ]
            for reason in reasons
        ]
        heads = (
            *("Reason", "Code", "Customers", "Of these", "Exposure"),
            *("Also: customers", "Also: exposure"),
        )
        if rows:
            tables.append(Table(title, heads, rows, words=frozenset({1})))
    return Section("reasons", "Why it was so decided", [_ONCE], (), tables)


def groups(report: Mapping[str, Any]) -> Section | None:
    """Return the section on branches and officers, where the file has them."""
    found = report.get("groups")
    if not found:
        return None
    titles = decision_titles(report)
    tables = []
    for group, values in found.items():
        rows = [
            [
                value["name"],
                count(value["rows"]),
                naira_at_risk(value),
                *(_cell(value["decisions"][word], value["rows"]) for word in titles),
                naira_at_risk(value["decisions"]["decline"]),
            ]
            for value in values
        ]
        heads = (
            *(_GROUP_TITLES[group], "Customers", "Exposure"),
            *titles.values(),
            f"{titles['decline']}: exposure",
        )
        tables.append(Table(f"Decisions by {_GROUP_TITLES[group].lower()}", heads, rows))
    return Section("groups", "By branch and officer", [_SMALL], (), tables)


def _cell(weight: Mapping[str, Any], whole: int) -> str:
    return f"{count(weight['rows'])} ({share(weight['rows'], whole)})"


def nights_picture(report: Mapping[str, Any]) -> Picture | None:
    """Return the last nights as small lines."""
    nights = report.get("nights") or []
    if len(nights) < _ENOUGH_NIGHTS:
        return None
    titles = decision_titles(report)
    words = ("decline", "review", "undecided")
    labels = [*(titles[word] for word in words), "Newly listed", "Spent"]
    values: list[Sequence[float | None]] = [
        *([night["decisions"].get(word, 0) for night in nights] for word in words),
        [night["new_listings"] for night in nights],
        [float(Decimal(night["cost"])) for night in nights],
    ]
    last = nights[-1]
    listed = last["new_listings"]
    figures = [
        *(count(last["decisions"].get(word, 0)) for word in words),
        "not known" if listed is None else count(listed),
        naira_tight(last["cost"]),
    ]
    chart = Lines(labels, figures, values)
    title = f"The last {len(nights)} nights"
    caption = "Customers, and naira spent; each line from zero, tonight at its right end."
    return Picture(chart, name="nights", title=title, text=spoken(chart), caption=caption)
