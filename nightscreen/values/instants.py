"""Dates and times as files have them: ISO always, another order only where it is known.

A time without a zone is Africa/Lagos, which has kept UTC+1 all year since 1919. Nothing here
reads a clock, and a date's order is never guessed: `date_orders` knows it or does not.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.rows import INSTANT, Action
from nightscreen.values.columns import (
    Column,
    Mask,
    Places,
    matching,
    present,
    put,
    text_length,
    where,
)
from nightscreen.values.validators import Finding, Notes, Validated, judge_cells

if TYPE_CHECKING:
    from collections.abc import Callable

LAGOS = timezone(timedelta(hours=1), "Africa/Lagos")
_LAGOS_US = 3_600_000_000
_DAY_US = 24 * _LAGOS_US
_BIRTH_YEARS = range(1901, 2100)
_INSTANT_YEARS = range(1970, 2100)


class Edge(Enum):
    """The instant of a day that a bare date means."""

    START = "start"
    END = "end"


class InstantProblem(Enum):
    """Why a date or time is not read: its code and the sentence for the analyst."""

    ORDER = (
        "date_order_undeclared",
        "The order of a date is never guessed: declare date_order (dmy, mdy, ymd) in a mapping.",
    )
    SHORT_YEAR = ("date_short_year", "Write the year with four digits.")
    SERIAL = (
        "date_serial",
        "This is a spreadsheet's day number; format the column as a date and export it again.",
    )
    IMPOSSIBLE = ("date_impossible", "There is no such date or time.")
    IMPLAUSIBLE = ("date_implausible", "The year is out of any plausible range.")
    UNREADABLE = ("date_unreadable", "This cannot be read as a date; write it as 1990-04-03.")


class Moment(NamedTuple):
    """A date as written, with its time of day and its distance from UTC where it has them."""

    day: date
    clock: time | None
    offset: timedelta | None


_YEAR = r"(?:19(?:0[1-9]|[1-9][0-9])|20[0-9]{2})"
_RECENT = r"(?:19[7-9][0-9]|20[0-9]{2})"
_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_CLOCK = r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"

_SEPTEMBER = 9
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_TIME = (
    r"(?:(?:T|,?\s+)(?P<hour>\d{1,2}):?(?P<minute>\d{2})(?::?(?P<second>\d{2})(?:[.,](?P<part>\d+))?)?"
    r"\s*(?P<half>[ap]\.?m\.?)?\s*(?P<zone>Z|UTC|GMT|WAT|[+-]\d{2}(?::?\d{2})?)?)?"
)
_GAP = r"(?:\s*[-/.,]\s*|\s+)"


def _form(day: str) -> re.Pattern[str]:
    return re.compile(day + _TIME, re.ASCII | re.IGNORECASE)


_ISO = _form(r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})")
_ISO_BASIC = _form(r"(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})")
_NAMED = (
    _form(
        rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_GAP}?(?P<month>[a-z]{{3,9}})\.?{_GAP}?(?P<year>\d{{4}}|\d\d)"
    ),
    _form(
        rf"(?P<month>[a-z]{{3,9}})\.?{_GAP}(?P<day>\d{{1,2}})(?:st|nd|rd|th)?{_GAP}(?P<year>\d{{4}}|\d\d)"
    ),
    _form(rf"(?P<year>\d{{4}}){_GAP}(?P<month>[a-z]{{3,9}})\.?{_GAP}(?P<day>\d{{1,2}})"),
)
_NUMERIC = _form(r"(?P<a>\d{1,4})\s*[-/.\s]\s*(?P<b>\d{1,2})\s*[-/.\s]\s*(?P<c>\d{1,4})")
_LONGEST = 60
_SERIAL = re.compile(r"\d{5}(?:\.\d+)?", re.ASCII)


def read_moment(text: str, order: str | None) -> Moment | InstantProblem:
    """Read a date, with or without a time of day and a zone.

    Args:
        text: the cell, trimmed.
        order: `dmy`, `mdy` or `ymd` for dates that are not ISO, or None where it is open.
    """
    if len(text) > _LONGEST:
        return InstantProblem.UNREADABLE
    for form in (_ISO, _ISO_BASIC, *_NAMED):
        if found := form.fullmatch(text):
            return _moment(found, found["year"], found["month"], found["day"])
    if found := _NUMERIC.fullmatch(text):
        if order not in {"dmy", "mdy", "ymd"}:
            return InstantProblem.ORDER
        parts = dict(zip(order, found.group("a", "b", "c"), strict=True))
        return _moment(found, parts["y"], parts["m"], parts["d"])
    return InstantProblem.SERIAL if _SERIAL.fullmatch(text) else InstantProblem.UNREADABLE


def judge_date(text: str, *, order: str | None) -> Validated[date]:
    """Judge a date of birth that is present; a time with a zone counts as Lagos time."""
    moment = read_moment(text, order)
    if isinstance(moment, InstantProblem):
        return Validated(None, (_date_finding(moment),))
    if moment.day.year not in _BIRTH_YEARS:
        return Validated(None, (_date_finding(InstantProblem.IMPLAUSIBLE),))
    if moment.offset is None:
        return Validated(moment.day)
    return Validated(_instant(moment, Edge.START).astimezone(LAGOS).date())


def judge_instant(
    text: str,
    *,
    order: str | None,
    edge: Edge,
    finding: Callable[[InstantProblem], Finding] | None = None,
) -> Validated[datetime]:
    """Validate a time that is present; a bare date means the start or end of its day.

    A consent whose time cannot be read is not valid: the finding has `Flaw.CONSENT`. Other times
    have their own `finding`.
    """
    judge_finding = finding or _instant_finding
    moment = read_moment(text, order)
    if isinstance(moment, InstantProblem):
        return Validated(None, (judge_finding(moment),))
    if moment.day.year not in _INSTANT_YEARS:
        return Validated(None, (judge_finding(InstantProblem.IMPLAUSIBLE),))
    return Validated(_instant(moment, edge).astimezone(UTC))


def judge_dates(
    text: Column, order: str | None, notes: Notes, column: str = "date_of_birth"
) -> Column:
    """Return a column of days as dates after judging."""
    plain = matching(text, f"^{_YEAR}-{_DAY}$")
    dates = where(plain, text).cast(pa.date32())
    rows = np.flatnonzero(~plain & present(text))
    judge = partial(judge_date, order=order)
    return put(dates, rows, judge_cells(text, rows, judge, column, notes))


def judge_instants(
    text: Column,
    column: str,
    edge: Edge,
    order: str | None,
    notes: Notes,
    *,
    finding: Callable[[InstantProblem], Finding] | None = None,
) -> Column:
    """Return a column of times, consent times by default, as UTC instants."""
    lengths = text_length(text)
    day = matching(text, f"^{_RECENT}-{_DAY}$", lengths == len("2026-01-31"))
    timed = lengths >= len("2026-01-31T06:00:00")
    naive = matching(text, f"^{_RECENT}-{_DAY}{_CLOCK}$", timed)
    zoned = matching(text, f"^{_RECENT}-{_DAY}{_CLOCK}{_ZONE}$", timed & ~naive)
    micros = np.zeros(len(text), dtype=np.int64)
    local = pa.timestamp("us")
    micros[day] = _micros(text, day, local) - _LAGOS_US + (_DAY_US - 1) * (edge is Edge.END)
    micros[naive] = _micros(text, naive, local) - _LAGOS_US
    micros[zoned] = _micros(text, zoned, INSTANT)
    plain = day | naive | zoned
    instants = pa.array(micros, mask=~plain).cast(INSTANT)
    rows = np.flatnonzero(~plain & present(text))
    judge = partial(judge_instant, order=order, edge=edge, finding=finding)
    return put(instants, rows, judge_cells(text, rows, judge, column, notes))


def _micros(text: Column, mask: Mask, kind: pa.DataType) -> Places:
    micros: Places = text.filter(pa.array(mask)).cast(kind).cast(pa.int64()).to_numpy()
    return micros


def _moment(found: re.Match[str], year: str, month: str, day: str) -> Moment | InstantProblem:
    if len(year) < len("1990"):
        return InstantProblem.SHORT_YEAR
    number = int(month) if month.isdigit() else _month_number(month)
    if number is None:
        return InstantProblem.UNREADABLE
    try:
        return Moment(date(int(year), number, int(day)), _clock(found), _offset(found["zone"]))
    except ValueError:
        return InstantProblem.IMPOSSIBLE


def _month_number(name: str) -> int | None:
    lower = name.lower()
    known = (number for number, full in enumerate(_MONTH_NAMES, 1) if lower in {full, full[:3]})
    return _SEPTEMBER if lower == "sept" else next(known, None)


def _clock(found: re.Match[str]) -> time | None:
    if found["hour"] is None:
        return None
    hour = int(found["hour"])
    if half := found["half"]:
        if not 1 <= hour <= 12:  # noqa: PLR2004  # hours of a twelve-hour clock
            raise ValueError
        hour = hour % 12 + (12 if half[0] in "pP" else 0)
    micros = (found["part"] or "").ljust(6, "0")[:6]
    return time(hour, int(found["minute"]), int(found["second"] or 0), int(micros))


def _offset(zone: str | None) -> timedelta | None:
    if zone is None:
        return None
    if zone.upper() in {"Z", "UTC", "GMT"}:
        return timedelta(0)
    if zone.upper() == "WAT":
        return timedelta(hours=1)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 14 or minutes > 59:  # noqa: PLR2004  # no zone is farther from UTC
        raise ValueError
    return timedelta(hours=hours, minutes=minutes) * (-1 if zone[0] == "-" else 1)


def _instant(moment: Moment, edge: Edge) -> datetime:
    if moment.clock is None:
        clock = time.max if edge is Edge.END else time.min
        return datetime.combine(moment.day, clock, LAGOS)
    zone = LAGOS if moment.offset is None else timezone(moment.offset)
    return datetime.combine(moment.day, moment.clock, zone)


def _date_finding(trouble: InstantProblem) -> Finding:
    code, hint = trouble.value
    return Finding(code, f"{hint} The date was taken as unknown.", Action.WARNED)


def _instant_finding(trouble: InstantProblem) -> Finding:
    hint = f"{trouble.value[1]} The consent does not count until its times can be read."
    return Finding(CONSENT_UNREADABLE, hint, Action.INVALID, Flaw.CONSENT)


def withdrawal_finding(trouble: InstantProblem) -> Finding:
    """Return the finding of a withdrawal whose time cannot be read: it counts all the same."""
    hint = f"{trouble.value[1]} The consent counts as withdrawn."
    return Finding(CONSENT_UNREADABLE, hint, Action.INVALID, Flaw.CONSENT)
