"""Loan books of a row a loan: the rows of one customer id screened as one customer."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from nightscreen.reading.columns import fold, understand
from nightscreen.reading.merge_rows import loan_standings, loan_statuses, merge_rows, status_name
from nightscreen.runs import finalize, intake
from nightscreen.runs.intake import Intake
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import CUSTOMER, SourceBatch
from nightscreen.values.identifiers import CustomerNumbers
from tests.screening import CONSENT, World, csv_rows, customer


def _loans(*rows: tuple[int, str, str, dict[str, str]]) -> list[dict[str, str]]:
    """Return rows of a loan book: customer's number, amount, status, and what else differs."""
    return [
        {**customer(number, **CONSENT), "exposure": amount, "Loan Status": status} | other
        for number, amount, status, other in rows
    ]


def test_customers_scattered_over_many_chunks_are_put_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the order of the file and however it is cut into chunks.

    The setting merges rows, as the option does.
    """
    world.settings["merge_rows"] = True
    for module in (intake, finalize):
        monkeypatch.setattr(module, "CHUNK_ROWS", 5)
    book = _loans(*((number % 11, str(number), "Active", {}) for number in range(1, 50)))
    Random(4).shuffle(book)
    night = world.screen(book)
    owed: dict[str, Decimal] = {}
    for row in book:
        owed[row["customer_id"]] = owed.get(row["customer_id"], Decimal(0)) + Decimal(
            row["exposure"]
        )
    assert night.column("customer_id") == [row["customer_id"] for row in book]
    assert night.column("customer_exposure") == [owed[row["customer_id"]] for row in book]
    assert night.report["rows"]["customers"] == 11
    assert sum(place == 1 for place in night.column("customer_row")) == 11


def test_what_differs_between_rows_is_not_used_and_a_withdrawal_on_any_holds(world: World) -> None:
    """A customer with two BVNs is asked about by neither; the account on which rows agree is.

    Consent of the newest row is no consent where another row withdraws it later. The mapping
    merges rows, as the option does.
    """
    mapping = world.folder / "book.toml"
    mapping.write_text('merge_rows = true\nloan_status = "Loan Status"\n')
    withdrawn = {**CONSENT, "consent_withdrawn_at": CONSENT["consented_at"]}
    seconds = [(1, {"bvn": customer(9)["bvn"]}), (2, withdrawn)]
    pairs = [
        (number, owed, "Active", more)
        for number, second in seconds
        for owed, more in (("10", {}), ("20", second))
    ]
    night = world.screen(_loans(*pairs), mapping=str(mapping))
    assert night.report["rows"]["customers"] == 2
    assert night.column("karma_status")[:2] == ["invalid", "invalid"]
    assert night.column("bank_account_source")[:2] == ["asked", "asked"]
    problems = csv_rows(night.folder / "problems.csv")
    differing = [each for each in problems if each["code"] == "differs_between_rows"]
    assert [(each["line"], each["column"], each["action"]) for each in differing] == [
        ("2", "bvn", "invalid")
    ]
    assert night.column("ecosystem_status")[2:] == ["refused", "refused"]


def _merged(rows: list[dict[str, str]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Merge rows without a run; return customers, and codes of what was found."""
    names = list(rows[0])
    header = understand(Path("book.csv"), names)
    table = pa.RecordBatch.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))
    batch = SourceBatch(list(range(2, len(rows) + 2)), table)
    numbers = CustomerNumbers()
    Intake(header, numbers).take(batch)
    numbers.settle()
    taken = Intake(header, numbers).take(batch).rows
    ids = numbers.numbers(taken["customer_id"].to_pylist())
    whole = pa.Table.from_batches([taken]).append_column(CUSTOMER, pa.array(ids))
    merged, problems = merge_rows(whole, status_name(header.columns, header.loan_status))
    return merged.to_pylist(), [problem.code for problem in problems]


def test_unknown_words_and_amounts_are_said() -> None:
    """A status nobody knows counts as open; a blank amount is unknown, not zero."""
    rows = _loans((1, "10", "Sleeping", {}), (1, "", "Active", {}), (2, "", "Active", {}))
    customers, codes = _merged(rows)
    assert [each["exposure"] for each in customers] == [Decimal(10), None]
    assert sorted(codes) == ["exposure_partly_unknown", "loan_status_unknown"]


def test_a_malformed_value_gives_way_to_a_sound_one() -> None:
    """Only where no row has a sound one is the customer's identifier malformed."""
    rows = _loans((1, "1", "Active", {"bvn": "22123"}), (1, "1", "Active", {}))
    rows += _loans((2, "1", "Active", {"bvn": "22123"}))
    customers, _ = _merged(rows)
    assert [each["flaws"] & Flaw.BVN for each in customers] == [0, Flaw.BVN]
    assert customers[0]["bvn"] == customer(1)["bvn"]


@pytest.mark.parametrize(
    ("word", "standing", "is_open"),
    [
        ("ACTIVE_IN_ARREARS", "past_due", True),
        ("CLOSED_WRITTEN_OFF", "written_off", False),
        ("CLOSED_REJECTED", "not_lent", False),
        ("Closed (obligations met)", "closed", False),
        ("Closed (rescheduled)", "restructured", False),
        ("Submitted and pending approval", "not_lent", False),
        ("Overpaid", "closed", False),
        ("Past Maturity", "past_due", True),
        ("Missed Repayment", "past_due", True),
        ("Not Taken Up", "not_lent", False),
        ("Special mention", "past_due", True),
    ],
)
def test_status_words_of_usual_loan_systems_are_known(
    word: str, standing: str, *, is_open: bool
) -> None:
    """In the systems' own writing, with underscores or brackets, and alike for both uses."""
    assert loan_standings()[fold(word)].value == standing
    assert loan_statuses()[fold(word)] is is_open
