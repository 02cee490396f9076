"""Consent: whether a row's consent counts at an instant, by scalar and by column, one rule.

Consent is valid if it has a reference, was given, has not expired and was not withdrawn by then,
and all its times could be read. Without an expiry it lasts twelve months. `values/dates.py`
reads the times; the plan knows which checks need consent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.columns import Flaw
from nightscreen.values.columns import Column, Mask, present, text_length
from nightscreen.values.dates import LAGOS

if TYPE_CHECKING:
    import numpy.typing as npt

DEFAULT_MONTHS = 12
_LEAP_DAY = (2, 29)
_LAGOS_OFFSET = np.timedelta64(1, "h")


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
    if not reference or consented_at is None or flaws & Flaw.CONSENT:
        return False
    if withdrawn_at is not None and withdrawn_at <= at:
        return False
    until = twelve_months_after(consented_at) if expires_at is None else expires_at
    return consented_at <= at < until


def twelve_months_after(instant: datetime) -> datetime:
    """Return the same day and time of the next year in Lagos; 29 February becomes the 28th."""
    local = instant.astimezone(LAGOS)
    leap_day = (local.month, local.day) == _LEAP_DAY
    day = local.day - 1 if leap_day else local.day
    return local.replace(year=local.year + 1, day=day).astimezone(UTC)


def consent_column(rows: pa.RecordBatch, *, at: datetime) -> pa.BooleanArray:
    """Return which rows' consent counts at an instant, as `consent_valid` does; never null.

    Args:
        rows: a batch in the shape of `schemas.rows.row_schema`.
        at: the instant, with its zone.
    """
    now = np.datetime64(at.astimezone(UTC).replace(tzinfo=None), "us")
    given, is_given = _instants(rows.column("consented_at"))
    expires, has_expiry = _instants(rows.column("consent_expires_at"))
    withdrawn, is_withdrawn = _instants(rows.column("consent_withdrawn_at"))
    until = np.where(has_expiry, expires, _twelve_months_after(given))
    flawed = (rows.column("flaws").to_numpy() & int(Flaw.CONSENT)) != 0
    counts = _referenced(rows.column("consent_reference")) & is_given & ~flawed
    counts &= (given <= now) & (now < until) & ~(is_withdrawn & (withdrawn <= now))
    column: pa.BooleanArray = pa.array(counts)
    return column


def consent_ends(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Return when each row's consent ends, in microseconds: at its expiry or its withdrawal.

    Only for rows whose consent is valid now; a later withdrawal may be known in advance.
    """
    given, _ = _instants(rows.column("consented_at"))
    expires, has_expiry = _instants(rows.column("consent_expires_at"))
    withdrawn, is_withdrawn = _instants(rows.column("consent_withdrawn_at"))
    until = np.where(has_expiry, expires, _twelve_months_after(given))
    ends: npt.NDArray[np.int64] = np.where(
        is_withdrawn, np.minimum(until, withdrawn), until
    ).astype(np.int64)
    return ends


def _referenced(reference: Column) -> Mask:
    return text_length(reference) > 0


def _instants(column: Column) -> tuple[npt.NDArray[np.datetime64], Mask]:
    """Return a column of instants as UTC, the epoch where absent, and where they are present."""
    micros = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return micros.astype("datetime64[us]"), present(column)


def _twelve_months_after(instants: npt.NDArray[np.datetime64]) -> npt.NDArray[np.datetime64]:
    local = instants + _LAGOS_OFFSET
    month = local.astype("datetime64[M]")
    into_month = local - month.astype("datetime64[us]")
    target = month + DEFAULT_MONTHS
    next_month = (target + 1).astype("datetime64[D]").astype("datetime64[us]")
    later = target.astype("datetime64[D]").astype("datetime64[us]") + into_month
    day = np.timedelta64(1, "D")
    clipped: npt.NDArray[np.datetime64] = np.where(later >= next_month, later - day, later)
    return clipped - _LAGOS_OFFSET
