"""A finished run in a few words and numbers, for its starter, and a quote: Markdown.

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
    from collections.abc import Iterable, Mapping, Sequence

    from nightscreen.report.verdict import RunVerdict

_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}


def summary_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return how a screening run ended as Markdown.

    Args:
        report: the finished run's report.
        folder: the run's folder, as its reader finds it.
    """
    rows, exposure = report["rows"], report["exposure"]
    purpose = PURPOSES.get(report["purpose"], plain(report["purpose"]))
    missing = exposure["not_screened"]
    lacking = f"{naira(missing['exposure'])} of {naira(exposure['total'])}"
    if exposure["unknown_rows"] == rows.get("customers", rows["screened"]):
        lacking = f"{some(missing['rows'], 'customer')}, their exposure is not known"
    glance = [
        ("Customers screened", f"{count(rows['screened'])} of {count(rows['read'])} rows"),
        ("In quarantine", count(rows["quarantined"])),
        *(
            (title, f"{count(report['decisions'].get(word, 0))}{_at_risk(exposure, word)}")
            for word, title in DECISIONS.items()
        ),
        ("Exposure not screened in full", lacking),
    ]
    batch = f"Batch **{_escaped(report['batch'])}**, {purpose}. "
    return _ended(
        verdict(report), batch, report, folder, glance, attention(report), next_steps(report)
    )


def api_run_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return how a run of another flow ended as Markdown; `folder` is where its files are."""
    rows = report["rows"]
    glance = [
        ("Rows read", f"{count(rows['read'])}, {count(rows['quarantined'])} in quarantine"),
        ("Calls made", count(sum(part["attempts"] for part in report["checks"].values()))),
    ]
    return _ended(api_run_verdict(report), "", report, folder, glance, report["notices"], [])


def _ended(
    said: RunVerdict,
    batch: str,
    report: Mapping[str, Any],
    folder: str,
    glance: Sequence[tuple[str, str]],
    looks: Sequence[str],
    steps: Sequence[str],
) -> str:
    files = "\n".join(f"- `{name}`: {what}" for name, what in lists_of(report))
    parts = [f"# {said.mark} {said.line}", *said.more]
    parts.append(f"{batch}Run `{report['run_id']}`, {from_to(report)}.")
    parts += ["## Needs attention", _bullets(looks)] if looks else []
    parts += ["## Key figures", _table(("Figure", "This run"), [*glance, *_money(report)])]
    parts += [f"## Files\n\nIn `{folder}`:", files]
    parts += ["## What to do next", _bullets(steps)] if steps else []
    return "\n\n".join(filter(None, parts)) + "\n"


def _money(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    cost, balance = report["cost"], report["balance"]
    quoted = f"quoted {naira(cost['quoted']['expected'])}, at most {naira(cost['quoted']['high'])}"
    cap = f"; cap {naira(cost['cap'])}" if cost["cap"] else ""
    found = [("Spent", f"{naira(cost['total'])}; {quoted}{cap}")]
    if Decimal(cost["in_doubt_exposure"]):
        found.append(("In doubt", f"up to {naira(cost['in_doubt_exposure'])} more"))
    if balance["closing"] is not None:
        drift = f"; drift {naira(balance['drift'])}" if Decimal(balance["drift"]) else ""
        found.append(("Balance", f"{naira(balance['closing'])}{drift}"))
    return found


def _at_risk(exposure: Mapping[str, Any], word: str) -> str:
    amount = exposure.get(f"decision_{word}")
    return f", {naira(amount)} at risk" if amount and Decimal(amount) else ""


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows))


def _bullets(texts: Iterable[str]) -> str:
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
        (
            TITLES.get(line["check"], line["check"]),
            _IDENTITIES.get(line["identity"], plain(line["identity"])),
            count(line["calls"]),
            naira(line["expected"]),
        )
        for line in quote["lines"]
    ]
    parts = [_table(("Figure", "This run"), glance)]
    parts += [_table(("Check", "By", "Calls", "Expected"), lines)] if lines else []
    return "\n\n".join(parts) + "\n"
