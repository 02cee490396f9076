"""Evidence: what an answer means for a row, as typed columns, worked out once for each pair.

Opening, reading and comparing an answer costs far more than all else a warm night does, and is the
same every night as long as answer and row are the same. So it is kept: under a key made of the
very answer and of all that was compared with it. Which answer a row may be shown, by eligibility,
consent and freshness, is judged anew each night in `plan` and `assemble`; evidence never decides
that. How it is kept at rest is in `files/evidence.py`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.client.response_parser import parse_answer
from nightscreen.files.evidence import KEY_BYTES, EvidenceFiles, Keys, Piece
from nightscreen.results.judge import NAME_FIELDS, dob_agrees, history_name, judge_account
from nightscreen.schemas.checks import Check
from nightscreen.schemas.enriched import CHECK_FIELDS, ECOSYSTEM_FIELDS
from nightscreen.schemas.rows import Flaw
from nightscreen.schemas.shipped import DATA, PACKAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nightscreen.journal import Journal
    from nightscreen.journal.answers import Answers
    from nightscreen.schemas.plan import AnswerRefs

JUDGED = ("flaws", "bvn", *NAME_FIELDS, "date_of_birth")
"""All columns of a row that any answer is compared with."""

WORTH_OPENING = 64
"""Fewer rows than these are worked out anew rather than another piece opened for them."""
_AGREEING = 0.98
"""Share of a chunk's rows from which on the piece that served them stays as it is."""
_SEPARATOR, _ABSENT = "\x1f", "\x00"
_SOURCES = (
    *(
        "results/evidence.py",
        "results/judge.py",
        "values/names.py",
        "values/name_normalize.py",
    ),
    *(
        "schemas/enriched.py",
        "client/response_parser.py",
        "schemas/answers.py",
        "schemas/rows.py",
    ),
)

ACCOUNT = pa.schema(
    [
        pa.field("status", pa.string()),
        pa.field("bank_account_name", pa.string()),
        pa.field("bank_account_bvn_match", pa.bool_()),
        pa.field("name_match", pa.string()),
        pa.field("name_explained", pa.string()),
    ]
)
_HISTORY_TYPES = dict(CHECK_FIELDS[Check.ECOSYSTEM])
_HISTORY_NAMES = (
    *(f"ecosystem_{name}" for name in ECOSYSTEM_FIELDS),
    *("ecosystem_extra", "ecosystem_name_match", "ecosystem_dob_match"),
)
_ecosystem_values = itemgetter(*ECOSYSTEM_FIELDS)
HISTORY = pa.schema(
    [
        pa.field("there", pa.bool_()),
        *(
            pa.field(name, kind if not pa.types.is_dictionary(kind) else pa.string())
            for name in _HISTORY_NAMES
            for kind in [_HISTORY_TYPES[name]]
        ),
    ]
)
SCHEMAS = {Check.BANK_ACCOUNT: ACCOUNT, Check.ECOSYSTEM: HISTORY}


