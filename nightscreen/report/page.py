"""The report in words, as a page, and as short Markdown for who started the run (used by `tasks`).

Sentences say how a run ended, what needs attention and what to do next; notifications have them
too. The page is one file without scripts, network access or identifiers. All are made from the
report's dictionary: templates in `data/pages` show it, this module has what a template cannot
express well. It counts nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Tone
from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.files.templates import html_templates, text_templates
from nightscreen.report import format as words
from nightscreen.report.facts import WITH_HISTORY
from nightscreen.report.format import (
    NEXT,
    TITLES,
    added,
    count,
    days_old,
    decided,
    moment,
    month_name,
    naira,
    naira_short,
    plain,
    sentence,
    some,
    weight_and_customers,
)
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.shipped import DATA
from nightscreen.schemas.stops import WHY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jinja2 import Environment

TEMPLATES = DATA / "pages"
SCREENING_PAGE = "report.html.j2"
_TONES = {Tone.GOOD: "good", Tone.BAD: "bad", Tone.DOUBTFUL: "warn"}
_NO_CODE = "no rule: evidence is missing"
_IDENTITIES = {"bvn": "BVN", "nuban": "account number"}
_SAMPLES = "Test mode: every answer was a sample; nothing is known of any customer."
_MARKS = {"good": "✓", "warn": "!", "bad": "✕"}
_FILES = {
    "decisions.xlsx": "the list to work on: who to decline or review, and why",
    "report.html": "the report with its charts, for a browser",
    "quarantine.csv": "rows that were refused, to be corrected",
    "problems.csv": "every finding in the file, line by line",
    "shadow.csv": "whom the shadow policy would decide differently",
}


# --- in words ---


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """How the run ended: a line, explanations, and its tone."""

    line: str
    more: Sequence[str]
    tone: str  # `good`, `warn` or `bad`
    loud: bool = False  # shown so that nobody overlooks it

    @property
    def mark(self) -> str:
        """Return the sign beside the line."""
        return _MARKS[self.tone]


def verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how a screening run ended and whether its answers can be used."""
    end = f"publishable: {_publishable(report)}."
    if report["state"] == "test_mode":
        more = [
            "The service answered with samples, the same for everybody. Nothing here may be used.",
            "Switch the service to live in its console, then run again.",
        ]
        return RunVerdict(f"Test mode: not one row was screened; {end}", more, "bad", loud=True)
    outcome = _outcome(report)
    more = [_stop(report)] if report["state"] != "completed" else []
    unreadable = _unreadable_consents(report)
    if unreadable:
        more.append(
            f"{some(unreadable, 'consent date')} could not be read (consent_unreadable in "
            "problems.csv): those customers have consent on record, but nothing that needs it was "
            "asked or shown. Correct them, or choose their order at the desk or a terminal."
        )
    blind = without_history(report, "approve")
    if blind["rows"]:
        more.append(f"Approved without credit history: {weight_and_customers(blind)}.")
    policy = report["provenance"]
    approved = policy["policy_approval"] is not None
    if not approved:
        more.append(f"Nobody has approved the policy {policy['policy']}.")
    in_order = approved and not unreadable and not _money_missing(report["balance"])
    perfect = outcome == "Complete" and report["publishable"] and in_order
    tone = "good" if perfect else "bad" if outcome == "Nothing answered" else "warn"
    return RunVerdict(f"{outcome}: {_answered(report)}; {end}", more, tone)


def _money_missing(balance: Mapping[str, Any]) -> bool:
    """Return whether money left the wallet that no call explains, in this run or before it."""
    between = balance.get("between_runs") or {"missing": "0"}
    return Decimal(balance["drift"]) > 0 or Decimal(between["missing"]) > 0


def _unreadable_consents(report: Mapping[str, Any]) -> int:
    """Return how many consent dates could not be read, if a check of the run needs consent."""
    if not any(each.needs_consent and check in report["checks"] for check, each in CHECKS.items()):
        return 0
    values = report["findings"]["values"]
    return sum(each["count"] for each in values if each["code"] == CONSENT_UNREADABLE)


def _publishable(report: Mapping[str, Any]) -> str:
    if report.get("released"):
        return "yes, released after it was held back"
    if report.get("held"):
        return "no, held back"
    return "yes" if report["publishable"] else "no"


def _outcome(report: Mapping[str, Any]) -> str:
    due, answered = report["coverage"]["due_rows"], report["coverage"]["answered_rows"]
    if not report["rows"]["screened"]:
        return "Nothing screened"
    if report["state"] == "completed":
        if not due:
            return "Nothing due"
        return "Complete" if answered == due else "Complete, with gaps"
    return "Partial" if answered or not due else "Nothing answered"


def _answered(report: Mapping[str, Any]) -> str:
    rows = report["rows"]
    due, answered = report["coverage"]["due_rows"], report["coverage"]["answered_rows"]
    if not rows["screened"]:
        return (
            f"no row could be screened, {count(rows['quarantined'])} of {count(rows['read'])} "
            "are in quarantine"
        )
    if not due:
        return f"none of {some(rows['screened'], 'row')} has an answer due"
    if answered < due or report["state"] != "completed":
        return f"{count(answered)} of {some(due, 'due row')} answered"
    parts = [f"{some(rows.get('customers', rows['screened']), 'customer')} checked"]
    without = without_history(report)["rows"]
    if without:
        parts.append(f"{count(without)} of them without credit history")
    undecided = report["decisions"].get("undecided", 0)
    if undecided:
        parts.append(f"{count(undecided)} undecided")
    return ", ".join(parts)


