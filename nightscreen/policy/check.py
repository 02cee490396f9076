"""Every mistake of a policy, each with its line: the output of `policy check`.

A policy that passes here can be applied to any batch. `policy/sql.py` reads conditions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nightscreen.policy.columns import known_columns, outputs_of_a_decision, suggestion
from nightscreen.policy.conditions import CheckedCondition, check_condition, empty_rows
from nightscreen.policy.engine import locked_engine
from nightscreen.policy.file import PolicyText, parse
from nightscreen.schemas.enriched import RING_COLUMNS
from nightscreen.schemas.policy import (
    CarriedColumn,
    CarriedKind,
    Effect,
    Policy,
    PolicyRule,
    filled,
    thresholds_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOP = tuple(Policy.model_fields)
_RULE = tuple(PolicyRule.model_fields)
CONTACTS = frozenset({"phone", "email"})
"""Columns that a policy may carry onto the list though screening knows them."""
_SENTENCES = {
    "team": "the sentence for the team is missing: say what it means and what to do",
    "customer": "the sentence for the customer is missing: say what the customer may read",
}
_SHAPES = {
    "missing": "is missing",
    "string_pattern_mismatch": "must be short and plain: CAPITALS_AND_DIGITS for a code; letters, "
    "digits, dots and dashes for a name",
    "string_too_short": "is blank",
    "string_type": "must be text in quotes",
    "bool_type": "must be true or false",
    "tuple_type": "must be written as [[rules]], once for each rule",
    "model_type": "must be written as [[rules]] with its entries below",
    "too_short": "there are none: a policy needs at least one [[rules]]",
}
_AMOUNT = re.compile(r"[0-9₦]")
_ACCUSING = re.compile(
    r"(?i)\b(fraud\w*|thie\w*|theft|stole\w*|steal\w*|crim\w*|scam\w*|launder\w*|default\w*|"
    r"blacklist\w*|watchlist\w*|debt\w*|owe[sd]?|owing|arrears|overdue|past due|unpaid)\b"
)
"""English words that accuse; in other languages the author must know."""
_EFFECTS = tuple(effect.value for effect in Effect)


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake in a policy file.

    Attributes:
        line: where, from 1.
        rule: the rule's code, or its number where it has none; empty above the rules.
        message: what is wrong and what to do.
    """

    line: int
    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a policy.

    The policy and its conditions, or mistakes in order of line.
    """

    policy: Policy | None
    mistakes: tuple[Mistake, ...]
    conditions: tuple[CheckedCondition, ...] = ()


@lru_cache(maxsize=8)  # a run reads its policy several times, a worker the same one every night
def check_policy(text: str) -> Checked:
    """Check the text of a policy file; nothing of it touches anything outside."""
    source = parse(text)
    if source.fault is not None:
        line, message = source.fault
        return Checked(None, (Mistake(line, "", message),))
    found = sorted(set(_shape_mistakes(source)))
    found += _threshold_mistakes(source)
    found += _short_mistakes(source)
    rules, carried, sensitive = _sound_rules(source)
    conditions = _checked_conditions(rules, carried, allow_sensitive=sensitive)
    found += _condition_mistakes(source, rules, conditions)
    found += _logic_mistakes(source, rules, conditions)
    if found:
        return Checked(None, tuple(sorted(set(found))))
    policy = Policy.model_validate(source.document)
    return Checked(policy, (), tuple(conditions[number] for number in range(len(policy.rules))))


def check_rules(policy: Policy) -> tuple[CheckedCondition, ...] | str:
    """Return the checked conditions of a policy that did not come from a file, or what is wrong."""
    rules = {
        number: rule.model_copy(update={"when": policy.condition(rule)})
        for number, rule in enumerate(policy.rules)
    }
    carried = policy.carried_kinds
    found = _checked_conditions(rules, carried, allow_sensitive=policy.allow_sensitive)
    for number, rule in rules.items():
        for finding in found[number].findings:
            return f"the rule {rule.code} {finding.message}"
    for number, message in _rule_problems(rules, found):
        return f"the rule {rules[number].code} {message}"
    return tuple(found[number] for number in rules)


def _checked_conditions(
    rules: Mapping[int, PolicyRule], carried: Mapping[str, CarriedKind], *, allow_sensitive: bool
) -> dict[int, CheckedCondition]:
    with locked_engine() as connection:
        connection.register("columns", empty_rows(carried))
        # A separate table: reading the types of an Arrow table anew for each rule takes longer
        # than the rules do.
        connection.execute("CREATE TABLE rows AS SELECT * FROM columns")
        return {
            number: check_condition(
                connection, rule.when, carried=carried, allow_sensitive=allow_sensitive
            )
            for number, rule in rules.items()
        }


def _rule_name(entries: object, number: int) -> str:
    code = entries.get("code") if isinstance(entries, dict) else None
    return code if isinstance(code, str) and code.strip() else f"rule {number + 1}"


def _shape_mistakes(source: PolicyText) -> Iterator[Mistake]:
    """Yield what is missing, misspelt or of the wrong kind, before any condition is read."""
    document = source.document
    for name in document:
        if name not in _TOP:
            line = source.top.line(name)
            yield Mistake(line, "", f"{name} is unknown{suggestion(name, _TOP)}")
    yield from _carried_mistakes(source)
    rules = document.get("rules")
    listed = rules if isinstance(rules, list) else []
    for number, entries in enumerate(listed):
        yield from _rule_mistakes(source, number, entries)
    try:
        Policy.model_validate(document)
    except ValidationError as error:
        for mistake in error.errors():
            counted = mistake["type"] == "too_short" and bool(listed)
            if mistake["type"] != "extra_forbidden" and not counted:
                words = _SHAPES.get(mistake["type"], mistake["msg"])
                yield from _model_mistake(source, mistake["loc"], words)


def _carried(document: Mapping[str, Any]) -> Iterator[tuple[str, CarriedKind]]:
    """Yield the carried columns that can be read, with the type of each."""
    listed = document.get("carried", [])
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, str):
            yield entry, CarriedKind.TEXT
            continue
        try:
            column = CarriedColumn.model_validate(entry)
        except ValidationError:
            continue
        yield column.column, column.type


def _carried_mistakes(source: PolicyText) -> Iterator[Mistake]:
    """Yield carried columns that are the results' own; contacts may be carried onto the list."""
    for name, kind in _carried(source.document):
        plain = kind is CarriedKind.TEXT and name in CONTACTS
        if not plain and (name in known_columns() or name in outputs_of_a_decision()):
            yield Mistake(
                source.top.line("carried"),
                "",
                f"carried: {name} is a column of the results; a carried column of that name is "
                f"renamed input_{name}",
            )


