"""Rows through intake: what is refused, what goes on, what is said, and the laws of all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.runs.intake import Intake
from nightscreen.schemas.columns import KNOWN_COLUMNS
from nightscreen.schemas.rows import (
    Action,
    Header,
    RefusedRow,
    RowBatch,
    SourceBatch,
    SourceColumn,
    row_schema,
)
from tests.how_many import examples

BVN = "22123456789"
GTB_ACCOUNT = "0123456785"  # its check digit is right
Row = dict[str, str | None]


def header(
    *names: str, defaults: Mapping[str, str] | None = None, order: str | None = None
) -> Header:
    """Return a header whose headings are the project's own names; others are carried through."""
    columns = [
        SourceColumn(name, name.rstrip("+") if name.rstrip("+") in KNOWN_COLUMNS else None, name)
        for name in names
    ]
    return Header(tuple(columns), defaults=defaults or {}, date_order=order)


def source(names: Sequence[str], rows: Sequence[Row], first_line: int = 2) -> SourceBatch:
    arrays = [pa.array([row.get(name) for row in rows], pa.string()) for name in names]
    lines = list(range(first_line, first_line + len(rows)))
    return SourceBatch(lines, pa.RecordBatch.from_arrays(arrays, names=list(names)))


def take(
    *rows: Row, defaults: Mapping[str, str] | None = None, order: str | None = None
) -> RowBatch:
    """Put rows through a new intake, with the columns that they have."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return Intake(header(*names, defaults=defaults, order=order)).take(source(names, rows))


def found(batch: RowBatch) -> list[tuple[int, str, str, str]]:
    return [(p.line, p.column, p.code, p.action.value) for p in batch.problems]


def test_a_clean_row_passes_typed_and_in_one_form() -> None:
    """Every known column has its type, every identifier its one form, and nothing is said."""
    batch = take(
        {
            "customer_id": " C1 ",
            "bvn": BVN,
            "account_number": GTB_ACCOUNT,
            "bank_name": "GTBank PLC",
            "phone": "0803 123 4567",
            "email": "Ada@Example.com",
            "last_name": "Obi",
            "middle_name": "NIL",
            "date_of_birth": "1990-04-03",
            "exposure": "\u20a61,250,000.00",
            "consent_reference": "R-1",
            "consented_at": "2025-01-15",
            "consent_expires_at": "2025-06-30",
            "Branch": "Ikeja ",
        }
    )
    assert batch.problems == []
    assert batch.rows.schema == row_schema(["Branch"])
    assert {k: v for k, v in batch.rows.to_pylist()[0].items() if v is not None} == {
        "line": 2,
        "flaws": 0,
        "customer_id": "C1",
        "bvn": BVN,
        "account_number": GTB_ACCOUNT,
        "bank_code": "058",
        "bank_name": "GTBank PLC",
        "phone": "+2348031234567",
        "email": "ada@example.com",
        "last_name": "Obi",
        "date_of_birth": date(1990, 4, 3),
        "exposure": Decimal("1250000.00"),
        "consent_reference": "R-1",
        "consented_at": datetime(2025, 1, 14, 23, 0, tzinfo=UTC),
        "consent_expires_at": datetime(2025, 6, 30, 22, 59, 59, 999999, tzinfo=UTC),
        "x:Branch": "Ikeja ",
    }


REFUSED: list[tuple[Row, str, str]] = [
    ({"customer_id": "", "bvn": BVN}, "customer_id", "customer_id_missing"),
    ({"customer_id": "N/A", "bvn": BVN}, "customer_id", "customer_id_missing"),
    ({"customer_id": BVN, "bvn": BVN}, "customer_id", "customer_id_is_bvn"),
    ({"customer_id": BVN, "phone": "08031234567"}, "customer_id", "customer_id_is_bvn"),
    ({"customer_id": "08031234567", "bvn": BVN}, "customer_id", "customer_id_is_phone"),
    (
        {"customer_id": GTB_ACCOUNT, "account_number": GTB_ACCOUNT, "bank_code": "058"},
        "customer_id",
        "customer_id_is_account",
    ),
    ({"customer_id": "C1", "bvn": None}, "", "no_identifier"),
    ({"customer_id": "C1", "bvn": "2.21E+10"}, "", "no_identifier"),
    ({"customer_id": "C1", "account_number": GTB_ACCOUNT}, "", "no_identifier"),
    (
        {"customer_id": "C1", "account_number": "12", "bank_code": "058"},
        "",
        "no_identifier",
    ),
    ({"customer_id": "C1", "image_url": "https://img.example.com/a.jpg"}, "", "no_identifier"),
    ({"customer_id": "C1", "email": "x", "phone": "12", "domain": "y"}, "", "no_identifier"),
]


def test_rows_without_id_or_identifier_are_refused_as_they_came() -> None:
    for row, column, code in REFUSED:
        batch = take(row)
        (refused,) = batch.refused
        assert batch.rows.num_rows == 0, (row, column, code)
        assert (refused.line, refused.column, refused.code) == (2, column, code), (
            row,
            column,
            code,
        )
        assert refused.values == tuple(row.values()), (row, column, code)
        assert found(batch)[-1] == (2, column, code, "refused"), (row, column, code)


USABLE: list[Row] = [
    {"bvn": BVN},
    {"account_number": GTB_ACCOUNT, "bank_name": "GTBank"},
    {"account_number": GTB_ACCOUNT, "bank_name": "Bank of Nowhere"},
    {"account_number": GTB_ACCOUNT, "bank_code": "100004"},
    {"phone": "08031234567"},
    {"email": "ada@example.com"},
    {"domain": "example.com"},
    {"bvn": "2.21E+10", "phone": "08031234567"},
]


def test_one_usable_identifier_lets_a_row_go_on() -> None:
    """A bank that the service does not know, or a malformed BVN, takes only its own checks away."""
    for row in USABLE:
        batch = take({"customer_id": "C1", **row})
        assert (batch.rows.num_rows, batch.refused) == (1, []), row


def test_only_the_first_of_repeated_ids_passes_also_across_batches() -> None:
    names = ["customer_id", "bvn"]
    intake = Intake(header(*names))
    rows: list[Row] = [{"customer_id": c, "bvn": BVN} for c in ("A", "B", "A ", "C")]
    first = intake.take(source(names, rows))
    second = intake.take(source(names, rows, first_line=6))
    assert first.rows["customer_id"].to_pylist() == ["A", "B", "C"]
    assert [(row.line, row.code) for row in first.refused] == [(4, "customer_id_repeated")]
    assert [row.line for row in second.refused] == [6, 7, 8, 9]


def test_broken_rows_are_read_refused_and_told() -> None:
    """A row that could not be split counts as read, and stands in both accounts."""
    broken = RefusedRow(
        3, "", "cells_too_many", "The row has more cells than headings.", ("a", "b")
    )
    clean = source(["customer_id", "bvn"], [{"customer_id": "A", "bvn": BVN}])
    batch = Intake(header("customer_id", "bvn")).take(
        SourceBatch(clean.lines, clean.columns, broken=[broken])
    )
    assert (batch.read, batch.rows.num_rows, list(batch.refused)) == (2, 1, [broken])
    assert found(batch) == [(3, "", "cells_too_many", "refused")]


def test_merged_columns_join_names_and_take_the_first_of_others() -> None:
    """A mapping may give several columns to one: names are joined, of phones the first counts."""
    names = ["customer_id", "last_name", "last_name+", "phone", "phone+"]
    row: Row = {
        "customer_id": "C1",
        "last_name": "Obi",
        "last_name+": " Eze ",
        "phone": "NIL",
        "phone+": "08031234567",
    }
    empty: Row = {**row, "customer_id": "C2", "last_name": "-", "last_name+": None}
    batch = Intake(header(*names)).take(source(names, [row, empty]))
    assert batch.rows["last_name"].to_pylist() == ["Obi Eze", None]
    assert batch.rows["phone"].to_pylist() == ["+2348031234567"] * 2


def test_defaults_fill_what_is_absent() -> None:
    """Columns the file lacks and cells it leaves blank; a bank's code only where it has no name."""
    rows: list[Row] = [
        {"customer_id": "1", "bvn": BVN, "bank_name": None, "consent_purpose": "NIL"},
        {"customer_id": "2", "bvn": BVN, "bank_name": "UBA", "consent_purpose": "loan"},
    ]
    defaults = {"bank_code": "058", "consent_purpose": "credit", "consent_channel": "app"}
    batch = take(*rows, defaults=defaults)
    assert batch.rows["bank_code"].to_pylist() == ["058", "033"]
    assert batch.rows["consent_purpose"].to_pylist() == ["credit", "loan"]
    assert batch.rows["consent_channel"].to_pylist() == ["app", "app"]
    assert batch.problems == []


