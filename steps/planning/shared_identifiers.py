"""Identifiers shared within a batch: who else has the same BVN, account, phone, email or image.

Counted over the batch and what the journal saw in earlier ones
(`storage/journal/identifier_history.py`), by the SQL of `sharing.sql`, one kind of identity at a
time: keyed pseudonyms, never an identifier. A customer is known by its `customer_id`. The policy
decides what follows; the plan decides which lookups are made.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import SUBJECT
from nightscreen.schemas.rows import Action, Flaw, Problem, row_schema
from nightscreen.storage.frame import (
    PSEUDONYM,
    Frame,
    joined_bytes,
    plain,
    pseudonym_column,
    read_queries,
)
from nightscreen.storage.journal.identifier_history import BLOCK, Sighting
from nightscreen.storage.sealing import SUBJECT_BYTES, Pseudonyms, pieces_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from nightscreen.storage.journal.identifier_history import SightingReader, Sightings
    from nightscreen.storage.workspace import Workspace

MOST_CUSTOMERS = 20
"""A phone or email of more customers than these is a placeholder, nobody's own."""

_FLAWS = {
    IdentityKind.BVN: Flaw.BVN,
    IdentityKind.NUBAN: Flaw.ACCOUNT | Flaw.BANK | Flaw.BANK_UNKNOWN,
    IdentityKind.PHONE: Flaw.PHONE,
    IdentityKind.EMAIL: Flaw.EMAIL,
    IdentityKind.IMAGE: Flaw.IMAGE,
}
COUNTED = tuple(_FLAWS)
PLACEHOLDERS = (IdentityKind.PHONE, IdentityKind.EMAIL)
_OF_MANY = (
    f"More than {MOST_CUSTOMERS} customers of this batch and earlier ones have the same: it was "
    "taken as nobody's own and is not looked up."
)
_NOTE = "sightings"
_PIECE = "sightings-{}-{:05d}"
_PIECE_ROWS = 50_000
_PIECE_SCHEMA = pa.schema([pa.field(name, SUBJECT) for name in ("identifier", "customer", "bvn")])
_BLOCKS_AT_ONCE = 25
"""Blocks of the journal that enter the frame together: each entry costs half a millisecond."""
_NO_BVN = bytes(SUBJECT_BYTES)


@dataclass(frozen=True, slots=True)
class Shared:
    """Which identifiers are shared within one batch, and with earlier ones.

    Attributes:
        frame: has them.
        starts: number of the first row of each chunk, and at the end the number of rows.
        problems: a finding for every phone and email that is a placeholder.
    """

    frame: Frame
    starts: tuple[int, ...]
    problems: list[Problem]
    _nobodys: dict[IdentityKind, NDArray[np.int64]] = field(repr=False)
    _named: frozenset[IdentityKind] = frozenset()

    def tables(self) -> Iterator[pa.Table]:
        """Yield each chunk's signals.

        Columns, all int64 and null where the row lacks the identifier or it is malformed:
        `batch_same_bvn`, `batch_same_account`, `batch_same_phone`, `batch_same_image` (other
        customers of the batch or of earlier ones with the same), `batch_account_bvns` (BVNs the
        account appears with, the row's own included).
        """
        return self.frame.pieces("signals", [end - start for start, end in pairwise(self.starts)])

    def subjects(self, number: int, kind: IdentityKind, rows: NDArray[np.int64]) -> bytes | None:
        """Return the pseudonyms of some rows of a chunk, joined; None if they are not available.

        They are those of `Pseudonyms.subjects`: what was made to be counted is not made again.
        """
        if kind not in self._named:
            return None
        start, end = self.starts[number : number + 2]
        found = self.frame.table("identifiers_of_rows", kind=kind.value, start=start, end=end)
        chosen = found["identifier"].combine_chunks().take(pa.array(rows))
        return None if chosen.null_count else joined_bytes(chosen)

    def placeholders(self, number: int, kind: IdentityKind) -> NDArray[np.bool_]:
        """Return for each row of a chunk whether its phone or email is a placeholder.

        One that more than twenty customers share says nothing of any of them and is not looked up.
        """
        start, end = self.starts[number : number + 2]
        found = np.zeros(end - start, dtype=bool)
        rows = self._nobodys.get(kind, np.zeros(0, np.int64))
        found[rows[(rows >= start) & (rows < end)] - start] = True
        return found


