"""Rows with values that were not understood, and the cells that people corrected.

A correction replaces a cell as long as the file still has the value that was corrected. It is made
at the desk (`desk/fix.py`); `runs/intake.py` judges the corrected value like any cell.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.journal.records import Records
from nightscreen.schemas.rows import Action
from nightscreen.schemas.uploads import Correction, RowToCorrect
from nightscreen.values.issues import Issue, as_mask, as_text, trimmed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.journal import Journal
    from nightscreen.schemas.rows import Header, Problem, RefusedRow, SourceBatch

MOST_TO_CORRECT = 5_000
"""Most rows of a run saved for correction; if there are more, the source should be corrected."""
CORRECTED = Issue(
    "corrected", "The value was corrected at the desk; the file has it as before.", Action.REPAIRED
)


class Corrections:
    """The corrections of a batch, by customer and heading."""

    def __init__(self, corrections: Iterable[Correction] = ()) -> None:
        self._of: defaultdict[str, dict[str, Correction]] = defaultdict(dict)
        self._headings = set[str]()
        for each in corrections:
            self._of[each.customer_id][each.heading] = each
            self._headings.add(each.heading)

    @classmethod
    def of(cls, journal: Journal, batch: str) -> Corrections:
        """Return the corrections of a batch."""
        return cls(Records(journal, Correction).all(batch=batch))

    def apply(self, batch: SourceBatch, header: Header) -> tuple[SourceBatch, list[Problem]]:
        """Return the corrected rows, and a problem for each corrected cell."""
        known = [each.known for each in header.columns]
        if not self._of or "customer_id" not in known:
            return batch, []
        ids = trimmed(as_text(batch.columns.column(known.index("customer_id"))))
        has_corrections = as_mask(pc.is_in(ids, pa.array(list(self._of), pa.string())))
        rows, columns, problems = has_corrections.nonzero()[0].tolist(), list(batch.columns), []
        for at, column in enumerate(header.columns):
            if not rows or column.heading not in self._headings:
                continue
            cells = as_text(columns[at]).to_pylist()
            for row in rows:
                correction = self._of[ids[row].as_py()].get(column.heading)
                if correction is not None and (cells[row] or "") == correction.came:
                    cells[row] = correction.becomes
                    problems.append(CORRECTED.at(batch.lines[row], column.known or column.heading))
            columns[at] = pa.array(cells, pa.string())
        if not problems:
            return batch, []
        names = batch.columns.schema.names
        return replace(batch, columns=pa.RecordBatch.from_arrays(columns, names)), problems


def keep_to_correct(
    journal: Journal,
    run_id: str,
    batch: str,
    header: Header,
    rows: Sequence[tuple[str, RefusedRow]],
) -> None:
    """Save a run's rows to correct, each with its customer's id; delete those of earlier runs.

    A file with only a part of the batch, such as fixed rows, deletes none of the others. A resumed
    run does not delete the rows of newer runs.
    """
    records, own = Records(journal, RowToCorrect), f"{run_id}."
    earlier = {key: key.partition(".")[0] for key in records.keys(batch=batch)}
    records.drop(
        [
            key
            for key, key_run_id in earlier.items()
            if key_run_id == run_id or (key_run_id < run_id and not header.fed_back)
        ]
    )
    headings, now = tuple(column.heading for column in header.columns), journal.clock()
    records.add(
        [
            RowToCorrect(
                key=f"{own}{row.line}",
                customer=journal.pseudonyms.customer(batch, customer_id),
                batch=batch,
                run_id=run_id,
                at=now,
                line=row.line,
                column=row.column,
                code=row.code,
                hint=row.hint,
                headings=headings,
                cells=tuple(cell or "" for cell in row.values),
            )
            for customer_id, row in rows
        ]
    )