def test_a_hint_holds_no_value_of_the_row() -> None:
    """Problems go into a file that holds no identifiers."""
    row: Row = {
        "customer_id": "22987654321",
        "bvn": "2212345678Q",
        "account_number": "98765432109",
        "bank_name": "Zennith Bnkk",
        "phone": "0803CALLME",
        "email": "secret@@mail",
        "domain": "hidden domain",
        "exposure": "77,77",
        "date_of_birth": "31/12/1977",
        "image_url": "http://photos.example/me",
    }
    hints = " ".join(problem.hint for problem in take(row).problems)
    assert len(hints) > 500
    assert not any(value in hints for value in row.values() if value)


COLUMNS = [*KNOWN_COLUMNS, "Note"]
SAMPLES = [
    *["C1", "C2", "", "NIL", "0", BVN, "2.21E+10", GTB_ACCOUNT, GTB_ACCOUNT[1:], "058", "11", "44"],
    *["GTBank", "Kuda", "Zenth", "08031234567", "+447911123456", "ada@example.com", "example.com"],
    *["https://img.example.com/a.jpg", "\u20a61,250.00", "(5)", "2025-01-15", "03/04/1990"],
    *[
        "2025-01-15T10:00:00Z",
        "45000",
        "\u0000",
        "\n",
        "'",
        '="',
        "\ud7ff",
        "9" * 300,
        "a" + " " * 9_000 + "b",
    ],
]
cells = st.none() | st.sampled_from(SAMPLES) | st.text(max_size=25)
ids = st.sampled_from([f"C{n}" for n in range(40)]) | cells
rows_of_text = st.lists(
    st.fixed_dictionaries({name: ids if name == "customer_id" else cells for name in COLUMNS}),
    max_size=8,
)
orders = st.sampled_from([None, "dmy", "mdy", "ymd"])


