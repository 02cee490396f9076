"""A record is ours only where it names whom we asked about, in value and in kind."""

from __future__ import annotations

from pathlib import Path

from nightscreen.checks.bank_account import BankAccountAnswer
from nightscreen.checks.ecosystem import EcosystemRecord
from nightscreen.checks.karma import KarmaListing
from nightscreen.client.classify import is_of_another_person
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import Operation
from tests.screening import csv_rows

BVN, NUBAN = "22123456789", "058-0123456789"


def test_a_listing_is_of_the_identity_asked_or_of_somebody_else() -> None:
    """Case, gaps, country code, codes of other schemes and asterisks make nobody another.

    Another kind, value or bank is another person; a zero is no mask.
    """
    cases = csv_rows(Path(__file__).with_name("identities.csv"))
    assert cases
    for case in cases:
        named, kind = case["named"] or None, case["kind"] or None
        listing = KarmaListing(karma_identity=named, identity_type=kind, reason="x")
        found = is_of_another_person("karma", case["asked"], listing)
        assert found is (case["is_other"] == "yes"), case


ACCOUNTS: list[tuple[str | None, str | None, str | None, bool]] = [
    ("058", "0123456789", "22000000089", False),
    ("000013", "0123456789", None, False),
    ("GTB", "0123456789", None, False),
    (None, "0123456789", None, False),
    ("058", None, None, False),
    ("044", "0123456789", None, True),
    ("000014", "0123456789", None, True),
    ("044", None, None, True),
    ("058", "0123456780", None, True),
    ("058", "0120000789", None, True),
]


def test_account_is_compared_with_its_bank() -> None:
    """Bank codes are compared as the banks they mean, where both are known."""
    for code, number, bvn, other in ACCOUNTS:
        answer = BankAccountAnswer(bank_code=code, account_number=number, bvn=bvn, account_name="A")
        assert is_of_another_person("bank_account", NUBAN, answer) is other, (
            code,
            number,
            bvn,
            other,
        )
        unknown = answer.model_copy(update={"bank_code": "999"})
        is_other = is_of_another_person("bank_account", "999-0123456789", unknown)
        assert is_other is (number not in ("0123456789", None)), (code, number, bvn, other)


def test_history_and_details_of_another_bvn() -> None:
    """A history or a BVN record names its BVN; where it names none it is taken as asked."""
    pairs = (("ecosystem", EcosystemRecord), (Operation.BVN_FINISH, BvnDetails))
    for operation, record in pairs:
        assert not is_of_another_person(operation, BVN, record(bvn=BVN, first_name="Ada"))
        assert not is_of_another_person(operation, BVN, record(first_name="Ada"))
        assert is_of_another_person(operation, BVN, record(bvn="22123456780", first_name="Ada"))
        assert is_of_another_person(operation, BVN, record(bvn="22000000089", first_name="Ada"))
