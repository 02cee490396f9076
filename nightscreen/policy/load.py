"""A policy's text: read, checked as a whole, and written anew with other numbers.

Every issue has its line. A policy that passes here can be applied to any batch; `conditions` reads
what its rules say.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nightscreen.policy.conditions import Condition, one_empty_row, read_condition
from nightscreen.policy.engine import locked_connection
from nightscreen.policy.vocabulary import (
    column_types,
    known_columns,
    outputs_of_a_decision,
    suggestion,
)
from nightscreen.schemas.errors import PolicyError
from nightscreen.schemas.policy import (
    CarriedKind,
    Effect,
    Policy,
    PolicyRule,
    thresholds_named,
)
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

DEFAULT_POLICY = DATA / "policy.toml"
TOP = -1
_MOST_BYTES = 1_000_000
_RULES = "rules"
_HEADER = re.compile(r"^\s*\[\[\s*(?:rules|\"rules\"|'rules')\s*\]\]")
_KEY = re.compile(r"^\s*[\"']?([A-Za-z0-9_-]+)[\"']?(?:\.[A-Za-z0-9_-]+)*\s*=\s*(.*)$")
_ENTRY = r"""(?<![\w-])["']?{}["']?\s*=\s*(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,#}}]+)"""
_QUOTES = re.compile(r"'''|\"\"\"")
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


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy file after reading, before judging."""

    document: Mapping[str, Any]  # the parsed TOML; empty where it is no TOML
    # on which line, from 1, each entry of a rule begins, by the rule's number and the entry's name;
    # those above the rules are under `TOP`, a rule's header under no name
    lines: Mapping[tuple[int, str], int]
    fault: tuple[int, str] | None = None  # line and message where it is no TOML

    def line(self, rule: int, entry: str = "") -> int:
        """Return the line of an entry, or of its rule; rules written inline are all on one."""
        places = ((rule, entry), (rule, ""), (TOP, _RULES if rule >= 0 else ""))
        return next((self.lines[each] for each in places if each in self.lines), 1)


def load_policy(path: Path | None = None) -> Policy:
    """Return a policy without issues; the default one where no file is named.

    Raises:
        PolicyError: it cannot be read, or has issues; the first is reported, with its line.
    """
    path = path or DEFAULT_POLICY
    return sound_policy(read_text(path), path.name, f"nightscreen policy check {path}")


def read_text(path: Path | None) -> str:
    """Return the text of a policy file, the default one where none is named.

    Raises:
        PolicyError: it cannot be read, is no text, or is far too long.
    """
    path = path or DEFAULT_POLICY
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"the policy {path} cannot be read: {error.strerror}") from None
    if len(content) > _MOST_BYTES:
        raise PolicyError(f"the policy {path} is longer than a policy can be")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise PolicyError(f"the policy {path} is no UTF-8 text; save it as UTF-8") from None


def parse(text: str) -> PolicyText:
    """Read a policy's TOML with the line of every part."""
    lines = _lines(text)
    try:
        return PolicyText(tomllib.loads(text, parse_float=Decimal), lines)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column \d+\)", str(error))
        line = int(found[1]) if found else max(len(text.splitlines()), 1)
        message = re.sub(r" \(at .*\)$", "", str(error))
        return PolicyText({}, lines, (line, f"is no TOML: {message}"))
    except RecursionError:
        return PolicyText({}, lines, (1, "is no TOML: it is nested too deep"))


def _lines(text: str) -> dict[tuple[int, str], int]:
    """Return the lines of rules and entries, by reading lines outside of long texts.

    A value whose quotes stand alone begins on the next line.
    """
    found: dict[tuple[int, str], int] = {}
    rule, closing = TOP, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not closing:
            if _HEADER.match(line):
                rule += 1
                found[rule, ""] = number
            elif key := _KEY.match(line):
                alone = key[2].strip() in {"'''", '"""'}
                found.setdefault((rule, key[1]), number + alone)
        for quotes in _QUOTES.findall(line):
            closing = "" if quotes == closing else closing or quotes
    return found


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
    """Check the text of a policy file; nothing of it touches anything outside.

    What its rules say is looked at once every entry has the right shape.
    """
    source = parse(text)
    if source.fault is not None:
        line, message = source.fault
        return Checked(None, (PolicyIssue(line, "", message),))
    try:
        policy = Policy.model_validate(source.document)
    except ValidationError as error:
        return Checked(None, tuple(sorted(_shape_issues(source, error))))
    issues = {
        PolicyIssue(
            source.line(number, entry), "" if number == TOP else policy.rules[number].code, message
        )
        for said in (_condition_issues, _carried_issues, _threshold_issues, _short_issues)
        for number, entry, message in said(policy)
    }
    return Checked(None if issues else policy, tuple(sorted(issues)))


Place = tuple[int, str, str]
"""An issue's rule by its number, `TOP` above them; the entry; and what is wrong with it."""


def checked_conditions(policy: Policy) -> tuple[Condition, ...]:
    """Return the conditions of a policy, one a rule.

    Raises:
        PolicyError: one must not be run; the policy did not come through `check_policy`.
    """
    for number, _, message in _condition_issues(policy):
        rule = policy.rules[number].code
        raise PolicyError(f"the policy {policy.name}: the rule {rule} {message}")
    return _conditions_of(policy)


