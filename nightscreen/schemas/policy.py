"""A policy: the rules by which a lender decides; `policy/` reads, checks and applies it."""

from __future__ import annotations

import hashlib
import json
import re
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from nightscreen.schemas.checks import Purpose

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGEST_DIGITS = 12
_THRESHOLD = re.compile(r"\{([a-z][a-z0-9_]*)\}")
"""A threshold named in a condition or a sentence; does not match a regular expression's `{2,3}`."""

Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
PurposeSentence = Sentence | Annotated[dict[Purpose, Sentence], Field(min_length=1)]
"""One sentence, or one per purpose: a sentence for applicants may be wrong for borrowers."""
ShortSentence = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)
]
ShortWords = ShortSentence | Annotated[dict[Purpose, ShortSentence], Field(min_length=1)]
"""A text that anyone who picks up the customer's phone may read."""
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]
WRITTEN_IN = "en"  # language of a policy's own sentences if it names none
ASK_US = "Ask us for the reason, or for a person to look at it again, at any time."
"""Used if a rule has no short sentence."""
ColumnName = Annotated[str, StringConstraints(pattern=r"^[^\s:].{0,127}$")]
ThresholdName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
MOST_CHARACTERS = 4000
"""The longest condition; bounds the cost of evaluating it."""


class Effect(StrEnum):
    """The effect of a rule that applies, strongest first."""

    DECLINE = "decline"
    REVIEW = "review"
    APPROVE = "approve"
    NOTE = "note"


class Decision(StrEnum):
    """The decision about a row."""

    APPROVE = "approve"
    REVIEW = "review"
    DECLINE = "decline"
    UNDECIDED = "undecided"


class CarriedKind(StrEnum):
    """The type that a carried column is read as."""

    TEXT = "text"
    NUMBER = "number"
    DATE = "date"


class CarriedColumn(BaseModel):
    """A column of the lender's own file that conditions may name as a number or a date."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: ColumnName
    type: CarriedKind = CarriedKind.TEXT


class Translation(BaseModel):
    """The texts of a rule for the customer in another language."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    short: ShortWords | None = None
    customer: PurposeSentence | None = None


