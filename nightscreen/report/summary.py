"""A finished run in a few words and numbers, for its starter: Markdown and tables.

Made from the report's dictionary alone, which names nobody; nothing is counted here. `tasks/` shows
it; the page for the head of risk is `page`.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from nightscreen.report.format import (
    DECISIONS,
    PURPOSES,
    STATUSES,
    TITLES,
    added,
    count,
    decided,
    decision_titles,
    from_to,
    naira,
    naira_at_risk,
    naira_tight,
    plain,
    sentence,
    share,
    some,
)
from nightscreen.report.page import limits
from nightscreen.report.verdict import (
    api_run_verdict,
    attention,
    lists_of,
    next_steps,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NO_REASON = "without a reason: evidence is missing, or no rule applies"
_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}
_CELLS = 24
"""Width of the longest bar in Markdown, in letters: a phone shows it beside its label."""


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
        parts.append("## Needs attention\n\n" + _bullets(looks))
    parts.append("## Key figures\n\n" + _table(("Figure", "This run"), _glance(report)))
    parts.append("## Files\n\n" + _table(("In the folder", f"`{folder}`"), _file_rows(report)))
    steps = next_steps(report)
    if steps:
        parts.append("## What to do next\n\n" + _bullets(steps))
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
    """Return decisions and spending as tables with bars in Markdown, or None where nothing is.

    Bars are blocks: the engine's UI takes no style and no drawings.
    """
    charts = []
    if report["news"] and report["rows"]["screened"]:
        by_naira = Decimal(report["exposure"]["total"]) > 0
        each = [(title, decided(report, word)) for word, title in decision_titles(report).items()]
        rows = [
            (title, _figure(weight, by_naira=by_naira), weight["exposure" if by_naira else "rows"])
            for title, weight in each
        ]
        unit = "Exposure" if by_naira else "Customers"
        charts.append(_chart(f"{unit} by decision", rows))
    spent = [
        (
            each["name"],
            (
                f"{naira_tight(each['spent'])} of {naira_tight(each['limit'])} · "
                f"{share(each['spent'], each['limit'])}"
            ),
            (Decimal(each["spent"]) + Decimal(each["doubt"])) / Decimal(each["limit"]),
        )
        for each in limits(report)
    ]
    if spent:
        charts.append(_chart("Spending against quote and caps", spent, whole=1))
    return "\n\n".join(charts) if charts else None


def _figure(weight: Mapping[str, Any], *, by_naira: bool) -> str:
    rows = count(weight["rows"])
    return f"{naira_tight(weight['exposure'])} · {rows}" if by_naira else rows


def _chart(title: str, rows: Sequence[tuple[str, str, Any]], whole: int = 0) -> str:
    """Return labels and figures with bars of a length; what is more than nothing is seen."""
    lengths = [Decimal(length) for _, _, length in rows]
    full = max(*lengths, Decimal(whole)) or 1
    bars = ["█" * max(round(_CELLS * each / full), 1 if each else 0) for each in lengths]
    lines = [
        f"| {_escaped(label)} | {_escaped(figure)} | {bar} |"
        for (label, figure, _), bar in zip(rows, bars, strict=True)
    ]
    return "\n".join([f"## {title}", "", "| | | |", "|---|--:|---|", *lines])


def decision_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the decisions as rows of a table; exposure in naira."""
    rows = []
    for word, title in DECISIONS.items():
        weight = decided(report, word)
        row = {
            "Decision": title,
            "Customers": count(weight["rows"]),
            "Exposure": naira_at_risk(weight),
            "Decided otherwise before": _rows(weight.get("turned")),
            "First decision": _rows(weight.get("first")),
        }
        rows.append(row)
    return rows


def _rows(weight: Mapping[str, Any] | None) -> str:
    return count(weight["rows"]) if weight else "0"


def reason_rows(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return decisions by reason as rows of a table; who has several reasons is under each."""
    rows = []
    for word, title in DECISIONS.items():
        for each in report["reasons"]:
            if each["decision"] == word:
                weight = added([each["main"], each["further"]])
                row = {
                    "Decision": title,
                    "Reason": sentence(each["code"].casefold()) if each["code"] else NO_REASON,
                    "Customers": count(weight["rows"]),
                    "Exposure": naira_at_risk(weight),
                }
                rows.append(row)
    return rows


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


def _table(heads: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """Return a table of two columns."""
    lines = [f"| {heads[0]} | {heads[1]} |", "|---|---|"]
    return "\n".join([*lines, *(f"| {left} | {right} |" for left, right in rows)])


def _bullets(texts: Sequence[str]) -> str:
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
    parts = [_table(("Figure", "This run"), glance)]
    if lines:
        heads = list(lines[0])
        table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        table += [f"| {' | '.join(line.values())} |" for line in lines]
        parts.append("\n".join(table))
    return "\n\n".join(parts) + "\n"


def api_run_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return how a run of another flow ended as Markdown; `folder` is where its files are."""
    said, rows, cost = api_run_verdict(report), report["rows"], report["cost"]
    calls = sum(part["attempts"] for part in report["checks"].values())
    quoted = f"quoted {naira(cost['quoted']['expected'])}"
    cap = f"; cap {naira(cost['cap'])}" if cost["cap"] else ""
    glance = [
        ("Rows read", f"{count(rows['read'])}, {count(rows['quarantined'])} in quarantine"),
        ("Calls made", count(calls)),
        ("Spent by this run", f"{naira(cost['total'])}; {quoted}{cap}"),
    ]
    if Decimal(cost["in_doubt_exposure"]):
        glance.append(("In doubt, at most", naira(cost["in_doubt_exposure"])))
    balance = report["balance"]
    if balance["closing"] is not None:
        drift = f"; drift {naira(balance['drift'])}"
        glance.append(("Balance", f"{naira(balance['closing'])}{drift}"))
    parts = [
        f"# {said.mark} {said.line}",
        *said.more,
        f"Run `{report['run_id']}`, {from_to(report)}. Its files are in `{folder}`.",
        *((_bullets(report["notices"]),) if report["notices"] else ()),
        _table(("Figure", "This run"), glance),
    ]
    return "\n\n".join(parts) + "\n"
