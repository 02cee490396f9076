"""Assemble: rows, plan and answers become enriched rows.

Every row leaves with exactly one status per check. An answer is shown only where the row's plan
asked for it and it is this run's or still fresh for this row. What an answer means for a row is
`evidence`'s; decisions are added by `decide`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.karma import listings_of
from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.answers import NONE, OUTCOMES, Latest
from nightscreen.planning.eligibility import flat, slots_of
from nightscreen.results.cached_bvn_details import nothing_held
from nightscreen.results.cash_flow_at_hand import no_cash_flow
from nightscreen.results.enriched import enriched_schema, input_columns
from nightscreen.results.evidence import ACCOUNT, HISTORY, evidence_of, typed_column
from nightscreen.results.judge import judge_selfie
from nightscreen.schemas.answers import KarmaListing, SelfieAnswer
from nightscreen.schemas.checks import NoAnswer, Outcome, Source
from nightscreen.schemas.enriched import (
    CONSENT_UNREADABLE,
    SIGNALS,
    WORD,
    naira_of_micro,
)
from nightscreen.schemas.plan import CheckIdentity, SkipReason
from nightscreen.schemas.rows import INSTANT, NAIRA, Flaw, SourceColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

    from nightscreen.journal.answers import Answers
    from nightscreen.planning.freshness import Freshness
    from nightscreen.planning.plan import Wanted
    from nightscreen.results.cached_bvn_details import BvnsAtHand
    from nightscreen.results.cash_flow_at_hand import CashFlowAtHand

    Codes = NDArray[np.int32]
    Mask = NDArray[np.bool_]

_SOURCES = tuple(Source)
_ASKED, _SHARED, _REUSED = (_SOURCES.index(each) for each in Source)
_STATUSES = (
    *(each.value for each in NoAnswer),
    *dict.fromkeys(word for check in CHECKS.values() for word in check.answered),
)
"""Every word of a status; what a row has is kept as its number here."""
_UNREAD = OUTCOMES.index(Outcome.UNREADABLE)
_CODE = {word: number for number, word in enumerate(_STATUSES)}
_OF_WHY = np.array(
    [_CODE[NoAnswer.PENDING.value if why is SkipReason.ASK else why.status] for why in SkipReason],
    np.int32,
)
_WORST_FIRST = (
    Outcome.LISTED,
    NoAnswer.TEST_MODE,
    NoAnswer.UNREADABLE,
    NoAnswer.IN_DOUBT,
    NoAnswer.FAILED,
    NoAnswer.PENDING,
    Outcome.CLEAR,
    NoAnswer.REFUSED,
    NoAnswer.INVALID,
)
"""Of several identities karma is asked by, the first of these that any has is the row's status."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """What is needed to assemble any chunk of a run.

    Attributes:
        wanted: checks, identities and purpose of the run.
        answers: the journal's answers.
        unanswered: this run's lookups without an answer, by check and subject: `unreadable`,
            `in_doubt`, `failed` or `pending`.
        freshness: how old an answer may be, judged at the plan's instant.
        columns: the input's columns.
        test_mode: the service was in test mode: nothing it said counts.
        match_at: similarity from which a selfie matches.
        no_match_below: similarity under which it does not.
        bvns: BVN details confirmed before; None where none may be shown.
        cash_flow: figures of pulled transactions; None where none may be shown.
    """

    wanted: Wanted
    answers: Answers
    unanswered: Mapping[tuple[str, bytes], str]
    freshness: Freshness
    columns: Sequence[SourceColumn]
    test_mode: bool = False
    match_at: float = 90.0
    no_match_below: float = 70.0
    bvns: BvnsAtHand | None = None
    cash_flow: CashFlowAtHand | None = None


@dataclass(slots=True)
class _Cells:
    """One check's columns while they are filled: numbers of words, instants, and the rest."""

    status: Codes
    checked_at: NDArray[np.int64]
    source: Codes
    rest: dict[str, pa.Array] = field(default_factory=dict)