class PolicyRule(BaseModel):
    """One rule: if `when` is true, `effect` follows for the reason `code`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Code  # the reason, in capitals; rules with different effects may share one
    effect: Effect
    # an SQL condition over the columns of `enriched`; `{name}` is a threshold or definition
    when: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    team: PurposeSentence  # a sentence for the people who work through the list
    customer: PurposeSentence  # a sentence for the customer, once their identity is confirmed
    # what the team does next; None for the decision's usual action
    action: PurposeSentence | None = None
    # a sentence for a shared phone: true, without accusation, amount or reporter
    short: ShortWords | None = None
    # `hold` if a notice could warn a suspect: none is made
    notice: Literal["hold"] | None = None
    # the texts for the customer in other languages
    languages: dict[Language, Translation] | None = None

    @field_validator("when")
    @classmethod
    def _trimmed(cls, when: str) -> str:
        """Remove surrounding blanks."""
        trimmed = when.strip()
        if not trimmed:
            raise ValueError("is blank")
        return trimmed

    def thresholds_named(self) -> dict[str, set[str]]:
        """Return the thresholds and definitions named in each entry; `short` may name none."""
        named = {"when": thresholds_named(self.when)}
        translations = (self.languages or {}).values()
        for entry, sentence in (
            *(("team", self.team), ("customer", self.customer), ("action", self.action)),
            *(("languages", translation.customer) for translation in translations),
        ):
            for text in sentence.values() if isinstance(sentence, dict) else [sentence or ""]:
                named.setdefault(entry, set()).update(thresholds_named(text))
        return named


class NoticeWords(NamedTuple):
    """The texts for a customer: for a shared phone, after identification; and their language."""

    sentence: str
    details: str
    language: str


class RuleInWords(NamedTuple):
    """A rule for people: its code, effect and condition, and the sentence for the team."""

    code: str
    effect: str
    condition: str
    team: str


_EFFECT_WORDS = {
    Effect.DECLINE: "decline",
    Effect.REVIEW: "send to review",
    Effect.APPROVE: "approve",
    Effect.NOTE: "note",
}


class Policy(BaseModel):
    """Rules in order, under a name and a version."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    version: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    # allow conditions on gender, marital status and state of origin
    allow_sensitive: bool = False
    language: Language | None = None  # of the sentences for customers; English by default
    # the lender's own input columns that conditions may name and the decision list shows; text
    # unless a type is given
    carried: tuple[ColumnName | CarriedColumn, ...] = ()
    # numbers that conditions and sentences name as `{name}`
    thresholds: dict[ThresholdName, Annotated[Decimal, Field(allow_inf_nan=False)]] = {}
    # parts of conditions that rules name as `{name}`; a definition may name thresholds and
    # definitions above it
    definitions: dict[ThresholdName, Annotated[str, Field(max_length=MOST_CHARACTERS)]] = {}
    # in the order in which their reasons are reported
    rules: Annotated[tuple[PolicyRule, ...], Field(min_length=1, max_length=200)]

    def __hash__(self) -> int:
        """Return the digest's hash: the policy's dicts cannot be hashed."""
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Return twelve hex digits over the policy's content, without layout and comments.

        Unused entries that were added to the format later are left out, so that an older policy
        keeps its digest.
        """
        plain = self.model_dump(mode="json", exclude_none=True)
        for name in ("thresholds", "definitions"):
            if not plain[name]:
                del plain[name]
        canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_DIGITS]

    @property
    def label(self) -> str:
        """Return `name@digest`, as in the column `policy`."""
        return f"{self.name}@{self.digest}"

    @cached_property
    def carried_kinds(self) -> dict[str, CarriedKind]:
        """Return the carried columns and the type of each."""
        return {
            column if isinstance(column, str) else column.column: (
                CarriedKind.TEXT if isinstance(column, str) else column.type
            )
            for column in self.carried
        }

    def condition(self, rule: PolicyRule) -> str:
        """Return a rule's condition with thresholds and definitions filled in."""
        return filled(rule.when, self._fillings())

    def conditions(self) -> tuple[str, ...]:
        """Return the conditions of all rules with thresholds and definitions filled in."""
        values = self._fillings()
        return tuple(filled(rule.when, values) for rule in self.rules)

    def _fillings(self) -> dict[str, str]:
        """Return the texts of thresholds and definitions by name."""
        values = {name: f"{value:f}" for name, value in self.thresholds.items()}
        for name, text in self.definitions.items():
            values[name] = filled(text, values)
        return values

    def sentence(self, words: PurposeSentence | ShortWords, purpose: str | None) -> str:
        """Return a rule's sentence for a purpose, with the thresholds filled in.

        If the purpose is unknown or has no sentence, the first one is returned.
        """
        if not isinstance(words, str):
            of_purpose = {part.value: text for part, text in words.items()}
            words = of_purpose.get(purpose or "", next(iter(of_purpose.values())))
        return filled(words, {name: f"{value:,f}" for name, value in self.thresholds.items()})

    def in_words(self) -> list[RuleInWords]:
        """Return the rules in their order, with thresholds and definitions filled in."""
        return [
            RuleInWords(
                rule.code,
                _EFFECT_WORDS[rule.effect],
                " ".join(condition.split()),
                self.sentence(rule.team, None),
            )
            for rule, condition in zip(self.rules, self.conditions(), strict=True)
        ]

    def notice(self, rule: PolicyRule, purpose: str | None, language: str) -> NoticeWords:
        """Return a rule's texts for a customer in a language.

        If that language has no short sentence, the texts are in the policy's own language.
        """
        own = self.language or WRITTEN_IN
        translated = (rule.languages or {}).get(language) if language != own else None
        if translated is not None and translated.short is not None:
            customer = translated.customer
            details = "" if customer is None else self.sentence(customer, purpose)
            return NoticeWords(self.sentence(translated.short, purpose), details, language)
        if rule.short is None:
            return NoticeWords(ASK_US, self.sentence(rule.customer, purpose), WRITTEN_IN)
        words = self.sentence(rule.short, purpose), self.sentence(rule.customer, purpose)
        return NoticeWords(*words, own)

    def named(self) -> Mapping[str, object]:
        """Return the policy's entry in a manifest."""
        return {"name": self.name, "version": self.version, "digest": self.digest}


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of `{name}`; undefined names stay."""
    return _THRESHOLD.sub(lambda match: values.get(match[1], match[0]), text)


def thresholds_named(text: str) -> set[str]:
    """Return the thresholds that a condition or sentence names."""
    return set(_THRESHOLD.findall(text))