@dataclass(frozen=True, slots=True)
class Earlier:
    """The journal's earlier batches, as a run counts them.

    Attributes:
        batch: the batch name at hand; what a customer of it has now replaces what the same
            customer had in it before.
        before: only what was first seen before this instant; None for everything.
        at: the present instant: what was written not long before is not saved again; None to save
            all.
    """

    sightings: Sightings
    batch: str
    before: int | None
    at: int | None = None

    @classmethod
    def of(cls, sightings: Sightings, *, run_id: str, batch: str, at: int | None = None) -> Earlier:
        """Return what is earlier than a run."""
        return cls(sightings, batch, sightings.horizon(run_id), at)


@cache
def sharing_queries() -> dict[str, list[str]]:
    """Return the SQL of this module."""
    return read_queries(Path(__file__).with_name("sharing.sql"))


def count_shared(
    chunks: Iterable[pa.Table],
    pseudonyms: Pseudonyms | None = None,
    earlier: Earlier | None = None,
    *,
    frame: Frame | None = None,
    workspace: Workspace | None = None,
    asked: Collection[IdentityKind] = (),
    counted: Collection[IdentityKind] = COUNTED,
) -> Shared:
    """Count over a whole batch, and the journal's earlier ones, how many customers share what.

    Args:
        chunks: the batch's rows in order, in the shape of `schemas.rows.row_schema`. Each customer
            has one row, since intake refuses a repeated `customer_id`.
        pseudonyms: the journal's; a temporary key where nothing is compared with the journal.
        earlier: what the journal saw before; None to count the batch alone.
        frame: the run's; None for one that writes nothing.
        workspace: where the batch's own sightings are saved for `keep_sightings`; None to keep
            nothing.
        asked: kinds whose pseudonyms stay available, for lookups.
        counted: kinds to count: all, but only `PLACEHOLDERS` for a quote.
    """
    frame = frame or Frame(sharing_queries())
    kinds = [kind for kind in _FLAWS if kind in counted or kind in asked]
    starts = _gather(frame, chunks, pseudonyms or Pseudonyms(os.urandom(32)), kinds, bool(counted))
    frame.run("begin")
    problems, nobodys, pieces = [], {}, {}
    for kind in [kind for kind in kinds if kind in counted]:
        bvn = "bvn" if kind is IdentityKind.NUBAN else "NULL"
        frame.run("kind", kind=kind.value, bvn=bvn)
        if earlier is not None:
            with earlier.sightings.reading_of(kind.value, before=earlier.before) as read:
                _put_earlier(frame, read, earlier)
        frame.run("count", kind=kind.value)
        if workspace is not None:
            pieces[kind.value] = _put_unwritten(frame, workspace, kind)
        frame.run("end_of_kind")
        if kind in PLACEHOLDERS:
            found = frame.table("placeholders", kind=kind.value, most=MOST_CUSTOMERS)
            nobodys[kind] = found["row"].to_numpy()
            problems += [
                Problem(line, kind.value, f"{kind.value}_of_many", _OF_MANY, Action.WARNED)
                for line in found["line"].to_pylist()
            ]
    if workspace is not None:
        workspace.note(_NOTE, pieces)
    return Shared(frame, tuple(starts), problems, nobodys, frozenset(asked).intersection(kinds))


def keep_sightings(workspace: Workspace, sightings: Sightings, *, batch: str, at: int) -> None:
    """Put the sightings that were saved into the journal; safe to do again after a crash.

    It is done when a run's states are saved, so that a quote, a run in test mode and a run without
    a result leave none. Once more changes nothing: a sighting is one customer's.
    """
    if not workspace.has_note(_NOTE):
        return
    for kind, pieces in workspace.noted(_NOTE).items():
        for number in range(pieces):
            piece = workspace.get(_PIECE.format(kind, number)).combine_chunks()
            columns = [column.to_pylist() for column in piece.columns]
            keys = [b"".join(each or b"" for each in row) for row in zip(*columns, strict=True)]
            indices = list(sightings.unwritten(kind, batch, columns[0], keys, at=at))
            if indices:
                seen = [Sighting(*(column[index] for column in columns)) for index in indices]
                sightings.keep(kind, batch, seen, at=at)


