"""A record is ours only where it names whom we asked about, in value and in kind."""

from __future__ import annotations

from nightscreen.checks.bank_account import BankAccountAnswer
from nightscreen.checks.ecosystem import EcosystemRecord
from nightscreen.checks.karma import KarmaListing
from nightscreen.client.classify import is_of_another_person
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import Operation

BVN, PHONE, EMAIL = "22123456789", "+2348031234567", "ada@mail.example"
DOMAIN, NUBAN = "mail.example", "058-0123456789"
SAMPLE = "0zspgifzbo.ga"


OWN: list[tuple[str, str | None, str | None]] = [
    (BVN, BVN, "BVN"),
    (BVN, "221 2345 6789", "Bank Verification Number"),
    (BVN, "221*****789", None),
    (BVN, None, "BVN"),
    (BVN, BVN, "Customer"),
    (PHONE, "08031234567", "Phone"),
    (PHONE, "8031234567", "Mobile Number"),
    (PHONE, "2348031234567", None),
    (PHONE, "+234 (0) 803-123-4567", "phone number"),
    (PHONE, "0803***67", "Phone"),
    (EMAIL, " Ada@Mail.Example", "Email"),
    (EMAIL, "a**@mail.example", "E-mail address"),
    (DOMAIN, "https://www.Mail.example/", "Domain"),
    (DOMAIN, "mail.example.", None),
    (NUBAN, NUBAN, "NUBAN"),
    (NUBAN, "0123456789", "Account Number"),
    (NUBAN, "000013-0123456789", "NUBAN"),
    (NUBAN, "058 0123456789", None),
    (NUBAN, "999-0123456789", None),
]
"""Asked, named by the record, and the kind it names: case, gaps, country code, codes of other
schemes and asterisks make nobody another."""
ANOTHERS: list[tuple[str, str | None, str | None]] = [
    *((asked, SAMPLE, "Domain") for asked in (BVN, PHONE, EMAIL, NUBAN, DOMAIN)),
    *((asked, SAMPLE, None) for asked in (BVN, PHONE, EMAIL, NUBAN, DOMAIN)),
    (BVN, "22123456780", "BVN"),
    (BVN, "22100000789", "BVN"),
    (BVN, "00000000000", None),
    (BVN, BVN, "Phone"),
    (BVN, None, "Domain"),
    (BVN, "221*****780", None),
    (PHONE, "08031234568", "Phone"),
    (PHONE, PHONE, "Email"),
    (EMAIL, "obi@mail.example", "Email"),
    (EMAIL, "a**@other.example", None),
    (EMAIL, DOMAIN, "Domain"),
    (DOMAIN, EMAIL, "Email"),
    (NUBAN, "058-0123456780", "NUBAN"),
    (NUBAN, "044-0123456789", "NUBAN"),
    (NUBAN, "000014-0123456789", None),
    (NUBAN, "0120000789", None),
]
"""Another kind, value or bank is another person; a zero is no mask."""


def test_a_listing_is_of_the_identity_asked_or_of_somebody_else() -> None:
    """As the two tables say."""
    for cases, other in ((OWN, False), (ANOTHERS, True)):
        for asked, named, kind in cases:
            listing = KarmaListing(karma_identity=named, identity_type=kind, reason="x")
            case = (asked, named, kind)
            assert is_of_another_person("karma", asked, listing) is other, case


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