@dataclass(slots=True)
class _Kept:
    """What is to be kept of this night, and which pieces are taken over as they are."""

    pieces: list[Piece] = field(default_factory=list)
    names: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Evidence:
    """Gives evidence for answers at hand: from the last night where it is the same, else anew."""

    _answers: Answers = field(repr=False)
    _files: EvidenceFiles | None = None
    _pieces: dict[Check, list[Piece]] = field(default_factory=dict, init=False, repr=False)
    _keys: dict[Check, Keys] = field(default_factory=dict, init=False, repr=False)
    _kept: _Kept = field(default_factory=_Kept, init=False, repr=False)
    _digests: _Digests | None = field(default=None, init=False, repr=False)
    reused: Counter[Check] = field(default_factory=Counter, init=False)
    made: Counter[Check] = field(default_factory=Counter, init=False)

    @classmethod
    def of(cls, journal: Journal, batch: str) -> Evidence:
        """Return the evidence of a batch name, as its last night left it."""
        name = journal.pseudonyms.subject("evidence", batch).hex()
        stamp = f"{version()}.{journal.answers.erased()}.{journal.journal_id}".encode()
        return cls(journal.answers, EvidenceFiles.of(journal.home, name, journal.sealer, stamp))

    def columns(self, check: Check, rows: pa.Table, hand: AnswerRefs) -> pa.Table:
        """Return the evidence of a chunk's answers, a line for each in the order of `hand.rows`.

        Columns are those of `SCHEMAS`; the first is null where the answer is there no longer.

        Args:
            check: bank account or ecosystem.
            rows: the chunk.
            hand: its answers at hand, all of them hits.
        """
        if self._digests is None or self._digests.rows is not rows:
            self._digests = _Digests(rows)
        keys = self._digests.keys(hand)
        table, origin = self._find(check, keys)
        new = np.flatnonzero(origin < 0)
        if len(new):
            made = self._make(check, rows, hand, new)
            order = np.where(origin >= 0, np.cumsum(origin >= 0) - 1, 0)
            order[new] = table.num_rows + np.arange(len(new))
            table = pa.concat_tables([table, made]).take(pa.array(order))
        self.made[check] += len(new)
        self.reused[check] += len(origin) - len(new)
        if len(origin):
            self._keep(check, keys, hand, table, origin)
        return table

    def _find(self, check: Check, keys: bytes) -> tuple[pa.Table, NDArray[np.int32]]:
        """Return what is at hand of earlier evidence in the order of its keys, and whence it is.

        The second is each key's piece, -1 where its evidence has to be made.
        """
        pieces = self._of_check(check)
        piece, row = self._keys[check].places(keys)
        piece = piece.copy()
        numbers, counts = np.unique(piece[piece >= 0], return_counts=True)
        taken: list[pa.Table] = [SCHEMAS[check].empty_table()]
        places: list[NDArray[np.int64]] = []
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            here = np.flatnonzero(piece == number)
            worth = count >= min(WORTH_OPENING, len(piece))
            table = self._open(check, pieces[number]) if worth else None
            if table is None:
                piece[here] = -1
                continue
            whole = count == table.num_rows and (row[here] == np.arange(count)).all()
            taken.append(table if whole else table.take(pa.array(row[here])))
            places.append(here)
        found = pa.concat_tables(taken)
        if len(places) > 1:
            found = found.take(pa.array(np.argsort(np.concatenate(places), kind="stable")))
        return found, piece

    def _open(self, check: Check, piece: Piece) -> pa.Table | None:
        """Return a piece where it is what the index says."""
        table = None if self._files is None else self._files.piece(piece.name)
        if table is None or table.schema != SCHEMAS[check]:
            return None
        return table if table.num_rows * KEY_BYTES == len(piece.keys) else None

    def _of_check(self, check: Check) -> list[Piece]:
        if not self._pieces:
            index = [] if self._files is None else self._files.index()
            for each in SCHEMAS:
                self._pieces[each] = [piece for piece in index if piece.kind == each.value]
                self._keys[each] = Keys(self._pieces[each])
        return self._pieces[check]

    def _make(
        self, check: Check, rows: pa.Table, hand: AnswerRefs, new: NDArray[np.int64]
    ) -> pa.Table:
        """Open some answers and hold each against its row."""
        make, columns = _MAKERS[check]
        judged = rows.select(list(columns)).take(pa.array(hand.rows[new])).to_pylist()
        calls, name = hand.call_id[new].tolist(), check.value
        wanted = dict(zip(calls, map(hand.subject, new.tolist()), strict=True))
        bodies = {
            call_id: self._answers.body(name, stored)
            for call_id, stored in self._answers.of_calls(name, wanted)
        }
        found = zip(judged, map(bodies.get, calls), strict=True)
        lines = [None if body is None else make(row, body) for row, body in found]
        return _table(lines, SCHEMAS[check])

    def _keep(
        self,
        check: Check,
        keys: bytes,
        hand: AnswerRefs,
        table: pa.Table,
        origin: NDArray[np.int32],
    ) -> None:
        """Keep the piece that served, where it served nearly all; else lay a new one aside."""
        if self._files is None:
            return
        numbers, counts = np.unique(origin[origin >= 0], return_counts=True)
        if len(numbers):
            best = self._pieces[check][int(numbers[counts.argmax()])]
            agree = counts.max() >= _AGREEING * max(len(origin), len(best.keys) / KEY_BYTES)
            if agree and best.name not in self._kept.names:
                self._kept.names.add(best.name)
                self._kept.pieces.append(best)
                return
        oldest_at = int(hand.answered_at.min())
        piece = self._files.put(check.value, keys, oldest_at, table)
        if piece is not None:
            self._kept.pieces.append(piece)

    def close(self) -> None:
        """Make what was kept all that the next night finds."""
        if self._files is None:
            return
        before = {piece.name for pieces in self._pieces.values() for piece in pieces}
        if before != {piece.name for piece in self._kept.pieces}:
            self._files.replace(self._kept.pieces)