def _threshold_mistakes(source: PolicyText) -> Iterator[Mistake]:
    """Yield thresholds that are named and not defined, or defined and named nowhere."""
    thresholds = source.document.get("thresholds", {})
    defined = set(thresholds) if isinstance(thresholds, dict) else set()
    rules = source.document.get("rules")
    used: set[str] = set()
    for number, entries in enumerate(rules if isinstance(rules, list) else []):
        for entry, text in _texts(entries):
            named = thresholds_named(text)
            used |= named
            for name in sorted(named - defined):
                near = suggestion(name, defined)
                yield Mistake(
                    source.rule(number).line(entry),
                    _rule_name(entries, number),
                    f"{{{name}}} is no threshold{near}; define it under [thresholds]",
                )
    for name in sorted(defined - used):
        line = source.top.line(name)
        yield Mistake(line, "", f"the threshold {name} is named by no rule; remove it")


def _texts(entries: object) -> Iterator[tuple[str, str]]:
    """Yield the texts of a rule that may name thresholds, each with its entry."""
    if not isinstance(entries, dict):
        return
    for entry in ("when", *_SENTENCES, "action"):
        for text in _strings(entries.get(entry)):
            yield entry, text
    for _, customer in _customer_sentences(entries, "customer"):
        for text in _strings(customer):
            yield "languages", text


