"""A finished run in a few words and numbers, for its starter, and a quote: Markdown.

Made from the report's dictionary alone, which names nobody; nothing is counted here. The words are
templates in `data/pages/engine/`. `tasks/` shows it; the page for the head of risk is `page`.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.files.templates import text_templates
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
from nightscreen.report.verdict import api_run_verdict, attention, lists_of, next_steps, verdict
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jinja2 import Environment

_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}


def summary_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return how a run of any flow ended as Markdown.

    Args:
        report: the finished run's report.
        folder: the run's folder, as its reader finds it.
    """
    screening = "flow" not in report
    return _rendered(
        "run.md.j2",
        report=report,
        folder=folder,
        screening=screening,
        when=from_to(report),
        purpose=PURPOSES.get(report["purpose"], plain(report["purpose"])),
        decisions=DECISIONS,
        verdict=verdict(report) if screening else api_run_verdict(report),
        attention=attention(report) if screening else report["notices"],
        lists=lists_of(report),
        steps=next_steps(report) if screening else [],
    )


def quote_markdown(quote: Mapping[str, Any]) -> str:
    """Return a quote as Markdown: what it says, then its tables."""
    return _rendered("quote.md.j2", quote=quote, titles=TITLES, identities=_IDENTITIES)


def _rendered(template: str, **values: object) -> str:
    return _templates().get_template(template).render(values)


@cache
def _templates() -> Environment:
    found = text_templates(DATA / "pages" / "engine")
    found.filters |= {"count": count, "naira": naira, "some": some, "escaped": _escaped}
    return found


def _escaped(text: str) -> str:
    """Return text of which Markdown makes nothing."""
    return re.sub(r"([\\`*_{}\[\]()#+|<>~])", r"\\\1", text)
