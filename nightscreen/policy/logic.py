"""How rules fit together: those that never apply, always apply, repeat others, approve blindly."""

from __future__ import annotations

import operator
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from nightscreen.policy.sql import children, shape, text
from nightscreen.schemas.enriched import RING_COLUMNS
from nightscreen.schemas.policy import Effect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from nightscreen.policy.conditions import CheckedCondition
    from nightscreen.policy.sql import Node
    from nightscreen.schemas.policy import PolicyRule

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "COMPARE_EQUAL": operator.eq,
    "COMPARE_NOTEQUAL": operator.ne,
    "COMPARE_LESSTHAN": operator.lt,
    "COMPARE_LESSTHANOREQUALTO": operator.le,
    "COMPARE_GREATERTHAN": operator.gt,
    "COMPARE_GREATERTHANOREQUALTO": operator.ge,
}
_NEVER_OF_ITSELF = frozenset({"COMPARE_NOTEQUAL", "COMPARE_LESSTHAN", "COMPARE_GREATERTHAN"})
_STRENGTH = {Effect.DECLINE: 3, Effect.REVIEW: 2, Effect.APPROVE: 1, Effect.NOTE: 0}


def rule_problems(
    rules: Mapping[int, PolicyRule], conditions: Mapping[int, CheckedCondition]
) -> Iterator[tuple[int, str]]:
    """Yield number and message of each rule that cannot do what a rule is for."""
    sound = [number for number in sorted(rules) if not conditions[number].findings]
    seen: set[tuple[str, Effect]] = set()
    for number in sorted(rules):
        rule = rules[number]
        if (rule.code, rule.effect) in seen:
            yield number, f"the code {rule.code} is repeated for the effect {rule.effect.value}"
        seen.add((rule.code, rule.effect))
    for number in sound:
        yield from _alone(number, rules[number], conditions[number])
    parts = {number: _parts(conditions[number].tree) for number in sound}
    for index, number in enumerate(sound):
        for other in sound[:index]:
            if message := _covered(rules, parts, number, other):
                yield number, message
                break


def _alone(number: int, rule: PolicyRule, condition: CheckedCondition) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with a rule whatever the others are."""
    truth = constant_truth(condition.tree)
    if truth is not None:
        always = "always applies" if truth else "never applies"
        yield number, f"unreachable or pointless: its condition {always}"
    elif not condition.columns:
        yield number, "its condition names no column"
    tied = any(name in RING_COLUMNS for name in condition.columns)
    if tied and rule.effect not in (Effect.REVIEW, Effect.NOTE):
        yield number, "rests on a ring: being tied to others is never more than a reason to review"
    if rule.effect is Effect.APPROVE and not condition.checks():
        yield number, "approves without evidence: name a check's column, such as karma_status"


def _covered(
    rules: Mapping[int, PolicyRule],
    parts: Mapping[int, frozenset[str]],
    number: int,
    other: int,
) -> str | None:
    """Return why a rule adds nothing to an earlier one, or None."""
    weaker = _STRENGTH[rules[other].effect] < _STRENGTH[rules[number].effect]
    both_decide = rules[number].effect is not Effect.NOTE or rules[other].effect is Effect.NOTE
    part, other_part = parts[number], parts[other]
    same_code = rules[number].code == rules[other].code
    if weaker or not (part == other_part or (same_code and other_part <= part)):
        return None
    if not (both_decide or same_code):
        return None
    return (
        f"unreachable: wherever it applies, the earlier rule {rules[other].code} "
        f"({rules[other].effect.value}) applies already"
    )


def _parts(tree: Node) -> frozenset[str]:
    """Return the shapes of what must hold together for a condition to hold."""
    if tree.get("type") == "CONJUNCTION_AND":
        return frozenset().union(*(_parts(child) for child in children(tree)))
    return frozenset({shape(tree)})


def constant_truth(tree: Node) -> bool | None:
    """Return the truth of a condition that is the same for every row.

    None if it depends on the row.
    """
    parts = list(children(tree))
    if tree.get("class") == "CONJUNCTION":
        return _joined(tree, parts)
    if tree.get("type") == "OPERATOR_NOT":
        truth = constant_truth(parts[0])
        return None if truth is None else not truth
    if tree.get("class") == "COMPARISON":
        return _compared(tree, parts)
    return _constant(tree) if tree.get("class") == "CONSTANT" else None


def _joined(tree: Node, parts: list[Node]) -> bool | None:
    """Return the truth of parts joined by AND or OR."""
    truths = [constant_truth(part) for part in parts]
    decisive: bool = tree["type"] == "CONJUNCTION_OR"
    if decisive in truths or (not decisive and _contradict(parts)):
        return decisive
    return None if None in truths else not decisive


def _constant(tree: Node) -> bool | None:
    literal = tree["literal"]
    return str(literal["text"]).lower() == "true" if literal["kind"] == "BOOLEAN" else None


def _compared(tree: Node, parts: list[Node]) -> bool | None:
    """Return the truth of a comparison of two constants, or of a column with itself."""
    values = [_value(part) for part in parts]
    if None not in values and type(values[0]) is type(values[1]):
        compare = _COMPARISONS.get(tree["type"])
        return None if compare is None else bool(compare(values[0], values[1]))
    same = shape(parts[0]) == shape(parts[1])
    return False if same and tree["type"] in _NEVER_OF_ITSELF else None


def _value(part: Node) -> Decimal | str | None:
    """Return a constant's number or text."""
    written = text(part)
    literal = part.get("literal") or {}
    if written is not None or literal.get("kind") not in {"INTEGER", "DECIMAL"}:
        return written
    try:
        return Decimal(str(literal["text"]))
    except InvalidOperation:
        return None


def _contradict(parts: list[Node]) -> bool:
    """Return whether one column is to equal two different texts at once."""
    wanted: dict[str, set[str]] = {}
    for part in parts:
        if part.get("type") != "COMPARE_EQUAL":
            continue
        sides = list(children(part))
        named = [side for side in sides if side.get("class") == "COLUMN_REF"]
        written = [text(side) for side in sides]
        if len(named) == 1 and any(written):
            word = next(words_of_column for words_of_column in written if words_of_column)
            wanted.setdefault(shape(named[0]), set()).add(word)
    return any(len(words_of_column) > 1 for words_of_column in wanted.values())
