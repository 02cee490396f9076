"""Decide: a decision and its reasons for each enriched row.

Without a policy every row is `undecided`, which never approves anybody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

UNDECIDED = "undecided"


def decide(rows: pa.Table) -> pa.Table:
    """Return the rows with their decision columns; they come in as `undecided`."""
    return rows