def kept_pieces(workspace: Workspace, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the sightings that were saved for `keep_sightings`: kind, identifier and customer."""
    pieces = workspace.noted(_NOTE) if workspace.has_note(_NOTE) else {}
    for kind, number in pieces.items():
        for index in range(number):
            piece = workspace.get(_PIECE.format(kind, index))
            word = pa.array([kind], pa.string()).take(pa.array(np.zeros(piece.num_rows, np.int32)))
            yield pa.table([word, piece["identifier"], piece["customer"]], schema=schema)


def _gather(
    frame: Frame,
    chunks: Iterable[pa.Table],
    pseudonyms: Pseudonyms,
    kinds: Collection[IdentityKind],
    whose: bool,
) -> list[int]:
    """Put the pseudonyms of all rows into the frame; return where chunks start.

    Customers only where it matters whose an identifier is.
    """
    starts = [0]

    def put(rows: pa.Table) -> None:
        numbers = np.arange(starts[-1], starts[-1] + rows.num_rows, dtype=np.int32)
        ids = (customer or "" for customer in rows["customer_id"].to_pylist() if whose)
        whom = pseudonym_column(pseudonyms.customers_anywhere(ids))
        columns = {"row": pa.array(numbers), "line": rows["line"]}
        columns["customer"] = whom if whose else pa.nulls(rows.num_rows, PSEUDONYM)
        for kind in kinds:
            values = _identities(rows, kind)
            present = pc.is_valid(values).to_numpy(zero_copy_only=False)
            place = np.cumsum(present, dtype=np.int32) - 1
            named = pseudonyms.subjects(kind.value, values.drop_null().to_pylist())
            columns[kind.value] = pseudonym_column(named).take(pa.array(place, mask=~present))
        frame.put("customers", pa.table(columns))

    put(row_schema().empty_table())
    for rows in chunks:
        put(rows)
        starts.append(starts[-1] + rows.num_rows)
    return starts


def _identities(rows: pa.Table, kind: IdentityKind) -> pa.Array:
    """Return each row's identifier of a kind as text; null where absent or malformed."""
    if kind is IdentityKind.NUBAN:
        column = pc.binary_join_element_wise(rows["bank_code"], rows["account_number"], "-")
    else:
        column = rows["image_url" if kind is IdentityKind.IMAGE else kind.value]
    flawed = pc.not_equal(pc.bit_wise_and(rows["flaws"], pa.scalar(int(_FLAWS[kind]))), 0)
    sound = pc.if_else(flawed, pa.scalar(None, pa.string()), column)
    return sound.combine_chunks() if isinstance(sound, pa.ChunkedArray) else sound


def _put_earlier(frame: Frame, read: SightingReader, earlier: Earlier) -> None:
    """Put what the journal saw with the batch's identifiers of one kind into the frame."""
    identifiers = pieces_of(joined_bytes(frame.table("identifiers")["identifier"]))
    for start in range(0, len(identifiers), BLOCK * _BLOCKS_AT_ONCE):
        some = identifiers[start : start + BLOCK * _BLOCKS_AT_ONCE]
        seen = [
            read.told(some[first : first + BLOCK], earlier.batch, at=earlier.at)
            for first in range(0, len(some), BLOCK)
        ]
        lately = np.concatenate([each.lately for each in seen])
        if len(lately):
            frame.put("lately", _sightings(lately))
        others = [other for each in seen for other in each.others]
        if others:
            joined = b"".join(key + (bvn or _NO_BVN) for key, _, bvn in others)
            elsewhere = pa.array([other.elsewhere for other in others])
            uses = _sightings(np.frombuffer(joined, np.uint8).reshape(-1, 3 * SUBJECT_BYTES))
            frame.put("earlier", uses.append_column("elsewhere", elsewhere))


def _sightings(joined: NDArray[np.uint8]) -> pa.Table:
    """Return sightings of 48 bytes each as a table."""
    columns = [pseudonym_column(part.tobytes()) for part in np.hsplit(joined, 3)]
    return pa.table(columns, names=_PIECE_SCHEMA.names)


def _put_unwritten(frame: Frame, workspace: Workspace, kind: IdentityKind) -> int:
    """Save the sightings that the journal lacks; return the number of pieces."""
    pieces = 0
    for block in frame.blocks("unwritten", _PIECE_ROWS):
        table = pa.table([plain(column) for column in block.columns], schema=_PIECE_SCHEMA)
        workspace.put(_PIECE.format(kind.value, pieces), table)
        pieces += 1
    return pieces
