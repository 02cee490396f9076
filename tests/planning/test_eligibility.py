"""Consent at an instant: the rule by cases, for one row and for many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from nightscreen.planning.eligibility import consent_column, consent_valid, twelve_months_after
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.rows import row_schema

AT = datetime(2025, 6, 30, 12, 0, tzinfo=UTC)
GIVEN = datetime(2025, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)

Case = tuple[str | None, datetime | None, datetime | None, datetime | None, int]


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (("R1", GIVEN, None, None, 0), True),
        (("R1", AT, None, None, 0), True),
        (("R1", AT + TICK, None, None, 0), False),
        ((None, GIVEN, None, None, 0), False),
        (("", GIVEN, None, None, 0), False),
        (("R1", None, None, None, 0), False),
        (("R1", None, AT + TICK, None, 0), False),
        (("R1", GIVEN, AT + TICK, None, 0), True),
        (("R1", GIVEN, AT, None, 0), False),
        (("R1", GIVEN, None, AT, 0), False),
        (("R1", GIVEN, None, AT + TICK, 0), True),
        (("R1", GIVEN, None, None, int(Flaw.CONSENT)), False),
        (("R1", GIVEN, None, None, int(Flaw.BVN)), True),
        (("R1", datetime(2024, 6, 30, 12, 0, tzinfo=UTC), None, None, 0), False),
        (("R1", datetime(2024, 6, 30, 12, 0, tzinfo=UTC) + TICK, None, None, 0), True),
        (("R1", datetime(2023, 1, 1, tzinfo=UTC), AT + TICK, None, 0), True),
    ],
)
def test_consent_counts_only_within_its_time(case: Case, expected: bool) -> None:
    """It needs a reference, a time in the past, no expiry, no withdrawal, no unreadable time."""
    assert scalar(case, AT) is expected
    assert consent_column(batch([case]), at=AT).to_pylist() == [expected]


def test_twelve_months_follow_the_calendar_of_lagos() -> None:
    """The same day and time of the next year; 29 February ends on the 28th."""
    leap = datetime(2024, 2, 28, 23, 30, tzinfo=UTC)  # the 29th in Lagos
    assert twelve_months_after(leap) == datetime(2025, 2, 27, 23, 30, tzinfo=UTC)
    assert twelve_months_after(GIVEN) == datetime(2026, 1, 1, tzinfo=UTC)


def scalar(case: Case, at: datetime) -> bool:
    reference, consented_at, expires_at, withdrawn_at, flaws = case
    return consent_valid(reference, consented_at, expires_at, withdrawn_at, at=at, flaws=flaws)


def batch(rows: list[Case]) -> pa.RecordBatch:
    names = ("consent_reference", "consented_at", "consent_expires_at", "consent_withdrawn_at")
    values: dict[str, list[object]] = {
        name: [row[index] for row in rows] for index, name in enumerate((*names, "flaws"))
    }
    schema = row_schema()
    arrays = [pa.array(values.get(f.name, [None] * len(rows)), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