def without_history(report: Mapping[str, Any], decision: str = "") -> dict[str, Any]:
    """Return the weight of customers decided without a credit history, and by its cause.

    It is zero if the run did not look up histories at all.
    """
    bases: dict[str, list[Mapping[str, Any]]] = {}
    for word, parts in report["evidence"].items() if "ecosystem" in report["checks"] else ():
        for basis, weight in parts.items():
            if basis != WITH_HISTORY and decision in {"", word}:
                bases.setdefault(basis, []).append(weight)
    each = {basis: added(weights) for basis, weights in bases.items()}
    return {**added(each.values()), "bases": each}


def _stop(report: Mapping[str, Any]) -> str:
    reason = report["stop_reason"] or ""
    why = f"It stopped early: {WHY.get(reason, plain(reason) or 'it was stopped')}."
    return f"{why} {NEXT.get(reason, 'It can be resumed; nothing answered is asked twice.')}"


def attention(report: Mapping[str, Any]) -> list[str]:
    """Return sentences a person should read: why it is held, drift, caps, prices, notices."""
    sentences = [_SAMPLES] if report["state"] == "test_mode" else []
    sentences += [f"Held back: {reason}." for reason in report.get("held") or ()]
    released = report.get("released")
    if released:
        sentences.append(f"Released on {moment(released['at'])}: {released['reason']}")
    drift = Decimal(report["balance"]["drift"])
    if drift:
        since = report["balance"]["drift_since"]
        when = f", first seen on {moment(since)}" if since else ""
        sentences.append(
            f"The balance fell by {naira(str(drift))} more than the calls explain{when}."
            if drift > 0
            else f"{naira(str(-drift))} was added to the wallet during the run{when}."
        )
    between = report["balance"].get("between_runs")
    if between:
        sentences.append(_between(Decimal(between["missing"]), between))
    cost = report["cost"]
    if Decimal(cost["over_cap"] or 0):
        sentences.append(
            f"The cap was passed by {naira(cost['over_cap'])}: prices rose in mid-call."
        )
    elif Decimal(cost["price_rises"]):
        sentences.append(
            f"Prices rose while the run was under way: {naira(cost['price_rises'])} more."
        )
    return [*sentences, *(_capital(notice) for notice in report["notices"])]


def _between(missing: Decimal, between: Mapping[str, Any]) -> str:
    before = between["run_before"]
    if missing < 0:
        return f"{naira(str(-missing))} was added to the wallet between run {before} and this one."
    return (
        f"{naira(str(missing))} left the wallet between run {before} and this one, and no call "
        "explains it. Note the reason at the desk under Money; where others use the wallet too, "
        "set NIGHTSCREEN_WALLET_SHARED=yes."
    )


def _capital(notice: str) -> str:
    text = notice[:1].upper() + notice[1:]
    for name, title in TITLES.items():
        text = text.replace(name, title.lower()) if "_" in name else text
    return text if text.endswith(".") else f"{text}."


def api_run_verdict(report: Mapping[str, Any]) -> RunVerdict:
    """Return how a run of another flow ended."""
    rows = report["rows"]
    done = f"{count(rows['screened'])} of {some(rows['read'], 'row')} read"
    if report["state"] == "test_mode":
        explanation = "The service answered with samples. Nothing here may be used."
        return RunVerdict("Test mode", [explanation], "bad", loud=True)
    if report["state"] == "completed":
        return RunVerdict(f"Complete: {done}.", [], "good" if not rows["quarantined"] else "warn")
    reason = report["stop_reason"]
    why = f"Stopped early: {WHY.get(reason, sentence(reason or 'unknown'))}."
    return RunVerdict(why, [done, NEXT.get(reason, "The run can be resumed.")], "warn")


def lists_of(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the files that people open after a run, with descriptions, without empty ones."""
    rows = {**report["files"], "report.html": 1}
    return [(name, what) for name, what in _FILES.items() if rows.get(name)]


def next_steps(report: Mapping[str, Any]) -> list[str]:
    """Return the next steps, the most important first."""
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


# --- as a page ---


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
        titles=words.DECISIONS,
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


def compile_templates() -> None:
    """Compile the pages of a screening run for later: a third of a small run's time."""
    for name in templates().list_templates(filter_func=lambda name: name.startswith("report")):
        templates().get_template(name)
    for name in _engine_templates().list_templates():
        _engine_templates().get_template(name)


@cache
def templates() -> Environment:
    """Return the template environment of the pages that a run or a command writes."""
    environment = html_templates(TEMPLATES)
    environment.filters |= {
        "words": plain,
        "plain": plain,
        "sentence": sentence,
        "reason": lambda code: sentence(code.casefold()) if code else _NO_CODE,
        "title_of": lambda name: TITLES.get(name, sentence(name)),
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
        "weight_and_customers": weight_and_customers,
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
    for word in ("decline", "review", "undecided"):
        values = [night["decisions"].get(word, 0) for night in nights]
        yield words.DECISIONS[word], count(values[-1]), _line(values)
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
    return _markdown("quote.md.j2", quote=quote, titles=TITLES, identities=_IDENTITIES)


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
