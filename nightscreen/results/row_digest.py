"""Unchanged: which rows say the very same as what the journal keeps of their customers.

Beside each sealed state stands a keyed digest of the row it was last seen with. A row of the same
digest changes nothing and is not compared, so that its state stays sealed. How rows that differ are
compared is in `changes`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.results.tracked_state import LISTINGS, READ, has_decision
from nightscreen.schemas.checks import Check
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.journal.customers import Marks

NO_DECISION = -1
_DECISIONS = tuple(Decision)
_MARK_BYTES = 16
_SEPARATOR, _ABSENT = "\x1f", "\x00"
_SIXTEEN = "S16"


def row_texts(rows: pa.Table) -> list[bytes]:
    """Return all that rows of `enriched` say (columns `READ`), but for whose they are.

    Equal texts mean equal answers of equal dates; lengths keep neighbouring words apart.
    """
    columns: list[pa.Array] = []
    for name in READ:
        if name != "customer_id":
            columns += _texts(rows[name].combine_chunks(), name)
    options = pc.JoinOptions(null_handling="replace", null_replacement=_ABSENT)
    joined = pc.call_function("binary_join_element_wise", [*columns, _SEPARATOR], options)
    found: list[bytes] = joined.cast(pa.binary()).to_pylist()
    return found


def _texts(column: pa.Array, name: str) -> list[pa.Array]:
    """Return a column as text, and beside free text its length."""
    kind = column.type
    if name == LISTINGS:
        return [_listings(column)]
    if pa.types.is_list(kind):
        return [pc.binary_join(column, ",")]
    if pa.types.is_timestamp(kind):
        return [column.cast(pa.int64()).cast(pa.string())]
    if pa.types.is_string(kind):
        return [column, pc.binary_length(column).cast(pa.string())]
    return [column.cast(pa.string())]


def _listings(column: pa.Array) -> pa.Array:
    """Return listings as text; few rows have any."""
    texts: NDArray[np.object_] = np.full(len(column), None, object)
    some = pc.fill_null(pc.greater(pc.list_value_length(column), 0), fill_value=False)
    places = np.flatnonzero(some.to_numpy(zero_copy_only=False))
    texts[places] = [str(each) for each in column.take(pa.array(places)).to_pylist()]
    return pa.array(texts, pa.string())


class Looked(NamedTuple):
    """What a look at some rows found.

    Attributes:
        same: which rows say the same as before.
        previous: number among `Decision` of each such row's previous decision, `NO_DECISION` where
            it never had one.
        texts: what each row says.
        decided: what each row was decided; empty where it could not be.
    """

    same: NDArray[np.bool_]
    previous: NDArray[np.int8]
    texts: Sequence[bytes]
    decided: Sequence[str]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Holds rows against the marks of a batch's customers.

    Attributes:
        marks: what the journal has of the batch's customers.
        compared: customers to be compared whatever their mark.
    """

    marks: Marks
    compared: frozenset[bytes]
    _key: bytes = field(repr=False)
    _tails: Mapping[str, bytes]

    @classmethod
    def of(
        cls,
        marks: Marks,
        pseudonyms: Pseudonyms,
        unreached: Collection[str],
        compared: Collection[bytes],
    ) -> Unchanged:
        """Return what tells unchanged rows; marks are keyed, so that nobody can guess at them."""
        key = hmac.digest(pseudonyms.key, b"nightscreen state marks", "sha256")
        karma = b"open" if Check.KARMA.value in unreached else b""
        tails = {word: b"\x1f".join((b"", word.encode(), karma)) for word, _ in _CANDIDATES}
        return cls(marks, frozenset(compared), key, tails)

    def mark(self, text: bytes, decision: str) -> bytes:
        """Return the mark of a row and of the decision its customer had the last time."""
        whole = text + self._tails[decision]
        return hashlib.blake2b(whole, digest_size=_MARK_BYTES, key=self._key).digest()

    def are_compared(self, subjects: bytes) -> NDArray[np.bool_]:
        """Return which of some joined pseudonyms are compared whatever their mark."""
        places = range(0, len(subjects), 16)
        if not self.compared:
            return np.zeros(len(places), bool)
        return np.array([subjects[place : place + 16] in self.compared for place in places], bool)

    def look(self, subjects: bytes, rows: pa.Table) -> Looked:
        """Return which of some rows say the same as before.

        Args:
            subjects: the customers' pseudonyms, joined in the order of the rows.
            rows: rows of `enriched`, columns `READ`.
        """
        texts = row_texts(rows)
        previous = np.full(rows.num_rows, NO_DECISION, np.int8)
        same = np.zeros(rows.num_rows, bool)
        place = self.marks.places(subjects)
        marked = self.marks.marked(place)
        marked &= ~self.are_compared(subjects)
        decided = has_decision(rows)
        words = rows["decision"].cast(pa.string()).to_pylist()
        both = np.flatnonzero(marked & decided)
        found = [self.mark(texts[row], words[row]) for row in both.tolist()]
        same[both] = np.frombuffer(b"".join(found), _SIXTEEN) == self.marks.marks_at(place[both])
        previous[both] = [_NUMBERS[words[row]] for row in both.tolist()]
        for row in np.flatnonzero(marked & ~decided).tolist():
            mark = self.marks.mark(int(place[row]))
            for word, number in _CANDIDATES:
                if mark == self.mark(texts[row], word):
                    same[row], previous[row] = True, number
                    break
        said = [word if is_made else "" for word, is_made in zip(words, decided, strict=True)]
        return Looked(same, previous, texts, said)


_NUMBERS = {decision.value: number for number, decision in enumerate(_DECISIONS)}
_CANDIDATES = (("", NO_DECISION), *_NUMBERS.items())
