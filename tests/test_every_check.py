"""A check is known everywhere: who adds one hears here of each place that does not know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import pytest

from nightscreen.client.identities import is_of_another_person
from nightscreen.planning.eligibility import FLAWS
from nightscreen.privacy.lookup_subject import subjects_of
from nightscreen.reading.headings import is_output_name
from nightscreen.results import assemble
from nightscreen.schemas.answers import (
    BankAccountAnswer,
    EcosystemRecord,
    KarmaListing,
)
from nightscreen.schemas.checks import Check, IdentityKind, Operation, Purpose
from nightscreen.schemas.parameters import CheckName
from nightscreen.schemas.settings import FreshnessOverrides, MaxInFlight, TimeoutsS, max_ages

if TYPE_CHECKING:
    from collections.abc import Collection

OTHERS: dict[Check, tuple[str, Any] | None] = {
    Check.BANK_ACCOUNT: (
        "058-0123456789",
        BankAccountAnswer(bank_code="058", account_number="0123456780"),
    ),
    Check.KARMA: ("22212345678", KarmaListing(karma_identity="22287654321", identity_type="BVN")),
    Check.ECOSYSTEM: ("22212345678", EcosystemRecord(bvn="22287654321")),
    Check.SELFIE: None,  # a score names nobody
}
"""An identifier and somebody else's record, by check."""
ROW = {
    "bvn": "22212345678",
    "phone": "+2348030000001",
    "email": "ada@example.ng",
    "domain": "example.ng",
    "bank_code": "058",
    "account_number": "0123456789",
    "image_url": "https://example.ng/ada.jpg",
}


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(get_args(CheckName), id="schemas/parameters.py: names a user may give"),
        pytest.param(assemble._FILLERS, id="results/assemble.py: columns"),
        pytest.param(OTHERS, id="client/identities.py: somebody else's record"),
    ],
)
def test_every_table_has_every_check(known: Collection[str]) -> None:
    """No more and no less."""
    assert sorted(map(str, known)) == sorted(Check)


@pytest.mark.parametrize("check", Check)
def test_every_check_has_settings_columns_and_titles(check: Check) -> None:
    """Limits, ages, columns, what is compared from night to night, a title in the report."""
    Operation(check.value)
    for group in (MaxInFlight, TimeoutsS, FreshnessOverrides):
        assert check.value in group.model_fields, group.__name__
    for purpose in Purpose:
        assert any(of is check for of, _ in max_ages(purpose, FreshnessOverrides()))
    assert is_output_name(f"{check.value}_status"), "an input column of this name is renamed"


@pytest.mark.parametrize("check", [check for check, other in OTHERS.items() if other])
def test_somebody_elses_record_is_seen(check: Check) -> None:
    """A paid answer about another person is refused, not shown."""
    asked, record = OTHERS[check] or ("", None)
    assert is_of_another_person(Operation(check.value), asked, record)


@pytest.mark.parametrize("kind", IdentityKind)
def test_every_identifier_is_found_again(kind: IdentityKind) -> None:
    """Explaining, subject access and the purge look a person up by each kind that was asked."""

    class Plain:
        def subject(self, kind: str, *parts: str) -> bytes:
            return f"{kind}:{parts}".encode()

    assert kind in FLAWS
    assert kind.value in subjects_of([ROW], Plain()).values()  # type: ignore[arg-type]
