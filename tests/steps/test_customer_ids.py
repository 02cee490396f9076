"""Customer ids: no identifier in disguise, and none twice."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.values.identifiers import SeenIds, judge_customer_id

OWN = {
    "bvn": "31415926535",
    "bank_code": "058",
    "account": "0123456785",
    "phone": "+2348031234567",
}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("22123456789", "customer_id_is_bvn"),
        ("'22123456789", "customer_id_is_bvn"),
        ("2212-345-6789", "customer_id_is_bvn"),
        ("31415926535", "customer_id_is_bvn"),
        ("0123456785", "customer_id_is_account"),
        ("058-0123456785", "customer_id_is_account"),
        ("08031234567", "customer_id_is_phone"),
        ("8031234567", "customer_id_is_phone"),
        ("07011234567", "customer_id_is_phone"),
        ("+234 803 999 9999", "customer_id_is_phone"),
        ("2348039999999", "customer_id_is_phone"),
    ],
)
def test_an_identifier_in_disguise_is_no_customer_id(text: str, code: str) -> None:
    """A BVN, an account or a phone would end up in files that hold no identifiers."""
    finding = judge_customer_id(text, **OWN)
    assert finding
    assert finding.code == code


@pytest.mark.parametrize(
    "text",
    ["1", "000123", "C-22123456789", "1000000001", "0123456780", "33123456789", "123456789012"],
)
def test_a_lenders_own_numbers_pass(text: str) -> None:
    """Numbers of any length are fine where they are nobody's BVN, account or phone."""
    assert judge_customer_id(text, **OWN) is None
    assert judge_customer_id(text, bvn=None, bank_code=None, account=None, phone=None) is None


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([f"C{n}" for n in range(30)]), max_size=12), max_size=20))
def test_repeats_are_told_as_by_a_set(batches: list[list[str]]) -> None:
    """Within a batch and across batches, the first is new and every later one a repeat."""
    seen, known = SeenIds(), set[str]()
    for ids in batches:
        expected = []
        for text in ids:
            expected.append(text in known)
            known.add(text)
        assert seen.repeats(ids).tolist() == expected


def test_many_ids_need_little_memory() -> None:
    """Two hundred thousand ids are kept in a few megabytes."""
    seen = SeenIds()
    tracemalloc.start()
    for start in range(0, 200_000, 5_000):
        assert not seen.repeats([f"CUST-{n:012d}" for n in range(start, start + 5_000)]).any()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4_000_000
    assert seen.repeats(["CUST-000000000007", "CUST-X"]).tolist() == [True, False]
