"""Assemble: rows, plan and answers become enriched rows.

Every row gets exactly one status per check. An answer is shown only if the row's plan asked for it
and it is this run's or still fresh for this row. Each check's declaration says what an answer means
for a row; `decide` adds the decisions.

Rows with valid consent also get data that other runs brought. BVNs are confirmed by
`operations.bvn`; here their answers are looked up by pseudonym, whatever their age: a policy can
test `bvn_checked_at`. Cash flow is computed when transactions are pulled
(`operations/cashflow`); here it is compared with the amount that the row requests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.arrow_types import check_schema
from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_parser import parse_answer
from nightscreen.journal.consents import live_figures
from nightscreen.journal.records import Records
from nightscreen.planning.eligibility import consent_column, slots_of
from nightscreen.results.enriched import enriched_schema, input_columns
from nightscreen.schemas.answers import BvnDetails
from nightscreen.schemas.checks import HITS, NoAnswer, Operation, Outcome, Source, SubjectKind
from nightscreen.schemas.clock import to_instant
from nightscreen.schemas.columns import REQUESTED, Flaw
from nightscreen.schemas.consented import CashFigures
from nightscreen.schemas.enriched import (
    AFFORDABLE,
    BVN_FIELDS,
    CHECKED_AT,
    CONSENT_UNREADABLE,
    SIGNALS,
    TX_FIELDS,
    WORD,
    figure_values,
    naira_of_micro,
)
from nightscreen.schemas.plan import CheckIdentity, SkipReason
from nightscreen.values.whose import same_account

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nightscreen.checks.declaration import Declaration, Found, Limits
    from nightscreen.journal import Journal
    from nightscreen.journal.answers import Answers
    from nightscreen.planning.freshness import Freshness
    from nightscreen.planning.plan import Wanted
    from nightscreen.schemas.answers import BvnAccount
    from nightscreen.schemas.rows import SourceColumn

_NOT_ASKED = {why.value: why.status for why in SkipReason if why is not SkipReason.ASK}
_ASKED, _SHARED, _REUSED = (Source.ASKED.value, Source.SHARED.value, Source.REUSED.value)
_BEFORE_MISSES = (
    NoAnswer.TEST_MODE.value,
    NoAnswer.UNREADABLE.value,
    NoAnswer.IN_DOUBT.value,
    NoAnswer.FAILED.value,
    NoAnswer.PENDING.value,
)
_AFTER_MISSES = (NoAnswer.REFUSED.value, NoAnswer.INVALID.value)
"""The order in which a row without a record gets its status, if a check is asked by several
identities: answers that may still come, then a miss, then identities that could not be asked."""
_WATCHLISTED, _ACCOUNT_STATUS, _STATUSES, _BVN_CHECKED_AT = (name for name, _ in BVN_FIELDS)
_BVN = Operation.BVN_FINISH
_CONSENT_COLUMNS = ("consented_at", "consent_expires_at", "consent_withdrawn_at")
MONTH_DAYS = 30  # as `values/amounts.py` reads the months of a tenor


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
    test_mode: bool = False  # the service was in test mode: none of its answers count


class _Answer(NamedTuple):
    """The latest answer to a lookup that counts: this run's, newer than the plan, or fresh.

    `record` is None for a miss, an unreadable body, and a body without a record.
    """

    outcome: Outcome
    answered_at: int  # microseconds
    own_run: bool
    cost_micro: int
    record: Any


@dataclass(slots=True)
class _Slot:
    """One slot of a chunk: each row's lookup, and the answers that count, by subject."""

    slot: CheckIdentity
    subjects: list[bytes | None]
    why: list[int]
    own: list[bool]  # whether the run's call for the subject is made in the row's name
    answers: dict[bytes, _Answer]


@dataclass(slots=True)
class _Cells:
    """What the answers to all identities of a check say about one row."""

    found: list[Found] = field(default_factory=list)
    missed: bool = False  # an answer was a miss
    checked_at: int | None = None
    source: str | None = None
    unanswered: set[str] = field(default_factory=set)  # why identities have no answer