def row_digests(rows: pa.Table) -> NDArray[np.uint64]:
    """Return a digest of all of each row that an answer may be compared with, two numbers each.

    Lengths are part of it, so that no two rows are alike by where their words end.
    """
    mine = rows.select(list(JUDGED)).combine_chunks()
    columns = [_one(mine[name]) for name in JUDGED if name not in ("flaws", "date_of_birth")]
    flawed = pc.not_equal(pc.bit_wise_and(_one(mine["flaws"]), pa.scalar(int(Flaw.BVN))), 0)
    columns[0] = pc.if_else(flawed, pa.scalar(None, pa.string()), columns[0])
    columns.append(_one(mine["date_of_birth"]).cast(pa.string()))
    options = pc.JoinOptions(null_handling="replace", null_replacement=_ABSENT)
    joined = pc.call_function("binary_join_element_wise", [*columns, _SEPARATOR], options)
    lengths = [pc.binary_length(each).fill_null(-1).to_numpy() for each in columns]
    ends = pa.py_buffer(np.column_stack(lengths).astype(np.int32))
    width = 4 * len(lengths)
    tail = pa.Array.from_buffers(pa.binary(width), len(joined), [None, ends]).cast(pa.binary())
    whole = pc.call_function(
        "binary_join_element_wise", [joined.cast(pa.binary()), tail, pa.scalar(b"", pa.binary())]
    )
    digest = partial(hashlib.blake2b, digest_size=KEY_BYTES)
    found = b"".join([digest(text).digest() for text in whole.to_pylist()])
    return np.frombuffer(found, np.uint64).reshape(-1, 2)


@dataclass(slots=True)
class _Digests:
    """Digests of the rows of one chunk, each made once for all checks."""

    rows: pa.Table
    made: NDArray[np.bool_] = field(init=False)
    found: NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        self.made = np.zeros(self.rows.num_rows, bool)
        self.found = np.zeros((self.rows.num_rows, 2), np.uint64)

    def keys(self, hand: AnswerRefs) -> bytes:
        """Return a key for each answer at hand and its row: a call brings one answer."""
        missing = hand.rows[~self.made[hand.rows]]
        if len(missing):
            rows = self.rows if len(missing) == len(self.made) else self.rows.take(missing)
            self.found[missing] = row_digests(rows)
            self.made[missing] = True
        answers = np.column_stack([hand.call_id, hand.answered_at]).astype(np.uint64)
        return (self.found[hand.rows] ^ answers).tobytes()


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _account(row: Mapping[str, Any], body: bytes) -> tuple[Any, ...]:
    """Return a line of `ACCOUNT`."""
    verdict = judge_account(row, parse_answer(Check.BANK_ACCOUNT, body))
    grade, explained = (None, None)
    if verdict.name is not None:
        grade, explained = verdict.name.grade, verdict.name.explained
    return verdict.status, verdict.account_name, verdict.bvn_match, grade, explained


def _history(row: Mapping[str, Any], body: bytes) -> tuple[Any, ...]:
    """Return a line of `HISTORY`; empty where the body holds no record."""
    record = parse_answer(Check.ECOSYSTEM, body)
    if record is None:
        return (True, *([None] * len(_HISTORY_NAMES)))
    name_match = history_name(row, record)
    return (
        True,
        *_ecosystem_values(record.__dict__),
        record.extra_json() if record.extra else None,
        None if name_match is None else name_match.grade,
        dob_agrees(row["date_of_birth"], record.date_of_birth),
    )


_Maker = Callable[[Mapping[str, Any], bytes], tuple[Any, ...]]
_MAKERS: dict[Check, tuple[_Maker, Sequence[str]]] = {
    Check.BANK_ACCOUNT: (_account, ("flaws", "bvn", *NAME_FIELDS)),
    Check.ECOSYSTEM: (_history, (*NAME_FIELDS, "date_of_birth")),
}
"""What makes a line of each check's evidence, and the columns of the row that it looks at."""


def _table(lines: Sequence[tuple[Any, ...] | None], schema: pa.Schema) -> pa.Table:
    """Return lines as a table; an answer that is there no longer leaves its line empty."""
    nothing = (None,) * len(schema)
    columns = zip(*(nothing if line is None else line for line in lines), strict=True)
    return pa.table(
        [
            typed_column(list(values), each.type)
            for values, each in zip(columns, schema, strict=True)
        ],
        schema=schema,
    )


def typed_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of a type; decimals are rounded to its places."""
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # a decimal of more places, which is rare
        rounded = [None if value is None else round(value, kind.scale) for value in values]
        return pa.array(rounded, kind)


@cache
def version() -> str:
    """Return a digest of the code and data that evidence rests on: another one, other evidence."""
    found = hashlib.sha256()
    names = sorted((DATA / "names").rglob("*.*"))
    for path in [*(PACKAGE / source for source in _SOURCES), *names]:
        found.update(path.name.encode() + b"\x1f" + path.read_bytes())
    return found.hexdigest()[:16]


__all__ = ["ACCOUNT", "HISTORY", "Evidence", "typed_column"]
