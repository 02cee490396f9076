"""Consent: whether a row's consent counts at an instant, and until when.

Consent is valid if it has a reference, was given, has not expired and was not withdrawn by then,
and all its times could be read. Without an expiry it lasts twelve months. `values/dates.py`
reads the times; the plan knows which checks need consent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.clock import LAGOS, to_instant, to_micros
from nightscreen.schemas.columns import INSTANT_COLUMNS, Flaw

if TYPE_CHECKING:
    import numpy.typing as npt

_LEAP_DAY = (2, 29)
_UNREADABLE = int(Flaw.CONSENT)
_KEPT = 4096  # many rows of a file were given on the same day


def consent_valid(
    reference: str | None,
    consented_at: datetime | None,
    expires_at: datetime | None,
    withdrawn_at: datetime | None,
    *,
    at: datetime,
    flaws: int,
) -> bool:
    """Return whether consent is valid at an instant; all instants have a zone.

    It counts from `consented_at` on, until before `expires_at` (else twelve months in Lagos's
    calendar, 29 February counting to 28 February) and until before `withdrawn_at`.
    """
    times = (consented_at, expires_at, withdrawn_at)
    given, expires, withdrawn = (None if each is None else to_micros(each) for each in times)
    return _counts(reference, given, expires, withdrawn, flaws, to_micros(at))


def _counts(
    reference: str | None,
    given: int | None,
    expires: int | None,
    withdrawn: int | None,
    flaws: int,
    now: int,
) -> bool:
    if not reference or given is None or flaws & _UNREADABLE:
        return False
    if withdrawn is not None and withdrawn <= now:
        return False
    return given <= now < _until(given, expires)


def _until(given: int, expires: int | None) -> int:
    return _twelve_months_after(given) if expires is None else expires


def twelve_months_after(instant: datetime) -> datetime:
    """Return the same day and time of the next year in Lagos; 29 February becomes the 28th."""
    local = instant.astimezone(LAGOS)
    leap_day = (local.month, local.day) == _LEAP_DAY
    day = local.day - 1 if leap_day else local.day
    return local.replace(year=local.year + 1, day=day).astimezone(UTC)


@lru_cache(maxsize=_KEPT)
def _twelve_months_after(micros: int) -> int:
    return to_micros(twelve_months_after(to_instant(micros)))


def consent_column(rows: pa.RecordBatch, *, at: datetime) -> pa.BooleanArray:
    """Return which rows' consent counts at an instant, as `consent_valid` does; never null.

    Args:
        rows: a batch in the shape of `schemas.rows.row_schema`.
        at: the instant, with its zone.
    """
    now, (given, expires, withdrawn) = to_micros(at), _times(rows)
    named = (rows.column(name).to_pylist() for name in ("consent_reference", "flaws"))
    counts = [
        _counts(reference, since, until, ended, flaws, now)
        for reference, flaws, since, until, ended in zip(
            *named, given, expires, withdrawn, strict=True
        )
    ]
    column: pa.BooleanArray = pa.array(counts, pa.bool_())
    return column


def consent_ends(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return when each row's consent ends, in microseconds: at its expiry or its withdrawal.

    Only for rows whose consent is valid now; a later withdrawal may be known in advance.
    """
    ends = [
        0 if given is None else min(_until(given, expires), withdrawn or _until(given, expires))
        for given, expires, withdrawn in zip(*_times(rows), strict=True)
    ]
    return np.array(ends, np.int64)


def _times(rows: pa.RecordBatch) -> list[list[int | None]]:
    """Return when consent was given, expires and was withdrawn, in microseconds."""
    return [rows.column(name).cast(pa.int64()).to_pylist() for name in INSTANT_COLUMNS]