class Chunk:
    """Assembles one chunk of rows."""

    def __init__(
        self, assembly: Assembly, rows: pa.Table, row_plan: pa.Table, signals: pa.Table
    ) -> None:
        self._assembly, self._rows, self._signals = assembly, rows, signals
        self._cost = [0] * rows.num_rows
        self.shared_micro: Counter[str] = Counter()
        wanted = assembly.wanted
        slots = slots_of(wanted.checks, wanted.karma_kinds)
        self._slots = [self._slot(slot, row_plan) for slot in slots]

    def _slot(self, slot: CheckIdentity, row_plan: pa.Table) -> _Slot:
        subjects, why, own = (
            row_plan[f"{slot.column}.{name}"].to_pylist() for name in ("subject", "why", "own")
        )
        answers = (
            {} if self._assembly.test_mode else self._answers(slot.check, {*subjects} - {None})
        )
        return _Slot(slot, subjects, why, own, answers)

    def _answers(self, check: str, subjects: Collection[bytes]) -> dict[bytes, _Answer]:
        """Return the answers in the journal that count, by subject."""
        journal, freshness = self._assembly.answers, self._assembly.freshness
        run_id = self._assembly.wanted.run_id
        answers: dict[bytes, _Answer] = {}
        for block in journal.latest_blocks(
            check, sorted(subjects), run_id=run_id, since=freshness.since, bodies=True
        ):
            for row in block:
                if not row.current and row.answered_at < freshness.oldest(check, row.outcome):
                    continue
                outcome, is_own = Outcome(row.outcome), row.run_id == run_id
                record = parse_answer(check, journal.body(check, row)) if outcome in HITS else None
                cost_micro = row.cost_micro or 0
                answers[row.subject] = _Answer(outcome, row.answered_at, is_own, cost_micro, record)
        return answers

    def table(self) -> pa.Table:
        """Return the enriched rows, `undecided` and without reasons, for `decide` to fill in."""
        size = self._rows.num_rows
        columns: dict[str, pa.Array | pa.ChunkedArray] = {
            name: self._rows[source] for name, source in input_columns(self._assembly.columns)
        }
        for declared in CHECKS.values():
            columns.update(self._check_columns(declared))
        test_mode = self._assembly.test_mode
        columns.update(nothing_held(size) if test_mode else self._assembly.held.columns(self._rows))
        columns.update({name: self._signals[name] for name in SIGNALS})
        consent = pc.bit_wise_and(self._rows["flaws"], int(Flaw.CONSENT))
        columns[CONSENT_UNREADABLE] = pc.not_equal(consent, 0)
        columns["cost"] = naira_of_micro(np.array(self._cost, np.int64))
        columns["decision"] = _column(["undecided"] * size, WORD)
        columns["reasons"] = pa.array([[]] * size, pa.list_(pa.string()))
        columns["policy"] = _column([None] * size, WORD)
        return pa.table(columns, schema=enriched_schema(self._assembly.columns))

    def _check_columns(self, declared: Declaration) -> dict[str, pa.Array]:
        size, fields = self._rows.num_rows, check_schema(declared.name)
        if declared.name not in self._assembly.wanted.checks:
            off = {each.name: pa.nulls(size, each.type) for each in fields}
            return {**off, declared.status: _column([NoAnswer.OFF.value] * size, fields[0].type)}
        slots = [each for each in self._slots if each.slot.check == declared.name]
        cells = [self._row(row, slots) for row in range(size)]
        limits = self._assembly.limits
        miss, *of_miss = declared.judge({}, (), limits)
        nothing = [None] * len(declared.columns)
        hits = [row for row, each in enumerate(cells) if each.found]
        looked_at = self._rows.select(list(declared.looks_at)).take(pa.array(hits, pa.int64()))
        found = iter(looked_at.to_pylist() or [{}] * len(hits))
        lines = [
            declared.judge(next(found), each.found, limits)
            if each.found
            else (_status(each, miss), *(of_miss if each.missed else nothing))
            for each in cells
        ]
        status, *values = zip(*lines, strict=True) if lines else [()] * (len(nothing) + 1)
        times, sources = [each.checked_at for each in cells], [each.source for each in cells]
        columns = zip(fields, (status, times, sources, *values), strict=True)
        return {each.name: _column(value, each.type) for each, value in columns}

    def _row(self, row: int, slots: Sequence[_Slot]) -> _Cells:
        """Return what the answers say about a row, and add the cost of the row's own calls."""
        cells = _Cells()
        for slot in slots:
            subject, own = slot.subjects[row], slot.own[row]
            answer = None if subject is None else slot.answers.get(subject)
            if answer is not None and answer.own_run and own:
                self._cost[row] += answer.cost_micro  # also of what cannot be read
            if subject is None or answer is None or answer.outcome is Outcome.UNREADABLE:
                cells.unanswered.add(self._why_not(slot, row, answer))
                continue
            if answer.own_run and not own:
                self.shared_micro[slot.slot.check] += answer.cost_micro
            if answer.outcome in HITS:
                cells.found.append((slot.slot.kind, answer.record))
            else:
                cells.missed = True
            cells.checked_at = max(cells.checked_at or 0, answer.answered_at)
            if cells.source != _ASKED:
                cells.source = (_ASKED if own else _SHARED) if answer.own_run else _REUSED
        return cells

    def _why_not(self, slot: _Slot, row: int, answer: _Answer | None) -> str:
        """Return the status of a row that is shown no answer."""
        why = slot.why[row]
        if why != SkipReason.ASK:
            return _NOT_ASKED[why]
        if self._assembly.test_mode:
            return NoAnswer.TEST_MODE.value
        if answer is not None:
            return answer.outcome.value
        lookup = slot.slot.check, slot.subjects[row] or b""
        return self._assembly.unanswered.get(lookup, NoAnswer.PENDING.value)


