"""Dates and times: ISO always, other orders only when declared, naive times in Lagos."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from nightscreen.schemas.columns import Flaw
from nightscreen.values.dates import (
    Edge,
    judge_date,
    judge_instant,
)


@pytest.mark.parametrize(
    ("cell", "order", "expected"),
    [
        ("1990-04-03", None, date(1990, 4, 3)),
        ("1990-04-03", "dmy", date(1990, 4, 3)),
        ("1990-04-03 00:00:00", None, date(1990, 4, 3)),
        ("1990-04-03T00:00:00.000", None, date(1990, 4, 3)),
        ("1990-04-02T23:00:00.000Z", None, date(1990, 4, 3)),
        ("19900403", None, date(1990, 4, 3)),
        ("2000-02-29", None, date(2000, 2, 29)),
        ("03/04/1990", "dmy", date(1990, 4, 3)),
        ("03/04/1990", "mdy", date(1990, 3, 4)),
        ("3.4.1990", "dmy", date(1990, 4, 3)),
        ("03 04 1990", "dmy", date(1990, 4, 3)),
        ("1990/04/03", "ymd", date(1990, 4, 3)),
        ("03/04/1990 00:00", "dmy", date(1990, 4, 3)),
        ("12-Mar-1985", None, date(1985, 3, 12)),
        ("12MAR1985", None, date(1985, 3, 12)),
        ("12 march 1985", None, date(1985, 3, 12)),
        ("12th March, 1985", None, date(1985, 3, 12)),
        ("March 12, 1985", None, date(1985, 3, 12)),
        ("1985-Mar-12", None, date(1985, 3, 12)),
        ("3-Sept-1990", None, date(1990, 9, 3)),
    ],
)
def test_dates_without_doubt_are_read(cell: str, order: str | None, expected: date) -> None:
    """ISO, a named month, or the order that a mapping declares."""
    assert judge_date(cell, order=order) == (expected, ())


@pytest.mark.parametrize(
    ("cell", "order", "code"),
    [
        ("03/04/1990", None, "date_order_undeclared"),
        ("25/12/1990", None, "date_order_undeclared"),
        ("1990/04/03", None, "date_order_undeclared"),
        ("1990/04/03", "dmy", "date_short_year"),
        ("03/04/90", "dmy", "date_short_year"),
        ("12-Mar-85", None, "date_short_year"),
        ("13/13/1990", "dmy", "date_impossible"),
        ("04/25/1990", "dmy", "date_impossible"),
        ("1990-02-30", None, "date_impossible"),
        ("1900-01-01", None, "date_implausible"),
        ("0090-01-01", None, "date_implausible"),
        ("33000", None, "date_serial"),
        ("33000.5", None, "date_serial"),
        ("12-Foo-1985", None, "date_unreadable"),
        ("yesterday", None, "date_unreadable"),
        ("1990", None, "date_unreadable"),
    ],
)
def test_doubtful_dates_are_unknown_and_said(cell: str, order: str | None, code: str) -> None:
    """An order is never guessed, nor a century, nor a spreadsheet's day number."""
    verdict = judge_date(cell, order=order)
    assert (verdict.value, [f.code for f in verdict.issues]) == (None, [code])
    assert verdict.issues[0].flaw is Flaw.NONE


@pytest.mark.parametrize(
    ("cell", "edge", "expected"),
    [
        ("2025-01-15", Edge.START, datetime(2025, 1, 14, 23, 0, tzinfo=UTC)),
        ("2025-01-15", Edge.END, datetime(2025, 1, 15, 22, 59, 59, 999999, tzinfo=UTC)),
        ("2025-01-15 10:00:00", Edge.START, datetime(2025, 1, 15, 9, 0, tzinfo=UTC)),
        ("2025-01-15T10:00", Edge.END, datetime(2025, 1, 15, 9, 0, tzinfo=UTC)),
        ("2025-01-15T10:00:00Z", Edge.START, datetime(2025, 1, 15, 10, 0, tzinfo=UTC)),
        ("2025-01-15T10:00:00 UTC", Edge.START, datetime(2025, 1, 15, 10, 0, tzinfo=UTC)),
        ("2025-01-15T10:00:00+01:00", Edge.START, datetime(2025, 1, 15, 9, 0, tzinfo=UTC)),
        ("2025-01-15 10:00:00 -0530", Edge.START, datetime(2025, 1, 15, 15, 30, tzinfo=UTC)),
        ("20250115T100000Z", Edge.START, datetime(2025, 1, 15, 10, 0, tzinfo=UTC)),
        (
            "2025-01-15T10:00:00.123456789Z",
            Edge.START,
            datetime(2025, 1, 15, 10, 0, 0, 123456, UTC),
        ),
        ("15-Jan-2025 10:00 PM", Edge.START, datetime(2025, 1, 15, 21, 0, tzinfo=UTC)),
        ("15 Jan 2025, 12:30 am", Edge.START, datetime(2025, 1, 14, 23, 30, tzinfo=UTC)),
    ],
)
def test_instants_become_utc(cell: str, edge: Edge, expected: datetime) -> None:
    """Naive times are Lagos; a bare date is the start of its day, or the end for an expiry."""
    assert judge_instant(cell, order=None, edge=edge) == (expected, ())


@pytest.mark.parametrize(
    "cell",
    [
        "15/01/2025",
        "2025-01-15T25:00:00",
        "2025-01-15T10:61",
        "2025-01-15 13:00 PM",
        "2025-01-15T10:00:00+19:00",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31",
        "45672",
        "yes",
    ],
)
def test_a_consent_time_that_cannot_be_read_flaws_the_consent(cell: str) -> None:
    """Consent whose times are in doubt does not count, and is named by one code."""
    verdict = judge_instant(cell, order=None, edge=Edge.START)
    assert (verdict.value, [f.code for f in verdict.issues]) == (None, ["consent_unreadable"])
    assert verdict.issues[0].flaw is Flaw.CONSENT
