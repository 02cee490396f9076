"""A finished run in a few words and numbers, for its starter: Markdown, tables, next steps.

Made from the report's dictionary alone, which names nobody; nothing is counted here. `tasks/` shows
it; the page for the head of risk is `page`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from nightscreen.report.format import (
    DECISIONS,
    PURPOSES,
    STATUSES,
    TITLES,
    count,
    from_to,
    naira,
    naira_at_risk,
    plain,
    sentence,
    share,
    some,
)
from nightscreen.report.money import limit_picture
from nightscreen.report.risk import decision_picture
from nightscreen.report.summary_section import attention, verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.report.charts import Bars
    from nightscreen.report.components import Picture

_FILES = {
    "decisions.xlsx": "the list to work on: who to decline or review, and why",
    "report.html": "the report with its charts, for a browser",
    "quarantine.csv": "rows that were refused, to be corrected",
    "problems.csv": "every finding in the file, line by line",
    "shadow.csv": "whom the shadow policy would decide differently",
}
_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}
_CELLS = 24
"""Width of the longest bar in Markdown, in letters: a phone shows it beside its label."""


def lists_of(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the files a person opens after a run, and what they are; empty ones left out."""
    rows = {**report["files"], "report.html": 1}
    return [(name, what) for name, what in _FILES.items() if rows.get(name)]


def next_steps(report: Mapping[str, Any]) -> list[str]:
    """Return what to do now, the most important first."""
    run_id, state = report["run_id"], report["state"]
    if state == "test_mode":
        return ["Have the service switched to live in its console, then run again."]
    steps = []
    if report["stop_reason"] == "approval":
        steps.append(
            f"An approver types nightscreen approve {run_id}, or "
            f"nightscreen approve {run_id} --refuse --note 'why'. Until then nothing is asked."
        )
    elif state != "completed":
        steps.append(
            f"To go on, fill in Resume run with {run_id} in the form of the deployment adhoc, or "
            f"type nightscreen screen --run {run_id}. Nothing answered is paid for twice."
        )
    elif not report["publishable"]:
        steps.append(
            "It is held back: look at what is named above. If all is well, type "
            f"nightscreen runs release {run_id} --reason '...'."
        )
    flagged = sum(report["decisions"].get(word, 0) for word in ("decline", "review"))
    if flagged:
        steps.append(
            f"Open decisions.xlsx: {some(flagged, 'customer')} to decline or review. Fill in "
            "reviewer_decision and hand the list back with nightscreen review import."
        )
    if report["rows"]["quarantined"]:
        rows = some(report["rows"]["quarantined"], "row")
        steps.append(
            f"Correct quarantine.csv ({rows}), name it {report['batch']}.csv and drop it into the "
            "inbox, or screen it as before: only what was refused is asked about."
        )
    return steps


def summary_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return the summary as Markdown: verdict, money, exposure, where the files are, what next.

    Args:
        report: the finished run's report.
        folder: the run's folder, as its reader finds it.
    """
    ending = verdict(report)
    purpose = PURPOSES.get(report["purpose"], plain(report["purpose"]))
    parts = [
        f"# {ending.mark} {ending.line}",
        *ending.more,
        (
            f"Batch **{_escaped(report['batch'])}**, {purpose}. Run `{report['run_id']}`, "
            f"{from_to(report)}."
        ),
    ]
    looks = attention(report)
    if looks:
        parts.append("## To look at\n\n" + bullets(looks))
    parts.append("## At a glance\n\n" + markdown_table(("Figure", "This run"), _glance(report)))
    parts.append(
        "## Files\n\n" + markdown_table(("In the folder", f"`{folder}`"), _file_rows(report))
    )
    steps = next_steps(report)
    if steps:
        parts.append("## What to do next\n\n" + bullets(steps))
    return "\n\n".join(parts) + "\n"


def _glance(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost, balance, rows = report["cost"], report["balance"], report["rows"]
    exposure = report["exposure"]
    missing = exposure.get("not_screened")
    found = [
        ("Customers screened", f"{count(rows['screened'])} of {count(rows['read'])} rows"),
        ("In quarantine", count(rows["quarantined"])),
        *(
            (title, f"{count(report['decisions'].get(word, 0))}{_at_risk(exposure, word)}")
            for word, title in DECISIONS.items()
        ),
    ]
    if missing is not None:
        found.append(
            (
                "Exposure not screened in full",
                f"{naira(missing['exposure'])} of {naira(exposure['total'])}"
                if exposure.get("unknown_rows") != rows.get("customers", rows["screened"])
                else f"{some(missing['rows'], 'customer')}, their exposure is not known",
            )
        )
    found.append(
        (
            "Spent",
            (
                f"{naira(cost['total'])}, quoted {naira(cost['quoted']['expected'])} "
                f"(at most {naira(cost['quoted']['high'])})"
            ),
        )
    )
    if cost["cap"] is not None:
        used = share(cost["total"], cost["cap"]) or "all"
        found.append(("Cap", f"{naira(cost['cap'])}, {used} of it used"))
    if Decimal(cost["in_doubt_exposure"]):
        found.append(("In doubt", f"up to {naira(cost['in_doubt_exposure'])} more"))
    saved = Decimal(cost["saved_by_reuse"]) + Decimal(cost["saved_by_sharing"])
    found.append(("Saved by answers at hand", naira(str(saved))))
    if balance["closing"] is not None:
        nights = balance["nights_left"]
        lasts = "" if nights is None else f", lasts {count(nights)} nights"
        found.append(("Balance", f"{naira(balance['closing'])}{lasts}"))
    return found


def _at_risk(exposure: Mapping[str, Any], word: str) -> str:
    amount = exposure.get(f"decision_{word}")
    return f", {naira(amount)} at risk" if amount and Decimal(amount) else ""


def _file_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"`{name}`", what) for name, what in lists_of(report)]


def charts_markdown(report: Mapping[str, Any]) -> str | None:
    """Return the charts of the report's first screen as tables with bars in Markdown, or None."""
    pictures = [decision_picture(report), limit_picture(report)]
    shown = [_picture(picture) for picture in pictures if picture is not None]
    return "\n\n".join(shown) if shown else None


