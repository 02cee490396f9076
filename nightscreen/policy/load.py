"""A policy's text checked as a whole: every issue with its line, or the policy.

A policy that passes here can be applied to any batch. `file` reads TOML, `conditions` reads what
rules say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nightscreen.policy.conditions import Condition, one_empty_row, read_condition
from nightscreen.policy.engine import locked_connection
from nightscreen.policy.file import DEFAULT_POLICY, TOP, PolicyText, parse, read_text
from nightscreen.policy.vocabulary import (
    column_types,
    known_columns,
    outputs_of_a_decision,
    suggestion,
)
from nightscreen.schemas.enriched import RING_COLUMNS
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import (
    CarriedColumn,
    CarriedKind,
    Effect,
    Policy,
    PolicyRule,
    filled,
    fillings,
    thresholds_named,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

CONTACTS = frozenset({"phone", "email"})
"""Columns that a policy may carry onto the list though screening knows them."""
_WORDS = {
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
_SENTENCES = {
    "team": "the sentence for the team is missing: say what it means and what to do",
    "customer": "the sentence for the customer is missing: say what the customer may read",
}
_ABSENT = frozenset({"missing", "string_too_short"})
_AMOUNT = re.compile(r"[0-9₦]")
_ACCUSING = re.compile(
    r"(?i)\b(fraud\w*|thie\w*|theft|stole\w*|steal\w*|crim\w*|scam\w*|launder\w*|default\w*|"
    r"blacklist\w*|watchlist\w*|debt\w*|owe[sd]?|owing|arrears|overdue|past due|unpaid)\b"
)
"""English words that accuse; in other languages the author must know."""
_EFFECTS = tuple(effect.value for effect in Effect)


@dataclass(frozen=True, slots=True, order=True)
class PolicyIssue:
    """One thing wrong with a policy file."""

    line: int  # where, from 1
    rule: str  # the rule's code, or its number where it has none; empty above the rules
    message: str  # what is wrong and what to do


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a policy: the policy, or issues in order of line."""

    policy: Policy | None
    issues: tuple[PolicyIssue, ...]


def load_policy(path: Path | None = None) -> Policy:
    """Return a policy without issues; the default one where no file is named.

    Raises:
        PolicyError: it cannot be read, or has issues; the first is reported, with its line.
    """
    path = path or DEFAULT_POLICY
    return sound_policy(read_text(path), path.name, f"nightscreen policy check {path}")


def sound_policy(text: str, name: str, see: str) -> Policy:
    """Return the policy of a text that a person knows by a name.

    `see` is the command that shows all of its issues.

    Raises:
        PolicyError: it has issues; the first is reported, with its line.
    """
    checked = check_policy(text)
    if checked.policy is not None:
        return checked.policy
    first, more = checked.issues[0], len(checked.issues) - 1
    rule = f", {first.rule}" if first.rule else ""
    others = f" (and {more} more)" if more else ""
    raise PolicyError(
        f"{name}, line {first.line}{rule}: {first.message}{others}; see all with: {see}"
    )


@lru_cache(maxsize=8)  # a run reads its policy several times, a worker the same one every night
def check_policy(text: str) -> Checked:
    """Check the text of a policy file; nothing of it touches anything outside."""
    source = parse(text)
    if source.fault is not None:
        line, message = source.fault
        return Checked(None, (PolicyIssue(line, "", message),))
    policy, found = None, [*_carried_issues(source), *_rule_issues(source)]
    try:
        policy = Policy.model_validate(source.document)
    except ValidationError as error:
        found += _shape_issues(source, error)
    else:
        found += [*_threshold_issues(source, policy), *_short_issues(source, policy)]
    return Checked(None if found else policy, tuple(sorted(set(found))))


