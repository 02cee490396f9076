"""Plan: what each row needs, judged by eligibility, consent and freshness, before any money.

Consent is judged here per row, before sharing and reuse: a row without it neither asks nor sees an
ecosystem or selfie answer, even where one is at hand. Prices and order belong to `price`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.checks import CONSENT_GATED, Check, IdentityKind, Outcome, Purpose
from schemas.plan import NEEDED, SUBJECT, CheckCounts, Plan, Slot, Why
from schemas.rows import Problem
from steps.consent import consent_column, consent_ends
from steps.distinct import (
    UNKNOWN_EXPOSURE,
    Distinct,
    Gathered,
    make_distinct,
    number_needed,
)
from steps.eligibility import flat, identities, slots_of, why_not
from steps.evidence import AtHand
from steps.references import references
from steps.sparing import Chains, make_chains
from storage.journal.answers import NONE, OUTCOMES, Latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from steps.fields import Finding
    from steps.freshness import Freshness
    from storage.sealing import Pseudonyms

ANSWERS_STAMP = b"answers"
"""Under this name a row plan's schema bears the stamp of the answers it was made with."""
_HALF, _TWICE = 0.5, 2.0


class AnswerBook(Protocol):
    """What a plan asks of the journal."""

    def latest_columns(self, check: str, subjects: bytes, run_id: str) -> Latest:
        """Return the latest answer to each of some lookups."""

    def stamp(self) -> str:
        """Return a text that stays the same while no answer comes or goes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is asked to do.

    Attributes:
        checks: the checks of the run.
        karma_kinds: which identities karma is asked by.
        purpose: why; decides freshness and order.
        run_id: the run; its own earlier answers always count.
        stop_at_first: karma asks no further about a row once one identity is listed.
    """

    checks: tuple[Check, ...]
    karma_kinds: tuple[IdentityKind, ...]
    purpose: Purpose
    run_id: str
    stop_at_first: bool = False


