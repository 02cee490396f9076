"""Sentences for the lender's team about a row: why it was so decided, and what to do next.

Sentences for customers are in `results/notices.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import NoAnswer
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nightscreen.schemas.policy import Policy

NAMES = ("first_name", "middle_name", "last_name")
_BY_DECISION = {
    Decision.DECLINE.value: "Lend no more until it is cleared.",
    Decision.REVIEW.value: "Look at the evidence, then decide.",
    Decision.UNDECIDED.value: "Decide by hand: no rule applies.",
    Decision.APPROVE.value: "Nothing is left to do.",
}
"""What to do next if the rule does not say."""
_MISSING = frozenset(each.value for each in NoAnswer) - {NoAnswer.OFF.value}
_REACHABLE = frozenset({NoAnswer.PENDING, NoAnswer.FAILED, NoAnswer.IN_DOUBT})


class RuleWords(NamedTuple):
    """A rule's sentences for the team: why, and what to do next if it says so."""

    why: str
    action: str | None = None


Words = Mapping[str, Mapping[str, RuleWords]]
"""Rules' sentences for the team, by reason code and effect."""


def customer_name(row: Mapping[str, Any]) -> str | None:
    """Return the customer's name in the lender's file."""
    if row.get("full_name"):
        return str(row["full_name"])
    parts = [row[name] for name in NAMES if row.get(name)]
    return " ".join(parts) or None


def missing_checks(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the requested checks that have no answer, with their status.

    A row from before a check was installed has no columns of it.
    """
    statuses = ((check, row.get(f"{check}_status")) for check in CHECKS)
    return {check: status for check, status in statuses if status in _MISSING}


def said_of(row: Mapping[str, Any], reasons: Words) -> dict[str, Any]:
    """Return a row's main reason, other reasons, action, and checks without an answer."""
    first, others = main_reason(row["decision"], row["reasons"] or (), reasons)
    missing = missing_checks(row)
    return {
        "reason_code": first,
        "reason_text": reason_text(row["decision"], first, reasons, missing),
        "other_reasons": "; ".join(others),
        "action": action(row["decision"], first, reasons, missing),
        "missing_checks": "; ".join(f"{check}: {word}" for check, word in missing.items()),
    }


def team_sentences(policy: Policy, purpose: str | None = None) -> Words:
    """Return a policy's sentences for the team in a run of this purpose."""
    sentences: dict[str, dict[str, RuleWords]] = {}
    for rule in policy.rules:
        action = None if rule.action is None else policy.sentence(rule.action, purpose)
        words = RuleWords(policy.sentence(rule.team, purpose), action)
        sentences.setdefault(rule.code, {}).setdefault(rule.effect.value, words)
    return sentences


def main_reason(
    decision: str, codes: Sequence[str], reasons: Words
) -> tuple[str | None, list[str]]:
    """Return the reason that made the decision, and the others.

    It is the first whose rule has the decision's effect, else the first of all. An undecided row
    has no main reason: it lacks evidence, and its notes do not explain that.
    """
    if decision == Decision.UNDECIDED.value:
        return None, list(codes)
    first = next((code for code in codes if decision in reasons.get(code, {})), None)
    if first is None:
        first = codes[0] if codes else None
    return first, [code for code in codes if code != first]


def reason_text(
    decision: str,
    code: str | None,
    reasons: Words,
    missing: Mapping[str, str],
) -> str:
    """Return the team's sentence for a row's main reason."""
    if code is not None:
        words = words_for(decision, code, reasons)
        return code.replace("_", " ").capitalize() if words is None else words.why
    if not missing:
        return "No rule of the policy applies."
    listed = ", ".join(f"{check.replace('_', ' ')} ({status})" for check, status in missing.items())
    return f"Evidence is missing: {listed}."


def words_for(decision: str, code: str, reasons: Words) -> RuleWords | None:
    """Return the sentences of a code's rule with the decision's effect, else of its first rule."""
    by_effect = reasons.get(code, {})
    return by_effect.get(decision, next(iter(by_effect.values()), None))


def _action_on_missing(statuses: set[str]) -> str:
    """Return what to do about checks without an answer, given their statuses."""
    if statuses == {NoAnswer.IN_DOUBT.value}:
        return "Ask the service about the calls in doubt; a resend may be charged again."
    if statuses & _REACHABLE:
        return "Resume the run: some answers are still to come."
    if NoAnswer.UNREADABLE.value in statuses:
        return (
            "Wait: the answer was paid for and is kept; it is read once the table of manners is "
            "corrected, or asked again later."
        )
    if statuses == {NoAnswer.REFUSED.value}:
        return "Ask for consent, then screen again."
    return "Complete or correct the identifiers, then screen again."


def action(decision: str, code: str | None, reasons: Words, missing: Mapping[str, str]) -> str:
    """Return the team's next action for a row."""
    if decision == Decision.UNDECIDED.value and missing:
        return _action_on_missing(set(missing.values()))
    words = None if code is None else words_for(decision, code, reasons)
    return (words and words.action) or _BY_DECISION[decision]