def _status(cells: _Cells, miss: str) -> str:
    """Return the status of a row without a record; `miss` is the check's status for a miss."""
    known = {*cells.unanswered, miss} if cells.missed else cells.unanswered
    first = (word for word in (*_BEFORE_MISSES, miss, *_AFTER_MISSES) if word in known)
    return next(first, NoAnswer.INELIGIBLE.value)


def _column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of a type, with decimals rounded to its scale."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    try:
        return pa.array(values, kind)
    except pa.ArrowInvalid:  # a decimal with more places, which is rare
        rounded = [None if value is None else round(value, kind.scale) for value in values]
        return pa.array(rounded, kind)


# --- data from other runs ---


@dataclass(frozen=True, slots=True)
class HeldData:
    """Looks up BVN details and cash flow for rows."""

    has_bvns: bool  # the journal has an answer about any BVN; if not, none is looked up
    has_figures: bool  # the journal has cash flow of any customer; if not, none is looked up
    at: int  # the instant consent is judged at, microseconds
    since: int  # figures from before this instant are too old
    _journal: Journal = field(repr=False)

    @classmethod
    def of(cls, journal: Journal, at: int, since: int) -> HeldData:
        """Return the data that a journal holds, for consent judged at an instant."""
        has_bvns = journal.answers.any_of(_BVN.value)
        has_figures = bool(Records(journal, CashFigures).run_ids())
        return cls(has_bvns, has_figures, at, since, journal)

    def columns(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Return the columns of `BVN_FIELDS` and `TX_FIELDS` for rows of an input.

        A value is null if nothing is held, if the answer lacks it, if it is too old, or if there is
        no valid consent.
        """
        if not rows.num_rows or not (self.has_bvns or self.has_figures):
            return nothing_held(rows.num_rows)
        batch = rows.combine_chunks().to_batches()[0]
        lawful = consent_column(batch, at=to_instant(self.at)).to_pylist()
        values: list[dict[str, Any]] = [{} for _ in lawful]
        if self.has_bvns:
            self._add_bvns(values, rows, lawful)
        if self.has_figures:
            self._add_cash_flow(values, rows, lawful)
        table = pa.Table.from_pylist(values, schema=pa.schema([*BVN_FIELDS, *TX_FIELDS]))
        return {name: table[name].combine_chunks() for name in table.column_names}

    def _add_bvns(self, values: list[dict[str, Any]], rows: pa.Table, lawful: list[bool]) -> None:
        bvns, flaws = rows["bvn"].to_pylist(), rows["flaws"].to_pylist()
        subjects = {
            place: self._journal.pseudonyms.subject(SubjectKind.BVN.value, bvn)
            for place, bvn in enumerate(bvns)
            if bvn and lawful[place] and not flaws[place] & Flaw.BVN
        }
        answers = self._journal.answers
        stored = answers.latest(_BVN.value, list(set(subjects.values())))
        asked = rows.select(["bank_code", "account_number"]).to_pylist()
        for place, subject in subjects.items():
            if (latest := stored.get(subject)) is None:
                continue
            values[place][_BVN_CHECKED_AT] = to_instant(latest.answered_at)
            answer = parse_answer(_BVN, answers.body(_BVN.value, latest))
            if isinstance(answer, BvnDetails):
                statuses = {each.account_status for each in answer.accounts if each.account_status}
                values[place] |= {
                    _WATCHLISTED: None if answer.watchlisted is None else int(answer.watchlisted),
                    _STATUSES: sorted(statuses) if answer.accounts else None,
                    _ACCOUNT_STATUS: _own_status(**asked[place], accounts=answer.accounts),
                }

    def _add_cash_flow(
        self, values: list[dict[str, Any]], rows: pa.Table, lawful: list[bool]
    ) -> None:
        """Add the cash flow of customers who did not withdraw consent.

        The customer's grant is the consent. But if the row has consent columns of its own, that
        consent must be valid too: not ended, withdrawn or unreadable.
        """
        requests = rows.select(["customer_id", "flaws", *_CONSENT_COLUMNS, *REQUESTED]).to_pylist()
        customers = {
            place: self._journal.pseudonyms.customers_anywhere([row["customer_id"]])
            for place, row in enumerate(requests)
            if lawful[place]
            or not (row["flaws"] & Flaw.CONSENT or any(row[name] for name in _CONSENT_COLUMNS))
        }
        held = live_figures(self._journal, set(customers.values()), self.since)
        for place, customer in customers.items():
            if (figures := held.get(customer)) is not None:
                figures_of_row = figure_values(figures)
                instalment = instalment_of(*(requests[place][name] for name in REQUESTED))
                values[place] |= {
                    **figures_of_row,
                    CHECKED_AT: to_instant(figures.at),
                    AFFORDABLE: affordable(instalment, figures_of_row["tx_instalment_most"]),
                }


def _own_status(
    bank_code: str | None, account_number: str | None, accounts: Iterable[BvnAccount]
) -> str | None:
    """Return the status of the row's own account, if it is among those of the BVN."""
    if not account_number:
        return None
    asked = f"{bank_code or ''}-{account_number}"
    own = (
        each.account_status
        for each in accounts
        if each.account_number and same_account(asked, each.bank_code, each.account_number)
    )
    return next(own, None)


def instalment_of(
    amount: Decimal | None, tenor_days: int | None, instalment: Decimal | None
) -> Decimal | None:
    """Return the monthly instalment; None if nothing is requested.

    From amount and tenor it is the amount in equal parts without interest, one for each thirty
    days; a loan of thirty days or less is repaid in one part.
    """
    if instalment is not None:
        return instalment
    if amount is None or tenor_days is None:
        return None
    return amount / max(Decimal(1), Decimal(tenor_days) / MONTH_DAYS)


def affordable(instalment: Decimal | None, most: Decimal | None) -> bool | None:
    """Return whether an instalment is at most `most`; None if either is unknown."""
    return None if instalment is None or most is None else instalment <= most


def nothing_held(rows: int) -> dict[str, pa.Array]:
    """Return the columns without values, as in test mode."""
    return {name: pa.nulls(rows, kind) for name, kind in (*BVN_FIELDS, *TX_FIELDS)}
