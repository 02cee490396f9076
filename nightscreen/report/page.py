"""The report as a page for people: one file, no scripts, no network, no identifiers.

Everything on it comes from the report's dictionary, which `data/pages/report.html.j2` lays out;
here is what a template cannot say well. Nothing is counted.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from nightscreen.checks.declaration import Tone
from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.files.templates import html_templates
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
from nightscreen.report.verdict import api_run_verdict, attention, verdict, without_history
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jinja2 import Environment

TEMPLATES = DATA / "pages"
_FLOWS = {
    "pull_transactions": "Transactions of customers who consented",
    "pull_accounts": "Accounts and balances of customers who consented",
    "request_bvns": "BVN consent: passwords asked for",
    "confirm_bvns": "BVN consent: passwords confirmed",
    "offer_loans": "Loan offers",
    "track_loans": "Loans followed",
}
_PARTS = {
    "customers": "Customers",
    "states": "Where each customer stands",
    "offers": "Offers",
    "followed": "Loans asked about",
    "statuses": "In the service's own words",
    "changes": "What is new",
    "transactions": "Transactions written",
    "accounts": "Accounts written",
    "profiles": "Profiles written",
}
"""Parts of a report that count what became of whom, in the order in which they are shown."""
_AGES = {1: "Under a day", 7: "1 to 7 days", 30: "8 to 30 days", 90: "31 to 90 days"}
_CHANGES = {
    "customers": "Customers with any change",
    "new_listing": "Newly listed",
    "worse": "Worse",
    "changed": "Changed otherwise",
    "cleared": "No longer listed",
    "better": "Better",
    "new": "New in the batch",
    "gone": "No longer in the batch",
}
_ACTIONS = {"invalid": "not used", "repaired": "repaired", "warned": "kept, with a warning"}
_DISPUTE = {
    "open": "nothing contradicts it yet: it counts in full",
    "disproved": "the balance contradicts it",
    "confirmed": "the balance confirms it",
    "unknown": "the service did not say",
    "settled": "as the invoice says",
}
_TONES = {Tone.GOOD: "good", Tone.BAD: "bad", Tone.DOUBTFUL: "warn"}
_MANY_NIGHTS, _FEW_NIGHTS = 1000, 7
_NO_CODE = "no rule: evidence is missing"


def report_page(report: Mapping[str, Any]) -> str:
    """Return the page of a screening run as HTML; the same bytes for the same report."""
    by_naira = Decimal(report["exposure"]["total"]) > 0

    def size(weight: Mapping[str, Any]) -> float:
        return float(weight["exposure"] if by_naira else weight["rows"])

    each = {word: decided(report, word) for word in words.DECISIONS}
    coverage, rows = report["coverage"], report["rows"]
    return _page(
        "report.html.j2",
        report,
        title=report["batch"],
        subtitle=_subtitle(report),
        verdict=verdict(report),
        attention=attention(report),
        titles=decision_titles(report),
        decided=each,
        by_naira=by_naira,
        size=size,
        whole=size({"exposure": report["exposure"]["total"], "rows": rows["screened"]}),
        largest=max(map(size, each.values())),
        most_money=_most_money(report),
        approved=each["approve"],
        without=without_history(report, "approve"),
        waiting=coverage["due_rows"] - coverage["answered_rows"],
        oldest=_oldest(report),
        wallet=_wallet(report),
        limits=limits(report),
        trends=list(_trends(report)),
        ages=[(_age_title(age), age) for age in report["freshness"]["ages"]],
        policy=list(_policy(report)),
        causes=words.CAUSES,
        bases=words.BASES,
        changes=_CHANGES,
        actions=_ACTIONS,
        dispute=_DISPUTE,
        facts=list(_facts(report)),
    )


def api_run_page(report: Mapping[str, Any]) -> str:
    """Return the page of a run of another flow as HTML."""
    parts = {
        title: {
            word: number
            for word, number in report[name].items()
            if isinstance(number, int) and not isinstance(number, bool)
        }
        for name, title in _PARTS.items()
        if isinstance(report.get(name), dict)
    }
    return _page(
        "api_run.html.j2",
        report,
        title=_FLOWS.get(report["flow"], sentence(report["flow"])),
        subtitle=(f"Run {report['run_id']}", words.from_to(report), _CLOCK),
        verdict=api_run_verdict(report),
        attention=[*report["notices"]],
        parts={title: counts for title, counts in parts.items() if counts},
        facts=list(_facts(report)),
    )


_CLOCK = f"All times are {words.ZONE}"


def _page(template: str, report: Mapping[str, Any], **values: Any) -> str:  # noqa: ANN401 - a template takes anything
    latencies = [part["latency_ms"]["p99"] or 0 for part in report["checks"].values()]
    return (
        templates()
        .get_template(template)
        .render(
            report=report,
            slowest=max(latencies, default=0),
            curve=_curve(report),
            files=_files(report),
            **values,
        )
    )


@cache
def templates() -> Environment:
    """Return what renders the pages that a run or a command writes."""
    found = html_templates(TEMPLATES)
    found.filters |= {
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
        "share": words.share,
        "part_of": lambda part, whole: f"{count(part)} ({words.share(part, whole)})",
        "percent": words.percent,
        "took": words.milliseconds,
        "moment": moment,
        "month_name": month_name,
        "open_lookups": lambda part: sum(
            part[end] for end in ("unreadable", "failed", "in_doubt", "pending")
        ),
        "by_size": _by_size,
        "loan_cells": loan_cells,
        "loan_share": lambda part: "not known yet" if part is None else f"{100 * part:.1f} %",
    }
    return found


def _subtitle(report: Mapping[str, Any]) -> list[str]:
    """Return what run it is, when it ran, and by which clock."""
    purpose = words.PURPOSES.get(report["purpose"], plain(report["purpose"]))
    earlier = report["provenance"]["earlier_reports"]
    again = f", resumed {'once' if earlier == 1 else f'{earlier} times'}" if earlier else ""
    return [f"Run {report['run_id']}, {purpose}{again}", words.from_to(report), _CLOCK]


def _oldest(report: Mapping[str, Any]) -> str:
    freshness = report["freshness"]
    if freshness["oldest_evidence_days"] is not None:
        day = moment(freshness["oldest_evidence_at"]).split(",")[0]
        return f"Oldest answer: {days_old(freshness['oldest_evidence_days'])}, of {day}"
    if not freshness["fresh"]["rows"] and not report["coverage"]["answered_rows"]:
        return "There are no answers yet"
    return "Every answer is of this run"


def _wallet(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many nights the wallet lasts, in words, with notes and tone."""
    balance = report["balance"]
    nights, closing, known = balance["nights_left"], balance["closing"], balance["last_known"]
    left = f"Balance {naira_short(closing)}"
    if closing is None:
        if known["balance"] is None:
            return {"nights": "not known", "notes": ["No answer had a balance"], "tone": ""}
        left = f"Balance {naira_short(known['balance'])}, reported in an earlier run"
        nights = known["nights_left"]
    if nights is None:
        return {"nights": "not known", "notes": [left, "Nothing was spent this month"], "tone": ""}
    return {
        "nights": f"over {count(_MANY_NIGHTS)}" if nights > _MANY_NIGHTS else count(nights),
        "notes": [left, "at this month's average night"],
        "tone": "warn" if nights < _FEW_NIGHTS else "",
    }


