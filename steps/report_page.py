"""The report as a page for people: one file, no scripts, no network, no identifiers.

Everything on it comes from the report's dictionary; nothing is counted here.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

if TYPE_CHECKING:
    from collections.abc import Mapping

TEMPLATES = Path(__file__).resolve().parents[1] / "data" / "pages"
_CHECKS = {
    "bank_account": "Bank account",
    "karma": "Karma blacklist",
    "ecosystem": "Ecosystem history",
    "selfie": "Selfie",
}


def amount(text: str | None) -> str:
    """Return decimal text as naira for people; a dash where there is none."""
    return "-" if text is None else f"₦{Decimal(text):,.2f}"


def words(name: str) -> str:
    """Return a snake_case word as people write it."""
    return name.replace("_", " ")


def report_page(report: Mapping[str, Any]) -> str:
    """Return the page as HTML."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(naira=amount, words=words, count=lambda number: f"{number:,}")
    page = environment.get_template("report.html.j2")
    return page.render(report=report, titles=_CHECKS, verdict=verdict(report))


def verdict(report: Mapping[str, Any]) -> str:
    """Return one sentence that says how the run ended and what its answers are worth."""
    distinct = sum(each["distinct"] for each in report["checks"].values())
    answered = sum(
        each["paid"] + each["free"] + each["reused"] for each in report["checks"].values()
    )
    share = f"{answered:,} of {distinct:,} lookups answered"
    if report["state"] == "test_mode":
        return "Test mode: the service answered with samples. Nothing here may be used."
    if report["state"] == "completed":
        return f"Complete: {share}."
    return (
        f"Stopped early ({words(report['stop_reason'] or 'unknown')}): {share}. It can be resumed."
    )
