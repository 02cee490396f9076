"""Customers: the rows of a batch in the frame, as pseudonyms and numbers only.

This is the only module that turns unencrypted rows into the input of SQL: identifiers become keyed
pseudonyms, eligibility and consent become a reason for each slot, naira become kobo. The SQL is in
`sharing.sql` and `plan.sql`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.registry import CHECKS
from nightscreen.files.frame import PSEUDONYM, pseudonym_column, read_queries
from nightscreen.planning.eligibility import (
    consent_column,
    consent_ends,
    flat,
    identities,
    skip_reasons,
)
from nightscreen.schemas.columns import IDENTIFIERS
from nightscreen.schemas.plan import SkipReason
from nightscreen.schemas.rows import row_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from nightscreen.files.frame import Frame
    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.schemas.checks import IdentityKind
    from nightscreen.schemas.plan import CheckIdentity

UNKNOWN_EXPOSURE = -1


def planning_queries() -> dict[str, list[str]]:
    """Return the SQL of planning."""
    folder = Path(__file__).parent
    return read_queries(folder / "sharing.sql") | read_queries(folder / "plan.sql")


def subject_column(slot: CheckIdentity) -> str:
    """Return the column of `customers` that has the subjects of a slot.

    If a check asks by two identifiers together, its subjects are pseudonyms of both.
    """
    return slot.check if CHECKS[slot.check].together_with else slot.kind.value


def gather_customers(
    frame: Frame,
    chunks: Iterable[pa.Table],
    pseudonyms: Pseudonyms,
    *,
    kinds: Collection[IdentityKind],
    slots: Sequence[CheckIdentity] = (),
    at: datetime | None = None,
    whose: bool = True,
) -> tuple[int, ...]:
    """Put the rows of a batch into the frame's table `customers`.

    Args:
        frame: the run's frame.
        chunks: the rows in order, in the shape of `schemas.rows.row_schema`.
        pseudonyms: makes the pseudonyms.
        kinds: kinds of identifiers.
        slots: checks and identities that may be asked, each of one of those kinds.
        at: the instant at which consent is judged; needed if there are slots.
        whose: whether to add the customers' own pseudonyms.

    Returns:
        Number of the first row of each chunk, then the number of rows.
    """
    starts = [0]

    def table_of(rows: pa.Table) -> pa.Table:
        numbers = np.arange(starts[-1], starts[-1] + rows.num_rows, dtype=np.int32)
        ids = (customer or "" for customer in rows["customer_id"].to_pylist() if whose)
        customers = pseudonym_column(pseudonyms.customers_anywhere(ids))
        columns = {"row": pa.array(numbers), "line": rows["line"]}
        columns["customer"] = customers if whose else pa.nulls(rows.num_rows, PSEUDONYM)
        for kind in kinds:
            columns[kind.value] = _pseudonyms_of(rows, kind, pseudonyms)
        if at is not None:
            columns |= _asked(rows, slots, at, pseudonyms)
        return pa.table(columns)

    frame.make("customers", table_of(row_schema().empty_table()))
    for rows in chunks:
        frame.add("customers", table_of(rows))
        starts.append(starts[-1] + rows.num_rows)
    return tuple(starts)


def _pseudonyms_of(rows: pa.Table, kind: IdentityKind, pseudonyms: Pseudonyms) -> pa.Array:
    """Return the pseudonym of each row's identifier; null if absent or malformed."""
    column = identities(rows, kind)
    sound = pc.equal(pc.bit_wise_and(rows["flaws"], pa.scalar(int(IDENTIFIERS[kind].flaws))), 0)
    named = flat(pc.if_else(sound, column, pa.scalar(None, pa.string())))
    made = pseudonyms.subjects(kind.value, named.drop_null().to_pylist())
    return _at(pc.is_valid(named).to_numpy(zero_copy_only=False), made)


def _at(present: NDArray[np.bool_], joined: bytes) -> pa.Array:
    """Return a column with the joined pseudonyms in the rows that are present, else null."""
    place = np.cumsum(present, dtype=np.int32) - 1
    return pseudonym_column(joined).take(pa.array(place, mask=~present))


def _asked(
    rows: pa.Table, slots: Sequence[CheckIdentity], at: datetime, pseudonyms: Pseudonyms
) -> dict[str, pa.Array]:
    """Return the columns of skip reasons, exposure, end of consent, and joint subjects."""
    allowed = consent_column(rows, at=at).to_numpy(zero_copy_only=False).astype(bool)
    columns = {"exposure": pa.array(_exposure_kobo(rows))}
    if any(CHECKS[slot.check].needs_consent for slot in slots):
        columns["consent_until"] = pa.array(consent_ends(rows))
    for slot in slots:
        why = skip_reasons(rows, slot, allowed)
        columns[slot.column] = pa.array(why)
        if (other := CHECKS[slot.check].together_with) is not None:
            asked = why == SkipReason.ASK.value
            some = rows.filter(pa.array(asked))
            named, others = identities(some, slot.kind), identities(some, other)
            pairs = zip(named.to_pylist(), others.to_pylist(), strict=True)
            made = (pseudonyms.subject(slot.kind.value, *pair) for pair in pairs)
            columns[slot.check] = _at(asked, b"".join(made))
    return columns


def _exposure_kobo(rows: pa.Table) -> NDArray[np.int64]:
    """Return exposures in kobo; -1 if unknown, since that is not zero.

    A decimal with two places is stored as a 128-bit number of kobo, of which the low half is read.
    """
    column = flat(rows["exposure"])
    halves = np.frombuffer(column.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
    kobo = halves[column.offset : column.offset + len(column), 0]
    known = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.where(known, np.maximum(kobo, 0), UNKNOWN_EXPOSURE)
