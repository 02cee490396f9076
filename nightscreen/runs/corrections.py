"""Rows whose values were not understood, and the cells that people corrected.

A correction takes the place of what a file says while it says the same. It is made at the desk
(`desk/fix.py`); `runs/intake.py` judges what it says like any cell.
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
"""Rows of a run that are kept to be corrected; where there are more, the source is corrected."""
CORRECTED = Issue(
    "corrected", "The value was corrected at the desk; the file has it as before.", Action.REPAIRED
)


class Corrections:
    """What was corrected in the rows of a batch, by customer and heading."""

    def __init__(self, found: Iterable[Correction] = ()) -> None:
        self._of: defaultdict[str, dict[str, Correction]] = defaultdict(dict)
        self._headings = set[str]()
        for each in found:
            self._of[each.customer_id][each.heading] = each
            self._headings.add(each.heading)

    @classmethod
    def of(cls, journal: Journal, batch: str) -> Corrections:
        """Return the corrections of a batch."""
        return cls(Records(journal, Correction).all(batch=batch))

    def apply(self, batch: SourceBatch, header: Header) -> tuple[SourceBatch, list[Problem]]:
        """Return rows as they were corrected, and a problem for each cell."""
        known = [each.known for each in header.columns]
        if not self._of or "customer_id" not in known:
            return batch, []
        ids = trimmed(as_text(batch.columns.column(known.index("customer_id"))))
        whose = as_mask(pc.is_in(ids, pa.array(list(self._of), pa.string())))
        rows, columns, problems = whose.nonzero()[0].tolist(), list(batch.columns), []
        for at, column in enumerate(header.columns):
            if not rows or column.heading not in self._headings:
                continue
            cells = as_text(columns[at]).to_pylist()
            for row in rows:
                found = self._of[ids[row].as_py()].get(column.heading)
                if found is not None and (cells[row] or "") == found.came:
                    cells[row] = found.becomes
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
    """Keep a run's rows to correct, each with its customer's id; those of earlier nights go.

    A part of a batch, such as rows that were corrected, leaves the others' rows there. So do those
    stay of a newer night, where this one is resumed.
    """
    kept, own = Records(journal, RowToCorrect), f"{run_id}."
    earlier = {key: key.partition(".")[0] for key in kept.keys(batch=batch)}
    kept.drop(
        [
            key
            for key, of in earlier.items()
            if of == run_id or (of < run_id and not header.fed_back)
        ]
    )
    headings, now = tuple(column.heading for column in header.columns), journal.clock()
    kept.add(
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
