"""The team's words for a row: why it was decided so, as the policy says it, and what to do next.

What customers are sent is in `results/notices.py`.
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
"""What to do next where the rule does not say."""
_MISSING = frozenset(each.value for each in NoAnswer) - {NoAnswer.OFF.value}
_REACHABLE = frozenset({NoAnswer.PENDING, NoAnswer.FAILED, NoAnswer.IN_DOUBT})


class RuleWords(NamedTuple):
    """What a rule says to the team: why, and what to do next where it says so."""

    why: str
    action: str | None = None


Words = Mapping[str, Mapping[str, RuleWords]]
"""What rules say to the team, by reason code and effect."""


def customer_name(row: Mapping[str, Any]) -> str | None:
    """Return the name as the lender's file has it."""
    if row.get("full_name"):
        return str(row["full_name"])
    parts = [row[name] for name in NAMES if row.get(name)]
    return " ".join(parts) or None


def missing_checks(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the checks without an answer and why, those that were not wanted left out."""
    words = ((check, row[f"{check}_status"]) for check in CHECKS)
    return {check: word for check, word in words if word in _MISSING}


def said_of(row: Mapping[str, Any], reasons: Words) -> dict[str, Any]:
    """Return a row's reason and the others, what to do, and the checks without an answer."""
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
    """Return what a policy says to the team in a run of this purpose."""
    found: dict[str, dict[str, RuleWords]] = {}
    for rule in policy.rules:
        action = None if rule.action is None else policy.sentence(rule.action, purpose)
        said = RuleWords(policy.sentence(rule.team, purpose), action)
        found.setdefault(rule.code, {}).setdefault(rule.effect.value, said)
    return found


def main_reason(
    decision: str, codes: Sequence[str], reasons: Words
) -> tuple[str | None, list[str]]:
    """Return the reason that made the decision, and the others.

    It is the first whose rule has the decision's effect; where none is known to, the first. What
    leaves a row undecided is evidence that is missing: its notes are no reason for that.
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
        said = words_for(decision, code, reasons)
        return code.replace("_", " ").capitalize() if said is None else said.why
    if not missing:
        return "No rule of the policy applies."
    told = ", ".join(f"{check.replace('_', ' ')} ({word})" for check, word in missing.items())
    return f"Evidence is missing: {told}."


def words_for(decision: str, code: str, reasons: Words) -> RuleWords | None:
    """Return what the rule of a code says where it has the decision's effect, else its first."""
    said = reasons.get(code, {})
    return said.get(decision, next(iter(said.values()), None))


def _action_on_missing(words: set[str]) -> str:
    """Return what to do about checks without an answer, given why they have none."""
    if words == {NoAnswer.IN_DOUBT.value}:
        return "Ask the service about the calls in doubt; a resend may be charged again."
    if words & _REACHABLE:
        return "Resume the run: some answers are still to come."
    if NoAnswer.UNREADABLE.value in words:
        return (
            "Wait: the answer was paid for and is kept; it is read once the table of manners is "
            "corrected, or asked again later."
        )
    if words == {NoAnswer.REFUSED.value}:
        return "Ask for consent, then screen again."
    return "Complete or correct the identifiers, then screen again."


def action(decision: str, code: str | None, reasons: Words, missing: Mapping[str, str]) -> str:
    """Return what to do next."""
    if decision == Decision.UNDECIDED.value and missing:
        return _action_on_missing(set(missing.values()))
    said = None if code is None else words_for(decision, code, reasons)
    return (said and said.action) or _BY_DECISION[decision]
