"""Records of a pull: typed, keyed, and held against the last list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.files.sealing import Pseudonyms
from nightscreen.operations.pulled_records import (
    HELD_TAIL,
    LONG_LIST,
    Answered,
    Difference,
    Drift,
    Known,
    compare,
    json_text,
    load_fields,
    parse_text,
    read_list,
)
from nightscreen.schemas.consented import PulledKind

FIELDS = load_fields()
PSEUDONYMS = Pseudonyms(b"k" * 32)
CUSTOMER = b"c" * 16
DAY = 86_400_000_000


def answered(*numbers: int, content: str = "") -> list[Answered]:
    return [
        Answered(b"key%d" % each, f"{each}{content}".encode(), b"{}", each * DAY)
        for each in numbers
    ]


def held_against(
    before: Sequence[Answered], now: Sequence[Answered], *, confirms: bool = False, old: int = 0
) -> Difference:
    known = [
        Known(place, each.key, each.content, each.occurred_at) for place, each in enumerate(before)
    ]
    return compare(known, now, confirms=confirms, old_before=old * DAY)


def keys(records: Sequence[object]) -> dict[bytes, Answered]:
    raw = read_list(json.dumps({"data": records}).encode())
    assert raw is not None
    kind = PulledKind.TRANSACTION
    read, _ = FIELDS.read(kind, raw.records, PSEUDONYMS, CUSTOMER, Drift())
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


def test_lists_that_lack_more_than_half_or_end_early_are_held() -> None:
    """Of ten, the newest of which go missing: half is believed, more is not.

    A list that ends early may have been cut short, however long it is.
    """
    before = answered(*range(1, 11))
    for left, removed, held in ((10, 0, 0), (9, 1, 0), (5, 5, 0), (4, 0, 6), (0, 0, 10)):
        found = held_against(before, before[:left])
        assert (len(found.removed), found.held) == (removed, held)
        assert len(held_against(before, before[:left], confirms=True).removed) == 10 - left
    long = answered(*range(1, 51))
    assert len(held_against(long, long[HELD_TAIL - 1 :]).removed) == HELD_TAIL - 1
    assert held_against(long, long[HELD_TAIL:]).held == HELD_TAIL


def test_what_is_older_than_a_long_list_is_out_of_reach() -> None:
    """Long lists may be windows: what is old and before their beginning is not removed."""
    before = answered(*range(1, 201))
    window = before[80:]
    assert len(window) >= LONG_LIST
    found = held_against(before, window, old=300)
    assert (found.out_of_reach, found.removed, found.held) == (80, [], 0)
    gap = [each for each in window if each.key != b"key150"]
    assert [each.key for each in held_against(before, gap, old=300).removed] == [b"key150"]
    recent = held_against(before, before[3:], old=0)
    assert (recent.out_of_reach, len(recent.removed)) == (0, 3)


def test_the_same_id_with_other_content_is_kept_and_told() -> None:
    """Both are kept, the second under a key of its own, as a record that cannot be trusted.

    The same id at two customers is two records.
    """
    read = keys(
        [{"id": "a", "amount": "1"}, {"id": "a", "amount": "2"}, {"id": "a", "amount": "1"}]
    )
    assert sorted(str(each.problem) for each in read.values()) == ["None", "repeated_id"]
    raw = read_list(b'[{"id": "a"}]')
    assert raw is not None
    (one,), (two,) = (
        FIELDS.read(PulledKind.TRANSACTION, raw.records, PSEUDONYMS, customer * 16, Drift())[0]
        for customer in (b"1", b"2")
    )
    assert one.key != two.key


def test_numbers_survive_to_the_letter() -> None:
    for number in ("1.10", "1E5", "-0", "0.1000", "12345678901234567890.123", "1e-7", "100"):
        given_ = f'{{"data": [{{"amount": {number}, "deep": [{{"n": {number}}}]}}]}}'
        raw = read_list(given_.encode())
        assert raw is not None
        text = json_text(raw.records[0])
        assert text == f'{{"amount":{number},"deep":[{{"n":{number}}}]}}'
        assert json_text(parse_text(text.encode())) == text


def seen(text: str, drift: Drift | None = None) -> dict[str, Any]:
    return FIELDS.view(parse_text(text.encode()), drift).values


MONEY = {
    '"1250.50"': "1250.50",
    "1250.50": "1250.50",
    "0.1": "0.1",
    "-3E2": "-300",
    '"1,250.00"': "1250.00",
    '"99999999999999999999999999.999999"': "99999999999999999999999999.999999",
}
UNREADABLE = {
    '{"amount": "twelve"}': ("money_unreadable", "amount"),
    '{"amount": "1.0000001"}': ("money_unreadable", "amount"),
    '{"amount": true}': ("money_unreadable", "amount"),
    '{"amount": {}}': ("money_unreadable", "amount"),
    '{"transaction_date": "2026-02-31T25:61:00Z"}': ("instant_unreadable", "transaction_date"),
    '{"transaction_date": 1771000000}': ("instant_unreadable", "transaction_date"),
    '"text"': ("not_a_record", ""),
    "[]": ("not_a_record", ""),
    "null": ("not_a_record", ""),
}
"""Records, the code of what is wrong with each, and the column to blame."""


def test_money_is_exact_instants_are_utc_and_what_cannot_be_read_is_a_problem() -> None:
    """Text and numbers become the same exact decimals, which Arrow can hold.

    Zones are minded; without one the service means UTC.
    """
    for text, amount in MONEY.items():
        values = seen(f'{{"amount": {text}}}')
        assert values["amount"] == Decimal(amount)
        column = pa.array([values["amount"]], FIELDS.schema.field("amount").type)
        assert column[0].as_py() == Decimal(amount)
    for text in ("10:00:00.123Z", "11:00:00.123+01:00", "10:00:00.123"):
        values = seen(f'{{"transaction_date": "2026-03-01T{text}"}}')
        assert values["transaction_date"] == datetime(2026, 3, 1, 10, 0, 0, 123000, tzinfo=UTC), (
            text
        )
    for record, told in UNREADABLE.items():
        view = FIELDS.view(parse_text(record.encode()))
        assert (view.problem, view.column) == told, record


def test_other_fields_that_cannot_be_read_stand_in_extra() -> None:
    """One odd field does not cost a transaction; what it held is kept."""
    drift = Drift()
    values = seen('{"amount": "1", "balance": {"a": 1.50}, "modified_on": "soon"}', drift)
    assert "balance" not in values
    assert values["extra"] == '{"balance":{"a":1.50},"modified_on":"soon"}'
    told = drift.document()
    assert (told["unreadable"], told["new"]) == ({"balance": 1, "modified_on": 1}, {})


def test_ids_are_text_and_the_bank_is_flat() -> None:
    """Numbers keep their letters as text; unknown fields of the bank are kept and told."""
    drift = Drift()
    values = seen('{"id": 0042, "reference": null}'.replace("0042", "42"), drift)
    assert (values["transaction_id"], values["reference"]) == ("42", None)
    values = seen('{"bank": {"id": 58, "short_code": "058", "motto": "x"}}', drift)
    assert (values["bank_id"], values["bank_short_code"]) == ("58", "058")
    assert values["extra"] == '{"bank.motto":"x"}'
    assert drift.document()["new"] == {"bank.motto": 1}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from(["amount", "transaction_date", "id", "bank", "balance", "note", "odd"]),
)
def test_whatever_comes_can_be_viewed_and_written(value: Any, name: str) -> None:  # noqa: ANN401
    """No value of any field breaks the view, nor the table that is made of it."""
    view = FIELDS.view(parse_text(json.dumps({name: value}).encode()))
    whole = {"customer_id": "C", "record_key": "k", "change": "added", "seen_at": datetime.now(UTC)}
    pa.Table.from_pylist([{**view.values, **whole}], schema=FIELDS.schema)


def test_renamed_field_is_read_once_its_name_is_added(tmp_path: Path) -> None:
    """The correction the guide speaks of: another name in the table."""
    path = tmp_path / "fields.toml"
    path.write_text("[[field]]\ncolumn = 'amount'\nkind = 'money'\nnames = ['amount', 'value']\n")
    view = load_fields(path=path).view(parse_text(b'{"value": "7.25"}'))
    assert view.values["amount"] == Decimal("7.25")
