"""The lender's declarations: lawful bases of checks, and whether the policy decides alone.

There are no defaults: a check without a declaration is `undeclared`. The lender's counsel decides.
"""

from __future__ import annotations

import os
from datetime import date
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, model_validator

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import FAMILIES, Purpose, family_of
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import read_model

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings

UNDECLARED = "undeclared"
DECLARABLE = (*CHECKS, *FAMILIES)

Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class LawfulBasis(BaseModel):
    """The lawful basis of a check's lookups, and its assessment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str  # a check, or `bvn`, `aggregator`, `loans` for the operations besides screening
    purpose: Purpose | None = None  # portfolio or origination; None for every purpose
    basis: Words  # the basis in the lender's own words
    reference: Words  # of the assessment
    assessed_on: date  # its date

    @model_validator(mode="after")
    def _known(self) -> LawfulBasis:
        if self.check not in DECLARABLE:
            raise ValueError(f"check is one of {', '.join(DECLARABLE)}")
        return self


class PolicyAlone(BaseModel):
    """Who declared that the policy decides without a person, when, and on which ground."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: Words
    on: date
    ground: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]


class Declarations(BaseModel):
    """All that a lender declares."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lawful_basis: tuple[LawfulBasis, ...] = ()
    policy_decides_alone: PolicyAlone | None = None

    @model_validator(mode="after")
    def _once(self) -> Declarations:
        named = [(basis.check, basis.purpose) for basis in self.lawful_basis]
        if len(set(named)) < len(named):
            raise ValueError("the lawful basis of a check and purpose is declared twice")
        return self

    def basis_of(self, check: str, purpose: str) -> LawfulBasis | None:
        """Return the basis of a check or operation for a purpose, else that for every purpose.

        Args:
            check: a check or an operation, as in a call.
            purpose: the purpose of a call; outside screening, the flow's name.
        """
        bases = [basis for basis in self.lawful_basis if basis.check == family_of(check)]
        for declared in (purpose, None):
            for basis in bases:
                if basis.purpose == declared:
                    return basis
        return None


NOTHING_DECLARED = Declarations()


def basis_words(basis: LawfulBasis | None) -> str:
    """Return a basis in one line, with the reference and date of its assessment."""
    if basis is None:
        return UNDECLARED
    return f"{basis.basis} ({basis.reference}, assessed {basis.assessed_on.isoformat()})"


def read_declarations(settings: Settings) -> Declarations:
    """Read the lender's declarations file; without one nothing is declared.

    Raises:
        SettingsError: the file cannot be read, or is not valid.
    """
    path = settings.own_table("declarations")
    if path is None:
        return NOTHING_DECLARED
    try:
        return read_model(path, Declarations)
    except SettingsError as error:
        advice = "correct it as docs/notices.md shows"
        if settings.declarations_file and not (path.is_file() and os.access(path, os.R_OK)):
            advice = "correct NIGHTSCREEN_DECLARATIONS_FILE"
        raise SettingsError(f"{error}; {advice}") from None
