"""The texts beside a file of the inbox: the quote, the result, what is wrong. Numbers and ids only.

They are for the person who dropped the file: plain words, and what to do next in the last lines.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from nightscreen.report.format import DECISIONS, count, lasting, moment, naira, some
from nightscreen.report.verdict import attention, lists_of, next_steps, verdict
from nightscreen.schemas.clock import instant_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nightscreen.files.inbox import Ticket
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.decisions import ReviewFinding

_WIDTH = 96
_HOUR_S = 3600
_RENAMED = (
    "The file's name looked like somebody's number or address, so it goes by another name now. "
    "Name files after what they are, such as portfolio-20260301.xlsx: names are seen by many."
)


def _page(title: str, *paragraphs: str) -> str:
    """Return a text of paragraphs; one that is indented keeps its lines."""
    shown = [
        text if text.startswith("  ") else textwrap.fill(text, _WIDTH, break_long_words=False)
        for text in paragraphs
        if text
    ]
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *shown]) + "\n"


def _about_name(ticket: Ticket) -> str:
    return _RENAMED if ticket.renamed else ""


def quote_text(quote: Mapping[str, Any], ticket: Ticket, resumed: str | None) -> str:
    """Return what a file will cost, written before anything is asked."""
    rows, quoted = quote["rows"], quote["quoted"]
    seconds = quote["hours"] * _HOUR_S
    lines = [
        f"  customers   {count(rows['screened'])}, and {some(rows['quarantined'], 'row')} refused",
        f"  calls       {count(quote['calls'])}",
        f"  expected    {naira(quoted['expected'])}",
        f"  range       {naira(quoted['low'])} to {naira(quoted['high'])}",
        f"  time        about {lasting(seconds)}",
        f"  saved       {naira(quote['saved_by_reuse'])}, by answers that are still fresh",
    ]
    short = ""
    if quote["affordable"] is not None and quote["affordable"] < quote["calls"]:
        short = (
            f"The money reaches for {count(quote['affordable'])} of the {count(quote['calls'])} "
            "calls, should every one be charged; those that matter most go first."
        )
    again = f"Run {resumed} is resumed; nothing answered is paid for twice." if resumed else ""
    return _page(
        "What it will cost",
        "\n".join(lines),
        short,
        again,
        "Where a person must approve the spending, the file waits under waiting/ until they have.",
        _about_name(ticket),
    )


def result_text(report: Mapping[str, Any], ticket: Ticket, folder: Path) -> str:
    """Return what came of a file."""
    ending = verdict(report)
    decisions = [
        f"  {title.lower():<12}{count(report['decisions'].get(word, 0))}"
        for word, title in DECISIONS.items()
    ]
    spent = (
        f"It cost {naira(report['cost']['total'])}; "
        f"{naira(report['cost']['quoted']['expected'])} were expected."
    )
    files = [f"  {name:<18}{what}" for name, what in lists_of(report)]
    return _page(
        "The result",
        ending.line,
        *ending.more,
        "\n".join(decisions) if report["state"] != "test_mode" else "",
        spent,
        *(f"To read: {sentence}" for sentence in attention(report)),
        "\n".join([f"  In {folder}:", *files]),
        *next_steps(report),
        _about_name(ticket),
    )


def waiting_text(report: Mapping[str, Any], ticket: Ticket) -> str:
    """Return that a run waits for a person to approve its spending, and what that person does."""
    run_id = report["run_id"]
    quoted = report["cost"]["quoted"]
    return _page(
        "Waits for approval",
        f"Run {run_id} is expected to cost {naira(quoted['expected'])}, at most "
        f"{naira(quoted['high'])}, and a person must approve that. No call was made and nothing "
        "was charged; other files go on meanwhile.",
        "An approver types one of these, or decides on the page Approvals of the desk:",
        f"  nightscreen approve {run_id}\n  nightscreen approve {run_id} --refuse --note 'why'",
        "The file is screened within a minute of the approval, where the inbox is watched.",
        _about_name(ticket),
    )


def repeated_text(earlier: RunRecord, ticket: Ticket) -> str:
    """Return that a file was screened before, or waits already, and where its result is."""
    when = moment(instant_text(earlier.started_at))
    if earlier.stop_reason == "approval":
        return _page(
            "Waits for approval already",
            f"This file waits for approval already, as run {earlier.run_id} of {when}. No call "
            "was made and nothing was charged.",
            f"  nightscreen approve {earlier.run_id}",
            _about_name(ticket),
        )
    return _page(
        "Already screened",
        f"This file was screened already, as run {earlier.run_id} on {when}. No call was made and "
        "nothing was charged.",
        f"  {earlier.folder}",
        "To screen the same customers again on another night, drop the file under another name, "
        "with the date in it; answers that are still fresh cost nothing then either.",
        _about_name(ticket),
    )


def refused_text(report: Mapping[str, Any], ticket: Ticket, folder: Path) -> str:
    """Return that a person refused a run's spending."""
    run_id = report["run_id"]
    quoted = naira(report["cost"]["quoted"]["expected"])
    if report["stop_reason"] == "approval":
        why = f"The spending of run {run_id} ({quoted} expected) was refused. Nothing was asked."
        then = f"To let it go on all the same, an approver types: nightscreen approve {run_id}"
    else:
        why = f"Run {run_id} was cancelled. The answers received by then are stored."
        then = (
            "Drop the file into the inbox again to go on: the same run is resumed, and nothing "
            "that was answered is paid for twice."
        )
    return _page(
        "Not screened",
        why,
        then,
        f"  The run's files: {folder}",
        _about_name(ticket),
    )


def wrong_file(problem: str, ticket: Ticket) -> str:
    """Return what is wrong with a file that cannot be screened."""
    return _page(
        "This file cannot be screened",
        problem if problem.endswith((".", "?")) else f"{problem}.",
        "No call was made and nothing was charged. Correct the file, then drop it into the inbox "
        "again.",
        _about_name(ticket),
    )


_MOST_MISTAKES = 50


def imported_text(taken: int, waiting: int, known: int, ticket: Ticket) -> str:
    """Return what became of a decision list that came back."""
    waits = (
        f" {some(waiting, 'override')} above what one person may decide: a second person confirms "
        "at the desk, under Decisions."
    )
    return _page(
        "The reviews are imported",
        f"{some(taken, 'review')} of this list imported; {count(known)} known already."
        f"{waits if waiting else ''} No call was made and nothing was charged.",
        _about_name(ticket),
    )


def mistaken_reviews(mistakes: Sequence[ReviewFinding]) -> str:
    """Return what is wrong with a returned decision list, without any value of a row."""
    lines = []
    for mistake in mistakes[:_MOST_MISTAKES]:
        place = f"{mistake.sheet}, row" if mistake.sheet else "line"
        lines.append(f"  {place} {mistake.line}: {mistake.column}: {mistake.hint}")
    more = len(mistakes) - _MOST_MISTAKES
    if more > 0:
        lines.append(f"  and {more:,} more")
    return _page(
        "No review of this list was imported",
        "\n".join(lines)
        or "Nobody wrote a decision into it: fill in reviewer_decision and "
        "reviewer of the customers you looked at.",
        "Correct these rows in the list and drop it into the inbox again; nothing of it was taken.",
    )


def gave_up(attempts: int) -> str:
    """Return that a file was begun on again and again."""
    return _page(
        "This file could not be screened",
        f"It was begun {attempts} times and broke off each time. The answers are stored, and none "
        "of them is paid for twice.",
        "Show this to the person who looks after nightscreen: the command `nightscreen doctor` "
        "says what is wrong. Then drop the file into the inbox again.",
    )
