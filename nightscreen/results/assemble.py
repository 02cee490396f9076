"""Assemble: rows, plan and answers become enriched rows.

Every row leaves with exactly one status per check. An answer is shown only where the row's plan
asked for it and it is this run's or still fresh for this row. What it means for a row the check
says; decisions are added by `decide`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.arrow_types import arrow_type
from nightscreen.checks.registry import ANSWERED, CHECKS
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.answers import NONE, OUTCOMES, Latest
from nightscreen.planning.eligibility import flat, slots_of
from nightscreen.results.enriched import enriched_schema, input_columns
from nightscreen.results.held_data import nothing_held
from nightscreen.schemas.checks import HITS, NoAnswer, Outcome, Source
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.enriched import CONSENT_UNREADABLE, SIGNALS, WORD, naira_of_micro
from nightscreen.schemas.plan import CheckIdentity, SkipReason
from nightscreen.schemas.rows import INSTANT, SourceColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.checks.declaration import Declaration, Found, Limits
    from nightscreen.journal.answers import Answers
    from nightscreen.planning.freshness import Freshness
    from nightscreen.planning.plan import Wanted
    from nightscreen.results.held_data import HeldData

    Codes = NDArray[np.int32]
    Mask = NDArray[np.bool_]

_SOURCES = tuple(Source)
_ASKED, _SHARED, _REUSED = (_SOURCES.index(each) for each in Source)
_STATUSES = (
    *(each.value for each in NoAnswer),
    *ANSWERED,
)
"""Every word of a status; what a row has is kept as its number here."""
_UNREAD = OUTCOMES.index(Outcome.UNREADABLE)
_CODE = {word: number for number, word in enumerate(_STATUSES)}
_OF_WHY = np.array(
    [_CODE[NoAnswer.PENDING.value if why is SkipReason.ASK else why.status] for why in SkipReason],
    np.int32,
)
_BEFORE_MISSES = (
    NoAnswer.TEST_MODE.value,
    NoAnswer.UNREADABLE.value,
    NoAnswer.IN_DOUBT.value,
    NoAnswer.FAILED.value,
    NoAnswer.PENDING.value,
)
_AFTER_MISSES = (NoAnswer.REFUSED.value, NoAnswer.INVALID.value)
"""Of several identities that a check is asked by, the first of these that any has is the row's
status, after its records: what may still be found, then that nothing was, then what could not be
asked."""
_HITS = [OUTCOMES.index(outcome) for outcome in HITS]


@dataclass(frozen=True, slots=True)
class Assembly:
    """What is needed to assemble any chunk of a run."""

    wanted: Wanted  # checks, identities and purpose of the run
    answers: Answers  # the journal's answers
    # this run's lookups without an answer, by check and subject: `unreadable`, `in_doubt`, `failed`
    # or `pending`
    unanswered: Mapping[tuple[str, bytes], str]
    freshness: Freshness  # how old an answer may be, judged at the plan's instant
    columns: Sequence[SourceColumn]  # the input's columns
    limits: Limits  # the lender's thresholds of similarity
    held: HeldData  # BVN details and cash flow from other runs
    test_mode: bool = False  # the service was in test mode: nothing it said counts


@dataclass(slots=True)
class _Cells:
    """One check's columns while they are filled: numbers of words, instants, and the rest."""

    status: Codes
    checked_at: NDArray[np.int64]
    source: Codes
    rest: dict[str, pa.Array] = field(default_factory=dict)


@dataclass(slots=True)
class _SlotView:
    """One slot of a chunk: what each row asked, and the latest answer to it."""

    slot: CheckIdentity
    why: NDArray[np.int8]
    subjects: NDArray[np.bytes_]
    own: Mask
    latest: Latest
    current: Mask  # rows whose answer counts now: this run's, newer than the plan, or still fresh
    unread: Mask  # rows whose answer would count and cannot be read: nothing is shown of it