def _strings(value: object) -> Iterator[str]:
    """Yield a sentence, or those of each purpose."""
    for text in value.values() if isinstance(value, dict) else (value,):
        if isinstance(text, str):
            yield text


def _customer_sentences(entries: Mapping[str, Any], name: str) -> Iterator[tuple[str, object]]:
    """Yield what a rule says under a name in each other language, and where."""
    languages = entries.get("languages")
    for sentences in languages.values() if isinstance(languages, dict) else ():
        if isinstance(sentences, dict) and name in sentences:
            yield "languages", sentences[name]


def _short_mistakes(source: PolicyText) -> Iterator[Mistake]:
    """Yield short sentences that say what nobody but the customer may read."""
    rules = source.document.get("rules")
    for number, entries in enumerate(rules if isinstance(rules, list) else []):
        if not isinstance(entries, dict):
            continue
        shorts = [("short", entries.get("short")), *_customer_sentences(entries, "short")]
        for entry, text in ((entry, text) for entry, value in shorts for text in _strings(value)):
            if _AMOUNT.search(text) or thresholds_named(text):
                wrong = "names a number or threshold: a shared phone shows no amount"
            elif found := _ACCUSING.search(text):
                wrong = f"says {found[0]!r}: it is read on a shared phone, and accuses nobody"
            else:
                continue
            line = source.rule(number).line(entry)
            yield Mistake(line, _rule_name(entries, number), f"the short sentence {wrong}")


def _rule_mistakes(source: PolicyText, number: int, entries: object) -> Iterator[Mistake]:
    """Yield the mistakes of a rule that deserve better words than those of its shape."""
    if not isinstance(entries, dict):
        return
    places, rule = source.rule(number), _rule_name(entries, number)
    for name in entries:
        if name not in _RULE:
            known = suggestion(name, _RULE)
            yield Mistake(places.line(name), rule, f"{name} is unknown{known}")
    effect = entries.get("effect")
    if isinstance(effect, str) and effect not in _EFFECTS:
        choices = ", ".join(_EFFECTS)
        message = f"the effect {effect} is unknown; it is one of {choices}"
        near = suggestion(effect, _EFFECTS)
        yield Mistake(places.line("effect"), rule, message + near)
    for name, message in _SENTENCES.items():
        value = entries.get(name, "")
        if isinstance(value, str) and not value.strip():
            yield Mistake(places.line(name), rule, message)


def _model_mistake(
    source: PolicyText, place: tuple[int | str, ...], message: str
) -> Iterator[Mistake]:
    """Yield a mistake of the policy's shape, unless a clearer message was given already."""
    words = message.removeprefix("Value error, ")
    words = words[:1].lower() + words[1:]
    if place[:1] != ("rules",) or len(place) == 1:
        name = str(place[0])
        yield Mistake(source.top.line(name), "", f"{name}: {words}")
        return
    number = int(place[1])
    entries = source.document["rules"][number]
    name = str(place[2]) if len(place) > 2 else "rule"  # noqa: PLR2004 - rules, number, entry
    value = entries.get(name, "") if isinstance(entries, dict) else ""
    blank = isinstance(value, str) and not value.strip()
    reported = (name in _SENTENCES and blank) or (
        name == "effect" and isinstance(value, str) and value
    )
    if not reported:
        rule = _rule_name(entries, number)
        yield Mistake(source.rule(number).line(name), rule, f"{name}: {words}")


