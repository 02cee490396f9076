"""Who can be asked what: a row's identities, and why a check is not asked where it is not.

Consent is judged by `consent`, freshness by `freshness`; this module only combines them with what
the row holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.columns import IDENTIFIERS, Flaw
from nightscreen.schemas.plan import CheckIdentity, SkipReason

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Return a column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def identities(rows: pa.Table, kind: IdentityKind) -> pa.Array:
    """Return each row's identity of a kind in the service's own form; null where absent."""
    return flat(
        pc.binary_join_element_wise(*(rows[name] for name in IDENTIFIERS[kind].columns), "-")
    )


def why_not(rows: pa.Table, slot: CheckIdentity, consent: NDArray[np.bool_]) -> NDArray[np.int8]:
    """Return for each row why a slot is not asked (`SkipReason`), the first that applies."""
    flaws = flat(rows["flaws"]).to_numpy(zero_copy_only=False)
    absent = pc.is_null(identities(rows, slot.kind)).to_numpy(zero_copy_only=False)
    mask = int(IDENTIFIERS[slot.kind].flaws)
    if (other := CHECKS[slot.check].together_with) is not None:
        mask |= int(IDENTIFIERS[other].flaws)
        absent = absent | pc.is_null(identities(rows, other)).to_numpy(zero_copy_only=False)
    if slot.kind is IdentityKind.NUBAN:
        absent = absent | ((flaws & int(Flaw.BANK_UNKNOWN)) != 0)  # ours to mend, not the row's
    refused = ~consent if CHECKS[slot.check].needs_consent else np.zeros(len(flaws), dtype=bool)
    return np.select(
        [absent, (flaws & mask) != 0, refused],
        [SkipReason.INELIGIBLE.value, SkipReason.INVALID.value, SkipReason.REFUSED.value],
        SkipReason.ASK.value,
    ).astype(np.int8)
