"""Publishing opens a case for each customer whom the policy does not approve.

Cases are records of the journal, so that the list of work over all batches is one query. A run
replaces the cases of its own customers and ends those of customers who are gone; whoever a person
has decided on gets none until the evidence changes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import enriched_parts
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.cases import Cases
from nightscreen.journal.customers import BatchMembership, Customers
from nightscreen.journal.records import Records
from nightscreen.report.facts import group_columns
from nightscreen.results.customer_rows import customer_batches
from nightscreen.results.final_decision import standing_reviews
from nightscreen.schemas.cases import OpenCase
from nightscreen.schemas.decisions import LISTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.journal import Journal
    from nightscreen.journal.runs import RunRecord

_BLOCK_ROWS = 8_192
_LOOKED_AT = 60
"""Runs of a batch, from the newest on, that may be newer than one that is released."""
_LISTED = pa.array([word.value for word in LISTED])
_STATUSES = tuple(declared.status for declared in CHECKS.values())


def publish_cases(journal: Journal, run: RunRecord, folder: Path) -> None:
    """Open a case for each customer of a publishable run who needs somebody.

    Customers of a newer run, which is there where a run was held before, keep what that run left.
    """
    store, cases = Records.of(journal, OpenCase), Cases(journal)
    there = store.keys(batch=run.batch)
    settled, newer = standing_reviews(journal, run.batch), _newer(journal, run)
    now = journal.clock()
    members = Customers.of(journal).members(run.batch, run.run_id)
    gone = members.customers[members.standing != BatchMembership.PRESENT.value]
    ended = there & {key.hex() for key in gone.view("V16").tolist()}  # whole, zeros at the end too
    for rows in _customers(folder):
        keys = np.array(_keys(journal, run, rows), dtype=object)
        needs = np.array([key not in newer and key not in settled for key in keys], dtype=bool)
        needs &= pc.is_in(rows["decision"].cast(pa.string()), value_set=_LISTED).to_numpy()
        some = zip(keys[needs], rows.filter(pa.array(needs)).to_pylist(), strict=True)
        found = [_case(run, key, row, now) for key, row in some]
        store.merge(found, lambda _, case: case, now)
        if there:
            others = {key.hex() for key in keys[~needs] if key not in newer}
            ended |= others & there
    cases.settle(run.batch, [bytes.fromhex(key) for key in ended])


def _keys(journal: Journal, run: RunRecord, rows: pa.Table) -> list[bytes]:
    """Return the pseudonyms of a block's customers."""
    return pieces_of(journal.pseudonyms.customers(run.batch, rows["customer_id"].to_pylist()))


def _customers(folder: Path) -> Iterator[pa.Table]:
    """Yield a run's customers in blocks, with the columns that a case has, and each one's place."""
    place = 1
    for part in enriched_parts(folder):
        with pq.ParquetFile(part) as file:
            groups = group_columns(file.schema_arrow.names)
            wanted = {"customer_id", "decision", "reasons", "policy", "exposure", *_STATUSES}
            for block in customer_batches(file, wanted | set(groups.values()), _BLOCK_ROWS):
                places = pa.array(range(place, place + block.num_rows))
                place += block.num_rows
                named = {group: block[name] for group, name in groups.items()}
                columns = dict(zip(block.column_names, block.columns, strict=True))
                yield pa.table({**columns, **named, "place": places})


def _case(run: RunRecord, key: bytes, row: dict[str, Any], now: int) -> OpenCase:
    return OpenCase(
        key=key.hex(),
        customer=key,
        batch=run.batch,
        run_id=run.run_id,
        at=now,
        customer_id=row["customer_id"],
        decision=row["decision"],
        reasons=tuple(row["reasons"] or ()),
        policy=row["policy"],
        purpose=run.purpose or "",
        branch=str(row.get("branch") or "") or None,
        officer=str(row.get("officer") or "") or None,
        exposure=row.get("exposure"),
        statuses={name: row[name] for name in _STATUSES},
        place=row["place"],
    )


def _newer(journal: Journal, run: RunRecord) -> set[bytes]:
    """Return the customers of publishable runs of the batch that began after a run."""
    found = set[bytes]()
    for other in journal.runs.newest(batch=run.batch, limit=_LOOKED_AT):
        if other.started_at > run.started_at and (other.report or {}).get("publishable"):
            for rows in _customers(Path(other.folder)):
                found.update(_keys(journal, run, rows))
    return found