def _sound_rules(
    source: PolicyText,
) -> tuple[dict[int, PolicyRule], dict[str, CarriedKind], bool]:
    """Return the rules whose condition can be read, though other entries may be wrong.

    Their thresholds replace their names.
    """
    rules: dict[int, PolicyRule] = {}
    listed = source.document.get("rules")
    thresholds = source.document.get("thresholds", {})
    values = {
        name: f"{Decimal(value):f}"
        for name, value in (thresholds.items() if isinstance(thresholds, dict) else ())
        if isinstance(value, int | Decimal) and not isinstance(value, bool)
    }
    for number, entries in enumerate(listed if isinstance(listed, list) else []):
        rule = _readable(entries, number)
        if rule is not None:
            rules[number] = rule.model_copy(update={"when": filled(rule.when, values)})
    allow_sensitive = source.document.get("allow_sensitive") is True
    return rules, dict(_carried(source.document)), allow_sensitive


def _readable(entries: object, number: int) -> PolicyRule | None:
    """Return a rule with its own condition, and placeholders for what is wrong."""
    if not isinstance(entries, dict) or not isinstance(entries.get("when"), str):
        return None
    stand_ins: dict[str, Any] = {
        "code": f"RULE_{number + 1}",
        "effect": "note",
        "team": "-",
        "customer": "-",
    }
    kept = {name: entries[name] for name in _RULE if name in entries}
    for replaced in ((), ("team", "customer"), ("team", "customer", "effect"), tuple(stand_ins)):
        trial = {**stand_ins, **kept, **{name: stand_ins[name] for name in replaced}}
        try:
            return PolicyRule.model_validate(trial)
        except ValidationError:
            continue
    return None


def _condition_mistakes(
    source: PolicyText,
    rules: Mapping[int, PolicyRule],
    conditions: Mapping[int, CheckedCondition],
) -> Iterator[Mistake]:
    for number, condition in conditions.items():
        entries = source.document["rules"][number]
        first = source.rule(number).line("when")
        written = str(entries["when"])
        lead = written[: len(written) - len(written.lstrip())].count("\n")
        for finding in condition.findings:
            line = first + lead + rules[number].when[: finding.at].count("\n")
            yield Mistake(line, _rule_name(entries, number), finding.message)


def _logic_mistakes(
    source: PolicyText, rules: Mapping[int, PolicyRule], conditions: Mapping[int, CheckedCondition]
) -> Iterator[Mistake]:
    """Yield findings from comparing rules; a placeholder for a misspelt effect yields none."""
    meant = {
        number: rule
        for number, rule in rules.items()
        if source.document["rules"][number].get("effect", rule.effect) == rule.effect
    }
    for number, message in _rule_problems(meant, conditions):
        entries = source.document["rules"][number]
        yield Mistake(source.rule(number).line("when"), _rule_name(entries, number), message)


def _rule_problems(
    rules: Mapping[int, PolicyRule], conditions: Mapping[int, CheckedCondition]
) -> Iterator[tuple[int, str]]:
    """Yield number and message of each rule that cannot do what a rule is for."""
    seen: set[tuple[str, Effect]] = set()
    for number, rule in sorted(rules.items()):
        if (rule.code, rule.effect) in seen:
            yield number, f"the code {rule.code} is repeated for the effect {rule.effect.value}"
        seen.add((rule.code, rule.effect))
        if not conditions[number].findings:
            yield from ((number, message) for message in _alone(rule, conditions[number]))


def _alone(rule: PolicyRule, condition: CheckedCondition) -> Iterator[str]:
    """Yield what is wrong with a rule whatever the others are."""
    if not condition.columns:
        yield "its condition names no column"
    tied = any(name in RING_COLUMNS for name in condition.columns)
    if tied and rule.effect not in (Effect.REVIEW, Effect.NOTE):
        yield "rests on a ring: being tied to others is never more than a reason to review"
    if rule.effect is Effect.APPROVE and not condition.checks():
        yield "approves without evidence: name a check's column, such as karma_status"


__all__ = ["Checked", "Mistake", "check_policy", "check_rules"]
