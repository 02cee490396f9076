"""A policy: the rules by which a lender decides, as values.

How a policy is read from its file, checked and applied belongs to `steps/`.
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGEST_DIGITS = 12

Code = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
ColumnName = Annotated[str, StringConstraints(pattern=r"^[^\s:].{0,127}$")]
MOST_CHARACTERS = 4000
"""No condition is longer: what it may cost to evaluate is bounded by what it may say."""


class Effect(StrEnum):
    """What a rule does where it applies, strongest first."""

    DECLINE = "decline"
    REVIEW = "review"
    APPROVE = "approve"
    NOTE = "note"


class Decision(StrEnum):
    """What becomes of a row."""

    APPROVE = "approve"
    REVIEW = "review"
    DECLINE = "decline"
    UNDECIDED = "undecided"


class PolicyRule(BaseModel):
    """One rule: where `when` holds, `effect` follows and `code` says why.

    Attributes:
        code: the reason, in capitals; rules of different effects may share one.
        effect: what follows.
        when: an SQL condition over the columns of `enriched`.
        team: a sentence for the people who work the list.
        customer: a sentence that may be told to the customer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Code
    effect: Effect
    when: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    team: Sentence
    customer: Sentence

    @field_validator("when")
    @classmethod
    def _trimmed(cls, when: str) -> str:
        """Drop blanks around the condition, which mean nothing."""
        trimmed = when.strip()
        if not trimmed:
            raise ValueError("is blank")
        return trimmed


class Policy(BaseModel):
    """Rules in order, under a name and a version.

    Attributes:
        name: what the lender calls it.
        version: which edition of it.
        allow_sensitive: conditions on gender, marital status and state of origin are wanted.
        carried: input columns of the lender's own that conditions may name; they are text.
        rules: in the order in which their reasons are reported.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Name
    version: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    allow_sensitive: bool = False
    carried: tuple[ColumnName, ...] = ()
    rules: Annotated[tuple[PolicyRule, ...], Field(min_length=1, max_length=200)]

    @cached_property
    def digest(self) -> str:
        """Return twelve hex digits over everything a policy says; layout and comments count not."""
        plain = self.model_dump(mode="json")
        canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_DIGITS]

    @property
    def label(self) -> str:
        """Return `name@digest`, which each decision carries."""
        return f"{self.name}@{self.digest}"

    def named(self) -> Mapping[str, object]:
        """Return how a manifest names the policy."""
        return {"name": self.name, "version": self.version, "digest": self.digest}


__all__ = ["MOST_CHARACTERS", "Decision", "Effect", "Policy", "PolicyRule"]