def limits(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return name, spent, limit and amount in doubt of each limit on money, as decimal naira."""
    cost, spending = report["cost"], report["spending"]
    doubt = cost["in_doubt_exposure"]
    found = [("Highest quote of the run", cost["total"], cost["quoted"]["high"], doubt)]
    found.append(("Cap of the run", cost["total"], cost["cap"], doubt))
    for name in ("day", "month"):
        limit = spending[name]
        found.append((f"Cap of the {name}", limit["spent"], limit["cap"], limit["reserved"]))
    return [
        {"name": name, "spent": spent, "limit": limit, "doubt": lost}
        for name, spent, limit, lost in found
        if limit is not None and Decimal(limit) > 0
    ]


def _most_money(report: Mapping[str, Any]) -> float:
    """Return the most that a check spent, lost and saved together, for a full bar."""
    names = ("cost", "in_doubt_exposure", "saved_by_reuse", "saved_by_sharing")
    sums = [sum(float(part[name]) for name in names) for part in report["checks"].values()]
    return max(sums, default=0)


def _trends(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, last value and line of each figure over the nights; a drawing 100 by 20."""
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


def _curve(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the balance over a run as a stepped line in a drawing 100 by 100, and its ends."""
    line = report.get("timeline") or {"balance": []}
    known = [index for index, amount in enumerate(line["balance"]) if amount is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    amounts = [Decimal(line["balance"][index]) for index in known]
    low, high = min(amounts), max(amounts)
    begun, ended = (line["active_s"][known[place]] for place in (0, -1))

    def across(index: int) -> float:
        return float(round(100 * (line["active_s"][index] - begun) / ((ended - begun) or 1), 2))

    downs = [round(float(100 * (high - each) / ((high - low) or 1)), 2) for each in amounts]
    points = [f"0,{downs[0]}"]
    for index, down, before in zip(known[1:], downs[1:], downs, strict=False):
        points += [f"{across(index)},{before}", f"{across(index)},{down}"]
    paused = [index for index in known[1:] if line["pause_before_s"][index]]
    moments = [moment(line["at"][index], seconds=True) for index in (known[0], known[-1])]
    text = (
        f"From {naira(str(amounts[0]))} on {moments[0]} to {naira(str(amounts[-1]))} on "
        f"{moments[1]}; the lowest was {naira(str(low))}."
    )
    if paused:
        lengths = ", ".join(words.lasting(line["pause_before_s"][index]) for index in paused)
        text += f" Pauses are cut out, at the dashed lines: {lengths}."
    return {
        "points": " ".join(points),
        "pauses": [across(index) for index in paused],
        "high": naira_short(str(high)),
        "low": naira_short(str(low)),
        "begins": moments[0],
        "ends": moments[1],
        "text": text,
    }


def _age_title(age: Mapping[str, Any]) -> str:
    return _AGES.get(age["days"], "Over 90 days") if age["evidence"] else "No answer at all"


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


def _policy(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield who approved the policy, what another would do, who gets a notice, who disputes."""
    known = report["provenance"]
    approval = known["policy_approval"]
    if approval is None:
        yield f"Nobody has approved the policy {known['policy']}."
    else:
        yield (
            f"The policy {known['policy']} was written by {approval['written_by']} and approved "
            f"by {approval['approved_by']} on {moment(approval['approved_at'])}; it is in force "
            f"from {moment(approval['in_force_from'])}."
        )
    shadow = report["shadow"]
    if shadow is not None:
        yield (
            f"Under {shadow['policy']}, the shadow policy, {count(shadow['moved']['rows'])} "
            f"customers would be decided otherwise: {_moved(shadow['moved'])}. They are listed in "
            "shadow.csv."
        )
    notices, contests = report["customer_notices"] or {}, report["contests"]
    parts = (
        ("to_send", "get a notice of a decision (notices.csv)"),
        ("waiting_for_a_person", "have a proposal to decline that no person has confirmed"),
        ("on_hold", "get none, since a rule says hold"),
        ("paused_by_contest", "get none while they contest"),
        ("told_before", "had one already"),
    )
    found = [f"{count(notices[name])} {text}" for name, text in parts if notices.get(name)]
    if found:
        yield f"Of the customers, {'; '.join(found)}."
    if any(contests.values()):
        yield (
            f"Contests in this batch: {count(contests['open'])} open, "
            f"{count(contests['overdue'])} of them overdue; {count(contests['answered'])} "
            f"answered, {count(contests['changed'])} of them by a changed decision."
        )


def loan_cells(rates: Mapping[str, Any]) -> tuple[str, ...]:
    """Return loans, good, bad, too young, bad rate and loss of some loans."""
    unknown = f" and {count(rates['lost_unknown'])} unknown" if rates["lost_unknown"] else ""
    counts = (count(rates[name]) for name in ("loans", "good", "bad", "young"))
    return (*counts, bad_rate(rates), naira(rates["lost"]) + unknown)


def bad_rate(rates: Mapping[str, Any]) -> str:
    """Return a bad rate with its interval, in hundredths."""
    found = rates["bad_rate"]
    if found is None:
        return "not known yet"
    value, low, high = (f"{100 * found[name]:.1f}" for name in ("value", "low", "high"))
    return f"{value} % ({low} to {high})"


def _facts(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the report is based on."""
    yield "Run", report["run_id"]
    yield "Batch", report["batch"]
    yield "State", plain(report["state"])
    yield "Begun", moment(report["started_at"], seconds=True)
    yield "Ended", moment(report["finished_at"], seconds=True)
    yield "Checks", ", ".join(words.TITLES[name] for name in report["checks"])
    known = report.get("provenance")
    if known is not None:
        yield "Karma asked by", ", ".join(known["karma_identities"])
        yield "Age of answers judged at", moment(known["evidence_judged_at"], seconds=True)
        yield "Deadline", moment(known["deadline_at"]) if known["deadline_at"] else "none"
        yield "Policy", known["policy"]
        yield "Input", known["input_digest"]
        yield "Versions", ", ".join(f"{name} {each}" for name, each in known["versions"].items())


def _files(report: Mapping[str, Any]) -> dict[str, int | None]:
    """Return files with rows, the parts of the enriched table as one."""
    found: dict[str, int | None] = {}
    for name, rows in report["files"].items():
        shown = f"{name.split('/')[0]}/part-*.parquet" if "/part-" in name else name
        found[shown] = rows if shown == name else (found.get(shown) or 0) + (rows or 0)
    return found