def checked_conditions(policy: Policy) -> tuple[Condition, ...]:
    """Return the conditions of a policy, one a rule.

    Raises:
        PolicyError: one must not be run; the policy did not come through `check_policy`.
    """
    conditions = _conditions(
        tuple(policy.condition(rule) for rule in policy.rules),
        tuple(policy.carried_kinds.items()),
        allow_sensitive=policy.allow_sensitive,
    )
    rules = [(rule.code, rule.effect) for rule in policy.rules]
    for number, condition in enumerate(conditions):
        for message in [*condition.issues, *_misfits(rules, number, condition)]:
            raise PolicyError(f"the policy {policy.name}: the rule {rules[number][0]} {message}")
    return conditions


@lru_cache(maxsize=16)  # what was checked is what decides: each text is read once
def _conditions(
    written: tuple[str, ...], carried: tuple[tuple[str, CarriedKind], ...], *, allow_sensitive: bool
) -> tuple[Condition, ...]:
    types = column_types(dict(carried))
    with locked_connection(optimizer=False) as connection:
        connection.register("columns", one_empty_row(types))
        # A table of its own: to read the types of an Arrow table anew for each rule takes longer
        # than the rules do.
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM columns")
        return tuple(
            read_condition(connection, when, types, allow_sensitive=allow_sensitive)
            for when in written
        )


def _misfits(
    rules: Sequence[tuple[object, object]], number: int, condition: Condition
) -> Iterator[str]:
    """Yield why a rule cannot do what a rule is for; an effect may be misspelt."""
    code, effect = rules[number]
    if effect in _EFFECTS and rules[number] in rules[:number]:
        yield f"the code {code} is repeated for the effect {effect}"
    if condition.issues:
        return
    if not condition.columns:
        yield "its condition names no column"
    if effect in {Effect.DECLINE, Effect.APPROVE} and not set(RING_COLUMNS).isdisjoint(
        condition.columns
    ):
        yield "rests on a ring: being tied to others is never more than a reason to review"
    if effect == Effect.APPROVE and not condition.checks():
        yield "approves without evidence: name a check's column, such as karma_status"


def _rules(source: PolicyText) -> list[Mapping[str, Any]]:
    """Return the entries of each rule; none of what is no rule."""
    listed = source.document.get("rules")
    return [
        each if isinstance(each, dict) else {}
        for each in (listed if isinstance(listed, list) else [])
    ]


def _rule_issues(source: PolicyText) -> Iterator[PolicyIssue]:
    """Yield what is wrong with conditions, also where other entries of their rules are wrong."""
    document = source.document
    tables = (document.get(name, {}) for name in ("thresholds", "definitions"))
    values = fillings(*(table if isinstance(table, dict) else {} for table in tables))
    rules = {
        number: entries
        for number, entries in enumerate(_rules(source))
        if isinstance(entries.get("when"), str) and entries["when"].strip()
    }
    conditions = _conditions(
        tuple(filled(entries["when"].strip(), values) for entries in rules.values()),
        tuple(dict(_carried(source.document)).items()),
        allow_sensitive=document.get("allow_sensitive") is True,
    )
    kinds = [(entries.get("code"), entries.get("effect")) for entries in rules.values()]
    for place, (number, condition) in enumerate(zip(rules, conditions, strict=True)):
        for message in [*condition.issues, *_misfits(kinds, place, condition)]:
            yield PolicyIssue(source.line(number, "when"), _rule_name(source, number), message)


def _rule_name(source: PolicyText, number: int) -> str:
    code = _rules(source)[number].get("code")
    return code if isinstance(code, str) and code.strip() else f"rule {number + 1}"


