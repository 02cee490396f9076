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
    TITLES,
    count,
    from_to,
    naira,
    plain,
    share,
    some,
)
from nightscreen.report.verdict import (
    api_run_verdict,
    attention,
    lists_of,
    next_steps,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}


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
