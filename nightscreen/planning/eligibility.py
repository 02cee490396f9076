"""Eligibility: a row's identities and consent, and why a check is not asked.

Consent is valid if it has a reference, was given, has not expired, was not withdrawn, and all its
times could be read. Without an expiry it lasts twelve months. `values/dates.py` reads the times;
each check declares whether it needs consent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.clock import LAGOS, to_instant, to_micros
from nightscreen.schemas.columns import IDENTIFIERS, INSTANT_COLUMNS, Flaw
from nightscreen.schemas.plan import CheckIdentity, SkipReason
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

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


_MONTHS = 12
_CONSENT = pa.schema(
    [
        pa.field("consent_reference", pa.string()),
        pa.field("flaws", pa.int32()),
        *(pa.field(name, INSTANT) for name in INSTANT_COLUMNS),
    ]
)


def consent_valid(
    reference: str | None,
    consented_at: datetime | None,
    expires_at: datetime | None,
    withdrawn_at: datetime | None,
    *,
    at: datetime,
    flaws: int,
) -> bool:
    """Return whether one consent is valid at an instant; all instants have a zone."""
    times = (consented_at, expires_at, withdrawn_at)
    row = dict(zip(_CONSENT.names, (reference, flaws, *times), strict=True))
    return bool(consent_column(pa.RecordBatch.from_pylist([row], _CONSENT), at=at)[0].as_py())


def consent_column(rows: pa.RecordBatch | pa.Table, *, at: datetime) -> pa.BooleanArray:
    """Return which rows' consent is valid at an instant; never null.

    It is valid from `consented_at` until just before `expires_at` (by default twelve months in
    Lagos's calendar, 29 February to 28 February) and before `consent_withdrawn_at`. The rows have
    the schema of `schemas.rows.row_schema`.
    """
    begins, ends = _spans(rows)
    now = to_micros(at)
    column: pa.BooleanArray = pa.array((begins <= now) & (now < ends))
    return column


def consent_ends(rows: pa.RecordBatch | pa.Table) -> NDArray[np.int64]:
    """Return when each row's consent ends, in microseconds: at its expiry or its withdrawal.

    A later withdrawal may be known in advance.
    """
    return _spans(rows)[1]


def _spans(rows: pa.RecordBatch | pa.Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return start and end of each row's consent in microseconds; both 0 if it is never valid."""
    given, expires, withdrawn = (flat(rows[name]).cast(pa.int64()) for name in INSTANT_COLUMNS)
    begins = given.fill_null(0).to_numpy()
    ends = pc.coalesce(expires, pa.array(_twelve_months_after(begins)))
    ends = pc.min_element_wise(ends, withdrawn).to_numpy()
    named = pc.not_equal(flat(rows["consent_reference"]), "")
    counts = pc.and_(pc.is_valid(given), named).fill_null(False)  # noqa: FBT003  # by position
    readable = (flat(rows["flaws"]).to_numpy() & int(Flaw.CONSENT)) == 0
    valid = counts.to_numpy(zero_copy_only=False) & readable
    return np.where(valid, begins, 0), np.where(valid, ends, 0)


def twelve_months_after(instant: datetime) -> datetime:
    """Return the same day and time of the next year in Lagos; 29 February becomes the 28th."""
    return to_instant(int(_twelve_months_after(np.array([to_micros(instant)]))[0]))


def _twelve_months_after(micros: NDArray[np.int64]) -> NDArray[np.int64]:
    ahead = np.timedelta64(LAGOS.utcoffset(None))
    local = micros.astype("M8[us]") + ahead
    month = local.astype("M8[M]")
    later = (month + _MONTHS).astype("M8[us]") + (local - month)
    is_leap_day = later.astype("M8[M]") > month + _MONTHS
    utc: NDArray[np.int64] = (later - is_leap_day * np.timedelta64(1, "D") - ahead).astype(np.int64)
    return utc