def _shape_issues(source: PolicyText, error: ValidationError) -> Iterator[PolicyIssue]:
    """Yield what is missing, misspelt or of the wrong kind, the first of each entry."""
    seen = set()
    for each in error.errors():
        place, kind = each["loc"], each["type"]
        in_rule = place[0] == "rules" and len(place) > 1
        entry = str(place[2 if in_rule else 0]) if len(place) != 2 or not in_rule else "rule"  # noqa: PLR2004 - rules, number
        number = int(place[1]) if in_rule else -1
        only_wrong = kind == "too_short" and entry == "rules" and _rules(source)
        if (number, entry) in seen or only_wrong:  # rules that are wrong are not counted
            continue
        seen.add((number, entry))
        words = _WORDS.get(kind, each["msg"].removeprefix("Value error, "))
        message = f"{entry}: {words[:1].lower()}{words[1:]}"
        if kind == "extra_forbidden":
            known = PolicyRule.model_fields if in_rule else Policy.model_fields
            message = f"{entry} is unknown{suggestion(entry, known)}"
        elif entry in _SENTENCES and kind in _ABSENT:
            message = _SENTENCES[entry]
        elif entry == "effect" and isinstance(each["input"], str):
            known_effects, near = ", ".join(_EFFECTS), suggestion(each["input"], _EFFECTS)
            message = f"the effect {each['input']} is unknown; it is one of {known_effects}{near}"
        if in_rule:
            line = source.line(number, entry)
            yield PolicyIssue(line, _rule_name(source, number), message)
        else:
            yield PolicyIssue(source.line(TOP, entry), "", message)


def _carried(document: Mapping[str, Any]) -> Iterator[tuple[str, CarriedKind]]:
    """Yield the carried columns that can be read, with the type of each."""
    listed = document.get("carried", [])
    for entry in listed if isinstance(listed, list) else []:
        try:
            column = CarriedColumn.model_validate(
                {"column": entry} if isinstance(entry, str) else entry
            )
        except ValidationError:
            continue
        yield column.column, column.type


def _carried_issues(source: PolicyText) -> Iterator[PolicyIssue]:
    """Yield carried columns that are the results' own; contacts may be carried onto the list."""
    for name, kind in _carried(source.document):
        plain = kind is CarriedKind.TEXT and name in CONTACTS
        if not plain and (name in known_columns() or name in outputs_of_a_decision()):
            yield PolicyIssue(
                source.line(TOP, "carried"),
                "",
                f"carried: {name} is a column of the results; a carried column of that name is "
                f"renamed input_{name}",
            )


def _texts(rule: PolicyRule) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a rule but the short ones, each with the entry where it stands."""
    others = (rule.languages or {}).values()
    for entry, words in (
        *((entry, getattr(rule, entry)) for entry in ("team", "customer", "action")),
        *(("languages", other.customer) for other in others),
    ):
        for text in words.values() if isinstance(words, dict) else [words]:
            if text is not None:
                yield entry, text


def _threshold_issues(source: PolicyText, policy: Policy) -> Iterator[PolicyIssue]:
    """Yield what is named and not defined, or defined and named nowhere."""
    numbers, own = set(policy.thresholds), {*policy.thresholds, *policy.definitions}
    used = {name for text in policy.definitions.values() for name in thresholds_named(text)}
    for number, rule in enumerate(policy.rules):
        for entry, text, known in (
            ("when", rule.when, own),
            *((entry, text, numbers) for entry, text in _texts(rule)),
        ):
            named = thresholds_named(text)
            used |= named
            for name in sorted(named - known):
                near = suggestion(name, known)
                yield PolicyIssue(
                    source.line(number, entry),
                    rule.code,
                    f"{{{name}}} is no threshold{near}; define it under [thresholds]",
                )
    for name in sorted(own - used):
        kind = "threshold" if name in numbers else "definition"
        line = source.line(TOP, name)
        yield PolicyIssue(line, "", f"the {kind} {name} is named by no rule; remove it")


def _short_issues(source: PolicyText, policy: Policy) -> Iterator[PolicyIssue]:
    """Yield short sentences that say what nobody but the customer may read."""
    for number, rule in enumerate(policy.rules):
        others = (rule.languages or {}).values()
        for entry, words in (
            ("short", rule.short),
            *(("languages", other.short) for other in others),
        ):
            for text in words.values() if isinstance(words, dict) else [words or ""]:
                if _AMOUNT.search(text) or thresholds_named(text):
                    wrong = "names a number or threshold: a shared phone shows no amount"
                elif found := _ACCUSING.search(text):
                    wrong = f"says {found[0]!r}: it is read on a shared phone, and accuses nobody"
                else:
                    continue
                line = source.line(number, entry)
                yield PolicyIssue(line, rule.code, f"the short sentence {wrong}")
