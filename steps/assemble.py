"""Assemble: rows, plan and answers become enriched rows.

Every row leaves with exactly one status per check. An answer is shown only where the row's plan
asked for it and it is this run's or still fresh for this row. Decisions are added by `decide`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from client.reading import parse_answer
from schemas.answers import BankAccountAnswer, EcosystemRecord, KarmaListing, SelfieAnswer
from schemas.checks import Check, NoAnswer, Outcome, Source
from schemas.plan import Slot, Why
from schemas.rows import INSTANT, NAIRA, SourceColumn
from steps.bvn_held import nothing_held
from steps.eligibility import slots_of
from steps.enriched import (
    CHECK_FIELDS,
    COST,
    ECOSYSTEM_FIELDS,
    WORD,
    enriched_schema,
    input_columns,
)
from steps.judge import dob_agrees, history_name, judge_account, judge_selfie
from steps.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from decimal import Decimal

    from numpy.typing import NDArray

    from steps.bvn_held import BvnsAtHand
    from steps.freshness import Freshness
    from steps.plan import Wanted
    from storage.journal.answers import Answers, StoredAnswer

_JUDGED = ("flaws", "bvn", "first_name", "middle_name", "last_name", "full_name", "date_of_birth")
_WORST_FIRST = (
    NoAnswer.TEST_MODE,
    NoAnswer.IN_DOUBT,
    NoAnswer.FAILED,
    NoAnswer.PENDING,
    NoAnswer.SPARED,
)


@dataclass(frozen=True, slots=True)
class Assembly:
    """What is needed to assemble any chunk of a run.

    Attributes:
        wanted: checks, identities and purpose of the run.
        answers: the journal's answers.
        unanswered: this run's lookups without an answer, by check and subject: `in_doubt`,
            `failed` or `pending`.
        freshness: how old an answer may be, judged at the plan's instant.
        columns: the input's columns.
        test_mode: the service was in test mode: nothing it said counts.
        match_at: similarity from which a selfie matches.
        no_match_below: similarity under which it does not.
        bvns: BVN details confirmed before; None where none may be shown.
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


@dataclass(slots=True)
class _Cells:
    """One check's columns while they are filled, a list for each."""

    status: list[str]
    checked_at: list[int | None]
    source: list[str | None]
    rest: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(slots=True)
class _SlotView:
    """One slot of a chunk: what each row asked, and the answers at hand."""

    slot: Slot
    why: list[int]
    subjects: list[bytes | None]
    own: list[bool]
    stored: dict[bytes, StoredAnswer]


