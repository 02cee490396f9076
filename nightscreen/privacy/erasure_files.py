"""Erasing from files that no list of customers leads to: calls, and typed records.

Whose rows they are is found out in `erasure`; how a file is rewritten is in `results/run_files.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.journal.erasure import ERASURE
from nightscreen.journal.schema import TOMBSTONE
from nightscreen.results.run_files import ID_COLUMN, RunFiles, matching_rows, typed_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from nightscreen.journal.runs import RunRecord

CALLS_FILE = "calls.parquet"


def is_in(column: pa.ChunkedArray, values: Collection[str]) -> pa.ChunkedArray:
    """Tell of each value whether it is one of some texts."""
    wanted = pa.array(sorted(values), pa.string())
    return pc.is_in(column.cast(pa.string()), value_set=wanted)


def of_hex(column: str, subjects: Collection[bytes]) -> Callable[[pa.Table], pa.ChunkedArray]:
    """Return what tells of each row whether a column has one of some pseudonyms."""
    wanted = {each.hex() for each in subjects}
    return lambda rows: is_in(rows[column], wanted)


def rewrite_calls(folder: RunFiles, subjects: Collection[bytes]) -> None:
    """Put the tombstone in the place of pseudonyms, and take consent references out."""
    path = folder.path / CALLS_FILE
    if path.exists():
        folder.change_rows(path, ["pseudonym"], of_hex("pseudonym", subjects), _entombed)


def _entombed(rows: pa.Table, going: pa.ChunkedArray) -> pa.Table:
    fresh = {"pseudonym": TOMBSTONE.hex(), "consent_reference": None}
    for name, value in fresh.items():
        place = rows.schema.get_field_index(name)
        field_ = rows.schema.field(place)
        column = pc.if_else(going, pa.scalar(value, field_.type), rows[name])
        rows = rows.set_column(place, field_, column)
    return rows


def rewrite_typed(
    runs: Sequence[RunRecord], mask: Callable[..., pa.ChunkedArray]
) -> Iterator[RunFiles]:
    """Take the person whom `mask` finds out of the typed records of pulls; an empty part goes."""
    for run in runs:
        for part in typed_parts(run):
            day = RunFiles.of(part.parent, ERASURE)
            if day.drop_rows(part, [ID_COLUMN], partial(mask, batch=run.batch)):
                if not matching_rows(part, [ID_COLUMN], _any):
                    part.unlink()
                yield day


def _any(rows: pa.Table) -> pa.ChunkedArray:
    return pc.is_valid(rows[ID_COLUMN])
