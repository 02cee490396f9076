"""Signals: what a batch says of itself at no cost: who shares a BVN, account, phone or image.

Whole batches are counted in two passes with bounded memory: sixteen bytes for each identifier,
never the identifier. What follows is up to the policy; what is asked is up to the plan.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.checks import IdentityKind
from schemas.rows import Flaw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

MOST_CUSTOMERS = 20
"""A phone or email of more customers than these is a placeholder, nobody's own."""

_SAME = {
    "batch_same_bvn": IdentityKind.BVN,
    "batch_same_account": IdentityKind.NUBAN,
    "batch_same_phone": IdentityKind.PHONE,
    "batch_same_image": IdentityKind.IMAGE,
}
ACCOUNT_BVNS = "batch_account_bvns"
SIGNALS = (*_SAME, ACCOUNT_BVNS)
"""The columns of `Shared.table`, in order."""

_FLAWS = {
    IdentityKind.BVN: Flaw.BVN,
    IdentityKind.NUBAN: Flaw.ACCOUNT | Flaw.BANK | Flaw.BANK_UNKNOWN,
    IdentityKind.PHONE: Flaw.PHONE,
    IdentityKind.EMAIL: Flaw.EMAIL,
    IdentityKind.IMAGE: Flaw.IMAGE,
}
_PLACEHOLDERS = frozenset({IdentityKind.PHONE, IdentityKind.EMAIL})
_BYTES = 16
_ABSENT = -1


@dataclass(frozen=True, slots=True)
class Shared:
    """How identifiers are shared within one batch.

    Attributes:
        starts: number of the first row of each chunk, and at the end the number of rows.
        others: for each kind of identity and each row, how many other customers have the same;
            -1 where the row has none.
        account_bvns: how many BVNs the row's account stands under; -1 where it has no account.
    """

    starts: tuple[int, ...]
    others: dict[IdentityKind, NDArray[np.int32]]
    account_bvns: NDArray[np.int32]

    def table(self, number: int) -> pa.Table:
        """Return a chunk's signals.

        Columns, all int64 and null where the row lacks the identifier or it is malformed:
        `batch_same_bvn`, `batch_same_account`, `batch_same_phone`, `batch_same_image` (other
        customers of the batch with the same), `batch_account_bvns` (BVNs the account stands under,
        the row's own included).
        """
        found = {name: self._column(self.others[kind], number) for name, kind in _SAME.items()}
        found[ACCOUNT_BVNS] = self._column(self.account_bvns, number)
        return pa.table(found)

    def _column(self, counts: NDArray[np.int32], number: int) -> pa.Array:
        here = counts[self.starts[number] : self.starts[number + 1]]
        return pa.array(here.astype(np.int64), mask=here == _ABSENT)

    def placeholders(self, number: int, kind: IdentityKind) -> NDArray[np.bool_]:
        """Return for each row of a chunk whether its phone or email is a placeholder.

        One that more than twenty customers share says nothing of any of them and is not looked up.
        BVNs, accounts and images are never placeholders: sharing those is a finding.
        """
        start, end = self.starts[number], self.starts[number + 1]
        if kind not in _PLACEHOLDERS:
            return np.zeros(end - start, dtype=bool)
        return self.others[kind][start:end] + 1 > MOST_CUSTOMERS


def count_shared(chunks: Iterable[pa.Table]) -> Shared:
    """Count over a whole batch how many customers share each identifier.

    Args:
        chunks: the batch's rows in order, in the shape of `schemas.rows.row_schema`. Each customer
            has one row, since intake refuses a repeated `customer_id`.
    """
    key = os.urandom(_BYTES)
    digests: dict[IdentityKind, list[bytes]] = {kind: [] for kind in _FLAWS}
    present: dict[IdentityKind, list[NDArray[np.bool_]]] = {kind: [] for kind in _FLAWS}
    starts = [0]
    for rows in chunks:
        starts.append(starts[-1] + rows.num_rows)
        for kind in _FLAWS:
            values = _identities(rows, kind)
            digests[kind].append(_digests(values, key))
            present[kind].append(pc.is_valid(values).to_numpy(zero_copy_only=False))
    groups = {kind: _Groups.of(digests.pop(kind), present.pop(kind)) for kind in _FLAWS}
    return Shared(
        tuple(starts),
        {kind: each.others() for kind, each in groups.items()},
        groups[IdentityKind.NUBAN].distinct(groups[IdentityKind.BVN]),
    )


def _identities(rows: pa.Table, kind: IdentityKind) -> pa.Array:
    """Return each row's identifier of a kind as text; null where absent or malformed."""
    if kind is IdentityKind.NUBAN:
        column = pc.binary_join_element_wise(rows["bank_code"], rows["account_number"], "-")
    else:
        column = rows["image_url" if kind is IdentityKind.IMAGE else kind.value]
    flawed = pc.not_equal(pc.bit_wise_and(rows["flaws"], pa.scalar(int(_FLAWS[kind]))), 0)
    sound = pc.if_else(flawed, pa.scalar(None, pa.string()), column)
    return sound.combine_chunks() if isinstance(sound, pa.ChunkedArray) else sound


def _digests(values: pa.Array, key: bytes) -> bytes:
    """Return sixteen bytes for each value that is there, joined."""
    digest: Callable[..., hashlib.blake2b] = hashlib.blake2b
    named = values.drop_null().to_pylist()
    return b"".join(digest(v.encode(), digest_size=_BYTES, key=key).digest() for v in named)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Rows grouped by identifier: `group` holds each row's group, -1 where it has none."""

    group: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, digests: list[bytes], present: list[NDArray[np.bool_]]) -> _Groups:
        """Group the rows whose digests are equal."""
        there = np.concatenate(present) if present else np.zeros(0, dtype=bool)
        halves = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        ordered = halves[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        numbers = np.empty(len(order), dtype=np.int64)
        numbers[order] = np.cumsum(first) - 1
        group = np.full(len(there), _ABSENT, dtype=np.int64)
        group[there] = numbers
        return cls(group, np.bincount(numbers))

    def others(self) -> NDArray[np.int32]:
        """Return for each row how many other rows are in its group."""
        counts = np.full(len(self.group), _ABSENT, dtype=np.int32)
        there = self.group >= 0
        counts[there] = self.sizes[self.group[there]] - 1
        return counts

    def distinct(self, inner: _Groups) -> NDArray[np.int32]:
        """Return for each row how many groups of `inner` meet its own group."""
        both = (self.group >= 0) & (inner.group >= 0)
        width = len(inner.sizes) + 1
        pairs = np.unique(self.group[both] * width + inner.group[both])
        met = np.bincount(pairs // width, minlength=len(self.sizes))
        counts = np.full(len(self.group), _ABSENT, dtype=np.int32)
        there = self.group >= 0
        counts[there] = met[self.group[there]]
        return counts