class Chunk:
    """Assembles one chunk of rows."""

    def __init__(
        self, assembly: Assembly, rows: pa.Table, row_plan: pa.Table, signals: pa.Table
    ) -> None:
        self._assembly = assembly
        self._signals = signals
        self._rows = rows
        self._size = rows.num_rows
        self._cost: NDArray[np.int64] = np.zeros(self._size, dtype=np.int64)
        self.shared_micro: Counter[str] = Counter()
        wanted = assembly.wanted
        slots = slots_of(wanted.checks, wanted.karma_kinds)
        self._views = {slot: self._view(slot, row_plan) for slot in slots}

    def _view(self, slot: CheckIdentity, row_plan: pa.Table) -> _SlotView:
        subjects = flat(row_plan[f"{slot.column}.subject"])
        there = pc.is_valid(subjects).to_numpy(zero_copy_only=False)
        texts = _sixteens(subjects)
        if self._assembly.test_mode:
            latest = Latest.nothing(self._size)
        else:
            latest = self._look_up(slot, texts, there)
        why, own = (row_plan[f"{slot.column}.{name}"].to_numpy() for name in ("why", "own"))
        oldest = np.array(
            [self._assembly.freshness.oldest(slot.check, each.value) for each in OUTCOMES], np.int64
        )[latest.outcome]
        counts = (latest.outcome != NONE) & (latest.current | (latest.answered_at >= oldest))
        unread = latest.outcome == _UNREAD
        charged = unread & latest.own_run & own  # what cannot be read was paid for all the same
        self._cost += np.where(charged, np.maximum(latest.cost_micro, 0), 0)
        return _SlotView(slot, why, texts, own, latest, counts & ~unread, counts & unread)

    def _look_up(self, slot: CheckIdentity, subjects: NDArray[np.bytes_], there: Mask) -> Latest:
        """Return each row's latest answer as the journal has it now."""
        rows = np.flatnonzero(there)
        distinct, inverse = np.unique(subjects[rows], return_inverse=True)
        answers, run_id = self._assembly.answers, self._assembly.wanted.run_id
        since = self._assembly.freshness.since
        found = answers.latest_columns(slot.check, distinct.tobytes(), run_id, since)
        latest = Latest.nothing(self._size)
        latest.put(rows, found.take(inverse))
        return latest

    def table(self) -> pa.Table:
        """Return the enriched rows, decision columns still empty (`undecided` is set by decide)."""
        found: dict[str, pa.Array | pa.ChunkedArray] = {
            name: self._rows[source] for name, source in input_columns(self._assembly.columns)
        }
        for check in CHECKS:
            found.update(self._check_columns(check))
        shows = not self._assembly.test_mode
        held = self._assembly.held.columns(self._rows) if shows else nothing_held(self._size)
        found.update(held)
        found.update({name: self._signals[name] for name in SIGNALS})
        flaws = flat(self._rows["flaws"]).to_numpy(zero_copy_only=False)
        found[CONSENT_UNREADABLE] = pa.array((flaws & int(Flaw.CONSENT)) != 0)
        found["cost"] = naira_of_micro(self._cost)
        zeros = np.zeros(self._size, np.int32)
        found["decision"] = _words(zeros, ("undecided",))
        found["reasons"] = pa.array([[]], pa.list_(pa.string())).take(pa.array(zeros))
        found["policy"] = pa.nulls(self._size, pa.string()).dictionary_encode().cast(WORD)
        return pa.table(found, schema=enriched_schema(self._assembly.columns))

    def _check_columns(self, check: str) -> dict[str, pa.Array]:
        declared = CHECKS[check]
        views = [view for slot, view in self._views.items() if slot.check == check]
        if check in self._assembly.wanted.checks:
            cells = self._filled(declared, views)
        else:
            cells = self._blank(np.full(self._size, _CODE[NoAnswer.OFF.value], np.int32))
        instants = pa.array(cells.checked_at, pa.int64(), mask=cells.source < 0)
        columns = {
            declared.status: _words(cells.status, _STATUSES),
            declared.checked_at: instants.cast(INSTANT),
            declared.source: _words(cells.source, _SOURCES),
        }
        for each in declared.columns:
            filled = cells.rest.get(each.name)
            kind = arrow_type(each.shape)
            columns[each.name] = pa.nulls(self._size, kind) if filled is None else filled
        return columns

    def _filled(self, declared: Declaration, views: Sequence[_SlotView]) -> _Cells:
        """Fill a check's columns from the answers to every identity it was asked by.

        A row's status rests on its records where there are any; else it says why an identity has
        no answer, or that every answer was a miss, in the order of `_first_of`.
        """
        cells = self._blank(np.full(self._size, _CODE[NoAnswer.INELIGIBLE.value], np.int32))
        found: dict[int, list[Found]] = {}
        missed = np.zeros(self._size, bool)
        unanswered: list[Codes] = []
        for view in views:
            current = view.current
            hit = current & np.isin(view.latest.outcome, _HITS)
            records = self._records(view, np.flatnonzero(hit))
            read = np.zeros(self._size, bool)
            read[list(records)] = True
            shown = (current & ~hit) | read
            missed |= current & ~hit
            for row, record in records.items():
                found.setdefault(row, []).append((view.slot.kind, record))
            unanswered.append(np.where(shown, NONE, self._unanswered(view, shown)))
            self._set(cells, view, shown)
        blank = declared.judge({}, (), self._assembly.limits)
        said = np.where(missed, _CODE[blank[0]], NONE)
        cells.status = _first_of(unanswered, said)
        rows = np.array(sorted(found), np.int64)
        looked_at = self._rows.select(list(declared.looks_at)).take(pa.array(rows)).to_pylist()
        judged = [
            declared.judge(row, found[number], self._assembly.limits)
            for number, row in zip(rows.tolist(), looked_at or [{}] * len(rows), strict=True)
        ]
        cells.status[rows] = [_CODE[line[0]] for line in judged]
        line = np.where(missed, 0, NONE)
        line[rows] = np.arange(1, len(rows) + 1)
        places = pa.array(line, mask=line < 0)
        for number, each in enumerate(declared.columns, start=1):
            values = [blank[number], *(every[number] for every in judged)]
            cells.rest[each.name] = _typed_column(values, arrow_type(each.shape)).take(places)
        return cells

    def _blank(self, status: Codes) -> _Cells:
        return _Cells(status, np.zeros(self._size, np.int64), np.full(self._size, NONE, np.int32))

    def _unanswered(self, view: _SlotView, shown: Mask) -> Codes:
        """Return the status of each row that is shown no answer: why there is none."""
        codes = _OF_WHY[view.why]
        asked = view.why == SkipReason.ASK.value
        if self._assembly.test_mode:
            codes[asked] = _CODE[NoAnswer.TEST_MODE.value]
        elif self._assembly.unanswered:
            check, words = view.slot.check, self._assembly.unanswered
            for row in np.flatnonzero(asked & ~shown).tolist():
                subject = view.subjects[row : row + 1].tobytes()
                codes[row] = _CODE[words.get((check, subject), NoAnswer.PENDING.value)]
        codes[asked & view.unread] = _CODE[NoAnswer.UNREADABLE.value]
        return codes

    def _set(self, cells: _Cells, view: _SlotView, shown: Mask) -> None:
        """Note when and whence answers came, and their cost where it is the rows' own."""
        latest, own_run = view.latest, view.latest.own_run
        instants = np.maximum(cells.checked_at, latest.answered_at)
        cells.checked_at = np.where(shown, instants, cells.checked_at)
        asked = np.where(view.own, _ASKED, _SHARED)
        source = np.where(own_run, asked, _REUSED)
        taken = shown & (cells.source != _ASKED)
        cells.source = np.where(taken, source, cells.source).astype(np.int32)
        known = np.where(shown & own_run, np.maximum(latest.cost_micro, 0), 0)
        self._cost += np.where(view.own, known, 0)
        self.shared_micro[view.slot.check] += int(known[~view.own].sum())

    def _records(self, view: _SlotView, rows: NDArray[np.int64]) -> dict[int, object]:
        """Open the answers of some rows; return each row's record, None where it holds none.

        A row whose answer is there no longer is left out.
        """
        check, answers = view.slot.check, self._assembly.answers
        calls = view.latest.call_id[rows].tolist()
        places = rows.tolist()
        wanted = {
            call: view.subjects[place : place + 1].tobytes()
            for call, place in zip(calls, places, strict=True)
        }
        if not wanted:
            return {}
        records = {
            call_id: parse_answer(check, answers.body(check, stored))
            for call_id, stored in answers.of_calls(check, wanted)
        }
        return {
            place: records[call]
            for call, place in zip(calls, places, strict=True)
            if call in records
        }