class Chunk:
    """Assembles one chunk of rows."""

    def __init__(
        self, assembly: Assembly, rows: pa.Table, row_plan: pa.Table, signals: pa.Table
    ) -> None:
        self._assembly = assembly
        self._signals = signals
        self._rows = rows
        self._size = rows.num_rows
        self._judged = rows.select(list(_JUDGED)).to_pylist()
        self._cost: NDArray[np.int64] = np.zeros(self._size, dtype=np.int64)
        self.shared_micro: Counter[Check] = Counter()
        wanted = assembly.wanted
        slots = slots_of(wanted.checks, wanted.karma_kinds)
        self._views = {slot: self._view(slot, row_plan) for slot in slots}

    def _view(self, slot: Slot, row_plan: pa.Table) -> _SlotView:
        subjects = row_plan[f"{slot.column}.subject"].to_pylist()
        asked = list({subject for subject in subjects if subject is not None})
        stored = {}
        if not self._assembly.test_mode:
            stored = self._assembly.answers.latest(slot.check.value, asked)
        return _SlotView(
            slot,
            row_plan[f"{slot.column}.why"].to_pylist(),
            subjects,
            row_plan[f"{slot.column}.own"].to_pylist(),
            stored,
        )

    def table(self) -> pa.Table:
        """Return the enriched rows, decision columns still empty (`undecided` is set by decide)."""
        found: dict[str, pa.Array | pa.ChunkedArray] = {
            name: self._rows[source] for name, source in input_columns(self._assembly.columns)
        }
        for check in Check:
            found.update(self._check_columns(check))
        found.update(self._bvn_columns())
        found.update({name: self._signals[name] for name in SIGNALS})
        micro = pa.array(self._cost, pa.int64())
        found["cost"] = _micro_to_decimal(micro)
        found["decision"] = _words(["undecided"] * self._size)
        found["reasons"] = pa.array([[]] * self._size, pa.list_(pa.string()))
        found["policy"] = _words([None] * self._size)
        return pa.table(found, schema=enriched_schema(self._assembly.columns))

    def _bvn_columns(self) -> dict[str, pa.Array]:
        bvns = self._assembly.bvns
        if bvns is None or self._assembly.test_mode:
            return nothing_held(self._size)
        return bvns.columns(self._rows)

    def _check_columns(self, check: Check) -> dict[str, pa.Array]:
        if check not in self._assembly.wanted.checks:
            cells = _Cells([NoAnswer.OFF.value] * self._size, [None] * self._size, [])
            cells.source = [None] * self._size
        else:
            cells = _FILLERS[check](self)
        columns = {
            f"{check.value}_status": _words(cells.status),
            f"{check.value}_checked_at": pa.array(cells.checked_at, pa.int64()).cast(INSTANT),
            f"{check.value}_source": _words(cells.source),
        }
        for name, kind in CHECK_FIELDS[check]:
            if name not in columns:
                columns[name] = _column(cells.rest.get(name), kind, self._size)
        return columns

    def _blank(self, names: Sequence[str]) -> _Cells:
        size = self._size
        return _Cells(
            [NoAnswer.PENDING.value] * size,
            [None] * size,
            [None] * size,
            {name: [None] * size for name in names},
        )

    def _answer(self, view: _SlotView, row: int) -> tuple[StoredAnswer | None, str]:
        """Return the stored answer a row may be shown, if fresh, else the word for why not."""
        if view.why[row] != Why.ASK:
            return None, Why(view.why[row]).status
        if self._assembly.test_mode:
            return None, NoAnswer.TEST_MODE.value
        subject = view.subjects[row]
        if subject is None:
            return None, NoAnswer.PENDING.value
        stored = view.stored.get(subject)
        key = (view.slot.check.value, subject)
        return stored, self._assembly.unanswered.get(key, NoAnswer.PENDING.value)

    def _current(self, check: Check, stored: StoredAnswer, word: str) -> bool:
        """Tell whether an answer counts now: this run's, newer than the plan, or still fresh."""
        freshness = self._assembly.freshness
        return (
            stored.run_id == self._assembly.wanted.run_id
            or stored.answered_at >= freshness.oldest(check, word)
        )

    def _set(self, cells: _Cells, view: _SlotView, row: int, stored: StoredAnswer) -> None:
        """Note when and whence an answer came, and its cost where it is this row's own."""
        cells.checked_at[row] = max(cells.checked_at[row] or 0, stored.answered_at)
        if stored.run_id != self._assembly.wanted.run_id:
            source = Source.REUSED
        elif view.own[row]:
            source = Source.ASKED
            self._cost[row] += stored.cost_micro or 0
        else:
            source = Source.SHARED
            self.shared_micro[view.slot.check] += stored.cost_micro or 0
        if cells.source[row] != Source.ASKED.value:
            cells.source[row] = source.value

    def bank_account(self) -> _Cells:
        """Fill the bank account columns."""
        names = ("bank_account_name", "bank_account_bvn_match", "name_match", "name_explained")
        cells = self._blank(names)
        view = self._one_view(Check.BANK_ACCOUNT)
        for row in range(self._size):
            stored, word = self._answer(view, row)
            cells.status[row] = word
            if stored is None:
                continue
            answer = self._parsed(Check.BANK_ACCOUNT, stored, Outcome.FOUND)
            account = answer if isinstance(answer, BankAccountAnswer) else None
            verdict = judge_account(self._judged[row], account)
            aged_as = "verified" if verdict.status == "unconfirmed" else verdict.status
            if not self._current(Check.BANK_ACCOUNT, stored, aged_as):
                continue
            cells.status[row] = verdict.status
            cells.rest["bank_account_name"][row] = verdict.account_name
            cells.rest["bank_account_bvn_match"][row] = verdict.bvn_match
            if verdict.name is not None:
                cells.rest["name_match"][row] = verdict.name.grade
                cells.rest["name_explained"][row] = verdict.name.explained
            self._set(cells, view, row, stored)
        return cells

    def _one_view(self, check: Check) -> _SlotView:
        return next(view for slot, view in self._views.items() if slot.check is check)

    def _parsed(self, check: Check, stored: StoredAnswer, hit: Outcome) -> object:
        """Return the typed record of a hit; None of a miss."""
        if stored.outcome != hit.value:
            return None
        return parse_answer(check, self._assembly.answers.body(check.value, stored))

    def karma(self) -> _Cells:
        """Fill the karma columns from every identity asked by."""
        names = ("karma_listings", "karma_listed_by", "karma_amount_in_contention")
        cells = self._blank(names)
        views = [view for slot, view in self._views.items() if slot.check is Check.KARMA]
        for row in range(self._size):
            listings: list[dict[str, Any]] = []
            words: list[str] = []
            for view in views:
                stored, word = self._answer(view, row)
                if stored is not None and self._current(Check.KARMA, stored, stored.outcome):
                    word = stored.outcome
                    self._set(cells, view, row, stored)
                    record = self._parsed(Check.KARMA, stored, Outcome.LISTED)
                    if isinstance(record, KarmaListing):
                        listings.append(_listing(view.slot, record))
                words.append(word)
            cells.status[row] = karma_status(words)
            if Outcome.LISTED.value in words or Outcome.CLEAR.value in words:
                cells.rest["karma_listings"][row] = listings
                cells.rest["karma_listed_by"][row] = [each["identity_kind"] for each in listings]
            cells.rest["karma_amount_in_contention"][row] = _highest(listings)
        return cells

    def ecosystem(self) -> _Cells:
        """Fill the ecosystem columns."""
        names = [name for name, _ in CHECK_FIELDS[Check.ECOSYSTEM]]
        cells = self._blank(names)
        view = self._one_view(Check.ECOSYSTEM)
        for row in range(self._size):
            stored, word = self._answer(view, row)
            cells.status[row] = word
            if stored is None or not self._current(Check.ECOSYSTEM, stored, stored.outcome):
                continue
            cells.status[row] = stored.outcome
            self._set(cells, view, row, stored)
            record = self._parsed(Check.ECOSYSTEM, stored, Outcome.FOUND)
            if isinstance(record, EcosystemRecord):
                self._fill_history(cells, row, record)
        return cells

    def _fill_history(self, cells: _Cells, row: int, record: EcosystemRecord) -> None:
        for name in ECOSYSTEM_FIELDS:
            cells.rest[f"ecosystem_{name}"][row] = getattr(record, name)
        cells.rest["ecosystem_extra"][row] = record.extra_json() if record.extra else None
        name_match = history_name(self._judged[row], record)
        cells.rest["ecosystem_name_match"][row] = None if name_match is None else name_match.grade
        ours = self._judged[row]["date_of_birth"]
        cells.rest["ecosystem_dob_match"][row] = dob_agrees(ours, record.date_of_birth)

    def selfie(self) -> _Cells:
        """Fill the selfie columns."""
        cells = self._blank(("selfie_similarity",))
        view = self._one_view(Check.SELFIE)
        for row in range(self._size):
            stored, word = self._answer(view, row)
            cells.status[row] = word
            if stored is None or not self._current(Check.SELFIE, stored, stored.outcome):
                continue
            answer = self._parsed(Check.SELFIE, stored, Outcome.SCORED)
            scored = answer if isinstance(answer, SelfieAnswer) else None
            cells.status[row] = judge_selfie(
                scored,
                match_at=self._assembly.match_at,
                no_match_below=self._assembly.no_match_below,
            )
            if scored is not None and scored.similarity is not None:
                cells.rest["selfie_similarity"][row] = float(scored.similarity)
            self._set(cells, view, row, stored)
        return cells