@dataclass(slots=True)
class _SlotView:
    """One slot of a chunk: what each row asked, and the latest answer to it.

    Attributes:
        latest: answers that can be read.
        unread: rows whose latest answer cannot be, and is not old enough to be asked again.
    """

    slot: CheckIdentity
    why: NDArray[np.int8]
    subjects: NDArray[np.bytes_]
    own: Mask
    latest: Latest
    unread: Mask

    @property
    def at_hand(self) -> Mask:
        """Return which rows have an answer at hand, fresh or not."""
        found: Mask = self.latest.outcome != NONE
        return found

    def said(self, outcome: Outcome) -> Mask:
        """Return which rows have an answer of this outcome at hand."""
        found: Mask = self.latest.outcome == OUTCOMES.index(outcome)
        return found


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
        return _SlotView(slot, why, texts, own, *self._readable(slot, latest, own))

    def _readable(self, slot: CheckIdentity, latest: Latest, own: Mask) -> tuple[Latest, Mask]:
        """Return answers without those that cannot be read, and which rows these stand for.

        Nothing is shown of them. A call that was this run's and the row's own cost it all the same.
        """
        places = latest.outcome == _UNREAD
        if not places.any():
            return latest, places
        oldest = self._oldest(slot.check, Outcome.UNREADABLE.value)
        unread = places & (latest.current | (latest.answered_at >= oldest))
        charged = np.where(places & latest.own_run & own, np.maximum(latest.cost_micro, 0), 0)
        self._cost += charged
        kept = Latest.nothing(self._size)
        kept.put(~places, latest.take(~places))
        return kept, unread

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
        found.update(self._bvn_columns())
        found.update(self._cash_flow_columns())
        found.update({name: self._signals[name] for name in SIGNALS})
        flaws = flat(self._rows["flaws"]).to_numpy(zero_copy_only=False)
        found[CONSENT_UNREADABLE] = pa.array((flaws & int(Flaw.CONSENT)) != 0)
        found["cost"] = naira_of_micro(self._cost)
        zeros = np.zeros(self._size, np.int32)
        found["decision"] = _words(zeros, ("undecided",))
        found["reasons"] = pa.array([[]], pa.list_(pa.string())).take(pa.array(zeros))
        found["policy"] = pa.nulls(self._size, pa.string()).dictionary_encode().cast(WORD)
        return pa.table(found, schema=enriched_schema(self._assembly.columns))

    def _bvn_columns(self) -> dict[str, pa.Array]:
        bvns = self._assembly.bvns
        if bvns is None or self._assembly.test_mode:
            return nothing_held(self._size)
        return bvns.columns(self._rows)

    def _cash_flow_columns(self) -> dict[str, pa.Array]:
        cash_flow = self._assembly.cash_flow
        if cash_flow is None or self._assembly.test_mode:
            return no_cash_flow(self._size)
        return cash_flow.columns(self._rows)

    def _check_columns(self, check: str) -> dict[str, pa.Array]:
        if check not in self._assembly.wanted.checks:
            cells = self._blank(np.full(self._size, _CODE[NoAnswer.OFF.value], np.int32))
        else:
            cells = _FILLERS[check](self)
        instants = pa.array(cells.checked_at, pa.int64(), mask=cells.source < 0)
        columns = {
            f"{check}_status": _words(cells.status, _STATUSES),
            f"{check}_checked_at": instants.cast(INSTANT),
            f"{check}_source": _words(cells.source, _SOURCES),
        }
        for name, kind in CHECKS[check].fields:
            if name not in columns:
                column = cells.rest.get(name)
                columns[name] = pa.nulls(self._size, kind) if column is None else column
        return columns

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

    def _oldest(self, check: str, word: str) -> int:
        return self._assembly.freshness.oldest(check, word)

    def _current(self, view: _SlotView) -> Mask:
        """Return which answers count now: this run's, newer than the plan, or still fresh."""
        limits = [self._oldest(view.slot.check, outcome.value) for outcome in OUTCOMES]
        oldest = np.array(limits, np.int64)[view.latest.outcome]
        return view.at_hand & (view.latest.current | (view.latest.answered_at >= oldest))

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

    def _one_view(self, check: str) -> _SlotView:
        return next(view for slot, view in self._views.items() if slot.check == check)

    def bank_account(self) -> _Cells:
        """Fill the bank account columns."""
        view, check = self._one_view("bank_account"), "bank_account"
        places, lines = self._evidence(view)
        words = np.where(view.at_hand & ~view.said(Outcome.FOUND), _CODE["not_found"], NONE)
        words[places] = _codes(lines["status"])
        shown = (words != NONE) & self._current(view)
        cells = self._blank(np.where(shown, words, self._unanswered(view, shown)))
        cells.rest = self._spread(check, lines, places, shown, ACCOUNT.names[1:])
        self._set(cells, view, shown)
        return cells

    def _evidence(self, view: _SlotView) -> tuple[NDArray[np.int64], pa.Table]:
        """Return the rows with a record at hand that counts now, and what it says of them."""
        rows = np.flatnonzero(view.said(Outcome.FOUND) & self._current(view))
        return evidence_of(view.slot.check, self._rows, self._records(view, rows))

    def _spread(
        self,
        check: str,
        lines: pa.Table,
        places: NDArray[np.int64],
        shown: Mask,
        names: Sequence[str],
    ) -> dict[str, pa.Array]:
        """Return columns of the chunk from lines of evidence, null where none is shown."""
        line = np.full(self._size, NONE, np.int64)
        line[places] = np.arange(len(places))
        at = pa.array(line, mask=~shown | (line < 0))
        kinds = dict(CHECKS[check].fields)
        found = {}
        for name in names:
            column = flat(lines[name]).take(at)
            word = pa.types.is_dictionary(kinds[name])
            found[name] = column.dictionary_encode().cast(WORD) if word else column
        return found

    def karma(self) -> _Cells:
        """Fill the karma columns from every identity asked by."""
        views = [view for slot, view in self._views.items() if slot.check == "karma"]
        cells = self._blank(np.zeros(self._size, np.int32))
        codes: list[Codes] = []
        listings: list[tuple[int, dict[str, Any]]] = []
        answered = np.zeros(self._size, bool)
        for view in views:
            shown = self._current(view)
            listed = shown & view.said(Outcome.LISTED)
            words = np.where(listed, _CODE["listed"], _CODE["clear"])
            codes.append(np.where(shown, words, self._unanswered(view, shown)))
            answered |= shown
            self._set(cells, view, shown)
            listings += self._listings(view, np.flatnonzero(listed))
        cells.status = karma_status(codes, self._size)
        listings.sort(key=lambda pair: pair[0])
        cells.rest = _listing_columns(listings, answered)
        return cells

    def _listings(
        self, view: _SlotView, rows: NDArray[np.int64]
    ) -> list[tuple[int, dict[str, Any]]]:
        records = self._records(view, rows)
        return [
            (row, _listing(view.slot, listing))
            for row, record in records.items()
            for listing in listings_of(record)
        ]

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

    def ecosystem(self) -> _Cells:
        """Fill the ecosystem columns."""
        view, check = self._one_view("ecosystem"), "ecosystem"
        places, lines = self._evidence(view)
        there = ~view.said(Outcome.FOUND)
        there[places] = True
        shown = there & self._current(view)
        words = np.where(view.said(Outcome.FOUND), _CODE["found"], _CODE["not_found"])
        cells = self._blank(np.where(shown, words, self._unanswered(view, shown)))
        cells.rest = self._spread(check, lines, places, shown, HISTORY.names)
        self._set(cells, view, shown)
        return cells

    def selfie(self) -> _Cells:
        """Fill the selfie columns."""
        view = self._one_view("selfie")
        shown = self._current(view)
        scored = np.flatnonzero(shown & view.said(Outcome.SCORED))
        records = self._records(view, scored)
        codes = np.where(shown, _CODE[self._judged_selfie(None)], self._unanswered(view, shown))
        similarity: list[float | None] = [None] * self._size
        for row, record in records.items():
            answer = record if isinstance(record, SelfieAnswer) else None
            codes[row] = _CODE[self._judged_selfie(answer)]
            if answer is not None and answer.similarity is not None:
                similarity[row] = float(answer.similarity)
        cells = self._blank(codes)
        cells.rest["selfie_similarity"] = pa.array(similarity, pa.float64())
        self._set(cells, view, shown)
        return cells

    def _judged_selfie(self, answer: SelfieAnswer | None) -> str:
        limits = self._assembly
        return judge_selfie(answer, match_at=limits.match_at, no_match_below=limits.no_match_below)


