"""The typed view of a transaction, and the table of its fields."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.operations.transactions.records import Drift, load_fields, parse_text

FIELDS = load_fields()


def seen(text: str, drift: Drift | None = None) -> dict[str, Any]:
    """Return the typed values of a record of JSON text."""
    return FIELDS.view(parse_text(text.encode()), drift).values


@pytest.mark.parametrize(
    ("given_", "amount"),
    [
        ('"1250.50"', "1250.50"),
        ("1250.50", "1250.50"),
        ("0.1", "0.1"),
        ("-3E2", "-300"),
        ('"1,250.00"', "1250.00"),
        ('"99999999999999999999999999.999999"', "99999999999999999999999999.999999"),
    ],
)
def test_money_is_exact(given_: str, amount: str) -> None:
    """Text and numbers become the same exact decimals, which Arrow can hold."""
    values = seen(f'{{"amount": {given_}}}')
    assert values["amount"] == Decimal(amount)
    column = pa.array([values["amount"]], FIELDS.schema.field("amount").type)
    assert column[0].as_py() == Decimal(amount)


@pytest.mark.parametrize(
    ("record", "problem", "column"),
    [
        ('{"amount": "twelve"}', "money_unreadable", "amount"),
        ('{"amount": "1.0000001"}', "money_unreadable", "amount"),
        ('{"amount": true}', "money_unreadable", "amount"),
        ('{"amount": {}}', "money_unreadable", "amount"),
        ('{"transaction_date": "2026-02-31T25:61:00Z"}', "instant_unreadable", "transaction_date"),
        ('{"transaction_date": 1771000000}', "instant_unreadable", "transaction_date"),
        ('"text"', "not_a_record", ""),
        ("[]", "not_a_record", ""),
        ("null", "not_a_record", ""),
    ],
)
def test_essential_fields_that_cannot_be_read_are_a_problem(
    record: str, problem: str, column: str
) -> None:
    """Each has its own code and names the column to blame."""
    view = FIELDS.view(parse_text(record.encode()))
    assert (view.problem, view.column) == (problem, column)


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


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T10:00:00.123Z",
        "2026-03-01T11:00:00.123+01:00",
        "2026-03-01T10:00:00.123",
    ],
)
def test_instants_are_utc(text: str) -> None:
    """Zones are minded; without one the service means UTC."""
    values = seen(f'{{"transaction_date": "{text}"}}')
    assert values["transaction_date"] == datetime(2026, 3, 1, 10, 0, 0, 123000, tzinfo=UTC)


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
    import json  # noqa: PLC0415 - only here

    view = FIELDS.view(parse_text(json.dumps({name: value}).encode()))
    whole = {"customer_id": "C", "record_key": "k", "change": "added", "seen_at": datetime.now(UTC)}
    pa.Table.from_pylist([{**view.values, **whole}], schema=FIELDS.schema)


def test_renamed_field_is_read_once_its_name_is_added(tmp_path: Path) -> None:
    """The correction the guide speaks of: another name in the table."""
    path = tmp_path / "fields.toml"
    path.write_text("[[field]]\ncolumn = 'amount'\nkind = 'money'\nnames = ['amount', 'value']\n")
    view = load_fields(path=path).view(parse_text(b'{"value": "7.25"}'))
    assert view.values["amount"] == Decimal("7.25")
