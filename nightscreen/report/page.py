"""The report as a page, and as short Markdown for the person who started the run (used by `tasks`).

The page is one file without scripts, network access or identifiers. Templates in `data/pages` show
the report's dictionary; this module has what a template cannot express well. It counts nothing.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Tone
from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.files.templates import html_templates, text_templates
from nightscreen.report import format as words
from nightscreen.report.format import (
    count,
    days_old,
    decided,
    decision_titles,
    moment,
    month_name,
    naira,
    naira_short,
    plain,
    sentence,
    some,
)
from nightscreen.report.verdict import (
    api_run_verdict,
    attention,
    lists_of,
    next_steps,
    verdict,
    without_history,
)
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jinja2 import Environment

TEMPLATES = DATA / "pages"
SCREENING_PAGE = "report.html.j2"
_TONES = {Tone.GOOD: "good", Tone.BAD: "bad", Tone.DOUBTFUL: "warn"}
_NO_CODE = "no rule: evidence is missing"
_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}


def report_page(report: Mapping[str, Any]) -> str:
    """Return the page of a screening run as HTML; the same report gives the same bytes."""
    by_naira = Decimal(report["exposure"]["total"]) > 0

    def size(weight: Mapping[str, Any]) -> float:
        return float(weight["exposure"] if by_naira else weight["rows"])

    by_decision = {word: decided(report, word) for word in words.DECISIONS}
    return _page(
        SCREENING_PAGE,
        report,
        verdict=verdict(report),
        attention=attention(report),
        titles=decision_titles(report),
        decided=by_decision,
        by_naira=by_naira,
        size=size,
        whole=size({"exposure": report["exposure"]["total"], "rows": report["rows"]["screened"]}),
        largest=max(map(size, by_decision.values())),
        most_money=_most_money(report),
        without=without_history(report, "approve"),
        trends=list(_trends(report)),
        purposes=words.PURPOSES,
        causes=words.CAUSES,
        bases=words.BASES,
        history=words.HISTORY,
    )


def api_run_page(report: Mapping[str, Any]) -> str:
    """Return the page of a run of another flow as HTML."""
    parts = {
        name: {word: count for word, count in part.items() if type(count) is int}
        for name, part in report.items()
        if isinstance(part, dict)
    }
    return _page(
        "api_run.html.j2",
        report,
        verdict=api_run_verdict(report),
        attention=[*report["notices"]],
        parts={name: counts for name, counts in parts.items() if counts},
    )


def _page(template: str, report: Mapping[str, Any], **values: Any) -> str:  # noqa: ANN401 - a template takes anything
    latencies = [part["latency_ms"]["p99"] or 0 for part in report["checks"].values()]
    return (
        templates()
        .get_template(template)
        .render(
            report=report,
            when=words.from_to(report),
            slowest=max(latencies, default=0),
            files=_files(report),
            **values,
        )
    )


@cache
def templates() -> Environment:
    """Return the template environment of the pages that a run or a command writes."""
    environment = html_templates(TEMPLATES)
    environment.filters |= {
        "words": plain,
        "plain": plain,
        "sentence": sentence,
        "reason": lambda code: sentence(code.casefold()) if code else _NO_CODE,
        "title_of": lambda name: words.TITLES.get(name, sentence(name)),
        "trouble": lambda word: words.TROUBLES.get(word, sentence(word)),
        "count": count,
        "some": some,
        "number": lambda text: float(text or 0),
        "naira": naira,
        "minus": lambda text: naira(str(-Decimal(text)) if Decimal(text) else text),
        "short": naira_short,
        "at_risk": words.naira_at_risk,
        "weight": words.weight_words,
        "customers": words.weight_notes,
        "weight_and_customers": words.weight_and_customers,
        "moved": _moved,
        "days_old": days_old,
        "share": words.share,
        "part_of": lambda part, whole: f"{count(part)} ({words.share(part, whole)})",
        "percent": words.percent,
        "took": words.milliseconds,
        "moment": moment,
        "second": lambda text: moment(text, seconds=True),
        "month_name": month_name,
        "open_lookups": lambda part: sum(
            part[end] for end in ("unreadable", "failed", "in_doubt", "pending")
        ),
        "by_size": _by_size,
        "loan_cells": loan_cells,
        "loan_share": lambda part: "not known yet" if part is None else f"{100 * part:.1f} %",
    }
    return environment


def _most_money(report: Mapping[str, Any]) -> float:
    """Return the largest sum of a check's spending, losses and savings: the full bar's length."""
    names = ("cost", "in_doubt_exposure", "saved_by_reuse", "saved_by_sharing")
    sums = [sum(float(part[name]) for name in names) for part in report["checks"].values()]
    return max(sums, default=0)


def _trends(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield title, last value and polyline (100 by 20) of each figure over the runs."""
    nights = report["nights"]
    titles = decision_titles(report)
    for word in ("decline", "review", "undecided"):
        values = [night["decisions"].get(word, 0) for night in nights]
        yield titles[word], count(values[-1]), _line(values)
    listed = [night["new_listings"] for night in nights]
    last = "not known" if listed[-1] is None else count(listed[-1])
    yield "Newly listed", last, _line(listed)
    spent = [float(night["cost"]) for night in nights]
    yield "Spent", naira_short(nights[-1]["cost"]), _line(spent)


