"""Columns of the enriched table that no check fills, and their types.

Those of the checks are declared in `checks`; `results/assemble.py` fills them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAME_IDENTIFIER = {
    "batch_same_bvn": IdentityKind.BVN,
    "batch_same_account": IdentityKind.NUBAN,
    "batch_same_phone": IdentityKind.PHONE,
    "batch_same_image": IdentityKind.IMAGE,
}
"""How many customers of the batch share an identifier with the row, by column."""

ACCOUNT_BVNS = "batch_account_bvns"
RING, RING_SIZE = "ring", "ring_size"
RING_COLUMNS = (RING, RING_SIZE)
"""The ring that a row's customer is tied into, and how many customers it has."""
SIGNALS = (*SAME_IDENTIFIER, ACCOUNT_BVNS, *RING_COLUMNS)
"""The identifiers that other rows of the batch share with a row, in the order of the columns."""

WORD = pa.dictionary(pa.int32(), pa.string())  # a column of a few words
COST = pa.decimal128(20, 6)

BVN_FIELDS: list[tuple[str, pa.DataType]] = [
    ("bvn_watchlisted", pa.int64()),
    ("bvn_account_status", pa.string()),
    ("bvn_account_statuses", pa.list_(pa.string())),
    ("bvn_checked_at", INSTANT),
]
"""From BVN details that were confirmed before and that the row's consent allows to be shown."""
CONSENT_UNREADABLE = "consent_unreadable"
"""Whether a row has consent with a time that cannot be read, so that it does not count; also the
code of each such time among the problems."""
DECISION_FIELDS: list[tuple[str, pa.DataType]] = [
    ("cost", COST),
    ("decision", WORD),
    ("reasons", pa.list_(pa.string())),
    ("policy", WORD),
]


def naira_of_micro(micro: NDArray[np.int64]) -> pa.Array:
    """Return micro-naira as a column of decimal naira (`COST`), exactly."""
    buffer = np.zeros((len(micro), 2), dtype=np.int64)
    buffer[:, 0] = micro
    buffer[:, 1] = np.where(micro < 0, -1, 0)
    return pa.Array.from_buffers(COST, len(micro), [None, pa.py_buffer(buffer)])
