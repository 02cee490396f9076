"""What a list says beside the last one: laws of comparing, and of keys."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.sealing import Pseudonyms
from nightscreen.operations.transactions.records import (
    HELD_TAIL,
    LONG_LIST,
    Drift,
    compare,
    json_text,
    load_fields,
    parse_text,
    read_list,
)
from nightscreen.schemas.pulls import Answered, Difference, Known

FIELDS = load_fields()
PSEUDONYMS = Pseudonyms(b"k" * 32)
CUSTOMER = b"c" * 16
DAY = 86_400_000_000


def answered(*numbers: int, content: str = "") -> list[Answered]:
    """Return records that occurred on days by their numbers."""
    return [
        Answered(b"key%d" % each, f"{each}{content}".encode(), b"{}", each * DAY)
        for each in numbers
    ]


def known(records: Sequence[Answered]) -> list[Known]:
    """Return records as an earlier pull kept them."""
    return [
        Known(place, each.key, each.content, each.occurred_at) for place, each in enumerate(records)
    ]


def held_against(
    before: Sequence[Answered], now: Sequence[Answered], *, confirms: bool = False, old: int = 0
) -> Difference:
    """Compare a list with the one before."""
    return compare(known(before), now, confirms=confirms, old_before=old * DAY)


def keys(records: Sequence[object]) -> dict[bytes, Answered]:
    """Read records and return them by key."""
    raw = read_list(json.dumps({"data": records}).encode())
    assert raw is not None
    read, _ = FIELDS.read(raw.records, PSEUDONYMS, CUSTOMER, Drift())
    return {each.key: each for each in read}


@given(st.sets(st.integers(1, 400)), st.sets(st.integers(1, 400)), st.booleans())
def test_nothing_is_lost_in_comparing(
    before: set[int],
    now: set[int],
    confirms: bool,
) -> None:
    """Whatever was known or answered is in exactly one part of the difference, or stays."""
    old, new = answered(*sorted(before)), answered(*sorted(now))
    found = held_against(old, new, confirms=confirms, old=100)
    assert {each.key for each in found.added} == {b"key%d" % each for each in now - before}
    assert len(found.removed) + found.held + found.out_of_reach == len(before - now)
    assert not found.modified
    assert not (found.held and found.removed)


@given(st.sets(st.integers(1, 300), min_size=1), st.randoms(use_true_random=False))
def test_order_of_the_list_never_matters(numbers: set[int], shuffle: random.Random) -> None:
    """A shuffled list has the same keys and tells no change."""
    records = [{"id": str(each), "amount": f"{each}.50"} for each in numbers]
    mixed = list(records)
    shuffle.shuffle(mixed)
    assert {key: each.content for key, each in keys(records).items()} == {
        key: each.content for key, each in keys(mixed).items()
    }


@pytest.mark.parametrize(
    ("left", "removed", "held"),
    [(10, 0, 0), (9, 1, 0), (5, 5, 0), (4, 0, 6), (0, 0, 10)],
)
def test_lists_that_lack_more_than_half_are_held(left: int, removed: int, held: int) -> None:
    """Of ten, the newest of which go missing: half is believed, more is not."""
    before = answered(*range(1, 11))
    found = held_against(before, before[:left])
    assert (len(found.removed), found.held) == (removed, held)
    assert len(held_against(before, before[:left], confirms=True).removed) == 10 - left


def test_lists_cut_at_their_old_end_are_held() -> None:
    """A list that ends early may have been cut short, however long it is."""
    before = answered(*range(1, 51))
    assert len(held_against(before, before[HELD_TAIL - 1 :]).removed) == HELD_TAIL - 1
    assert held_against(before, before[HELD_TAIL:]).held == HELD_TAIL


def test_what_is_older_than_a_long_list_is_out_of_reach() -> None:
    """Long lists may be windows: what is old and before their beginning is not removed."""
    before = answered(*range(1, 201))
    window = before[80:]
    assert len(window) >= LONG_LIST
    found = held_against(before, window, old=300)
    assert (found.out_of_reach, found.removed, found.held) == (80, (), 0)
    gap = [each for each in window if each.key != b"key150"]
    assert [each.key for each in held_against(before, gap, old=300).removed] == [b"key150"]
    recent = held_against(before, before[3:], old=0)
    assert (recent.out_of_reach, len(recent.removed)) == (0, 3)


def test_the_same_id_with_other_content_is_kept_and_told() -> None:
    """Both are kept, the second under a key of its own, as a record that cannot be trusted."""
    read = keys(
        [{"id": "a", "amount": "1"}, {"id": "a", "amount": "2"}, {"id": "a", "amount": "1"}]
    )
    assert sorted(str(each.problem) for each in read.values()) == ["None", "repeated_id"]


def test_customers_never_share_a_key() -> None:
    """The same id at two customers is two records."""
    raw = read_list(b'[{"id": "a"}]')
    assert raw is not None
    (one,), _ = FIELDS.read(raw.records, PSEUDONYMS, b"1" * 16, Drift())
    (two,), _ = FIELDS.read(raw.records, PSEUDONYMS, b"2" * 16, Drift())
    assert one.key != two.key


@pytest.mark.parametrize(
    "number", ["1.10", "1E5", "-0", "0.1000", "12345678901234567890.123", "1e-7", "100"]
)
def test_numbers_survive_to_the_letter(number: str) -> None:
    """What is kept of a record has every number as the service wrote it."""
    raw = read_list(f'{{"data": [{{"amount": {number}, "deep": [{{"n": {number}}}]}}]}}'.encode())
    assert raw is not None
    text = json_text(raw.records[0])
    assert text == f'{{"amount":{number},"deep":[{{"n":{number}}}]}}'
    assert json_text(parse_text(text.encode())) == text
