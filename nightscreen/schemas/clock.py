"""Instants as the journal stores them, and the days and months of spending.

An instant is whole microseconds since 1970 in UTC. A spending day runs from noon to noon in Lagos,
so that a night is one day; a month is the month of that day. Lagos has the same offset all year.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from datetime import time as time_of_day

from nightscreen.schemas.errors import InputError

LAGOS = timezone(timedelta(hours=1), "Africa/Lagos")
MICROS = 1_000_000  # microseconds in a second
DAY_MICROS = 86_400 * MICROS
NOON_MICROS = 11 * 3600 * MICROS  # noon in Lagos, as microseconds of the UTC day

Clock = Callable[[], int]  # returns the present instant in microseconds


def system_clock() -> int:
    """Return the present instant in microseconds."""
    return time.time_ns() // 1000


def to_instant(micros: int) -> datetime:
    """Return an aware UTC datetime."""
    return datetime.fromtimestamp(micros // MICROS, UTC) + timedelta(microseconds=micros % MICROS)


def to_micros(instant: datetime) -> int:
    """Return microseconds of an aware datetime."""
    whole = int(instant.replace(microsecond=0).timestamp())
    return whole * MICROS + instant.microsecond


def lagos_day(micros: int) -> date:
    """Return the calendar day in Lagos that an instant falls in."""
    return to_instant(micros).astimezone(LAGOS).date()


def span_micros(span: timedelta) -> int:
    """Return a span of time in microseconds."""
    return span // timedelta(microseconds=1)


def spending_day(micros: int) -> str:
    """Return the date of the noon-to-noon day in Lagos that an instant falls in."""
    return to_instant(micros - NOON_MICROS).date().isoformat()


def next_day(micros: int) -> int:
    """Return the instant at which the next spending day begins."""
    return ((micros - NOON_MICROS) // DAY_MICROS + 1) * DAY_MICROS + NOON_MICROS


def spending_month(micros: int) -> str:
    """Return `YYYY-MM` of the spending day."""
    return spending_day(micros)[:7]


def instant_text(micros: int | None) -> str | None:
    """Return ISO 8601 text in UTC with milliseconds; None stays None."""
    if micros is None:
        return None
    return to_instant(micros).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def deadline_instant(text: str, now: int) -> int | None:
    """Return a deadline as an instant: the next such time of day in Lagos, or an ISO instant.

    Raises:
        InputError: it is neither.
    """
    if not text:
        return None
    try:
        if "T" in text:
            instant = datetime.fromisoformat(text)
            aware = instant if instant.tzinfo else instant.replace(tzinfo=LAGOS)
            return to_micros(aware)
        local = to_instant(now).astimezone(LAGOS)
        today = datetime.combine(local.date(), time_of_day.fromisoformat(text), tzinfo=LAGOS)
    except ValueError:
        raise InputError(
            f"the deadline {text} cannot be read: write a time such as 06:00 (Lagos) or an instant "
            "such as 2026-03-01T06:00"
        ) from None
    return to_micros(today if today > local else today + timedelta(days=1))