class Planner:
    """Makes the plan of one batch in two passes over its chunks.

    `gather` each chunk in order, `settle` once, then ask `row_plan` and `needed_of` for each chunk.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        at: datetime,
        freshness: Freshness,
        pseudonyms: Pseudonyms,
        answers: AnswerBook,
        placeholders: Callable[[int, IdentityKind], NDArray[np.bool_]] | None = None,
        images: Callable[[Sequence[str]], Mapping[str, Finding]] | None = None,
        subjects: Callable[[int, IdentityKind, NDArray[np.int64]], bytes | None] | None = None,
    ) -> None:
        self._at_hand = subjects
        self._placeholders = placeholders
        self._images = images
        self._wanted = wanted
        self._at = at
        self._freshness = freshness
        self._pseudonyms = pseudonyms
        self._answers = answers
        self._slots = slots_of(wanted.checks, wanted.karma_kinds)
        self._gathered = {slot: Gathered() for slot in self._slots}
        self._distinct: dict[Slot, Distinct] = {}
        self._latest: dict[Slot, Latest] = {}
        self._stamp = ""
        self._starts = [0]
        self._exposures: list[NDArray[np.int64]] = []
        self._screened_before: NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.counts = {check: CheckCounts() for check in wanted.checks}
        self.slots = {slot: CheckCounts() for slot in self._slots}
        self.problems: list[Problem] = []

    @property
    def rows(self) -> int:
        """Return how many rows were gathered."""
        return self._starts[-1]

    def gather(self, rows: pa.Table) -> None:
        """Judge eligibility and consent of a chunk, and make pseudonyms of what it asks."""
        consent = consent_column(rows.combine_chunks().to_batches()[0], at=self._at)
        allowed = consent.to_numpy(zero_copy_only=False).astype(bool)
        for slot in self._slots:
            why = self._without_placeholders(why_not(rows, slot, allowed), slot)
            asking = np.flatnonzero(why == Why.ASK.value)
            gathered = self._gathered[slot]
            gathered.why.append(why)
            gathered.rows.append(asking + self.rows)
            gathered.subjects.append(self._subjects(rows, slot, asking))
        self._count_rows()
        self._exposures.append(_exposure_kobo(rows))
        self._starts.append(self.rows + rows.num_rows)

    def _without_placeholders(self, why: NDArray[np.int8], slot: Slot) -> NDArray[np.int8]:
        """Ask nothing about an email or phone that is nobody's own: it is taken as absent."""
        if self._placeholders is not None:
            nobodys = self._placeholders(len(self._starts) - 1, slot.kind)
            why[nobodys & (why == Why.ASK.value)] = Why.INELIGIBLE.value
        return why

    def _subjects(self, rows: pa.Table, slot: Slot, asking: NDArray[np.int64]) -> bytes:
        if self._at_hand is not None and slot.check is not Check.SELFIE:
            found = self._at_hand(len(self._starts) - 1, slot.kind, asking)
            if found is not None:
                return found
        named = identities(rows, slot).take(pa.array(asking)).to_pylist()
        subject, kind = self._pseudonyms.subject, slot.kind.value
        if slot.check is Check.SELFIE:
            images = flat(rows["image_url"]).take(pa.array(asking)).to_pylist()
            pairs = zip(named, images, strict=True)
            return b"".join(subject(kind, name, image) for name, image in pairs)
        return self._pseudonyms.subjects(kind, named)

    def _count_rows(self) -> None:
        """Count the rows of the chunk just gathered that a check leaves out whole."""
        for check, counts in self.counts.items():
            whys = [self._gathered[slot].why[-1] for slot in self._slots if slot.check is check]
            _count_why(counts, row_why(whys))
        for slot, counts in self.slots.items():
            _count_why(counts, self._gathered[slot].why[-1])

    def settle(self, read_chunk: Callable[[int], pa.Table], judge: RowJudge) -> None:
        """Find the distinct lookups and which of them have a fresh answer.

        Args:
            read_chunk: gives a chunk again, for the few answers whose age depends on the row.
            judge: tells whether a stored bank account answer contradicts a row.
        """
        self._stamp = self._answers.stamp()
        exposure = np.concatenate(self._exposures) if self._exposures else np.zeros(0, np.int64)
        self._screened_before = np.zeros(self.rows, dtype=bool)
        for slot in self._slots:
            distinct = make_distinct(self._gathered[slot], exposure)
            self._gathered[slot].subjects.clear()
            self._match_stored(slot, distinct)
            if distinct.banded.any():
                self._judge_banded(slot, distinct, read_chunk, judge)
            if slot.check is Check.SELFIE and self._images is not None:
                distinct = self._without_unreachable(slot, distinct, read_chunk)
            self._distinct[slot] = distinct
            counts = self.slots[slot]
            counts.lookups += len(distinct.asking)
            counts.distinct += len(distinct)
            self.counts[slot.check].add_lookups(counts)

    def _without_unreachable(
        self, slot: Slot, distinct: Distinct, read_chunk: Callable[[int], pa.Table]
    ) -> Distinct:
        """Leave out what is to be asked of an image the service cannot fetch; its rows are invalid.

        What is at hand stays: nothing has to be fetched for it.
        """
        asked = distinct.needed[distinct.inverse]
        urls: list[str] = []
        for _, rows, here in self._chunks_of(distinct.asking, asked, read_chunk):
            urls += flat(rows["image_url"]).take(pa.array(here)).to_pylist()
        findings = {} if self._images is None else self._images(urls)
        places = np.flatnonzero(asked)
        bad = [place for place, url in zip(places, urls, strict=True) if url in findings]
        dropped = np.zeros(len(distinct), dtype=bool)
        dropped[distinct.inverse[bad]] = True
        marked = np.zeros(len(distinct.asking), dtype=bool)
        marked[bad] = True
        said = iter(findings[url] for url in urls if url in findings)
        for number, rows, here in self._chunks_of(distinct.asking, marked, read_chunk):
            self._gathered[slot].why[number][here] = Why.INVALID.value
            lines = flat(rows["line"]).take(pa.array(here)).to_pylist()
            for line, finding in zip(lines, said, strict=False):
                self.problems.append(
                    Problem(line, "image_url", finding.code, finding.hint, finding.action)
                )
        self.counts[slot.check].rows_invalid += len(bad)
        self.slots[slot].rows_invalid += len(bad)
        self._latest[slot] = self._latest[slot].take(~dropped)
        return distinct.without(dropped)

    def _chunks_of(
        self,
        rows: NDArray[np.int64],
        wanted: NDArray[np.bool_],
        read_chunk: Callable[[int], pa.Table],
    ) -> Iterator[tuple[int, pa.Table, NDArray[np.int64]]]:
        """Yield each chunk that has some of these rows: its number, itself, and which they are."""
        for number in range(len(self._starts) - 1):
            part = self._here(rows, number)
            here = rows[part][wanted[part]] - self._starts[number]
            if len(here):
                yield number, read_chunk(number), here

    def _match_stored(self, slot: Slot, distinct: Distinct) -> None:
        """Hold each distinct lookup against the journal's latest answer."""
        run_id = self._wanted.run_id
        latest = self._answers.latest_columns(slot.check.value, distinct.subjects, run_id)
        self._latest[slot] = latest
        known = latest.outcome != NONE
        for number, outcome in enumerate(OUTCOMES):
            here = np.flatnonzero(latest.outcome == number)
            if len(here):
                self._judge_stored(slot, distinct, outcome, here, latest.take(here))
        self._screened_before[distinct.asking[known[distinct.inverse]]] = True

    def _judge_stored(
        self,
        slot: Slot,
        distinct: Distinct,
        outcome: Outcome,
        here: NDArray[np.int64],
        latest: Latest,
    ) -> None:
        """Judge the answers of one outcome: this run's own, fresh, or of middle age."""
        check, counts, at = slot.check, self.slots[slot], latest.answered_at
        self._weigh_age(counts, check, outcome, latest)
        own = latest.own_run
        free = own & (latest.cost_micro == 0)
        counts.free += int(free.sum())
        counts.paid += int((own & ~free).sum())
        fresh = ~own & self._freshness.fresh(check, outcome.value, at)
        self._count_reuse(counts, latest.take(fresh))
        distinct.needed[here] = ~(own | fresh)
        distinct.banded[here] = ~(own | fresh) & self._freshness.banded(check, outcome.value, at)
        distinct.listed[here] = ~distinct.needed[here] & (outcome is Outcome.LISTED)

    def _weigh_age(
        self, counts: CheckCounts, check: Check, outcome: Outcome, latest: Latest
    ) -> None:
        """Note whether half or twice the age limit would change what is asked."""
        share = self._freshness.age_share(check, outcome.value, latest.answered_at)
        cost_micro = np.maximum(latest.cost_micro, 0)
        stricter, looser = (share > _HALF) & (share <= 1), (share > 1) & (share <= _TWICE)
        counts.stricter.add(int(cost_micro[stricter].sum()), int(stricter.sum()))
        counts.looser.add(int(cost_micro[looser].sum()), int(looser.sum()))

    def _count_reuse(self, counts: CheckCounts, latest: Latest) -> None:
        if not len(latest.outcome):
            return
        counts.reused += len(latest.outcome)
        counts.saved_by_reuse_micro += int(np.maximum(latest.cost_micro, 0).sum())
        first_at = int(latest.answered_at.min())
        counts.oldest_reused_at = min(counts.oldest_reused_at or first_at, first_at)

    def _judge_banded(
        self,
        slot: Slot,
        distinct: Distinct,
        read_chunk: Callable[[int], pa.Table],
        judge: RowJudge,
    ) -> None:
        """Reuse an answer of middle age unless it contradicts one of the rows that need it."""
        latest = self._latest[slot]
        contradicted = np.zeros(len(distinct), dtype=bool)
        asked = distinct.banded[distinct.inverse]
        for number, rows, here in self._chunks_of(distinct.asking, asked, read_chunk):
            part = self._here(distinct.asking, number)
            lookups = distinct.inverse[part][asked[part]]
            subjects = np.frombuffer(distinct.subjects, "V16")[lookups].tobytes()
            middling = latest.take(lookups)
            hand = AtHand(here, subjects, middling.answered_at, middling.call_id)
            contradicted[lookups[judge.contradicts(rows, hand)]] = True
        reused = distinct.banded & ~contradicted
        distinct.needed[reused] = False
        self._count_reuse(self.slots[slot], latest.take(reused))

    def row_plan(self, number: int) -> pa.Table:
        """Return a chunk's row plan.

        Columns: for each slot `<slot>.why` int8, `<slot>.subject` binary(16), null where it is not
        asked, `<slot>.own` bool, true where the call is made in this row's name, and the latest
        answer as the arrays of `Latest`. The schema bears the stamp of the journal's answers.
        """
        start, size = self._starts[number], self._starts[number + 1] - self._starts[number]
        columns: dict[str, pa.Array] = {}
        for slot in self._slots:
            distinct, found = self._distinct[slot], Latest.nothing(size)
            lookup = np.full(size, -1, dtype=np.int64)
            here = self._here(distinct.asking, number)
            lookup[distinct.asking[here] - start] = distinct.inverse[here]
            asked = lookup >= 0
            all_subjects = pa.Array.from_buffers(
                SUBJECT, len(distinct), [None, pa.py_buffer(distinct.subjects)]
            )
            columns[f"{slot.column}.why"] = pa.array(self._gathered[slot].why[number])
            columns[f"{slot.column}.subject"] = all_subjects.take(pa.array(lookup, mask=~asked))
            own = np.zeros(size, dtype=bool)
            own[asked] = distinct.row[lookup[asked]] == np.flatnonzero(asked) + start
            columns[f"{slot.column}.own"] = pa.array(own)
            found.put(asked, self._latest[slot].take(lookup[asked]))
            for name in Latest.names():
                columns[f"{slot.column}.{name}"] = pa.array(getattr(found, name))
        return pa.table(columns).replace_schema_metadata({ANSWERS_STAMP: self._stamp})

    def _here(self, sorted_rows: NDArray[np.int64], number: int) -> slice:
        """Return which of some ascending row numbers fall into a chunk."""
        bounds = np.searchsorted(sorted_rows, self._starts[number : number + 2])
        return slice(int(bounds[0]), int(bounds[1]))

    def needed_of(self, number: int, read_chunk: Callable[[int], pa.Table]) -> pa.Table:
        """Return the lookups to be asked in the name of a chunk's rows (`schemas.plan.NEEDED`).

        The chunk is read only where there are any: on a warm night it mostly stays sealed.
        """
        start, end = self._starts[number], self._starts[number + 1]
        found = {}
        for slot in self._slots:
            distinct = self._distinct[slot]
            mine = distinct.needed & (distinct.row >= start) & (distinct.row < end)
            if mine.any():
                found[slot] = np.flatnonzero(mine)
        if not found:
            return NEEDED.empty_table()
        rows = read_chunk(number)
        return pa.concat_tables(
            self._needed_rows(slot, self._distinct[slot], indexes, rows, start)
            for slot, indexes in found.items()
        )

    def _needed_rows(
        self,
        slot: Slot,
        distinct: Distinct,
        indexes: NDArray[np.int64],
        rows: pa.Table,
        start: int,
    ) -> pa.Table:
        size = len(indexes)
        owners = rows.take(pa.array(distinct.row[indexes] - start))
        gated = slot.check in CONSENT_GATED
        nothing = pa.nulls(size, pa.string())
        first = self._wanted.purpose is Purpose.ORIGINATION
        seen = self._screened_before[distinct.row[indexes]] & (not first)
        return pa.table(
            {
                "check": pa.array([slot.check.value] * size),
                "kind": pa.array([slot.kind.value] * size),
                "subject": pa.array([distinct.subject(int(i)) for i in indexes], SUBJECT),
                "identity": identities(owners, slot),
                "image_url": flat(owners["image_url"]) if slot.check is Check.SELFIE else nothing,
                "consent_reference": references(owners) if gated else nothing,
                "consent_ends_at": _ends(owners) if gated else pa.nulls(size, pa.int64()),
                "tier": pa.array(seen.astype(np.int8)),
                "exposure_kobo": pa.array(distinct.exposure[indexes]),
                "row": pa.array(distinct.row[indexes]),
            },
            schema=NEEDED,
        )

    def chains(self) -> Chains:
        """Return which needed lookups karma asks about each row, in the order of its identities."""
        slots = [self._distinct[slot] for slot in self._slots]
        numbers = number_needed(slots, self._starts)
        each = zip(self._slots, slots, numbers, strict=True)
        return make_chains(
            [(slot.kind.value, one, at) for slot, one, at in each if slot.check is Check.KARMA],
            self.rows,
            needed=sum(int(each.needed.sum()) for each in slots),
        )

    def result(self, planned_at: int, needed: int) -> Plan:
        """Return the plan's numbers."""
        return Plan(
            chunks=len(self._starts) - 1,
            rows=self.rows,
            planned_at=planned_at,
            checks=self.counts,
            slots=self.slots,
            needed=needed,
        )