@settings(max_examples=examples(150), deadline=None)
@given(rows_of_text, orders)
def test_any_text_in_any_column_is_accepted_or_refused(rows: list[Row], order: str | None) -> None:
    """Nothing raises; accepted and refused are what was read, in order, with a reason for each."""
    batch = Intake(header(*COLUMNS, order=order)).take(source(COLUMNS, rows))
    lines = [*batch.rows["line"].to_pylist(), *(row.line for row in batch.refused)]
    assert sorted(lines) == list(range(2, 2 + len(rows)))
    assert batch.read == len(rows)
    assert batch.rows["line"].to_pylist() == sorted(batch.rows["line"].to_pylist())
    assert batch.rows.schema == row_schema(["Note"])
    batch.rows.validate(full=True)
    refusals = [p.line for p in batch.problems if p.action is Action.REFUSED]
    assert refusals == [row.line for row in batch.refused]
    for row in batch.refused:
        assert row.values == tuple(rows[row.line - 2][name] for name in COLUMNS)
    assert batch.rows["customer_id"].null_count == 0
    assert len(set(batch.rows["customer_id"].to_pylist())) == batch.rows.num_rows


@settings(max_examples=examples(40), deadline=None)
@given(rows_of_text, orders)
def test_the_order_of_rows_does_not_matter(rows: list[Row], order: str | None) -> None:
    """With ids that differ, each row's outcome is its own, alone, in any order, in any batch."""
    distinct = [{**row, "customer_id": f"C{n}"} for n, row in enumerate(rows)]
    reading = header(*COLUMNS, order=order)
    alone = [_outcome(Intake(reading).take(source(COLUMNS, [row]))) for row in distinct]
    together = Intake(reading)
    backwards = [_outcome(together.take(source(COLUMNS, [row]))) for row in reversed(distinct)]
    assert backwards[::-1] == alone
    whole = Intake(reading).take(source(COLUMNS, distinct))
    accepted = {row["customer_id"]: row for row in whole.rows.drop_columns(["line"]).to_pylist()}
    refused = {row.values[0]: row.code for row in whole.refused}
    assert alone == [
        ([accepted[key]] if key in accepted else [], [refused[key]] if key in refused else [])
        for key in (row["customer_id"] for row in distinct)
    ]


def _outcome(batch: RowBatch) -> tuple[list[dict[str, object]], list[str]]:
    rows = batch.rows.drop_columns(["line"]).to_pylist()
    return rows, [row.code for row in batch.refused]