def _sixteens(column: pa.Array) -> NDArray[np.bytes_]:
    """Return a column of sixteen bytes as an array; a null is whatever lies there."""
    texts: NDArray[np.bytes_] = np.frombuffer(column.buffers()[1] or b"", "S16")
    return texts[column.offset : column.offset + len(column)]


def _first_of(unanswered: Sequence[Codes], said: Codes) -> Codes:
    """Return each row's status, given why each of its identities has no answer.

    Args:
        unanswered: numbers of words of `NoAnswer` for each identity, `NONE` where it was answered.
        said: the number of what the answers without a record say, `NONE` where there are none.
    """
    stacked = np.vstack([*unanswered, said])
    choices = [_CODE[each] for each in _BEFORE_MISSES]
    has = [(stacked == code).any(axis=0) for code in choices]
    after = [_CODE[each] for each in _AFTER_MISSES]
    has_after = [(stacked == code).any(axis=0) for code in after]
    status: Codes = np.select(
        [*has, said != NONE, *has_after],
        [*choices, said, *after],
        _CODE[NoAnswer.INELIGIBLE.value],
    ).astype(np.int32)
    return status


def _typed_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of a type; decimals are rounded to its places."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # a decimal of more places, which is rare
        rounded = [None if value is None else round(value, kind.scale) for value in values]
        return pa.array(rounded, kind)


def _words(codes: Codes, words: Sequence[str]) -> pa.Array:
    """Return numbers of words as a column of them, null where a number is `NONE`."""
    texts = pa.array(list(words), pa.string()).take(pa.array(codes, mask=codes == NONE))
    return texts.dictionary_encode().cast(WORD)