def _line(values: Sequence[float | None]) -> str:
    highest = max((value for value in values if value is not None), default=0) or 1
    step = 100 / max(len(values) - 1, 1)
    return " ".join(
        f"{index * step:.4g},{20 - 18 * value / highest:.4g}"
        for index, value in enumerate(values)
        if value is not None
    )


def _by_size(answers: Mapping[str, int], check: str) -> list[tuple[str, int, str]]:
    """Return title, rows and tone of statuses: answers first, then the most frequent first."""
    order = sorted(answers.items(), key=lambda each: (each[0] not in ANSWERED, -each[1], each[0]))
    tones = CHECKS[check].statuses
    return [
        (
            sentence(words.STATUSES.get(word, word)),
            rows,
            _TONES.get(tones[word], "other") if word in tones else "other",
        )
        for word, rows in order
    ]


def _moved(cell: Mapping[str, Any]) -> str:
    unknown = cell["exposure_unknown_rows"]
    return naira(cell["exposure"]) + (f" and {count(unknown)} unknown" if unknown else "")


def loan_cells(rates: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of loans, good, bad, too young, bad rate and loss."""
    unknown = f" and {count(rates['lost_unknown'])} unknown" if rates["lost_unknown"] else ""
    counts = (count(rates[name]) for name in ("loans", "good", "bad", "young"))
    return (*counts, bad_rate(rates), naira(rates["lost"]) + unknown)


def bad_rate(rates: Mapping[str, Any]) -> str:
    """Return a bad rate with its interval, in percent."""
    rate = rates["bad_rate"]
    if rate is None:
        return "not known yet"
    value, low, high = (f"{100 * rate[name]:.1f}" for name in ("value", "low", "high"))
    return f"{value} % ({low} to {high})"


def _files(report: Mapping[str, Any]) -> dict[str, int | None]:
    """Return files with their rows; the parts of the enriched table count as one file."""
    files: dict[str, int | None] = {}
    for name, rows in report["files"].items():
        shown = f"{name.split('/')[0]}/part-*.parquet" if "/part-" in name else name
        files[shown] = rows if shown == name else (files.get(shown) or 0) + (rows or 0)
    return files


def summary_markdown(report: Mapping[str, Any], folder: str) -> str:
    """Return a summary of a finished run of any flow as Markdown.

    Args:
        report: the finished run's report.
        folder: the run's folder, as its reader can reach it.
    """
    screening = "flow" not in report
    return _markdown(
        "run.md.j2",
        report=report,
        folder=folder,
        screening=screening,
        when=words.from_to(report),
        purpose=words.PURPOSES.get(report["purpose"], plain(report["purpose"])),
        decisions=words.DECISIONS,
        verdict=verdict(report) if screening else api_run_verdict(report),
        attention=attention(report) if screening else report["notices"],
        lists=lists_of(report),
        steps=next_steps(report) if screening else [],
    )


def quote_markdown(quote: Mapping[str, Any]) -> str:
    """Return a quote as Markdown."""
    return _markdown("quote.md.j2", quote=quote, titles=words.TITLES, identities=_IDENTITIES)


def _markdown(template: str, **values: object) -> str:
    return _engine_templates().get_template(template).render(values)


@cache
def _engine_templates() -> Environment:
    environment = text_templates(DATA / "pages" / "engine")
    environment.filters |= {"count": count, "naira": naira, "some": some, "escaped": _escaped}
    return environment


def _escaped(text: str) -> str:
    """Return text with Markdown's special characters escaped."""
    return re.sub(r"([\\`*_{}\[\]()#+|<>~])", r"\\\1", text)