def _conditions_of(policy: Policy) -> tuple[Condition, ...]:
    return _conditions(
        policy.conditions(),
        tuple(policy.carried_kinds.items()),
        allow_sensitive=policy.allow_sensitive,
    )


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


def _condition_issues(policy: Policy) -> Iterator[Place]:
    """Yield what is wrong with conditions, and why a rule cannot do what a rule is for."""
    seen = set()
    for number, condition in enumerate(_conditions_of(policy)):
        rule, found = policy.rules[number], list(condition.issues)
        if (rule.code, rule.effect) in seen:
            found.append(f"the code {rule.code} is repeated for the effect {rule.effect.value}")
        seen.add((rule.code, rule.effect))
        if not condition.issues:
            found += _misfits(rule.effect, condition)
        for message in found:
            yield number, "when", message


def _misfits(effect: Effect, condition: Condition) -> Iterator[str]:
    if not condition.columns:
        yield "its condition names no column"
    if effect is Effect.APPROVE and not condition.checks():
        yield "approves without evidence: name a check's column, such as karma_status"


def _shape_issues(source: PolicyText, error: ValidationError) -> Iterator[PolicyIssue]:
    """Yield what is missing, misspelt or of the wrong kind, the first of each entry."""
    listed = source.document.get("rules")
    rules = listed if isinstance(listed, list) else []
    seen = set()
    for each in error.errors():
        place, kind = each["loc"], each["type"]
        in_rule = place[0] == "rules" and len(place) > 1
        number = int(place[1]) if in_rule else TOP
        entry = str([*place, "rule"][2 if in_rule else 0])
        only_wrong = kind == "too_short" and entry == "rules" and rules
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
        rule = _rule_name(rules[number], number) if in_rule else ""
        yield PolicyIssue(source.line(number, entry), rule, message)


def _rule_name(entries: object, number: int) -> str:
    code = entries.get("code") if isinstance(entries, dict) else None
    return code if isinstance(code, str) and code.strip() else f"rule {number + 1}"


def _carried_issues(policy: Policy) -> Iterator[Place]:
    """Yield carried columns that are the results' own; contacts may be carried onto the list."""
    for name, kind in policy.carried_kinds.items():
        plain = kind is CarriedKind.TEXT and name in CONTACTS
        if not plain and (name in known_columns() or name in outputs_of_a_decision()):
            message = (
                f"carried: {name} is a column of the results; a carried column of that name is "
                f"renamed input_{name}"
            )
            yield TOP, "carried", message


def _threshold_issues(policy: Policy) -> Iterator[Place]:
    """Yield what is named and not defined, or defined and named nowhere."""
    numbers, own = set(policy.thresholds), {*policy.thresholds, *policy.definitions}
    used = {name for text in policy.definitions.values() for name in thresholds_named(text)}
    for number, rule in enumerate(policy.rules):
        for entry, named in rule.thresholds_named().items():
            known = own if entry == "when" else numbers
            used |= named
            for name in sorted(named - known):
                near = suggestion(name, known)
                message = f"{{{name}}} is no threshold{near}; define it under [thresholds]"
                yield number, entry, message
    for name in own - used:
        kind = "threshold" if name in numbers else "definition"
        yield TOP, name, f"the {kind} {name} is named by no rule; remove it"


def _short_issues(policy: Policy) -> Iterator[Place]:
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
                yield number, entry, f"the short sentence {wrong}"


def rewritten(text: str, version: str, thresholds: Mapping[str, Decimal]) -> str:
    """Return a policy's text with another version and thresholds; all else stays as it is written.

    A value is searched for at every place of its name; a place is right if the text then parses to
    the same document.

    Raises:
        PolicyError: a value is written in a way that cannot be replaced in its place.
    """
    read = parse(text).document
    if version != read["version"]:
        read = {**read, "version": version}
        text = _replaced(text, "version", json.dumps(version, ensure_ascii=False), read)
    for name, value in thresholds.items():
        if value != read["thresholds"][name]:
            read = {**read, "thresholds": {**read["thresholds"], name: value}}
            text = _replaced(text, name, f"{value:f}", read)
    return text


def threshold_comments(text: str) -> dict[str, str]:
    """Return what a policy's text says beside its thresholds, behind the `#` on their lines."""
    found, lines = parse(text), text.split("\n")
    lines_of = {
        name: lines[found.line(TOP, name) - 1].partition("#")
        for name in found.document.get("thresholds", {})
    }
    return {name: after.strip() for name, (_, _, after) in lines_of.items() if after}


def _replaced(text: str, name: str, value: str, wanted: Mapping[str, Any]) -> str:
    """Return a text with one value replaced, so that the whole reads as wanted."""
    for found in re.finditer(_ENTRY.format(re.escape(name)), text):
        trial = text[: found.start("value")] + value + text[found.end("value") :]
        if parse(trial).document == wanted:
            return trial
    raise PolicyError(
        f"the policy writes {name} in a way that cannot be replaced here; change the file and "
        "propose it with: nightscreen policy propose FILE --by NAME"
    )
