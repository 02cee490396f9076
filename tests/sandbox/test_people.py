"""The people: stable, linked, and as often listed, found and missing as ordinary people are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.sandbox import banks, test_identifiers
from nightscreen.sandbox.people import (
    account_name,
    account_of,
    ecosystem_of,
    holder_of,
    identity_kind,
    karma_of,
    person_of_bvn,
    selfie_of,
)

PEOPLE = 4000
SPECIFIED_ECOSYSTEM_FIELDS = 22
RECORDED = {
    *("bvn_phone_number", "unique_phone_numbers", "phone_number", "unique_emails", "email"),
    *("gender", "failed_selfie_bvn_check", "lending_lenders", "loan_amount"),
    *("settled_loan_amount", "settled_loan_amount_paid", "running_loan_amount"),
    *("past_due_loan_amount", "penalty", "penalty_paid", "delayed_paid_loan_amount"),
    *("delayed_paid_loans_trials", "delayed_paid_loans_avg", "delayed_paid_loans_trials_max"),
    *("delayed_paid_loans_trials_min", "first_loan_date", "last_loan_date", "loan_requests"),
    *("failed_loan_requests", "unique_login_ips", "unique_device_ids", "distinct_mobile_os"),
    *("duplicated_devices", "shared_device_users"),
}
"""The 29 names that were recorded beside the specified ones; no others are sent."""


def some_bvns(count: int = PEOPLE) -> list[str]:
    """BVNs spread over all linked ones."""
    return [f"22{number * 618_033_989 % 10**9:09d}" for number in range(count)]


def test_check_digit_is_the_published_example() -> None:
    """Bank 011 with serial 000001457 has the check digit 9."""
    assert banks.check_digit("011", "000001457") == "9"


@given(st.integers(0, 10**9 - 1), st.sampled_from(sorted(banks.BANK_NAMES)))
def test_serial_and_holder_are_one_to_one(holder: int, bank_code: str) -> None:
    """A serial leads back to the holder it was made from, at every bank."""
    serial = banks.serial_of_holder(bank_code, holder)
    assert banks.holder_of_serial(bank_code, serial) == holder


def test_linked_account_gives_the_person_back_or_is_a_known_exception() -> None:
    """About 2 % of accounts are missing, about 3 % belong to others, the rest are the person's."""
    own = missing = 0
    for bvn in some_bvns():
        person = person_of_bvn(bvn)
        holder = holder_of(*person.account)
        own += holder == person
        missing += holder is None
    other = PEOPLE - own - missing
    assert 0.012 < missing / PEOPLE < 0.028
    assert 0.02 < other / PEOPLE < 0.04


def test_account_answer_bears_the_holders_name_and_masked_bvn() -> None:
    """The answer names the holder; the middle seven digits of the BVN are zero unless unmasked."""
    person = next(one for one in map(person_of_bvn, some_bvns()) if holder_of(*one.account) == one)
    answer = account_of(*person.account)
    assert answer is not None
    assert answer["account_name"] == account_name(person, *person.account)
    assert answer["bvn"] == f"{person.bvn[:2]}0000000{person.bvn[-2:]}"
    unmasked = account_of(*person.account, masked=False)
    assert unmasked is not None
    assert unmasked["bvn"] == person.bvn


def test_wrong_check_digit_is_no_account() -> None:
    """An account number whose check digit does not agree does not exist."""
    person = person_of_bvn("22123456789")
    wrong = str((int(person.account_number[-1]) + 1) % 10)
    assert account_of(person.bank_code, person.account_number[:-1] + wrong) is None


def test_shares_of_listed_and_found() -> None:
    """About 3 % are listed by BVN, fewer by phone, and about 60 % have a history."""
    people = [person_of_bvn(bvn) for bvn in some_bvns()]
    listed = sum(karma_of(one.bvn) is not None for one in people) / PEOPLE
    by_phone = sum(karma_of(one.phone) is not None for one in people) / PEOPLE
    found = sum(ecosystem_of(one.bvn) is not None for one in people) / PEOPLE
    assert 0.02 < listed < 0.04
    assert 0 < by_phone < listed
    assert 0.57 < found < 0.63


def test_the_world_changes_with_the_days_and_stays_changed() -> None:
    """Later days bring listings, clearances and lost accounts; a newly listed one stays listed."""
    bvns = some_bvns()
    states = [[karma_of(bvn, day=day) is not None for bvn in bvns] for day in (0, 5, 30)]
    assert any(new and not old for old, new in zip(states[0], states[1], strict=True))
    assert any(old and not new for old, new in zip(states[0], states[2], strict=True))
    newly = [i for i in range(PEOPLE) if states[1][i] and not states[0][i]]
    assert all(states[2][i] for i in newly)
    accounts = [person_of_bvn(bvn).account for bvn in bvns]
    gone = [one for one in accounts if holder_of(*one) and not holder_of(*one, day=30)]
    assert 0.03 < len(gone) / PEOPLE < 0.09


def test_ecosystem_record_agrees_with_itself() -> None:
    """Counts add up, amounts are ordered, extras come on top of the specified fields."""
    records = [found for found in map(ecosystem_of, some_bvns(500)) if found]
    for record in records:
        assert record["loans"] == record["settled_loans"] + record["running_loans"]  # type: ignore[operator]
        assert record["past_due_loans"] <= record["running_loans"]  # type: ignore[operator]
        assert (
            record["loan_amount_minimum"]
            <= record["loan_amount_average"]  # type: ignore[operator]
            <= record["loan_amount_maximum"]
        )
    assert set(records[0]) >= RECORDED
    assert len(set(records[0]) - RECORDED) == SPECIFIED_ECOSYSTEM_FIELDS


@pytest.mark.parametrize(
    ("identity", "kind"),
    [
        ("22123456789", "bvn"),
        ("+2348031234567", "phone"),
        ("058-0123456789", "nuban"),
        ("a+b/c@x.example", "email"),
        ("ọlá@x.example", "email"),
        ("lender.example", "domain"),
        ("08031234567", "bvn"),
        ("2348031234567", None),
        ("58-0123456789", None),
        ("iVBORw0KGgo=", None),
        ("", None),
    ],
)
def test_kind_is_told_by_form(identity: str, kind: str | None) -> None:
    """Each accepted form is its kind; an image, and anything else, is none."""
    assert identity_kind(identity) == kind


@given(st.text(alphabet="0123456789", min_size=11, max_size=11))
def test_every_bvn_has_a_life(bvn: str) -> None:
    """Any eleven digits are somebody, with a well-formed phone, email, account and birthday."""
    person = person_of_bvn(bvn)
    assert person == person_of_bvn(bvn)
    assert identity_kind(person.phone) == "phone"
    assert identity_kind(person.email) == "email"
    assert banks.is_right_account(*person.account)
    assert selfie_of(bvn, "https://x.example/a.jpg") is not None or test_identifiers.by_bvn(bvn)


@pytest.mark.parametrize(
    "bvn", ["", "2212345678", "221234567890", "2212345678a", "\uff122123456789"]
)
def test_malformed_bvn_is_refused(bvn: str) -> None:
    """Only eleven plain digits are a BVN."""
    with pytest.raises(ValueError, match="11 digits"):
        person_of_bvn(bvn)
