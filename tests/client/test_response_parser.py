"""Records are read leniently, exactly, and without losing anything."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

from nightscreen.checks.ecosystem import EcosystemRecord
from nightscreen.checks.karma import KarmaListing
from nightscreen.client.response_parser import parse_answer, shown_contact
from nightscreen.schemas.answers import read_date, read_number

BVN = "22212345678"


def body(data: object) -> bytes:
    return json.dumps({"status": "success", "data": data}).encode()


def test_ecosystem_numbers_are_exact_and_extras_kept() -> None:
    """A number no float holds survives, specified or not."""
    raw = (
        b'{"status":"success","data":{"bvn":"22212345678","loans":"3","age":41.0,'
        b'"loan_amount_average":9007199254740993.10,"date_of_birth":"1990-04-30T23:00:00.000Z",'
        b'"first_login":"2020-01-02T03:04:05Z","score":12345678901234567890.5,"ratio":0.25,'
        b'"first_loan_date":"2021-02-03","delayed_paid_loans_avg":1.5,"unique_emails":"2",'
        b'"unique_phone_numbers":["0803"],"penalty":"1,250.50","gender":"Female",'
        b'"lenders":"many","note":null}}'
    )
    record = parse_answer("ecosystem", raw)
    assert isinstance(record, EcosystemRecord)
    assert record.loan_amount_average == Decimal("9007199254740993.10")
    assert (record.loans, record.age, record.lenders) == (3, 41, None)
    assert record.date_of_birth == date(1990, 5, 1)  # midnight in Lagos
    assert record.first_login == datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert (record.first_loan_date, record.unique_emails) == (date(2021, 2, 3), 2)
    assert (record.penalty, record.delayed_paid_loans_avg) == (Decimal("1250.50"), Decimal("1.5"))
    assert (record.gender, record.unique_phone_numbers) == ("Female", None)
    assert json.loads(record.extra_json()) == {
        "unique_phone_numbers": ["0803"],
        "lenders": "many",
        "note": None,
        "ratio": 0.25,
        "score": "12345678901234567890.5",
    }


CONTACTS: list[tuple[object, str | None]] = [
    ({"status": "error", "message": "Use 0803*****67"}, "0803*****67"),
    ({"message": "Invalid contact", "data": "a***@mail.example"}, "a***@mail.example"),
    (
        {"data": {"phone": "+234803***4567", "email": "am**@mail.example"}},
        "+234803***4567, am**@mail.example",
    ),
    ({"errors": [{"hint": "080xxxxxx12."}]}, "080xxxxxx12"),
    ({"message": "BVN 222*****678 not found"}, None),
    ({"message": "Enter a valid BVN number.", "meta": {"note": "0803*****67"}}, None),
    ({"message": "Sent on 2026-01-31 to amina@mail.example"}, None),
    ([], None),
]


def test_masked_contact_is_found_wherever_it_stands() -> None:
    """Message, data or a list: a masked phone or email is a contact; a BVN or a date is none."""
    for document, shown in CONTACTS:
        assert shown_contact(document) == shown, (document, shown)


NOTHING: list[object] = [None, "", [], {}, {"unknown": 1}, 3, {"karma_identity": " "}]


def test_what_holds_no_record_is_none() -> None:
    """No evidence is made of an empty answer."""
    for data in NOTHING:
        assert parse_answer("karma", body(data)) is None, data
        assert parse_answer("karma", b"") is None, data


def test_records_are_masked() -> None:
    """Neither repr nor text shows the person."""
    listing = KarmaListing(karma_identity=BVN, reason="owes")
    assert f"{listing!r} {listing}" == "KarmaListing(***) KarmaListing(***)"


NUMBERS: list[tuple[object, Decimal | None]] = [
    ("₦1,250.00", Decimal("1250.00")),
    (True, None),
    ("1e9999999", None),
    ("NaN", None),
    ("", None),
    ([], None),
    ("٣", None),
]


def test_numbers_are_read_or_none() -> None:
    """Nothing that is no plain number becomes one."""
    for value, number in NUMBERS:
        assert read_number(value) == number, (value, number)


IMPOSSIBLE: list[object] = ["0000-00-00", "0001-01-01T00:00:00+14:00", "x", None, 5, True]


def test_impossible_dates_are_none() -> None:
    for value in IMPOSSIBLE:
        assert read_date(value) is None, value


def test_number_that_no_column_holds_is_kept_aside() -> None:
    """It would end the night of everybody else; the field is empty and the number in `extra`."""
    for absurd in (10**18, "1e25", 10**29, -(10**18)):
        record = parse_answer(
            "ecosystem", body({"bvn": BVN, "loans": absurd, "loan_amount": absurd, "age": 3})
        )
        assert isinstance(record, EcosystemRecord), absurd
        assert (record.loans, record.loan_amount, record.age) == (None, None, 3), absurd
        assert set(record.extra) == {"loans", "loan_amount"}, absurd