def _picture(picture: Picture) -> str:
    """Return bars as a table of blocks: the engine's UI takes no style and no drawings."""
    chart = cast("Bars", picture.chart)
    rows = [
        f"| {_escaped(label)} | {_escaped(figure)} | {'█' * _cells(chart, index)} |"
        for index, (label, figure) in enumerate(zip(chart.labels, chart.figures, strict=True))
    ]
    caption = f"\n\n{picture.caption}" if picture.caption else ""
    return "\n".join([f"## {picture.title}", "", "| | | |", "|---|--:|---|", *rows]) + caption


def _cells(chart: Bars, index: int) -> int:
    """Return the length of a bar in letters; what is more than nothing is seen."""
    width = sum(part for _, part in chart.parts(index))
    return max(round(_CELLS * width / 100), 1 if width else 0)


def decision_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the decisions as rows of a table; exposure in naira."""
    exposure, news = report["exposure"], (report.get("news") or {}).get("decisions", {})
    return [
        {
            "Decision": title,
            "Customers": count(report["decisions"].get(word, 0)),
            "Exposure": (
                naira_at_risk(news[word])
                if word in news
                else naira(exposure.get(f"decision_{word}", "0.00"))
            ),
            "Decided otherwise before": _weight(news.get(word, {}).get("turned")),
            "First decision": _weight(news.get(word, {}).get("first")),
        }
        for word, title in DECISIONS.items()
    ]


def _weight(weight: Mapping[str, Any] | None) -> str:
    return count(weight["rows"]) if weight else "0"


def check_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what was asked of each check and what it cost, as rows of a table."""
    return [
        {
            "Check": TITLES.get(name, sentence(name)),
            "Lookups": count(check["distinct"]),
            "Answered": count(check["paid"] + check["free"]),
            "Fresh already": count(check["reused"]),
            "Not answered": count(
                check["failed"] + check["pending"] + check["in_doubt"] + check.get("unreadable", 0)
            ),
            "Cost": naira(check["cost"]),
        }
        for name, check in report["checks"].items()
    ]


def answer_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return what was found out of how many customers, as rows of a table."""
    return [
        {
            "Check": TITLES.get(name, sentence(name)),
            "Answer": sentence(STATUSES.get(word, word)),
            "Customers": count(number),
        }
        for name, check in report["checks"].items()
        for word, number in sorted(check["answers"].items(), key=lambda answer: -answer[1])
    ]


def markdown_table(heads: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of two columns."""
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {left} | {right} |" for left, right in rows)])


def bullets(texts: Sequence[str]) -> str:
    """Return a list."""
    return "\n".join(f"- {text}" for text in texts)


def _escaped(text: str) -> str:
    """Return text of which Markdown makes nothing."""
    return re.sub(r"([\\`*_{}\[\]()#+|<>~])", r"\\\1", text)


def quote_markdown(quote: Mapping[str, Any]) -> str:
    """Return a quote as Markdown: what it says, then its tables."""
    expected = naira(quote["quoted"]["expected"])
    return f"# {expected} expected for {count(quote['calls'])} calls\n\n{quote_tables(quote)}"


def quote_tables(quote: Mapping[str, Any]) -> str:
    """Return the tables of a quote in Markdown, for the approver."""
    rows, quoted = quote["rows"], quote["quoted"]
    glance = [
        ("Customers", f"{count(rows['screened'])}, and {count(rows['quarantined'])} rows refused"),
        ("Expected", naira(quoted["expected"])),
        ("Range", f"{naira(quoted['low'])} to {naira(quoted['high'])}"),
        ("Cap", naira(quote["cap"]) if quote["cap"] is not None else "none"),
        ("Last known balance", naira(quote["balance"]) if quote["balance"] else "not known"),
        ("Saved by fresh answers", naira(quote["saved_by_reuse"])),
    ]
    lines = [
        {
            "Check": TITLES.get(line["check"], line["check"]),
            "By": _IDENTITIES.get(line["identity"], plain(line["identity"])),
            "Calls": count(line["calls"]),
            "Expected": naira(line["expected"]),
        }
        for line in quote["lines"]
    ]
    parts = [markdown_table(("Figure", "This run"), glance)]
    if lines:
        heads = list(lines[0])
        table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        table += [f"| {' | '.join(line.values())} |" for line in lines]
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"
