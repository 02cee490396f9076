"""Signals: what a batch says of itself at no cost: who shares a BVN, account, phone or image.

Counted over the batch and what the journal saw in earlier ones
(`storage/journal/identifier_history.py`), one kind of identity at a time (`groups`): sixteen bytes
for each identifier and customer, never the identifier itself. Customers are counted, by
`customer_id`: a customer who comes back, in the same batch or in another, is the same one. The
policy decides what follows; the plan decides which lookups are made.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.enriched import ACCOUNT_BVNS, SAME_IDENTIFIER
from nightscreen.schemas.rows import Action, Flaw, Problem
from nightscreen.steps.planning.groups import (
    ABSENT,
    BYTES,
    SIXTEEN,
    Groups,
    Named,
    sixteens,
    sixteens_of,
)
from nightscreen.storage.journal.identifier_history import BLOCK, Other, Sighting
from nightscreen.storage.sealing import Pseudonyms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.storage.journal.identifier_history import Sightings
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
_PIECE_SCHEMA = pa.schema([pa.field(name, SIXTEEN) for name in ("identifier", "customer", "bvn")])


@dataclass(frozen=True, slots=True)
class Shared:
    """Which identifiers are shared within one batch, and with earlier ones.

    Attributes:
        starts: number of the first row of each chunk, and at the end the number of rows.
        lines: each row's line in the input.
        others: for each kind of identity and each row, how many other customers have the same;
            -1 where the row has none.
        account_bvns: with how many BVNs the row's account appears; -1 where it has no account.
    """

    starts: tuple[int, ...]
    lines: NDArray[np.int64]
    others: dict[IdentityKind, NDArray[np.int32]]
    account_bvns: NDArray[np.int32]
    _named: dict[IdentityKind, Named] = field(default_factory=dict, repr=False)

    def table(self, number: int) -> pa.Table:
        """Return a chunk's signals.

        Columns, all int64 and null where the row lacks the identifier or it is malformed:
        `batch_same_bvn`, `batch_same_account`, `batch_same_phone`, `batch_same_image` (other
        customers of the batch or of earlier ones with the same), `batch_account_bvns` (BVNs the
        account appears with, the row's own included).
        """
        found = {
            name: self._column(self.others[kind], number) for name, kind in SAME_IDENTIFIER.items()
        }
        found[ACCOUNT_BVNS] = self._column(self.account_bvns, number)
        return pa.table(found)

    def _column(self, counts: NDArray[np.int32], number: int) -> pa.Array:
        chunk_counts = counts[self.starts[number] : self.starts[number + 1]]
        return pa.array(chunk_counts.astype(np.int64), mask=chunk_counts == ABSENT)

    def subjects(self, number: int, kind: IdentityKind, rows: NDArray[np.int64]) -> bytes | None:
        """Return the pseudonyms of some rows of a chunk, joined; None if they are not available.

        They are those of `Pseudonyms.subjects`: what was made to be counted is not made again.
        """
        named = self._named.get(kind)
        if named is None:
            return None
        found = named.chunk(number).take(pa.array(rows))
        return None if found.null_count else sixteens_of(found).tobytes()

    def slimmed(self) -> Shared:
        """Return what a plan still asks, once tables and problems were made: placeholders."""
        few = {kind: self.others[kind] for kind in PLACEHOLDERS if kind in self.others}
        nothing = np.zeros(0, np.int32)
        return replace(self, lines=self.lines[:0].copy(), others=few, account_bvns=nothing)

    def forget(self) -> None:
        """Remove the saved pseudonyms: `subjects` is not called again."""
        for named in self._named.values():
            named.forget()
        self._named.clear()

    def placeholders(self, number: int, kind: IdentityKind) -> NDArray[np.bool_]:
        """Return for each row of a chunk whether its phone or email is a placeholder.

        One that more than twenty customers share says nothing of any of them and is not looked up.
        BVNs, accounts and images are never placeholders: sharing those is a finding.
        """
        start, end = self.starts[number], self.starts[number + 1]
        if kind not in PLACEHOLDERS:
            return np.zeros(end - start, dtype=bool)
        return self.others[kind][start:end] + 1 > MOST_CUSTOMERS

    def problems(self) -> list[Problem]:
        """Return a finding for every phone and email that is a placeholder."""
        return [
            Problem(int(line), kind.value, f"{kind.value}_of_many", _OF_MANY, Action.WARNED)
            for kind in PLACEHOLDERS
            if kind in self.others
            for line in self.lines[self.others[kind] + 1 > MOST_CUSTOMERS]
        ]


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


def count_shared(
    chunks: Iterable[pa.Table],
    pseudonyms: Pseudonyms | None = None,
    earlier: Earlier | None = None,
    *,
    workspace: Workspace | None = None,
    aside: Workspace | None = None,
    asked: Collection[IdentityKind] = (),
    counted: Collection[IdentityKind] = COUNTED,
) -> Shared:
    """Count over a whole batch, and the journal's earlier ones, how many customers share what.

    Args:
        chunks: the batch's rows in order, in the shape of `schemas.rows.row_schema`. Each customer
            has one row, since intake refuses a repeated `customer_id`.
        pseudonyms: the journal's; a temporary key where nothing is compared with the journal.
        earlier: what the journal saw before; None to count the batch alone.
        workspace: where the batch's own sightings are saved for `keep_sightings`; None to keep
            nothing.
        aside: where pseudonyms are saved meanwhile, so that one kind at a time is in memory.
        asked: kinds whose pseudonyms stay available, for lookups.
        counted: kinds to count: all, but only `PLACEHOLDERS` for a quote.
    """
    kinds = [kind for kind in _FLAWS if kind in counted or kind in asked]
    named = {kind: Named(kind.value, aside) for kind in kinds}
    starts, lines, customers = _gather(
        chunks, pseudonyms or Pseudonyms(os.urandom(32)), named, whose=bool(counted)
    )
    others: dict[IdentityKind, NDArray[np.int32]] = {}
    account_bvns = np.zeros(0, dtype=np.int32)
    pieces: dict[str, int] = {}
    nobody = bvns = Groups.of(Named("", None))
    for kind in [kind for kind in kinds if kind in counted]:
        is_account = kind is IdentityKind.NUBAN
        groups = Groups.of(named[kind])
        if kind not in asked:
            named.pop(kind).forget()
        if kind is IdentityKind.BVN:
            bvns = groups
        members = _Members(groups, customers, bvns if is_account else None)
        more, more_bvns, unwritten = _count_earlier(kind, members, earlier)
        others[kind] = groups.of_rows(groups.sizes - 1 + more)
        if is_account:
            account_bvns = groups.of_rows(groups.distinct(bvns) + more_bvns)
            bvns = nobody
        if workspace is not None:
            pieces[kind.value] = members.put(workspace, kind, unwritten)
    if workspace is not None:
        workspace.note(_NOTE, pieces)
    return Shared(tuple(starts), lines, others, account_bvns, named)


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
            identifiers, keys = _piece_keys(piece)
            indices = list(sightings.unwritten(kind, batch, identifiers, keys, at=at))
            if indices:
                columns = (column.to_pylist() for column in piece.take(pa.array(indices)).columns)
                seen = [Sighting(*values) for values in zip(*columns, strict=True)]
                sightings.keep(kind, batch, seen, at=at)


def kept_pieces(workspace: Workspace, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the sightings that were saved for `keep_sightings`: kind, identifier and customer."""
    pieces = workspace.noted(_NOTE) if workspace.has_note(_NOTE) else {}
    for kind, number in pieces.items():
        for index in range(number):
            piece = workspace.get(_PIECE.format(kind, index))
            word = pa.array([kind], pa.string()).take(pa.array(np.zeros(piece.num_rows, np.int32)))
            yield pa.table([word, piece["identifier"], piece["customer"]], schema=schema)


def _piece_keys(piece: pa.Table) -> tuple[list[bytes], list[bytes]]:
    """Return each sighting's identifier, and its identifier, customer and BVN joined."""
    identifiers, customers, bvns = (column.combine_chunks() for column in piece.columns)
    pair = [sixteens_of(identifiers), sixteens_of(customers)]
    known = pc.is_valid(bvns).to_numpy(zero_copy_only=False)
    if not known.any():
        return _texts(pair[:1]), _texts(pair)
    keys = _texts([*pair, sixteens_of(bvns)])
    for index in np.flatnonzero(~known).tolist():
        keys[index] = keys[index][: 2 * BYTES]
    return _texts(pair[:1]), keys


def _gather(
    chunks: Iterable[pa.Table],
    pseudonyms: Pseudonyms,
    named: Mapping[IdentityKind, Named],
    *,
    whose: bool,
) -> tuple[list[int], NDArray[np.int64], NDArray[np.uint8]]:
    """Return where chunks start, each row's line and customer; save which identifiers each row has.

    Customers only where it matters whose an identifier is.
    """
    starts, lines = [0], [np.zeros(0, np.int64)]
    customers = bytearray()
    for rows in chunks:
        starts.append(starts[-1] + rows.num_rows)
        lines.append(rows["line"].to_numpy())
        if whose:
            ids = rows["customer_id"].to_pylist()
            customers += pseudonyms.customers_anywhere(customer_id or "" for customer_id in ids)
        for kind, pseudonyms_of_kind in named.items():
            values = _identities(rows, kind)
            identifiers = values.drop_null().to_pylist()
            present = pc.is_valid(values).to_numpy(zero_copy_only=False)
            pseudonyms_of_kind.add(present, pseudonyms.subjects(kind.value, identifiers))
    return starts, np.concatenate(lines), sixteens(customers)


def _identities(rows: pa.Table, kind: IdentityKind) -> pa.Array:
    """Return each row's identifier of a kind as text; null where absent or malformed."""
    if kind is IdentityKind.NUBAN:
        column = pc.binary_join_element_wise(rows["bank_code"], rows["account_number"], "-")
    else:
        column = rows["image_url" if kind is IdentityKind.IMAGE else kind.value]
    flawed = pc.not_equal(pc.bit_wise_and(rows["flaws"], pa.scalar(int(_FLAWS[kind]))), 0)
    sound = pc.if_else(flawed, pa.scalar(None, pa.string()), column)
    return sound.combine_chunks() if isinstance(sound, pa.ChunkedArray) else sound


def _texts(arrays: Sequence[NDArray[np.uint8]]) -> list[bytes]:
    """Return bytes for each row of some parallel arrays."""
    joined = np.ascontiguousarray(np.hstack(arrays))
    texts: list[bytes] = joined.view(f"V{joined.shape[1]}").ravel().tolist()
    return texts


@dataclass(frozen=True, slots=True)
class _Members:
    """The customers of each group of one kind, and the BVNs of accounts."""

    groups: Groups
    customers: NDArray[np.uint8]
    bvns: Groups | None

    def blocks(self) -> Iterator[_Block]:
        """Yield the groups in order, some at a time."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.groups.sizes)])
        for start in range(0, len(self.groups), BLOCK):
            end = min(start + BLOCK, len(self.groups))
            rows = self.groups.rows[ends[start] : ends[end]]
            identifiers = _texts([self.groups.identifiers[start:end]])
            yield _Block(start, identifiers, rows, self)

    def sightings(self, rows: NDArray[np.int32]) -> NDArray[np.uint8]:
        """Return identifier, customer and BVN of some rows, zeros where there is no BVN."""
        found = np.zeros((len(rows), 3 * BYTES), np.uint8)
        found[:, :BYTES] = self.groups.identifiers[self.groups.group[rows]]
        found[:, BYTES : 2 * BYTES] = self.customers[rows]
        if self.bvns is not None:
            group = self.bvns.group[rows]
            known = group >= 0
            found[known, 2 * BYTES :] = self.bvns.identifiers[group[known]]
        return found

    def bvn_keys(self, rows: NDArray[np.int32]) -> set[bytes]:
        """Return identifier and BVN of those of some rows that have a BVN, joined."""
        if self.bvns is None:
            return set()
        rows = rows[self.bvns.group[rows] >= 0]
        identifiers = self.groups.identifiers[self.groups.group[rows]]
        return set(_texts([identifiers, self.bvns.identifiers[self.bvns.group[rows]]]))

    def put(self, workspace: Workspace, kind: IdentityKind, unwritten: NDArray[np.int32]) -> int:
        """Save the sightings of some rows in their order; return the number of pieces."""
        starts = range(0, len(unwritten), _PIECE_ROWS)
        for number, start in enumerate(starts):
            rows = unwritten[start : start + _PIECE_ROWS]
            columns = [
                _binary(self.groups.identifiers[self.groups.group[rows]]),
                _binary(self.customers[rows]),
                self._bvn_column(rows),
            ]
            name = _PIECE.format(kind.value, number)
            workspace.put(name, pa.table(columns, schema=_PIECE_SCHEMA))
        return len(starts)

    def _bvn_column(self, rows: NDArray[np.int32]) -> pa.Array:
        if self.bvns is None or not len(self.bvns):
            return pa.nulls(len(rows), SIXTEEN)
        group = self.bvns.group[rows]
        return _binary(self.bvns.identifiers).take(pa.array(group, mask=group < 0))


@dataclass(frozen=True, slots=True)
class _Block:
    """Some groups: the number of the first, their identifiers in order, and their rows."""

    start: int
    identifiers: list[bytes]
    rows: NDArray[np.int32]
    members: _Members

    def add(self, found: Iterable[bytes], counts: NDArray[np.int64]) -> None:
        """Count each key under the group whose identifier it begins with, if there is one."""
        numbers = Counter(key[:BYTES] for key in found)
        if numbers:
            for index, identifier in enumerate(self.identifiers, self.start):
                counts[index] += numbers[identifier]


def _binary(texts: NDArray[np.uint8]) -> pa.Array:
    buffer = pa.py_buffer(np.ascontiguousarray(texts))
    return pa.Array.from_buffers(SIXTEEN, len(texts), [None, buffer])


def _count_earlier(
    kind: IdentityKind, members: _Members, earlier: Earlier | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32]]:
    """Return for each group how many customers, and BVNs, only earlier batches had with it.

    And the rows whose sightings must be written, in their order: those that differ from the
    journal, or were last written a week ago.
    """
    more = np.zeros(len(members.groups), dtype=np.int64)
    more_bvns = np.zeros(len(members.groups), dtype=np.int64)
    if earlier is None:
        return more, more_bvns, members.groups.rows
    unwritten = [np.zeros(0, dtype=np.int32)]
    with earlier.sightings.reading_of(kind.value, before=earlier.before) as read:
        for block in members.blocks():
            earlier_uses = read.told(block.identifiers, earlier.batch, at=earlier.at)
            own_uses = members.sightings(block.rows)
            missing, left = _apart(own_uses, earlier_uses.lately)
            unwritten.append(block.rows[missing])
            others = [*earlier_uses.others, *(_other(sighting) for sighting in left)]
            if not others:
                continue
            own_texts = set(_texts([own_uses[:, : 2 * BYTES]]))
            strangers, stood = _strangers(others, own_texts)
            block.add(strangers, more)
            block.add(stood - members.bvn_keys(block.rows) if stood else stood, more_bvns)
    return more, more_bvns, np.concatenate(unwritten)


def _apart(
    own_rows: NDArray[np.uint8], lately: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], list[bytes]]:
    """Return which of a batch's own sightings were not written lately, and what else was.

    Most are alone with their identifier: those are compared as whole columns, the first of an
    identifier with the first. Few are left after that.
    """
    own_words, late_words = own_rows.view(">u8"), lately.view(">u8")
    same, met = np.zeros(len(own_words), bool), np.zeros(len(late_words), bool)
    if len(late_words):
        nearest = np.minimum(
            np.searchsorted(late_words[:, 0], own_words[:, 0]), len(late_words) - 1
        )
        same = (late_words[nearest] == own_words).all(axis=1)
        met[nearest[same]] = True
    rest, left = np.flatnonzero(~same), _texts([lately[~met]])
    recent = set(left)
    own = _texts([own_rows[rest]])
    missing = [index for index, text in zip(rest.tolist(), own, strict=True) if text not in recent]
    return np.array(missing, np.int64), list(recent.difference(own))


def _other(sighting: bytes) -> Other:
    """Return a sighting of 48 bytes, of this batch, as one of those that are left."""
    key, bvn = sighting[: 2 * BYTES], sighting[2 * BYTES :]
    return Other(key, elsewhere=False, bvn=bvn if any(bvn) else None)


def _strangers(
    others: Iterable[Other], own_texts: Collection[bytes]
) -> tuple[set[bytes], set[bytes]]:
    """Return identifiers with customers, and with BVNs, that only earlier batches had.

    What the same customer had in the same batch name is replaced by what it has now: a corrected
    BVN does not count twice.

    Args:
        others: sightings that are not just what the batch has now.
        own_texts: identifier and customer of the batch's own.
    """
    strangers: set[bytes] = set()
    stood: set[bytes] = set()
    for key, elsewhere, bvn in others:
        if key not in own_texts:
            strangers.add(key)
        elif not elsewhere:
            continue
        if bvn is not None:
            stood.add(key[:BYTES] + bvn)
    return strangers, stood
