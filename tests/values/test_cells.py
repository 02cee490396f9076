"""What one cell means: BVNs, accounts, phones, addresses, images, amounts, dates and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import phonenumbers
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import NAIRA
from nightscreen.schemas.shipped import DATA, read_rows
from nightscreen.values.addresses import (
    judge_domain,
    judge_email,
    judge_image_url,
)
from nightscreen.values.amounts import judge_amount, judge_amounts, judge_tenor
from nightscreen.values.banks import check_digit, institution_of, judge_account
from nightscreen.values.dates import judge_date, judge_instant
from nightscreen.values.identifiers import judge_bvn, judge_customer_id
from nightscreen.values.issues import Issues, Validated, bare_digits, is_absent, trimmed
from nightscreen.values.phones import judge_phone
from tests.how_many import examples

KEPT = object()  # the cell keeps its text
BVN, PHONE, ACCOUNT, EMAIL = "22123456789", "+2348031234567", "0123456785", "ada@example.com"
_account = partial(judge_account, institution=institution_of("058"))
_no_bank = partial(judge_account, institution=None)
_date, _dmy, _mdy, _ymd = (
    partial(judge_date, order=order) for order in (None, "dmy", "mdy", "ymd")
)
_start = partial(judge_instant, order=None)
_end = partial(judge_instant, order=None, ends=True)


def _jan(day: int, hour: int, minute: int = 0, second: int = 0, micro: int = 0) -> datetime:
    return datetime(2025, 1, day, hour, minute, second, micro, UTC)


CELLS: list[tuple[Callable[[str], Validated[Any]], object, str, list[str]]] = [
    # a BVN is never padded, shortened or guessed
    (judge_bvn, BVN, "", [BVN]),
    (
        *(judge_bvn, BVN, "bvn_characters_removed"),
        [
            *("'22123456789", "22 123 456 789", "2212-345-6789", "221\u200b23456789"),
            *("\ufeff22123456789", "22123456789.0", "22123456789.00", '="22123456789"'),
            *("22,123,456,789", "22,123,456,789.00"),
            "\uff12\uff12\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19",
        ],
    ),
    (judge_bvn, KEPT, "bvn_length", ["2212345678", "221234567890", "2212345678.0"]),
    (judge_bvn, KEPT, "bvn_scientific", ["2.21E+10", "2.2123456789E+10", "2.21e10"]),
    (judge_bvn, KEPT, "bvn_letters", ["2212345678O", "I2123456789"]),
    (
        *(judge_bvn, KEPT, "bvn_characters"),
        ["2212345678\u0663", "22123456789.5", "22123456789/22123456780"],
    ),
    (judge_bvn, None, "bvn_placeholder", ["11111111111"]),
    (judge_bvn, None, "", ["'00000000000", "000-000"]),
    # zeros are put back where the bank's check digit then agrees, and nowhere else
    (_account, ACCOUNT, "", [ACCOUNT]),
    (
        *(_account, ACCOUNT, "account_characters_removed"),
        ["'0123456785", "0123 456 785", "0123456785.0"],
    ),
    (_account, ACCOUNT, "account_padded", ["123456785"]),
    (_account, ACCOUNT, "account_characters_removed account_padded", ["123456785.0"]),
    (_account, KEPT, "account_check_digit", ["0123456784"]),
    (_account, KEPT, "account_length", ["01234567855", "123456784", "123456"]),
    (_no_bank, KEPT, "account_length", ["123456785"]),
    (_no_bank, KEPT, "", ["0123456784"]),
    (_account, KEPT, "account_scientific", ["1.23E+09"]),
    (_account, KEPT, "account_letters", ["O123456785"]),
    (_account, KEPT, "account_characters", ["0123456785/6"]),
    (_account, None, "account_placeholder", ["1111111111"]),
    (_account, None, "", ["'0000000000"]),
    # a phone is brought to +234 and ten digits
    (
        *(judge_phone, PHONE, ""),
        [
            *("08031234567", "8031234567", "2348031234567", "+2348031234567", "002348031234567"),
            *("0803 123 4567", "0803-123-4567", "(0803) 123-4567", "+234 (0) 803 123 4567"),
            "+234 803 123 4567",
        ],
    ),
    (
        *(judge_phone, PHONE, "phone_characters_removed"),
        ["'08031234567", "8031234567.0", "\u202a+2348031234567\u202c"],
    ),
    (
        *(judge_phone, PHONE, "phone_first_of_several"),
        ["08031234567 / 08051234567", "08031234567,08051234567", "08031234567 or 08051234567"],
    ),
    (judge_phone, "+2348271234567", "phone_prefix", ["08271234567"]),
    (judge_phone, None, "phone_placeholder", ["08000000000", "11111111111", "9999999999"]),
    (judge_phone, KEPT, "phone_not_nigerian", ["+447911123456", "+1 202 555 0100"]),
    (judge_phone, KEPT, "phone_scientific", ["8.03E+09"]),
    (judge_phone, KEPT, "phone_letters", ["O8031234567", "0803 CALL NOW"]),
    (
        *(judge_phone, KEPT, "phone_malformed"),
        [
            *("0803123456", "080312345678", "08031234567/8", "012345678", "+234", "+"),
            "0803" * 60,
        ],
    ),
    # emails and domains: lower case, an ASCII domain, no marks round it
    (judge_email, EMAIL, "", [EMAIL, "Ada@Example.COM"]),
    (judge_email, "ada.obi+loan@example.com", "", ["Ada.Obi+loan@Example.COM"]),
    (judge_email, KEPT, "", ["a/b@example.com", "\u00e0d\u00e1@example.com"]),
    (judge_email, "ada@xn--bcher-kva.example", "", ["ada@b\u00fccher.example"]),
    (
        *(judge_email, EMAIL, "email_characters_removed"),
        ["mailto:ada@example.com", "<ada@example.com>", "ada@example.com;"],
    ),
    (
        *(judge_email, EMAIL, "email_first_of_several"),
        ["ada@example.com; obi@example.com", "ada@example.com/obi@example.com"],
    ),
    (
        *(judge_email, KEPT, "email_malformed"),
        [
            *("ada", "ada@", "@example.com", "ada@example", "ada@@example.com", "ada@example,com"),
            *("ada obi@example.com", "ada..obi@example.com", ".ada@example.com", ";"),
            *("ada@-example.com", "ada@example.123", "ada@localhost", "ada@mail.internal"),
            *("a" * 65 + "@example.com", "ada@" + "a." * 130 + "com"),
        ],
    ),
    (judge_domain, "example.com", "", ["example.com", "Example.COM", "example.com."]),
    (judge_domain, "xn--bcher-kva.example", "", ["b\u00fccher.example"]),
    (
        *(judge_domain, "example.com", "domain_from_url"),
        ["https://www.Example.com/about?x=1", "www.example.com", "http://example.com:8080/"],
    ),
    (judge_domain, "www.com", "domain_from_url", ["www.com"]),
    (
        *(judge_domain, KEPT, "domain_malformed"),
        [
            *("example", "ada@example.com", "10.0.0.1", "localhost", "shop.local", "exa mple.com"),
            "https://",
        ],
    ),
    # an image lies on a public https host: the service fetches it itself
    (
        *(judge_image_url, KEPT, ""),
        [
            *("https://img.example.com/a.jpg", "https://img.example.com/a.jpg?token=x&y=1"),
            "https://img.example.com:8443/a.jpg",
            *("https://img.example/a.jpg", "https://IMG.Example.COM/a.jpg"),
            *("https://b\u00fccher.example/a.jpg", "HTTPS://img.example.com/a.jpg"),
        ],
    ),
    (
        *(judge_image_url, KEPT, "image_not_https"),
        [
            *("http://img.example.com/a.jpg", "ftp://img.example.com/a.jpg"),
            *("img.example.com/a.jpg", "//img.example.com/a.jpg", "data:image/png;base64,AAAA"),
            "file:///etc/passwd",
        ],
    ),
    (
        *(judge_image_url, KEPT, "image_credentials"),
        [
            *("https://user:secret@img.example.com/a.jpg", "https://:secret@img.example.com/a.jpg"),
            *("https://@img.example.com/a.jpg", "https://img.example.com@127.0.0.1/a.jpg"),
        ],
    ),
    (
        *(judge_image_url, KEPT, "image_malformed"),
        [
            *("https://img.example.com:99999/a.jpg", "https://[img.example.com/a.jpg"),
            "https://img.example.com:0/a.jpg",
            *("https://img.example.com/a b.jpg", "https://img.example.com\\@127.0.0.1/"),
            "https://img.example.com/" + "a" * 2000,
        ],
    ),
    (
        *(judge_image_url, KEPT, "image_host"),
        [
            f"https://{host}/a.jpg"
            for host in (
                *("localhost", "localhost.", "files.internal", "nas", "127.0.0.1", "127.1"),
                *(
                    "2130706433",
                    "0x7f.0.0.1",
                    "127\u30020\u30020\u30021",
                    "10.1.2.3",
                    "[::1]",
                ),
                *("169.254.169.254", "[::ffff:127.0.0.1]", "", "img.test", "a.b.test"),
                *("img.invalid", "img.onion", "printer.local", "nas.home.arpa", "img.localhost"),
                *("img.\uff54\uff45\uff53\uff54", "192.168.1.10", "172.31.0.1", "100.64.0.1"),
                *("0.0.0.0", "224.0.0.5", "255.255.255.255", "0177.0.0.1", "017700000001"),  # noqa: S104 - refused
                *("0x7f000001", "127.0.0.1.", "%31%32%37.0.0.1", "[fe80::1%25eth0]", "[fd00::1]"),
                *("[fec0::1]", "[ff02::1]", "[::]", "[::ffff:8.8.8.8]", "[64:ff9b::7f00:1]"),
                *("[2002:7f00:1::]", "8.8.8.8", "[2606:4700::1111]"),
            )
        ],
    ),
    # amounts are exact; what could be read in two ways is not read
    (
        *(judge_amount, Decimal("1250000.00"), ""),
        [
            *("1250000", "\u20a61,250,000.00", "NGN 1,250,000", "1,250,000.00 NGN"),
            *("1 250 000.00", "1\u00a0250\u00a0000"),
        ],
    ),
    (judge_amount, Decimal("1250000.50"), "", ["ngn1250000.5"]),
    (judge_amount, Decimal("1250.00"), "", ["N1,250"]),
    (judge_amount, Decimal("5000.00"), "", ["5000 naira", "=N=5,000", "5000."]),
    (judge_amount, Decimal("0.00"), "", ["0", "0.00", "-0.00"]),
    (judge_amount, Decimal("0.50"), "", [".5", "0.500"]),
    (judge_amount, Decimal("999999999999999999.99"), "", ["999999999999999999.99"]),
    (judge_amount, None, "", ["\u20a6 -"]),
    (judge_amount, Decimal("1250000.51"), "exposure_rounded", ["1250000.505"]),
    (judge_amount, Decimal("0.13"), "exposure_rounded", ["0.125"]),
    (judge_amount, None, "exposure_ambiguous", ["1.250.000,00", "1250,00", "1,25,000"]),
    (judge_amount, None, "exposure_negative", ["(500)", "-500", "\u20a6-1,000.00"]),
    (judge_amount, None, "exposure_scientific", ["1.25E+06"]),
    (judge_amount, None, "exposure_too_large", ["1000000000000000000"]),
    (judge_amount, None, "exposure_unreadable", ["9" * 60, "1.2m", "USD 500"]),
    (judge_tenor, 180, "", ["180", "180 days", "180.0", "6 months", "6m"]),
    (judge_tenor, 84, "", ["12 weeks", "84d"]),
    (judge_tenor, 365, "", ["1 yr"]),
    (
        *(judge_tenor, None, "requested_tenor_days_unreadable"),
        ["0", "0 months", "soon", "50 years", "-3", "3 fortnights", "99999", "1.5 months"],
    ),
    # dates: ISO, a named month, or the order that a mapping declares
    (
        *(_date, date(1990, 4, 3), ""),
        [
            *("1990-04-03", "1990-04-03 00:00:00", "1990-04-03T00:00:00.000", "19900403"),
            "1990-04-02T23:00:00.000Z",
        ],
    ),
    (_dmy, date(1990, 4, 3), "", ["1990-04-03", "03/04/1990", "3.4.1990", "03 04 1990"]),
    (_dmy, date(1990, 4, 3), "", ["03/04/1990 00:00"]),
    (_mdy, date(1990, 3, 4), "", ["03/04/1990"]),
    (_ymd, date(1990, 4, 3), "", ["1990/04/03"]),
    (_date, date(2000, 2, 29), "", ["2000-02-29"]),
    (
        *(_date, date(1985, 3, 12), ""),
        [
            *("12-Mar-1985", "12MAR1985", "12 march 1985", "12th March, 1985", "March 12, 1985"),
            "1985-Mar-12",
        ],
    ),
    (_date, date(1990, 9, 3), "", ["3-Sept-1990"]),
    (_date, None, "date_order_undeclared", ["03/04/1990", "25/12/1990", "1990/04/03"]),
    (_dmy, None, "date_short_year", ["1990/04/03", "03/04/90", "12-Mar-85"]),
    (_dmy, None, "date_impossible", ["13/13/1990", "04/25/1990", "1990-02-30"]),
    (_date, None, "date_implausible", ["1900-01-01", "0090-01-01"]),
    (_date, None, "date_serial", ["33000", "33000.5"]),
    (_date, None, "date_unreadable", ["12-Foo-1985", "yesterday", "1990"]),
    # naive times are Lagos; a bare date is the start of its day, or the end for an expiry
    (_start, _jan(14, 23), "", ["2025-01-15"]),
    (_end, _jan(15, 22, 59, 59, 999999), "", ["2025-01-15"]),
    (_end, _jan(15, 9), "", ["2025-01-15T10:00"]),
    (_start, _jan(15, 9), "", ["2025-01-15 10:00:00", "2025-01-15T10:00:00+01:00"]),
    (
        *(_start, _jan(15, 10), ""),
        ["2025-01-15T10:00:00Z", "2025-01-15T10:00:00 UTC", "20250115T100000Z"],
    ),
    (_start, _jan(15, 15, 30), "", ["2025-01-15 10:00:00 -0530"]),
    (_start, _jan(15, 10, 0, 0, 123456), "", ["2025-01-15T10:00:00.123456789Z"]),
    (_start, _jan(15, 21), "", ["15-Jan-2025 10:00 PM"]),
    (_start, _jan(14, 23, 30), "", ["15 Jan 2025, 12:30 am"]),
    (
        *(_start, None, "consent_unreadable"),
        [
            *("15/01/2025", "2025-01-15T25:00:00", "2025-01-15T10:61", "2025-01-15 13:00 PM"),
            *("2025-01-15T10:00:00+19:00", "0001-01-01T00:00:00+14:00", "9999-12-31", "45672"),
            "yes",
        ],
    ),
]
_OF_NO_USE = {
    *(judge_bvn, judge_phone, judge_email, judge_domain, judge_image_url),
    *(_account, _no_bank),
}
"""Rules of identifiers: what keeps its text with an issue is of no use, but for a check digit."""


def test_every_issue_of_the_table_is_found_in_a_cell() -> None:
    """No line of data/issues.csv is for nothing; those of banks are found by test_banks."""
    found = {code for _, _, codes, _ in CELLS for code in codes.split()}
    codes = {row["code"] for row in read_rows(DATA / "issues.csv")}
    assert {code for code in codes - found if not code.startswith("bank_")} == set()


def test_cells_are_judged() -> None:
    """Marks go, digits stay, nothing is invented; what is in doubt is said."""
    for judge, value, codes, cells in CELLS:
        for cell in cells:
            verdict = judge(cell)
            expected = cell if value is KEPT else value
            assert (verdict.value, [each.code for each in verdict.issues]) == (
                expected,
                codes.split(),
            ), cell
            if value is KEPT and codes and judge in _OF_NO_USE:
                flawed = any(each.flaw is not Flaw.NONE for each in verdict.issues)
                assert flawed == (codes != "account_check_digit"), cell
            if judge is _start and codes:
                assert verdict.issues[0].flaw is Flaw.CONSENT, cell


@settings(max_examples=examples(400), deadline=None)
@given(st.from_regex(r"(\+?234|0)?[789][0-9]{9}", fullmatch=True))
def test_ordinary_phones_are_read_as_the_library_reads_them(cell: str) -> None:
    """The forms of nearly every file are recognised by their pattern alone."""
    number = phonenumbers.parse(cell, "NG")
    national = phonenumbers.national_significant_number(number)
    verdict = judge_phone(cell)
    if verdict.value is not None:
        assert verdict.value == f"+234{national}"
        assert bool(verdict.issues) != phonenumbers.is_valid_number(number)


amounts = st.from_regex(r"[0-9]{1,19}(\.[0-9]{0,4})?", fullmatch=True)
marked = st.from_regex(r"[(-]?(N|NGN|\u20a6)? ?[0-9]{1,3}(,[0-9]{2,3}){0,3}\)?", fullmatch=True)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.none() | amounts | marked | st.text(min_size=1, max_size=45), max_size=20))
def test_a_column_has_what_its_cells_have(cells: list[str | None]) -> None:
    """Each cell of a column is judged by its rule, in the column's own type, in order."""
    issues = Issues.blank(range(len(cells)))
    judged = judge_amounts(pa.array(cells, pa.string()), issues)
    verdicts = [(row, judge_amount(cell)) for row, cell in enumerate(cells) if cell is not None]
    values = dict.fromkeys(range(len(cells))) | {row: each.value for row, each in verdicts}
    assert judged.type == NAIRA
    assert judged.to_pylist() == list(values.values())
    found = [(row, issue.code) for row, verdict in verdicts for issue in verdict.issues]
    assert [(problem.line, problem.code) for problem in issues.problems] == found


