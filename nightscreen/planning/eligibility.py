"""Eligibility: a row's identities and consent, and why a check is not asked.

Consent is valid if it has a reference, was given, has not expired, was not withdrawn, and all its
times could be read. Without an expiry it lasts twelve months. `values/dates.py` reads the times;
each check declares whether it needs consent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.clock import LAGOS, to_instant, to_micros
from nightscreen.schemas.columns import IDENTIFIERS, INSTANT_COLUMNS, Flaw
from nightscreen.schemas.plan import CheckIdentity, SkipReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray


def slots_of(
    checks: Sequence[str], karma_kinds: Sequence[IdentityKind]
) -> tuple[CheckIdentity, ...]:
    """Return every check with the identities it is asked by."""
    return tuple(
        CheckIdentity(check, kind)
        for check in checks
        for kind in CHECKS[check].asked_by or karma_kinds
    )


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def identities(rows: pa.Table, kind: IdentityKind) -> pa.Array:
    """Return each row's identity of a kind in the service's form; null if absent."""
    return flat(
        pc.binary_join_element_wise(*(rows[name] for name in IDENTIFIERS[kind].columns), "-")
    )


def skip_reasons(
    rows: pa.Table, slot: CheckIdentity, consent: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return for each row the first reason not to ask a slot (`SkipReason`)."""
    flaws = flat(rows["flaws"]).to_numpy(zero_copy_only=False)
    absent = pc.is_null(identities(rows, slot.kind)).to_numpy(zero_copy_only=False)
    mask = int(IDENTIFIERS[slot.kind].flaws)
    if (other := CHECKS[slot.check].together_with) is not None:
        mask |= int(IDENTIFIERS[other].flaws)
        absent = absent | pc.is_null(identities(rows, other)).to_numpy(zero_copy_only=False)
    if slot.kind is IdentityKind.NUBAN:
        absent = absent | ((flaws & int(Flaw.BANK_UNKNOWN)) != 0)  # not a fault of the row
    refused = ~consent if CHECKS[slot.check].needs_consent else np.zeros(len(flaws), dtype=bool)
    return np.select(
        [absent, (flaws & mask) != 0, refused],
        [SkipReason.INELIGIBLE.value, SkipReason.INVALID.value, SkipReason.REFUSED.value],
        SkipReason.ASK.value,
    ).astype(np.int8)


# --- consent ---


_LEAP_DAY = (2, 29)  # month and day
_UNREADABLE = int(Flaw.CONSENT)
_CACHED_TIMES = 4096  # many consents in a file were given on the same day


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

    It is valid from `consented_at` until just before `expires_at` (by default twelve months in
    Lagos's calendar, 29 February to 28 February) and before `withdrawn_at`.
    """
    times = (consented_at, expires_at, withdrawn_at)
    instants = (None if each is None else to_micros(each) for each in times)
    begins, ends = _span(reference, flaws, *instants)
    return begins <= to_micros(at) < ends


def _span(
    reference: str | None,
    flaws: int,
    consented: int | None,
    expires: int | None,
    withdrawn: int | None,
) -> tuple[int, int]:
    """Return start and end of valid consent in microseconds; equal if it is never valid."""
    if not reference or consented is None or flaws & _UNREADABLE:
        return 0, 0
    until = _twelve_months_after(consented) if expires is None else expires
    return consented, until if withdrawn is None else min(until, withdrawn)


def twelve_months_after(instant: datetime) -> datetime:
    """Return the same day and time of the next year in Lagos; 29 February becomes the 28th."""
    local = instant.astimezone(LAGOS)
    leap_day = (local.month, local.day) == _LEAP_DAY
    day = local.day - 1 if leap_day else local.day
    return local.replace(year=local.year + 1, day=day).astimezone(UTC)


@lru_cache(maxsize=_CACHED_TIMES)
def _twelve_months_after(micros: int) -> int:
    return to_micros(twelve_months_after(to_instant(micros)))


def consent_column(rows: pa.RecordBatch, *, at: datetime) -> pa.BooleanArray:
    """Return which rows' consent is valid at an instant, by `consent_valid`; never null.

    The rows have the schema of `schemas.rows.row_schema`.
    """
    now = to_micros(at)
    column: pa.BooleanArray = pa.array(
        [begins <= now < ends for begins, ends in _spans(rows)], pa.bool_()
    )
    return column


def consent_ends(rows: pa.RecordBatch) -> NDArray[np.int64]:
    """Return when each row's consent ends, in microseconds: at its expiry or its withdrawal.

    A later withdrawal may be known in advance.
    """
    return np.array([ends for _, ends in _spans(rows)], np.int64)


def _spans(rows: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the `_span` of each row's consent."""
    named = (rows.column(name).to_pylist() for name in ("consent_reference", "flaws"))
    times = (rows.column(name).cast(pa.int64()).to_pylist() for name in INSTANT_COLUMNS)
    return map(_span, *named, *times)
