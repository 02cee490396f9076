"""Needed lookups: sealed in pieces, and brought into rank a portion at a time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nightscreen.files.sealed_file import Workspace
from nightscreen.files.sealing import Sealer
from nightscreen.planning import lookup_table
from nightscreen.planning.lookup_table import NeededPieces
from nightscreen.schemas.plan import NEEDED

CHECKS = ("karma", "bank_account", "ecosystem")


def lookups(first: int, size: int) -> pa.Table:
    numbers = range(first, first + size)
    return pa.table(
        {
            "check": [CHECKS[number % 3] for number in numbers],
            "kind": ["nuban" if number % 3 == 1 else "bvn" for number in numbers],
            "subject": [number.to_bytes(16, "big") for number in numbers],
            "identity": [str(number) for number in numbers],
            "together_with": [None] * size,
            "consent_reference": [None] * size,
            "consent_ends_at": [None] * size,
            "row": list(numbers),
        },
        schema=NEEDED,
    )


@pytest.mark.parametrize("at_once", [7, 100_000])
def test_lookups_come_in_rank_whatever_fits_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(lookup_table, "RANKED_AT_ONCE", at_once)
    pieces, first = NeededPieces(Workspace.of(tmp_path, "run", Sealer(b"k" * 32))), 0
    for size in (13, 0, 1, 40, 6):
        pieces.add(lookups(first, size))
        first += size
    assert len(pieces) == 60
    order = np.random.default_rng(5).permutation(60).astype(np.int32)
    found = list(pieces.in_rank(order))
    assert [number for numbers, _ in found for number in numbers] == order.tolist()
    assert [row for _, table in found for row in table["row"].to_pylist()] == order.tolist()
    assert list(pieces.in_rank(order[:0])) == []