DIGITS: list[tuple[str, str, int]] = [
    ("011", "000001457", 9),  # the worked example of the central bank's standard
    ("058", "012345678", 5),
    ("044", "000000000", 0),
    ("50211", "000000000", 2),
    ("50211", "200000000", 6),
]


def test_check_digit_follows_the_formula() -> None:
    """A 3-digit bank uses the old standard, any other institution the one of 2020."""
    for code, serial, digit in DIGITS:
        assert check_digit(institution_of(code), serial) == digit, (code, serial, digit)
        if len(code) == 3:  # which gives it the digit of the older standard
            weights = (3, 7, 3) * 4
            total = sum(int(d) * w for d, w in zip(code + serial, weights, strict=True))
            assert digit == -total % 10, (code, serial, digit)


ABSENT = [
    *["", "-", "--", "\u2014", "0", "00000000000", "0.0", "NIL", "nil", "N/A", "n/a", "NA", "None"],
    *["NULL", "#N/A", "Not Available", "undefined", "NaN", "<NA>", "0000-00-00"],
]


def test_words_for_nothing_are_nothing_and_others_stay() -> None:
    """Blank, dashes, zeros and the words of the list; zero naira at risk is an amount."""
    for cell in ABSENT:
        assert is_absent(cell)
        assert trimmed(pa.array([f"  {cell}\u00a0"])).to_pylist() == [None]
    for cell in ("0", "0.00", "000"):
        assert trimmed(pa.array([cell]), zero_is_value=True).to_pylist() == [cell]
    for cell in ("Nila", "0803", "10", "Nana", "NA Bello", "x", "O", "-5"):
        assert not is_absent(cell)
        assert trimmed(pa.array([f" {cell}\t"])).to_pylist() == [cell]
    for cell in ("I2345", "O1234", "12a", "\u0661\u0662", "1.5", "1,23"):
        assert bare_digits(cell) == cell


OWN = {"bvn": "31415926535", "bank_code": "058", "account": ACCOUNT, "phone": PHONE}


DISGUISED: list[tuple[str | None, list[str]]] = [
    ("customer_id_is_bvn", [BVN, "'22123456789", "2212-345-6789", "31415926535"]),
    ("customer_id_is_account", ["0123456785", "058-0123456785"]),
    (
        "customer_id_is_phone",
        ["08031234567", "8031234567", "07011234567", "+234 803 999 9999", "2348039999999"],
    ),
    (
        None,
        ["1", "000123", "C-22123456789", "1000000001", "0123456780", "33123456789"],
    ),
]


def test_an_identifier_in_disguise_is_no_customer_id() -> None:
    """A BVN, an account or a phone would end up in files that hold no identifiers."""
    for code, ids in DISGUISED:
        for text in ids:
            issue = judge_customer_id(text, **OWN)
            assert (issue and issue.code) == code, (code, ids)