_FILLERS = {
    Check.BANK_ACCOUNT: Chunk.bank_account,
    Check.KARMA: Chunk.karma,
    Check.ECOSYSTEM: Chunk.ecosystem,
    Check.SELFIE: Chunk.selfie,
}


def karma_status(words: Sequence[str]) -> str:
    """Return one status for the identities karma was asked by.

    Listed by any is listed; else what is still open or lost; else clear where any was clear; else
    why none was asked.
    """
    if Outcome.LISTED.value in words:
        return Outcome.LISTED.value
    for word in _WORST_FIRST:
        if word.value in words:
            return word.value
    if Outcome.CLEAR.value in words:
        return Outcome.CLEAR.value
    for word in (NoAnswer.REFUSED, NoAnswer.INVALID):
        if word.value in words:
            return word.value
    return NoAnswer.INELIGIBLE.value


def _listing(slot: Slot, record: KarmaListing) -> dict[str, Any]:
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


def _naira(amount: Decimal | None) -> Decimal | None:
    return None if amount is None else round(amount, NAIRA.scale)


def _highest(listings: Sequence[Mapping[str, Any]]) -> Decimal | None:
    amounts = [each["amount_in_contention"] for each in listings]
    return max((amount for amount in amounts if amount is not None), default=None)


def _words(words: Sequence[str | None]) -> pa.Array:
    return pa.array(words, pa.string()).dictionary_encode().cast(WORD)


def _column(values: list[Any] | None, kind: pa.DataType, size: int) -> pa.Array:
    if values is None:
        return pa.nulls(size, kind)
    if kind == WORD:
        return _words(values)
    if pa.types.is_decimal(kind) and not pa.types.is_struct(kind):
        values = [None if value is None else round(value, kind.scale) for value in values]
    return pa.array(values, kind)


def _micro_to_decimal(micro: pa.Array) -> pa.Array:
    """Return micro-naira as decimal naira, exactly."""
    values = micro.to_numpy(zero_copy_only=False)
    buffer = np.zeros((len(values), 2), dtype=np.int64)
    buffer[:, 0] = values
    buffer[:, 1] = np.where(values < 0, -1, 0)
    return pa.Array.from_buffers(COST, len(values), [None, pa.py_buffer(buffer)])


class AccountJudge:
    """Tells which rows a stored bank account answer contradicts, for answers of middle age."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def contradicts(self, rows: pa.Table, answers: Sequence[StoredAnswer]) -> NDArray[np.bool_]:
        """Return for each row whether the answer beside it contradicts the row."""
        judged = rows.select(list(_JUDGED)).to_pylist()
        found = np.zeros(len(judged), dtype=bool)
        for place, (row, stored) in enumerate(zip(judged, answers, strict=True)):
            body = self._answers.body(Check.BANK_ACCOUNT.value, stored)
            answer = parse_answer(Check.BANK_ACCOUNT, body)
            found[place] = judge_account(row, answer).status == "mismatch"
        return found


__all__ = ["AccountJudge", "Assembly", "Chunk", "karma_status"]
