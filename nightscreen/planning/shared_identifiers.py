"""Shared identifiers: how many other customers have the same BVN, account, phone, email or image.

`sharing.sql` counts pseudonyms, one kind of identifier at a time, over the batch and over earlier
batches (`journal/customers.py`). A customer is identified by `customer_id`. The policy
decides on the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, pairwise, takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from nightscreen.files.frame import joined_bytes, plain, pseudonym_column
from nightscreen.files.sealing import portions_of
from nightscreen.journal.customers import BLOCK, Sightings
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.plan import SUBJECT
from nightscreen.schemas.rows import Action, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from nightscreen.files.frame import Frame
    from nightscreen.files.sealed_file import Workspace
    from nightscreen.journal import Journal

MOST_CUSTOMERS = 20
"""A phone or email of more customers than this is a placeholder."""

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
_SAVED = "sightings-{}-{:05d}"  # of a kind, in portions, in the workspace
_SAVED_SCHEMA = pa.schema([pa.field(name, SUBJECT) for name in ("identifier", "customer", "bvn")])
_BLOCKS_AT_ONCE = 25
"""Blocks of the journal that are added to the frame together: each addition takes 0.5 ms."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The journal's earlier sightings that a run counts.

    Attributes:
        sightings: the journal's sightings.
        batch: the run's batch; a customer's identifiers now replace the same customer's earlier
            ones in it.
        before: counts only sightings first seen before this instant; None for all.
        at: the current instant: sightings saved recently are not saved again; None to save all.
    """

    sightings: Sightings
    batch: str
    before: int | None
    at: int | None = None

    @classmethod
    def of(cls, journal: Journal, *, run_id: str, batch: str, at: int | None = None) -> Earlier:
        """Return the sightings from before a run.

        A resumed run counts the same as when it first saved its states.
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
    """Count the customers that share identifiers, over a batch and the journal's earlier ones.

    Args:
        frame: has the batch's rows (`customers`).
        earlier: the journal's earlier sightings; None to count only the batch.
        workspace: gets the batch's own sightings for `keep_sightings`; None to save none.
        counted: kinds to count: all, but only `PLACEHOLDERS` for a quote.

    Returns:
        A problem for every row with a placeholder as phone or email.
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
            for number, block in enumerate(frame.blocks("unwritten")):
                columns = [plain(column) for column in block.columns]
                table = pa.table(columns, schema=_SAVED_SCHEMA)
                workspace.put(_SAVED.format(kind.value, number), table)
        if is_known:
            frame.run("end_of_kind")
        if kind in PLACEHOLDERS:
            rows = frame.table("placeholders", kind=kind.value, most=MOST_CUSTOMERS)
            problems += [
                Problem(line, kind.value, f"{kind.value}_of_many", _OF_MANY, Action.WARNED)
                for line in rows["line"].to_pylist()
            ]
    return problems


def signals(frame: Frame, starts: Sequence[int]) -> Iterator[pa.Table]:
    """Yield each chunk's signals, after all kinds are counted.

    Columns, all int64 and null if the row's identifier is absent or malformed: `batch_same_bvn`,
    `batch_same_account`, `batch_same_phone`, `batch_same_image` (other customers of this or earlier
    batches with the same), `batch_account_bvns` (BVNs that appear with the account, including the
    row's own).
    """
    return frame.pieces("signals", [end - start for start, end in pairwise(starts)])


def keep_sightings(workspace: Workspace, sightings: Sightings, *, batch: str, at: int) -> None:
    """Save the workspace's sightings in the journal; safe to repeat after a crash.

    This happens when a run's states are saved, so that a quote, a run in test mode and a run
    without a result save none.
    """
    for kind in COUNTED:
        names = (_SAVED.format(kind.value, number) for number in count())
        for block in map(workspace.get, takewhile(workspace.has, names)):
            sightings.keep(kind.value, batch, zip(*block.to_pydict().values(), strict=True), at=at)


def _add_earlier(frame: Frame, kind: IdentityKind, joined: bytes, earlier: Earlier) -> bool:
    """Add the journal's sightings of the batch's identifiers; return whether there are any."""
    is_known = False
    for some in portions_of(joined, BLOCK * _BLOCKS_AT_ONCE):
        rows = [
            row
            for first in range(0, len(some), BLOCK)
            for row in earlier.sightings.seen_with(
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
                "bvn": pseudonym_column(b"".join(row or _NO_BVN for row in bvn)),
                "elsewhere": pa.array(map(bool, elsewhere), pa.bool_()),
                "lately": pa.array(map(bool, lately), pa.bool_()),
            }
            frame.add("seen", pa.table(columns))
    return is_known
