"""Validate dates and times: ISO always, other orders only if the order is known.

A time without a zone is Africa/Lagos, UTC+1 all year since 1919. Nothing here reads a clock. The
order of a date is never guessed; it comes from `reading/date_orders`.
"""

from __future__ import annotations

import re
from calendar import month_name
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.clock import LAGOS, lagos_day, to_micros
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.enriched import CONSENT_UNREADABLE
from nightscreen.schemas.rows import INSTANT, Action
from nightscreen.values.issues import ColumnRule, Issue, Validated, matching, where

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.values.issues import Column

# a choice: nobody alive is older, and spreadsheets count days from 1900
_BIRTH_YEARS = range(1901, 2100)
# a choice: no consent is older than the computers' epoch
_INSTANT_YEARS = range(1970, 2100)


class InstantProblem(Enum):
    """Why a date or time cannot be read: its code and the hint for the analyst."""

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
    """A date, with or without a time of day; in Lagos time if no zone is written."""

    at: datetime  # midnight for a bare date
    is_bare: bool  # without a time of day


_ISO = re.compile(r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})(?![0-9]).{,40}")
_DAY = (
    "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
"""RE2 pattern of month and day, without 29 February."""
_ZONE = "+01:00"  # of Lagos
_ISO_DAY = f"^(?:19[1-9][0-9]|20[0-9]{{2}})-{_DAY}$"
_ISO_TIME = (
    f"^(?:19[7-9][0-9]|20[0-9]{{2}})-{_DAY}"
    r"(?:[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9])?(?:\+01:00)?)?$"
)
_UTC = re.compile(r"\s*(?:UTC|GMT)$", re.IGNORECASE)
_GAP_OF_ZONE = re.compile(r"\s+(?=[+-][0-9])")
_FARTHEST = timedelta(hours=14)  # the largest offset of any zone from UTC
_SERIAL = re.compile(r"[0-9]{5}(?:\.[0-9]+)?")
_WRITTEN = re.compile(r"[A-Za-z0-9:/.,\s-]{6,40}")
"""Dates as people write them: numbers and names of months with the usual separators."""
_PART = re.compile(r"[A-Za-z]+|[0-9:]+")
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_MONTHS = {name.casefold(): number for number, name in enumerate(month_name) if name}
_MONTHS |= {name[:3]: number for name, number in _MONTHS.items()} | {"sept": 9}


def read_moment(text: str, order: str | None) -> Moment | InstantProblem:
    """Read a date, with or without a time of day and a zone.

    It may be ISO, have the month's name, or be numeric if its order is known. The latter two may
    have a time of 24 or 12 hours.

    Args:
        text: the cell, trimmed.
        order: `dmy`, `mdy` or `ymd` for dates that are not ISO; None if unknown.
    """
    if _ISO.fullmatch(text):
        if moment := read_iso(text):
            return moment
        order = "ymd"
    parts = _PART.findall(text.casefold()) if _WRITTEN.fullmatch(text) else []
    parts = [part for part in parts if part not in _ORDINALS]
    if len(parts) < len("dmy"):
        return InstantProblem.SERIAL if _SERIAL.fullmatch(text) else InstantProblem.UNREADABLE
    month_at = [at for at, part in enumerate(parts[:3]) if part in _MONTHS]
    if month_at:
        order = "mdy" if month_at == [0] else "ymd" if len(parts[0]) == len("1990") else "dmy"
    elif order is None and all(part.isdecimal() for part in parts[:3]):
        return InstantProblem.ORDER
    return _written(dict(zip(order or "", parts, strict=False)), parts[3:])


def read_iso(text: str) -> Moment | InstantProblem | None:
    """Read an ISO date, with or without a time of day and a zone; None if it is not ISO."""
    try:
        parsed = datetime.fromisoformat(_GAP_OF_ZONE.sub("", _UTC.sub("Z", text)))
    except ValueError:
        return None
    if abs(parsed.utcoffset() or timedelta(0)) > _FARTHEST:
        return InstantProblem.IMPOSSIBLE
    at = parsed if parsed.tzinfo else parsed.replace(tzinfo=LAGOS)
    return Moment(at, is_bare=len(text) <= len("1990-04-03"))


def _written(day: dict[str, str], clock: list[str]) -> Moment | InstantProblem:
    """Return the moment of a date's parts, by letter of the order, and the parts of a time."""
    year, month = day.get("y", ""), day.get("m", "")
    number = _MONTHS.get(month, int(month) if month.isdecimal() else None)
    if number is None or not (year.isdecimal() and day["d"].isdecimal()):
        return InstantProblem.UNREADABLE
    if len(year) < len("1990"):
        return InstantProblem.SHORT_YEAR
    try:
        midnight = datetime(int(year), number, int(day["d"]), tzinfo=LAGOS)
        if not clock:
            return Moment(midnight, is_bare=True)
        if ":" not in clock[0]:
            return InstantProblem.UNREADABLE
        form = ("%I" if len(clock) > 1 else "%H") + ":%M:%S"[: 3 * clock[0].count(":")]
        form += " %p" * (len(clock) > 1)
        at = datetime.strptime(" ".join(clock), form).time()  # noqa: DTZ007 - Lagos, see above
    except ValueError:
        return InstantProblem.IMPOSSIBLE
    return Moment(datetime.combine(midnight, at, LAGOS), is_bare=False)


def _date_issue(trouble: InstantProblem) -> Issue:
    code, hint = trouble.value
    return Issue(code, f"{hint} The date was taken as unknown.", Action.WARNED)


def _consent_issue(trouble: InstantProblem, effect: str) -> Issue:
    return Issue(CONSENT_UNREADABLE, f"{trouble.value[1]} {effect}", Action.INVALID, Flaw.CONSENT)


consent_issue = partial(
    _consent_issue, effect="The consent does not count until its times can be read."
)
withdrawal_issue = partial(_consent_issue, effect="The consent counts as withdrawn.")
"""Issue of a withdrawal whose time cannot be read: the withdrawal still counts."""


def judge_date(text: str, *, order: str | None) -> Validated[date]:
    """Validate a date of birth; a time with a zone is converted to Lagos time."""
    moment = read_moment(text, order)
    if isinstance(moment, InstantProblem):
        return Validated(None, (_date_issue(moment),))
    if moment.at.year not in _BIRTH_YEARS:
        return Validated(None, (_date_issue(InstantProblem.IMPLAUSIBLE),))
    return Validated(moment.at.astimezone(LAGOS).date())


def judge_instant(
    text: str,
    *,
    order: str | None,
    ends: bool = False,
    issue: Callable[[InstantProblem], Issue] = consent_issue,
) -> Validated[datetime]:
    """Validate a time; a bare date means the day's start, or its end if `ends`.

    A consent whose time cannot be read is not valid: by default the issue has `Flaw.CONSENT`. For
    other times pass `issue`.
    """
    moment = read_moment(text, order)
    if isinstance(moment, InstantProblem):
        return Validated(None, (issue(moment),))
    if moment.at.year not in _INSTANT_YEARS:
        return Validated(None, (issue(InstantProblem.IMPLAUSIBLE),))
    whole_day = moment.is_bare and ends
    at = datetime.combine(moment.at, time.max, LAGOS) if whole_day else moment.at
    return Validated(at.astimezone(UTC))


def sure_dates(text: Column) -> Column:
    """Return the days of plain ISO dates."""
    return pc.cast(where(matching(text, _ISO_DAY), text), pa.date32())


def sure_instants(text: Column, *, ends: bool) -> Column:
    """Return the instants of plain ISO dates and times of Lagos."""
    text = where(matching(text, _ISO_TIME), text)
    is_bare = pc.equal(pc.binary_length(text), len("1990-04-03"))
    timed = _followed(text, is_bare, "T23:59:59.999999" if ends else "T00:00:00")
    return pc.cast(_followed(timed, pc.invert(pc.ends_with(timed, _ZONE)), _ZONE), INSTANT)


def _followed(text: Column, these: Column, ending: str) -> Column:
    """Return a column in which these cells are followed by an ending."""
    longer = pc.binary_join_element_wise(text, pa.scalar(ending), "")
    return pc.if_else(these, longer, text)


def dates(order: str | None) -> ColumnRule[date]:
    """Return the rule of a column of days."""
    return ColumnRule(partial(judge_date, order=order), sure_dates, pa.date32())


def instants(
    order: str | None,
    *,
    ends: bool = False,
    issue: Callable[[InstantProblem], Issue] = consent_issue,
) -> ColumnRule[datetime]:
    """Return the rule of a column of times, consent times by default, as UTC instants."""
    judge = partial(judge_instant, order=order, ends=ends, issue=issue)
    return ColumnRule(judge, partial(sure_instants, ends=ends), INSTANT)


_DATE_UNREADABLE = "This is no date; write it as 2026-03-04, or leave it blank."
_DATE_OUTSIDE = "The date must lie between the run and now; correct it or leave it blank."


def read_written_date(text: str, run_at: int, now: int) -> int | str | None:
    """Return a cell's date as an instant in microseconds, None if it is blank, else the issue.

    The date is written as 2026-03-04, with or without a time of day, in Lagos time if no zone is
    given. A date without a time is its noon. No instant is before the run or after now.
    """
    if not text:
        return None
    try:
        parsed = read_iso(text)
        if not isinstance(parsed, Moment):
            return _DATE_UNREADABLE
        local = (parsed.at.replace(hour=12) if parsed.is_bare else parsed.at).astimezone(LAGOS)
    except OverflowError:
        return _DATE_UNREADABLE
    if not lagos_day(run_at) <= local.date() <= lagos_day(now):
        return _DATE_OUTSIDE
    return min(max(to_micros(local), run_at), now)
