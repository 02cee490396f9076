"""Identifiers shared within a batch: who else has the same BVN, account, phone, email or image.

Counted over the batch and what the journal saw in earlier ones
(`journal/identifier_history.py`), by the SQL of `sharing.sql`, one kind of identity at a
time: keyed pseudonyms, never an identifier. A customer is known by its `customer_id`. The policy
decides what follows; the plan decides which lookups are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.files.frame import joined_bytes, plain, pseudonym_column
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.identifier_history import BLOCK, Sightings
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import SUBJECT
from nightscreen.schemas.rows import Action, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nightscreen.files.frame import Frame
    from nightscreen.files.sealed_file import Workspace
    from nightscreen.journal import Journal

MOST_CUSTOMERS = 20
"""A phone or email of more customers than these is a placeholder, nobody's own."""

COUNTED = (
    *(IdentityKind.BVN, IdentityKind.NUBAN, IdentityKind.PHONE, IdentityKind.EMAIL),
    IdentityKind.IMAGE,
)
PLACEHOLDERS = (IdentityKind.PHONE, IdentityKind.EMAIL)
_OF_MANY = (
    f"More than {MOST_CUSTOMERS} customers of this batch and earlier ones have the same: it was "
    "taken as nobody's own and is not looked up."
)
_NO_BVN = bytes(16)
_SAVED = "sightings-{}"
_KEPT_AT_ONCE = 50_000
_SAVED_SCHEMA = pa.schema([pa.field(name, SUBJECT) for name in ("identifier", "customer", "bvn")])
_BLOCKS_AT_ONCE = 25
"""Blocks of the journal that enter the frame together: each entry costs half a millisecond."""


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
    def of(cls, journal: Journal, *, run_id: str, batch: str, at: int | None = None) -> Earlier:
        """Return what is earlier than a run.

        One that is resumed counts what it counted when its states were first written.
        """
        run = journal.runs.find(run_id)
        return cls(Sightings(journal), batch, None if run is None else run.states_first_at, at)


def count_shared(
    frame: Frame,
    earlier: Earlier | None = None,
    *,
    workspace: Workspace | None = None,
    counted: Collection[IdentityKind] = COUNTED,
) -> list[Problem]:
    """Count over a whole batch, and the journal's earlier ones, how many customers share what.

    Args:
        frame: has the batch's rows (`customers`).
        earlier: what the journal saw before; None to count the batch alone.
        workspace: where the batch's own sightings are saved for `keep_sightings`; None to keep
            nothing.
        counted: kinds to count: all, but only `PLACEHOLDERS` for a quote.

    Returns:
        A finding for every phone and email that is a placeholder.
    """
    frame.run("begin_sharing")
    problems: list[Problem] = []
    for kind in [kind for kind in COUNTED if kind in counted]:
        bvn = "bvn" if kind is IdentityKind.NUBAN else "NULL"
        frame.run("kind", kind=kind.value, bvn=bvn)
        identifiers = joined_bytes(frame.table("identifiers")["identifier"])
        if not identifiers:
            continue
        is_known = earlier is not None and _add_earlier(frame, kind, identifiers, earlier)
        if is_known:
            frame.run("earlier")
        frame.run("count")
        if workspace is not None:
            columns = [plain(column) for column in frame.table("unwritten").columns]
            workspace.put(_SAVED.format(kind.value), pa.table(columns, schema=_SAVED_SCHEMA))
        if is_known:
            frame.run("end_of_kind")
        if kind in PLACEHOLDERS:
            found = frame.table("placeholders", kind=kind.value, most=MOST_CUSTOMERS)
            problems += [
                Problem(line, kind.value, f"{kind.value}_of_many", _OF_MANY, Action.WARNED)
                for line in found["line"].to_pylist()
            ]
    return problems


def signals(frame: Frame, starts: Sequence[int]) -> Iterator[pa.Table]:
    """Yield each chunk's signals, once all kinds are counted.

    Columns, all int64 and null where the row lacks the identifier or it is malformed:
    `batch_same_bvn`, `batch_same_account`, `batch_same_phone`, `batch_same_image` (other
    customers of the batch or of earlier ones with the same), `batch_account_bvns` (BVNs the
    account appears with, the row's own included).
    """
    return frame.pieces("signals", [end - start for start, end in pairwise(starts)])


def keep_sightings(workspace: Workspace, sightings: Sightings, *, batch: str, at: int) -> None:
    """Put the sightings that were saved into the journal; safe to do again after a crash.

    It is done when a run's states are saved, so that a quote, a run in test mode and a run without
    a result leave none. Once more changes nothing: a sighting is one customer's.
    """
    for kind in COUNTED:
        name = _SAVED.format(kind.value)
        for piece in workspace.get(name).to_batches(_KEPT_AT_ONCE) if workspace.has(name) else ():
            sightings.keep(kind.value, batch, zip(*piece.to_pydict().values(), strict=True), at=at)


def _add_earlier(frame: Frame, kind: IdentityKind, joined: bytes, earlier: Earlier) -> bool:
    """Add what the journal saw with the batch's identifiers of a kind; return if it saw any."""
    identifiers = pieces_of(joined)
    is_known = False
    for start in range(0, len(identifiers), BLOCK * _BLOCKS_AT_ONCE):
        some = identifiers[start : start + BLOCK * _BLOCKS_AT_ONCE]
        rows = [
            each
            for first in range(0, len(some), BLOCK)
            for each in earlier.sightings.seen_with(
                kind.value,
                some[first : first + BLOCK],
                earlier.batch,
                before=earlier.before,
                at=earlier.at,
            )
        ]
        if rows:
            is_known = True
            identifier, customer, elsewhere, bvn, lately = zip(*rows, strict=True)
            columns = {
                "identifier": pseudonym_column(b"".join(identifier)),
                "customer": pseudonym_column(b"".join(customer)),
                "bvn": pseudonym_column(b"".join(each or _NO_BVN for each in bvn)),
                "elsewhere": pa.array(map(bool, elsewhere), pa.bool_()),
                "lately": pa.array(map(bool, lately), pa.bool_()),
            }
            frame.add("seen", pa.table(columns))
    return is_known