class RowJudge(Protocol):
    """Tells which rows a stored bank account answer contradicts."""

    def contradicts(self, rows: pa.Table, hand: AtHand) -> NDArray[np.bool_]:
        """Return for each answer at hand whether it contradicts its row."""


def row_why(whys: Sequence[NDArray[np.int8]]) -> NDArray[np.int8]:
    """Return why a check of several slots leaves a row out: asked where any slot is asked.

    Where none is asked, a malformed identifier is told before an absent one: it can be mended.
    """
    stacked = np.vstack(whys)
    asked = (stacked == Why.ASK.value).any(axis=0)
    refused = (stacked == Why.REFUSED.value).any(axis=0)
    invalid = (stacked == Why.INVALID.value).any(axis=0)
    return np.select(
        [asked, refused, invalid],
        [Why.ASK.value, Why.REFUSED.value, Why.INVALID.value],
        Why.INELIGIBLE.value,
    ).astype(np.int8)


def _count_why(counts: CheckCounts, whys: NDArray[np.int8]) -> None:
    counts.rows_ineligible += int((whys == Why.INELIGIBLE.value).sum())
    counts.rows_invalid += int((whys == Why.INVALID.value).sum())
    counts.rows_refused += int((whys == Why.REFUSED.value).sum())


def _ends(rows: pa.Table) -> pa.Array:
    return pa.array(consent_ends(rows.combine_chunks().to_batches()[0]))


def _exposure_kobo(rows: pa.Table) -> NDArray[np.int64]:
    """Return naira at risk in kobo; an unknown exposure is -1, since it is not zero.

    A decimal of two places is stored as a 128-bit number of kobo, whose low half is read.
    """
    column = flat(rows["exposure"])
    halves = np.frombuffer(column.buffers()[1] or b"", dtype=np.int64).reshape(-1, 2)
    kobo = halves[column.offset : column.offset + len(column), 0]
    known = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return np.where(known, np.maximum(kobo, 0), UNKNOWN_EXPOSURE)


def plan_batch(
    planner: Planner,
    chunks: int,
    read_chunk: Callable[[int], pa.Table],
    judge: RowJudge,
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Plan a whole batch; yield each chunk's row plan and its needed lookups, in order."""
    for number in range(chunks):
        planner.gather(read_chunk(number))
    planner.settle(read_chunk, judge)
    for number in range(chunks):
        yield planner.row_plan(number), planner.needed_of(number, read_chunk)
