"""Records are read leniently, exactly, and without losing anything."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from nightscreen.client.reading import is_other_person, parse_answer
from nightscreen.schemas.answers import BvnAccount, BvnDetails, KarmaListing, read_date, read_number
from nightscreen.schemas.checks import Check, Operation

BVN = "22212345678"


def body(data: object) -> bytes:
    """Return an envelope with this data."""
    return json.dumps({"status": "success", "data": data}).encode()


def test_karma_record_is_laid_flat() -> None:
    """Nested objects become columns; unknown fields are kept."""
    listing = parse_answer(
        Check.KARMA,
        body(
            {
                "karma_identity": BVN,
                "amount_in_contention": "1,250.50",
                "reason": None,
                "default_date": "2019-05-16",
                "karma_type": {"karma": "Fraud"},
                "karma_identity_type": {"identity_type": "BVN"},
                "reporting_entity": {"name": "Lender", "email": "a@b.ng"},
                "severity": 3,
            }
        ),
    )
    assert isinstance(listing, KarmaListing)
    assert listing.amount_in_contention == Decimal("1250.50")
    assert listing.default_date == date(2019, 5, 16)
    assert (listing.karma_type, listing.identity_type) == ("Fraud", "BVN")
    assert (listing.reporting_entity_name, listing.reporting_entity_email) == ("Lender", "a@b.ng")
    assert listing.extra == {"severity": 3}


def test_ecosystem_numbers_are_exact_and_extras_kept() -> None:
    """A number no float holds survives, specified or not."""
    raw = (
        b'{"status":"success","data":{"bvn":"22212345678","loans":"3","age":41.0,'
        b'"loan_amount_average":9007199254740993.10,"date_of_birth":"1990-04-30T23:00:00.000Z",'
        b'"first_login":"2020-01-02T03:04:05Z","score":12345678901234567890.5,"ratio":0.25,'
        b'"lenders":"many","note":null}}'
    )
    record = parse_answer(Check.ECOSYSTEM, raw)
    assert record is not None
    assert record.loan_amount_average == Decimal("9007199254740993.10")
    assert (record.loans, record.age, record.lenders) == (3, 41, None)
    assert record.date_of_birth == date(1990, 5, 1)  # midnight in Lagos
    assert record.first_login == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert json.loads(record.extra_json()) == {
        "lenders": "many",
        "note": None,
        "ratio": 0.25,
        "score": "12345678901234567890.5",
    }


def test_bvn_confirmation_in_both_shapes() -> None:
    """The details object of the specification, and the list of accounts some answers hold."""
    details = parse_answer(
        Operation.BVN_FINISH,
        body({"bvn": BVN, "registration_date": "17-Mar-2016", "watchlisted": 0, "dob": "1990-1-1"}),
    )
    assert isinstance(details, BvnDetails)
    assert (details.registration_date, details.watchlisted) == (date(2016, 3, 17), False)
    assert details.extra == {"dob": "1990-1-1"}
    accounts = parse_answer(Operation.BVN_FINISH, body([{"account_number": "0123456789"}, None]))
    assert accounts == (BvnAccount(account_number="0123456789"),)


def test_selfie_score_as_text_or_number() -> None:
    """The threshold is the caller's; the score is exact."""
    for similarity in (87.5, "87.5", "87.5%"):
        scored = parse_answer(Check.SELFIE, body({"match": "true", "similarity": similarity}))
        assert scored is not None
        assert (scored.match, scored.similarity) == (True, Decimal("87.5"))


@pytest.mark.parametrize("data", [None, "", [], {}, {"unknown": 1}, 3, {"karma_identity": " "}])
def test_what_holds_no_record_is_none(data: object) -> None:
    """No evidence is made of an empty answer."""
    assert parse_answer(Check.KARMA, body(data)) is None
    assert parse_answer(Check.KARMA, b"") is None


def test_records_are_masked() -> None:
    """Neither repr nor text shows the person."""
    listing = KarmaListing(karma_identity=BVN, reason="owes")
    assert f"{listing!r} {listing}" == "KarmaListing(***) KarmaListing(***)"


@pytest.mark.parametrize(
    ("asked", "answered", "other"),
    [
        ("+2348012345678", "08012345678", False),
        ("+2348012345678", "08012345679", True),
        ("058-0123456789", "0123456789", False),
        ("Ada@Mail.ng", "ada@mail.ng", False),
        ("ada@mail.ng", "obi@mail.ng", True),
        ("ada@mail.ng", "a**@mail.ng", False),
        (BVN, "222*****678", False),
        (BVN, "22200000678", False),
        (BVN, "22212345679", True),
        (BVN, None, False),
        ("mail.ng", "other.ng", False),
    ],
)
def test_other_person_only_where_it_is_plain(asked: str, answered: str | None, other: bool) -> None:
    """Masks, prefixes and other kinds of identifier are no contradiction."""
    listing = KarmaListing(karma_identity=answered, reason="x")
    assert is_other_person(Operation.KARMA, asked, listing) is other


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("₦1,250.00", Decimal("1250.00")),
        (True, None),
        ("1e9999999", None),
        ("NaN", None),
        ("", None),
        ([], None),
        ("٣", None),
    ],
)
def test_numbers_are_read_or_none(value: object, number: Decimal | None) -> None:
    """Nothing that is no plain number becomes one."""
    assert read_number(value) == number


@pytest.mark.parametrize("value", ["0000-00-00", "0001-01-01T00:00:00+14:00", "x", None, 5, True])
def test_impossible_dates_are_none(value: object) -> None:
    """A date beyond the calendar is none."""
    assert read_date(value) is None