_FILLERS = {
    "bank_account": Chunk.bank_account,
    "karma": Chunk.karma,
    "ecosystem": Chunk.ecosystem,
    "selfie": Chunk.selfie,
}


def _sixteens(column: pa.Array) -> NDArray[np.bytes_]:
    """Return a column of sixteen bytes as an array; a null is whatever lies there."""
    texts: NDArray[np.bytes_] = np.frombuffer(column.buffers()[1] or b"", "S16")
    return texts[column.offset : column.offset + len(column)]


def _codes(words: pa.ChunkedArray) -> Codes:
    """Return words of statuses as their numbers, `NONE` for a null."""
    encoded = flat(words).dictionary_encode()
    numbers = np.array([*(_CODE[word] for word in encoded.dictionary.to_pylist()), NONE], np.int32)
    places = encoded.indices.fill_null(len(numbers) - 1).to_numpy(zero_copy_only=False)
    codes: Codes = numbers[places]
    return codes


def karma_status(codes: Sequence[Codes], rows: int) -> Codes:
    """Return each row's status, given the statuses of its identities as numbers.

    A listing of any of them is told first; then whatever keeps the row from being clear.
    """
    ineligible = _CODE[NoAnswer.INELIGIBLE.value]
    if not codes:
        return np.full(rows, ineligible, np.int32)
    stacked = np.vstack(codes)
    words = [_CODE[each.value] for each in _WORST_FIRST]
    has = [(stacked == word).any(axis=0) for word in words]
    status: Codes = np.select(has, words, ineligible).astype(np.int32)
    return status


