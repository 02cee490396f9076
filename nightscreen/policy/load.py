"""A policy's text: read it, check it as a whole, and rewrite it with other thresholds.

Every issue has its line. A policy without issues can be applied to any batch; `conditions` reads
its rules' conditions.
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

from nightscreen.policy.conditions import Condition, one_empty_row, read_conditions
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
"""Known columns that a policy may carry onto the list."""
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
"""English words that accuse; in other languages the author is responsible."""
_EFFECTS = tuple(effect.value for effect in Effect)


@dataclass(frozen=True, slots=True, order=True)
class PolicyIssue:
    """One thing wrong with a policy file."""

    line: int  # from 1
    rule: str  # the rule's code, or its number if it has none; empty above the rules
    message: str  # what is wrong and what to do


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a policy: the policy, or issues in order of line."""

    policy: Policy | None
    issues: tuple[PolicyIssue, ...]


@dataclass(frozen=True, slots=True)
class PolicyText:
    """A policy file after reading, before checking."""

    document: Mapping[str, Any]  # the parsed TOML; empty if it is invalid
    # the first line, from 1, of each entry, by the rule's number and the entry's name; entries
    # above the rules have the number `TOP`, a rule's header has an empty name
    lines: Mapping[tuple[int, str], int]
    fault: tuple[int, str] | None = None  # line and message if the TOML is invalid

    def line(self, rule: int, entry: str = "") -> int:
        """Return the line of an entry, else of its rule, else of `rules`."""
        places = ((rule, entry), (rule, ""), (TOP, _RULES if rule >= 0 else ""))
        return next((self.lines[each] for each in places if each in self.lines), 1)


def load_policy(path: Path | None = None) -> Policy:
    """Return a policy without issues; by default the default policy.

    Raises:
        PolicyError: it cannot be read, or has issues; the first is reported, with its line.
    """
    path = path or DEFAULT_POLICY
    return sound_policy(read_text(path), path.name, f"nightscreen policy check {path}")


def read_text(path: Path | None) -> str:
    """Return the text of a policy file, by default of the default policy.

    Raises:
        PolicyError: it cannot be read, is not UTF-8 text, or is far too long.
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
    """Return the lines of rules and entries; lines inside of multi-line texts are skipped.

    A value whose opening quotes end the line begins on the next line.
    """
    lines: dict[tuple[int, str], int] = {}
    rule, closing = TOP, ""
    for number, line in enumerate(text.split("\n"), start=1):
        if not closing:
            if _HEADER.match(line):
                rule += 1
                lines[rule, ""] = number
            elif key := _KEY.match(line):
                alone = key[2].strip() in {"'''", '"""'}
                lines.setdefault((rule, key[1]), number + alone)
        for quotes in _QUOTES.findall(line):
            closing = "" if quotes == closing else closing or quotes
    return lines


def sound_policy(text: str, name: str, see: str) -> Policy:
    """Return the policy of a text, which error messages call by its name.

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
    """Check the text of a policy file, without access to anything outside.

    Conditions are checked only if every entry has the right type.
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
        for check in (_condition_issues, _carried_issues, _threshold_issues, _short_issues)
        for number, entry, message in check(policy)
    }
    return Checked(None if issues else policy, tuple(sorted(issues)))


Place = tuple[int, str, str]
"""An issue's rule by its number (`TOP` above the rules), its entry, and its message."""


def checked_conditions(policy: Policy) -> tuple[Condition, ...]:
    """Return the conditions of a policy, one for each rule.

    Raises:
        PolicyError: one is not allowed, because the policy was not checked with `check_policy`.
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


@lru_cache(maxsize=16)  # each text is read once: the conditions that were checked also decide
def _conditions(
    written: tuple[str, ...], carried: tuple[tuple[str, CarriedKind], ...], *, allow_sensitive: bool
) -> tuple[Condition, ...]:
    types = column_types(dict(carried))
    with locked_connection(optimizer=False) as connection:
        connection.register("columns", one_empty_row(types))
        # Copied into a table: reading the Arrow table's types for each rule takes longer than the
        # rules themselves.
        connection.execute("CREATE TEMP TABLE rows AS SELECT * FROM columns")
        return read_conditions(connection, written, types, allow_sensitive=allow_sensitive)


def _condition_issues(policy: Policy) -> Iterator[Place]:
    """Yield the issues of conditions, and of rules that have no effect."""
    seen = set()
    for number, condition in enumerate(_conditions_of(policy)):
        rule, messages = policy.rules[number], list(condition.issues)
        if (rule.code, rule.effect) in seen:
            messages.append(f"the code {rule.code} is repeated for the effect {rule.effect.value}")
        seen.add((rule.code, rule.effect))
        if not condition.issues:
            messages += _misfits(rule.effect, condition)
        for message in messages:
            yield number, "when", message


def _misfits(effect: Effect, condition: Condition) -> Iterator[str]:
    if not condition.columns:
        yield "its condition names no column"
    if effect is Effect.APPROVE and not condition.checks():
        yield "approves without evidence: name a check's column, such as karma_status"


def _shape_issues(source: PolicyText, error: ValidationError) -> Iterator[PolicyIssue]:
    """Yield missing, misspelt or wrongly typed entries, the first issue of each."""
    listed = source.document.get("rules")
    rules = listed if isinstance(listed, list) else []
    seen = set()
    for each in error.errors():
        place, kind = each["loc"], each["type"]
        in_rule = place[0] == "rules" and len(place) > 1
        number = int(place[1]) if in_rule else TOP
        entry = str([*place, "rule"][2 if in_rule else 0])
        only_wrong = kind == "too_short" and entry == "rules" and rules
        if (number, entry) in seen or only_wrong:  # there are rules, though they have issues
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
    """Yield carried columns with the name of a result's column, except contacts."""
    for name, kind in policy.carried_kinds.items():
        plain = kind is CarriedKind.TEXT and name in CONTACTS
        if not plain and (name in known_columns() or name in outputs_of_a_decision()):
            message = (
                f"carried: {name} is a column of the results; a carried column of that name is "
                f"renamed input_{name}"
            )
            yield TOP, "carried", message


def _threshold_issues(policy: Policy) -> Iterator[Place]:
    """Yield names that are used but not defined, or defined but not used."""
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
    """Yield short sentences with content that only the customer may read."""
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
    """Return a policy's text with another version and thresholds, otherwise unchanged.

    Each place that looks like the entry is tried; it is right if the new text then parses to the
    expected document.

    Raises:
        PolicyError: a value is written in a way that cannot be replaced.
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
    """Return the comments on the lines of a policy's thresholds, by name."""
    parsed, lines = parse(text), text.split("\n")
    lines_of = {
        name: lines[parsed.line(TOP, name) - 1].partition("#")
        for name in parsed.document.get("thresholds", {})
    }
    return {name: after.strip() for name, (_, _, after) in lines_of.items() if after}


def _replaced(text: str, name: str, value: str, expected: Mapping[str, Any]) -> str:
    """Return a text with one value replaced, so that it parses to `expected`."""
    for match in re.finditer(_ENTRY.format(re.escape(name)), text):
        trial = text[: match.start("value")] + value + text[match.end("value") :]
        if parse(trial).document == expected:
            return trial
    raise PolicyError(
        f"the policy writes {name} in a way that cannot be replaced here; change the file and "
        "propose it with: nightscreen policy propose FILE --by NAME"
    )
