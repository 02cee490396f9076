"""The pages of reasons (of the default policy) and of stops, states and statuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.client.response_rules import FailureReason
from nightscreen.journal.runs import KILLED, RUNNING
from nightscreen.ops.status import ENDS
from nightscreen.policy.load import load_policy
from nightscreen.schemas.bvn import BvnState
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.checks import NoAnswer, Source
from nightscreen.schemas.consented import PullOutcome
from nightscreen.schemas.decisions import ChangeKind
from nightscreen.schemas.offers import OfferState, TrackingState
from nightscreen.schemas.policy import Decision, Policy, PurposeSentence
from nightscreen.schemas.stops import COMPLETED, STOPPED, TEST_MODE, StopReason
from tests.docs.pages import code, meaning, meanings, page, table

RUN_STATES = (RUNNING, COMPLETED, STOPPED, KILLED, TEST_MODE)
GROUPS: dict[str, tuple[str, ...]] = {
    "statuses": tuple(NoAnswer),
    "sources": tuple(Source),
    "decision": tuple(Decision),
    "states": RUN_STATES,
    "stops": tuple(StopReason),
    "call_states": tuple(CallState),
    "troubles": tuple(FailureReason),
    "change_kinds": tuple(ChangeKind),
    "offer_states": tuple(OfferState),
    "loan_states": tuple(TrackingState),
    "bvn_states": tuple(BvnState),
    "pull_outcomes": tuple(PullOutcome),
}
"""Every status, state and reason that an output may contain, by the group of its meanings."""


def answered_words() -> set[str]:
    """Return every status of a check that has an answer."""
    return set(ANSWERED) - set(NoAnswer)


def reasons_page() -> str:
    policy = load_policy()
    intro = [
        f"The rules of the default policy (`data/policy.toml`, `{policy.label}`), in order.",
        "A policy of your own has its own codes: `nightscreen policy check FILE`",
        "prints them. How rules become a decision is described in [Policies](../policy.md).",
        "",
        "Every threshold is a proposal. `nightscreen policy backtest` replays past runs with",
        "other thresholds; it is free.",
        "",
    ]
    rules = table(
        ("code", "effect", "for the team", "for the customer", "what to do", "where"),
        (
            (
                code(rule.code),
                rule.effect.value,
                *(_sentences(policy, words) for words in (rule.team, rule.customer, rule.action)),
                code(" ".join(condition.split())),
            )
            for rule, condition in zip(policy.rules, policy.conditions(), strict=True)
        ),
    )
    return page("Reasons", intro, rules, _missing())


def _sentences(policy: Policy, words: PurposeSentence | None) -> str:
    """Return a rule's sentence, or the sentence of each purpose."""
    if words is None or isinstance(words, str):
        return "" if words is None else policy.sentence(words, None)
    return " ".join(f"*{each.value}*: {policy.sentence(words, each)}" for each in words)


def _missing() -> Iterator[str]:
    yield "## A decision without a reason"
    yield ""
    yield "An `undecided` row may have no code: no rule applied, or evidence is missing. The"
    yield "column `missing_checks` of the list, and `<check>_status` of the row, show which, and"
    yield "[Statuses of a check](stops.md#a-check-without-an-answer) what to do."
    yield ""


def stops_page() -> str:
    """Return the page of stops, states and statuses."""
    return page(
        "Stops and statuses",
        _run(),
        _words("Decisions", "decision", "means", "column `decision`"),
        _checks(),
        _words("Where an answer came from", "sources", "means", "column `<check>_source`"),
        _words("States of a call", "call_states", "means", "column `state` of `calls.parquet`"),
        _words("Why a call has no answer", "troubles", "means", "column `trouble`"),
        _words("Kinds of change", "change_kinds", "means", "column `kind` of `changes.parquet`"),
        _words("States of an offer", "offer_states", "means", "column `state` of `offers.parquet`"),
        _words("States of a loan", "loan_states", "means", "column `state` of `loans.parquet`"),
        _words("States of a BVN request", "bvn_states", "means", "column `state` of `bvn/`"),
        _words(
            "Outcomes of a pull", "pull_outcomes", "means", "`customers` in `report.json` of a pull"
        ),
    )


def _run() -> Iterator[str]:
    yield "`nightscreen doctor RUN_ID` shows a run's state, why it stopped and the exact command to"
    yield "type. `state` and `stop_reason` in `report.json` have the same values. Answers are saved"
    yield "and never paid for again, however a run ended."
    yield ""
    yield from _words(
        "States of a run", "states", "means", "`state` in `report.json` and of `runs list`"
    )
    yield "## Stops"
    yield ""
    yield "Why a run ended early (`stop_reason`). Resume it with `nightscreen screen --run"
    yield "RUN_ID`, or with the command for its kind of run, which `nightscreen doctor` prints."
    yield ""
    yield from table(
        ("stop", "what happened", "what to do"),
        ((code(word), f"{_capital(ENDS[word])}.", meaning("stops", word)) for word in StopReason),
    )


def _checks() -> Iterator[str]:
    yield "## A check with an answer"
    yield ""
    yield "Column `<check>_status` of `enriched`."
    yield ""
    order = {check: place for place, check in enumerate(CHECKS)}
    rows = sorted(meanings()["answers"].items(), key=lambda each: order[each[0].split()[0]])
    yield from table(
        ("check", "status", "means"), ((*map(code, name.split()), says) for name, says in rows)
    )
    yield "## A check without an answer"
    yield ""
    yield "The same column gives the first reason that applies. Other outputs that show it, and"
    yield "what they leave out, are under"
    yield "[Why a row was not asked](../checks.md#why-a-row-was-not-asked)."
    yield ""
    yield from _rows("statuses", "means")


def _words(title: str, group: str, heading: str, where: str) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield f"Found in: {where}."
    yield ""
    yield from _rows(group, heading)


def _rows(group: str, heading: str) -> Iterator[str]:
    rows: Iterable[tuple[str, ...]] = (
        (code(word), *([says] if isinstance(says := meaning(group, word), str) else says))
        for word in GROUPS[group]
    )
    listed = list(rows)
    headings = ("value", heading, "what to do")[: len(listed[0])]
    yield from table(headings, listed)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