def _listing(slot: CheckIdentity, record: KarmaListing) -> dict[str, Any]:
    return {
        "identity_kind": slot.kind.value,
        "karma_type": record.karma_type,
        "identity_type": record.identity_type,
        "amount_in_contention": _naira(record.amount_in_contention),
        "default_date": record.default_date,
        "reason": record.reason,
        "reporting_entity_name": record.reporting_entity_name,
        "reporting_entity_email": record.reporting_entity_email,
    }


def _listing_columns(
    listings: Sequence[tuple[int, dict[str, Any]]], answered: Mask
) -> dict[str, pa.Array]:
    """Return the columns of listings, given in the order of their rows; empty where answered.

    An identity may have several listings; it stands once among those that list the row.
    """
    kinds = dict(CHECKS["karma"].fields)
    highest: list[Decimal | None] = [None] * len(answered)
    for row, listing in listings:
        amount = listing["amount_in_contention"]
        known = [each for each in (highest[row], amount) if each is not None]
        highest[row] = max(known, default=None)
    listed_by = dict.fromkeys((row, listing["identity_kind"]) for row, listing in listings)
    columns = {}
    for name, of_rows in (("karma_listings", listings), ("karma_listed_by", list(listed_by))):
        counts = np.bincount([row for row, _ in of_rows], minlength=len(answered))
        ends = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
        values = pa.array([value for _, value in of_rows], kinds[name].value_type)
        columns[name] = pa.ListArray.from_arrays(
            ends, values, type=kinds[name], mask=pa.array(~answered)
        )
    amounts = typed_column(highest, kinds["karma_amount_in_contention"])
    return {**columns, "karma_amount_in_contention": amounts}


def _naira(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else round(amount, NAIRA.scale)


def _words(codes: Codes, words: Sequence[str]) -> pa.Array:
    """Return numbers of words as a column of them, null where a number is `NONE`."""
    texts = pa.array(list(words), pa.string()).take(pa.array(codes, mask=codes == NONE))
    return texts.dictionary_encode().cast(WORD)


__all__ = ["Assembly", "Chunk", "karma_status"]
