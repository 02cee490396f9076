"""What was recorded of the service beyond its specification reaches rows and policies, typed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nightscreen.checks.ecosystem import FIELDS, EcosystemRecord
from nightscreen.sandbox.people import bvn_accounts, ecosystem_of
from nightscreen.schemas.answers import ACCOUNT_STATUSES
from nightscreen.schemas.rows import INSTANT
from tests.operations.bvn_in_a_test import BvnWorld, asked
from tests.policy.test_policy import one, told

AMOUNT = pa.decimal128(24, 6)
SPECIFIED, RECORDED = 22, 29
TYPES = {
    "ecosystem_loan_amount": AMOUNT,
    "ecosystem_penalty": AMOUNT,
    "ecosystem_delayed_paid_loans_avg": AMOUNT,
    "ecosystem_loan_requests": pa.int64(),
    "ecosystem_unique_phone_numbers": pa.int64(),
    "ecosystem_first_loan_date": pa.date32(),
    "ecosystem_first_login": INSTANT,
    "ecosystem_email": pa.string(),
}


@pytest.fixture
def world(tmp_path: Path) -> BvnWorld:
    return BvnWorld(tmp_path)


def test_every_field_of_a_history_is_a_typed_column(world: BvnWorld) -> None:
    """The 22 specified and the 29 recorded ones, and nothing of them is left in `extra`."""
    rows = [asked(number) for number in range(1, 12)]
    night = world.screen(rows, checks=["ecosystem"])
    assert len(FIELDS) == SPECIFIED + RECORDED
    schema = pq.read_schema(next((night.folder / "enriched").glob("part-*.parquet")))
    columns = {f"ecosystem_{name}" for name in FIELDS}
    assert columns <= set(schema.names)
    assert {name: schema.field(name).type for name in TYPES} == TYPES
    found = [row for row in night.rows if row["ecosystem_status"] == "found"]
    assert found
    for row in found:
        record = ecosystem_of(row["bvn"])
        assert record is not None
        assert set(record) == set(FIELDS)
        assert row["ecosystem_loan_amount"] == record["loan_amount"]
        assert row["ecosystem_unique_device_ids"] == record["unique_device_ids"]
        assert row["ecosystem_gender"] == record["gender"]
        assert row["ecosystem_first_loan_date"] is not None
        assert row["ecosystem_extra"] is None


def test_policies_may_name_each_field() -> None:
    """A rule on any of them passes the check; gender must be wanted."""
    names = sorted(set(FIELDS) - {"gender"})
    assert told(one(" or ".join(f"ecosystem_{name} is not null" for name in names))) == []
    assert EcosystemRecord(**dict.fromkeys(names)).is_blank()


def test_status_of_the_rows_own_account_reaches_screening(world: BvnWorld) -> None:
    """As a word; another account's is only in the list."""
    world.sandbox.manners = world.sandbox.manners.model_copy(update={"bvn_finish": "accounts"})
    rows = [asked(number) for number in range(1, 6)]
    rows.append(asked(6, account_number="0000000000", bank_code="058"))
    world.request(rows)
    done = world.confirm({row["customer_id"]: world.otp(row) or "" for row in rows})
    night = world.screen([*rows, asked(7)], checks=["karma"])
    screened = {row["customer_id"]: row for row in night.rows}
    for row in rows[:5]:
        accounts = bvn_accounts(row["bvn"])
        words = [ACCOUNT_STATUSES[int(str(each["account_status"])) - 1] for each in accounts]
        seen = screened[row["customer_id"]]
        assert seen["bvn_account_status"] == words[0]
        assert seen["bvn_account_statuses"] == sorted(set(words))
        written = done.rows[row["customer_id"]]["bvn_accounts"]
        assert [one["account_status"] for one in written or []] == words
    assert screened["C6"]["bvn_account_status"] is None
    assert screened["C7"]["bvn_account_statuses"] is None
