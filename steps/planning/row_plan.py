"""Row plans: what was settled of each slot, laid into the workspace chunk by chunk.

A slot of the whole batch is in memory only while `plan` settles it; before and after that it is
saved sealed, so that memory does not depend on the number of slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from nightscreen.schemas.plan import SUBJECT
from nightscreen.steps.planning.eligibility import flat
from nightscreen.storage.journal.answers import Latest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from nightscreen.schemas.plan import CheckIdentity
    from nightscreen.steps.planning.distinct import Distinct
    from nightscreen.storage.workspace import Workspace

ANSWERS_STAMP = b"answers"
"""Key in a row plan's schema for the stamp of the answers it was made with."""
_ASKED = "asked-{}-{:05d}"
_ROW_PLAN = "plan-{}-{:05d}"
_SUBJECT = "subject"
_ASKS = pa.schema([pa.field(_SUBJECT, SUBJECT)])


def put_subjects(space: Workspace, slot: CheckIdentity, number: int, subjects: bytes) -> None:
    """Save the subjects of a chunk's rows until the slot is settled.

    Args:
        space: the run's workspace.
        slot: the slot.
        number: the chunk's.
        subjects: pseudonyms of sixteen bytes, joined.
    """
    column = _subjects_column(subjects)
    piece = pa.table([column], schema=_ASKS)
    space.put(_ASKED.format(slot.file_name, number), piece, packed=False)


def take_subjects(space: Workspace, slot: CheckIdentity, chunks: int) -> bytearray:
    """Return the pseudonyms of all asking rows, joined; they are not kept any more."""
    found = bytearray()
    for number in range(chunks):
        name = _ASKED.format(slot.file_name, number)
        column = flat(space.get(name)[_SUBJECT])
        found += memoryview(column.buffers()[1] or b"")[: len(column) * SUBJECT.byte_width]
        space.drop(name)
    return found


def _subjects_column(subjects: bytes) -> pa.Array:
    buffer = pa.py_buffer(subjects)
    return pa.Array.from_buffers(SUBJECT, len(subjects) // SUBJECT.byte_width, [None, buffer])


@dataclass(frozen=True, slots=True)
class SettledSlot:
    """One slot of the whole batch, settled.

    Attributes:
        distinct: its lookups and which rows ask them.
        latest: the latest answer to each lookup.
        stamp: of the journal's answers as they were then.
    """

    slot: CheckIdentity
    distinct: Distinct
    latest: Latest
    stamp: str

    def part(self, why: NDArray[np.int8], start: int) -> pa.Table:
        """Return the slot's part of the row plan of a chunk, which begins at a row."""
        distinct, size = self.distinct, len(why)
        bounds = np.searchsorted(distinct.asking, [start, start + size])
        chunk_rows = slice(int(bounds[0]), int(bounds[1]))
        asked = distinct.asking[chunk_rows].astype(np.int64) - start
        inverse = distinct.inverse[chunk_rows].astype(np.int64)
        lookup = np.full(size, -1, dtype=np.int32)
        lookup[asked] = inverse
        own = np.zeros(size, dtype=bool)
        own[asked] = distinct.row[inverse] == distinct.asking[chunk_rows]
        found = Latest.nothing(size)
        found.put(asked, self.latest.take(inverse))
        subjects = _subjects_column(distinct.subjects)
        columns = {
            "why": pa.array(why),
            _SUBJECT: subjects.take(pa.array(lookup, mask=lookup < 0)),
            "own": pa.array(own),
            **{name: pa.array(getattr(found, name)) for name in Latest.names()},
        }
        return pa.table({f"{self.slot.column}.{name}": column for name, column in columns.items()})


def put_row_plans(
    space: Workspace,
    settled: SettledSlot,
    whys: Sequence[NDArray[np.int8]],
    starts: Sequence[int],
    chunks: Iterable[int],
) -> None:
    """Leave a slot's part of chunks' row plans in the workspace.

    Args:
        space: the run's workspace.
        settled: the slot.
        whys: for each chunk why a row is not asked.
        starts: the first row of each chunk, and the end.
        chunks: numbers of the chunks whose plan is left out.
    """
    for number in chunks:
        part = settled.part(whys[number], starts[number])
        stamped = part.replace_schema_metadata({ANSWERS_STAMP: settled.stamp})
        space.put(_ROW_PLAN.format(settled.slot.file_name, number), stamped)


def read_subjects(space: Workspace, slot: CheckIdentity, number: int) -> pa.ChunkedArray:
    """Return the subject of each row of a chunk; null for a row without a lookup."""
    return space.get(_ROW_PLAN.format(slot.file_name, number))[f"{slot.column}.{_SUBJECT}"]


def read_row_plan(space: Workspace, slots: Sequence[CheckIdentity], number: int) -> pa.Table:
    """Return a chunk's row plan.

    Columns: for each slot `<slot>.why` int8, `<slot>.subject` binary(16), null where it is not
    asked, `<slot>.own` bool, true where the call is made in this row's name, and the latest
    answer as the arrays of `Latest`. The schema has the stamp of the journal's answers.
    """
    parts = [space.get(_ROW_PLAN.format(slot.file_name, number)) for slot in slots]
    columns = {name: part[name] for part in parts for name in part.column_names}
    return pa.table(columns).replace_schema_metadata(parts[0].schema.metadata)


@dataclass(frozen=True, slots=True)
class ToAsk:
    """The needed lookups of a slot, by chunk, in each in the order of pseudonyms.

    Attributes:
        row: the row in whose name each lookup is asked.
        exposure: the most naira at risk of the rows that need it, in kobo.
        starts: where each chunk starts, and the end.
    """

    row: NDArray[np.int32]
    exposure: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, distinct: Distinct, starts: Sequence[int]) -> ToAsk:
        """Return the needed ones of a slot's distinct lookups."""
        row = distinct.row[distinct.needed]
        chunk = (np.searchsorted(starts, row, side="right") - 1).astype(np.int32)
        order = np.argsort(chunk, kind="stable")
        bounds = np.searchsorted(chunk[order], np.arange(len(starts)))
        return cls(row[order], distinct.exposure[distinct.needed][order], bounds)

    def chunks(self) -> list[int]:
        """Return the numbers of the chunks in whose name anything is asked."""
        found: list[int] = np.flatnonzero(np.diff(self.starts) > 0).tolist()
        return found

    def of_chunk(self, number: int) -> ToAsk:
        """Return what is needed in the name of a chunk's rows."""
        chunk_rows = slice(self.starts[number], self.starts[number + 1])
        return ToAsk(self.row[chunk_rows], self.exposure[chunk_rows], self.starts[:0])
