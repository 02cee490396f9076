"""The report as a page for people: one file, no scripts, no network, no identifiers.

Everything on it comes from the report's dictionary; nothing is counted here. The first screen is
made in `summary_section`, the rest in `risk` and `money`, the shapes of charts in `charts`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.files.templates import html_templates
from nightscreen.report import decided_sections, money, risk
from nightscreen.report.format import plain
from nightscreen.report.outcomes_section import outcomes
from nightscreen.report.policies import policies
from nightscreen.report.summary_section import (
    attention,
    links,
    subtitle,
    tiles,
    verdict,
)
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2 import Environment

    from nightscreen.report.components import Picture, Section, Tile
    from nightscreen.report.summary_section import RunVerdict

TEMPLATES = DATA / "pages"


def report_page(report: Mapping[str, Any]) -> str:
    """Return the page as HTML; the same bytes for the same report."""
    sections = (
        decided_sections.reasons(report),
        decided_sections.groups(report),
        risk.decisions(report),
        risk.coverage(report),
        policies(report),
        outcomes(report),
        money.money(report),
        money.balance(report),
        risk.answers(report),
        money.service(report),
        risk.findings(report),
        money.provenance(report),
    )
    opening = (
        risk.decision_picture(report),
        decided_sections.nights_picture(report),
        money.limit_picture(report),
    )
    return laid_out(
        title=report["batch"],
        subtitle=subtitle(report),
        verdict=verdict(report),
        links=links(report),
        attention=attention(report),
        tiles=tiles(report),
        opening=[part for part in opening if part is not None],
        sections=[section for section in sections if section is not None],
    )


def laid_out(
    *,
    title: str,
    subtitle: Sequence[str],
    verdict: RunVerdict,
    links: Sequence[tuple[str, str]] = (),
    attention: Sequence[str],
    tiles: Sequence[Tile],
    opening: Sequence[Picture],
    sections: Sequence[Section],
) -> str:
    """Return a page of a first screen and sections as HTML."""
    return (
        templates()
        .get_template("report.html.j2")
        .render(
            batch=title,
            subtitle=subtitle,
            verdict=verdict,
            links=links,
            attention=attention,
            tiles=tiles,
            opening=opening,
            sections=sections,
        )
    )


@cache
def templates() -> Environment:
    """Return what renders the pages that a run or a command writes."""
    found = html_templates(TEMPLATES)
    found.filters["words"] = plain
    return found
