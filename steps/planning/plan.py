"""Plan: what each row needs, judged by eligibility, consent and freshness, before any money.

Consent is checked here per row, before sharing and reuse: a row without it gets no ecosystem or
selfie lookup, and is shown no such answer, even a stored one. Prices and order belong to `price`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.schemas.checks import CONSENT_GATED, Check, IdentityKind, Outcome, Purpose
from nightscreen.schemas.plan import (
    NEEDED,
    AnswerRefs,
    CheckCounts,
    CheckIdentity,
    Plan,
    SkipReason,
)
from nightscreen.schemas.rows import Problem
from nightscreen.steps.planning.consent import consent_column, consent_ends
from nightscreen.steps.planning.distinct import (
    UNKNOWN_EXPOSURE,
    Distinct,
    make_distinct,
    number_needed,
)
from nightscreen.steps.planning.eligibility import flat, identities, slots_of, why_not
from nightscreen.steps.planning.freshness import NEVER_FRESH
from nightscreen.steps.planning.row_plan import (
    SettledSlot,
    ToAsk,
    put_row_plans,
    put_subjects,
    read_subjects,
    take_subjects,
)
from nightscreen.steps.planning.short_circuit import Chains, make_chains
from nightscreen.steps.values.references import references
from nightscreen.storage.journal.answers import NONE, OUTCOMES, Latest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from nightscreen.steps.planning.freshness import Freshness
    from nightscreen.steps.values.validators import Finding
    from nightscreen.storage.sealing import Pseudonyms
    from nightscreen.storage.workspace import Workspace

_HALF, _TWICE = 0.5, 2.0


class AnswerBook(Protocol):
    """The questions of a plan to the journal."""

    def latest_columns(self, check: str, subjects: bytes, run_id: str, since: int) -> Latest:
        """Return the latest answer to each of some lookups."""

    def stamp(self) -> str:
        """Return a text that stays the same while no answer comes or goes."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters of a plan.

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

    `gather` each chunk in order, `settle` once, which leaves the row plans in the workspace, then
    ask `needed_of` for each chunk. One slot at a time is in memory for the whole batch; the data
    and results of the others are saved sealed, chunk by chunk.
    """

    def __init__(
        self,
        wanted: Wanted,
        *,
        at: datetime,
        freshness: Freshness,
        pseudonyms: Pseudonyms,
        answers: AnswerBook,
        workspace: Workspace,
        placeholders: Callable[[int, IdentityKind], NDArray[np.bool_]] | None = None,
        images: Callable[[Sequence[str]], Mapping[str, Finding]] | None = None,
        subjects: Callable[[int, IdentityKind, NDArray[np.int64]], bytes | None] | None = None,
        whole: bool = True,
    ) -> None:
        self._at_hand = subjects
        self._is_whole = whole
        self._placeholders = placeholders
        self._images = images
        self._wanted = wanted
        self._at = at
        self._freshness = freshness
        self._pseudonyms = pseudonyms
        self._answers = answers
        self._slots = slots_of(wanted.checks, wanted.karma_kinds)
        self._space = workspace
        self._whys: dict[CheckIdentity, list[NDArray[np.int8]]] = {slot: [] for slot in self._slots}
        self._distinct: dict[CheckIdentity, Distinct] = {}
        self._to_ask: dict[CheckIdentity, ToAsk] = {}
        self._stamp = ""
        self._starts = [0]
        self._exposures: list[NDArray[np.int64]] = []
        self._consent_ends: list[NDArray[np.int64]] = []
        self._is_gated = any(slot.check in CONSENT_GATED for slot in self._slots)
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
            asking = np.flatnonzero(why == SkipReason.ASK.value)
            put_subjects(
                self._space, slot, len(self._starts) - 1, self._subjects(rows, slot, asking)
            )
            self._whys[slot].append(why)
        self._count_rows()
        self._exposures.append(_exposure_kobo(rows))
        if self._is_gated:
            self._consent_ends.append(consent_ends(rows.combine_chunks().to_batches()[0]))
        self._starts.append(self.rows + rows.num_rows)

    def _without_placeholders(self, why: NDArray[np.int8], slot: CheckIdentity) -> NDArray[np.int8]:
        """Ask nothing about an email or phone that is nobody's own: it is taken as absent."""
        if self._placeholders is not None:
            nobodys = self._placeholders(len(self._starts) - 1, slot.kind)
            why[nobodys & (why == SkipReason.ASK.value)] = SkipReason.INELIGIBLE.value
        return why

    def _subjects(self, rows: pa.Table, slot: CheckIdentity, asking: NDArray[np.int64]) -> bytes:
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

    def _asking(self, slot: CheckIdentity) -> NDArray[np.int32]:
        """Return the rows of the batch that ask a slot."""
        parts = [np.flatnonzero(why == SkipReason.ASK.value) for why in self._whys[slot]]
        moved = [
            (part + start).astype(np.int32)
            for part, start in zip(parts, self._starts[:-1], strict=True)
        ]
        return np.concatenate([np.zeros(0, np.int32), *moved])

    def _count_rows(self) -> None:
        """Count the rows of the chunk just gathered that a check leaves out whole."""
        for check, counts in self.counts.items():
            whys = [self._whys[slot][-1] for slot in self._slots if slot.check is check]
            _count_why(counts, row_why(whys))
        for slot, counts in self.slots.items():
            _count_why(counts, self._whys[slot][-1])

    def settle(self, read_chunk: Callable[[int], pa.Table], judge: RowJudge) -> None:
        """Find the distinct lookups and which of them have a fresh answer.

        Args:
            read_chunk: gives a chunk again, for the few answers whose age depends on the row.
            judge: returns the status that a stored bank account answer gives a row.
        """
        self._stamp = self._answers.stamp()
        exposure = np.concatenate([np.zeros(0, np.int64), *self._exposures])
        until = np.concatenate([np.zeros(0, np.int64), *self._consent_ends])
        self._exposures.clear()
        self._consent_ends.clear()
        self._screened_before = np.zeros(self.rows, dtype=bool)
        for slot in self._slots:
            subjects = take_subjects(self._space, slot, len(self._starts) - 1)
            allowed_until = until if slot.check in CONSENT_GATED else None
            distinct = make_distinct(subjects, self._asking(slot), exposure, allowed_until)
            latest = self._match_stored(slot, distinct)
            if distinct.banded.any():
                self._judge_banded(slot, distinct, latest, read_chunk, judge)
            if slot.check is Check.SELFIE and self._images is not None:
                distinct, latest = self._without_unreachable(slot, distinct, latest, read_chunk)
            settled = SettledSlot(slot, distinct, latest, self._stamp)
            self._to_ask[slot] = ToAsk.of(distinct, self._starts)
            chunks = range(len(self._starts) - 1) if self._is_whole else self._to_ask[slot].chunks()
            put_row_plans(self._space, settled, self._whys[slot], self._starts, chunks)
            if self._wanted.stop_at_first:
                self._distinct[slot] = distinct
            counts = self.slots[slot]
            counts.lookups += len(distinct.asking)
            counts.distinct += len(distinct)
            self.counts[slot.check].add_lookups(counts)

    def _without_unreachable(
        self,
        slot: CheckIdentity,
        distinct: Distinct,
        latest: Latest,
        read_chunk: Callable[[int], pa.Table],
    ) -> tuple[Distinct, Latest]:
        """Leave out lookups about an image that the service cannot fetch; its rows are invalid.

        Stored answers stay: nothing has to be fetched for them.
        """
        asked = distinct.needed[distinct.inverse]
        urls: list[str] = []
        for _, rows, positions in self._chunks_of(distinct.asking, asked, read_chunk):
            urls += flat(rows["image_url"]).take(pa.array(positions)).to_pylist()
        findings = {} if self._images is None else self._images(urls)
        indices = np.flatnonzero(asked)
        bad = [index for index, url in zip(indices, urls, strict=True) if url in findings]
        dropped = np.zeros(len(distinct), dtype=bool)
        dropped[distinct.inverse[bad]] = True
        marked = np.zeros(len(distinct.asking), dtype=bool)
        marked[bad] = True
        reasons = iter(findings[url] for url in urls if url in findings)
        for number, rows, positions in self._chunks_of(distinct.asking, marked, read_chunk):
            self._whys[slot][number][positions] = SkipReason.INVALID.value
            lines = flat(rows["line"]).take(pa.array(positions)).to_pylist()
            for line, finding in zip(lines, reasons, strict=False):
                self.problems.append(
                    Problem(line, "image_url", finding.code, finding.hint, finding.action)
                )
        self.counts[slot.check].rows_invalid += len(bad)
        self.slots[slot].rows_invalid += len(bad)
        return distinct.without(dropped), latest.take(~dropped)

    def _chunks_of(
        self,
        rows: NDArray[np.int32],
        wanted: NDArray[np.bool_],
        read_chunk: Callable[[int], pa.Table],
    ) -> Iterator[tuple[int, pa.Table, NDArray[np.int64]]]:
        """Yield each chunk that has some of these rows: its number, itself, and which they are."""
        for number in range(len(self._starts) - 1):
            part = self._here(rows, number)
            positions = rows[part][wanted[part]].astype(np.int64) - self._starts[number]
            if len(positions):
                yield number, read_chunk(number), positions

    def _match_stored(self, slot: CheckIdentity, distinct: Distinct) -> Latest:
        """Compare each distinct lookup with the journal's latest answer; return those answers."""
        run_id, since = self._wanted.run_id, self._freshness.since
        latest = self._answers.latest_columns(slot.check.value, distinct.subjects, run_id, since)
        unread = OUTCOMES.index(Outcome.UNREADABLE)
        screened = (latest.outcome != NONE) & (latest.outcome != unread)
        for number, outcome in enumerate(OUTCOMES):
            positions = np.flatnonzero(latest.outcome == number)
            if len(positions):
                self._judge_stored(slot, distinct, outcome, positions, latest.take(positions))
        self._screened_before[distinct.asking[screened[distinct.inverse]]] = True
        return latest

    def _judge_stored(
        self,
        slot: CheckIdentity,
        distinct: Distinct,
        outcome: Outcome,
        positions: NDArray[np.int64],
        latest: Latest,
    ) -> None:
        """Judge the answers of one outcome: this run's own, new, fresh, or of middle age."""
        check, counts, at = slot.check, self.slots[slot], latest.answered_at
        self._weigh_age(counts, check, outcome, latest)
        own = latest.own_run
        fresh = latest.current | self._freshness.fresh(check, outcome.value, at)
        if outcome is Outcome.UNREADABLE:
            counts.unreadable += int((own | fresh).sum())
        else:
            free = own & (latest.cost_micro == 0)
            counts.free += int(free.sum())
            counts.paid += int((own & ~free).sum())
            self._count_reuse(counts, latest.take(fresh & ~own))
        distinct.needed[positions] = ~fresh
        distinct.banded[positions] = ~fresh & self._freshness.banded(check, outcome.value, at)
        distinct.listed[positions] = ~distinct.needed[positions] & (outcome is Outcome.LISTED)

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
        slot: CheckIdentity,
        distinct: Distinct,
        latest: Latest,
        read_chunk: Callable[[int], pa.Table],
        judge: RowJudge,
    ) -> None:
        """Reuse an answer of middle age unless it is too old for one of the rows that need it.

        Rows may share it and yet differ: it may verify the one and contradict the other.
        """
        too_old = np.zeros(len(distinct), dtype=bool)
        oldest = self._freshness.oldest_accounts()
        asked = distinct.banded[distinct.inverse]
        for number, rows, positions in self._chunks_of(distinct.asking, asked, read_chunk):
            part = self._here(distinct.asking, number)
            lookups = distinct.inverse[part][asked[part]].astype(np.int64)
            subjects = np.frombuffer(distinct.subjects, "V16")[lookups].tobytes()
            middling = latest.take(lookups)
            refs = AnswerRefs(positions, subjects, middling.answered_at, middling.call_id)
            limits = [
                oldest.get(status or "", NEVER_FRESH) for status in judge.statuses(rows, refs)
            ]
            too_old[lookups[middling.answered_at < np.array(limits, np.int64)]] = True
        reused = distinct.banded & ~too_old
        distinct.needed[reused] = False
        self._count_reuse(self.slots[slot], latest.take(reused))

    def _here(self, sorted_rows: NDArray[np.int32], number: int) -> slice:
        """Return which of some ascending row numbers fall into a chunk."""
        bounds = np.searchsorted(sorted_rows, self._starts[number : number + 2])
        return slice(int(bounds[0]), int(bounds[1]))

    def needed_of(self, number: int, read_chunk: Callable[[int], pa.Table]) -> pa.Table:
        """Return the lookups to be asked in the name of a chunk's rows (`schemas.plan.NEEDED`).

        The chunk is read only where there are any: on a warm night it mostly stays sealed.
        """
        found = {slot: to_ask.of_chunk(number) for slot, to_ask in self._to_ask.items()}
        if not any(len(needed.row) for needed in found.values()):
            return NEEDED.empty_table()
        rows = read_chunk(number)
        return pa.concat_tables(
            self._needed_rows(slot, needed, number, rows)
            for slot, needed in found.items()
            if len(needed.row)
        )

    def _needed_rows(
        self, slot: CheckIdentity, to_ask: ToAsk, number: int, rows: pa.Table
    ) -> pa.Table:
        size = len(to_ask.row)
        positions = pa.array(to_ask.row - self._starts[number])
        owners = rows.take(positions)
        gated = slot.check in CONSENT_GATED
        nothing = pa.nulls(size, pa.string())
        first = self._wanted.purpose is Purpose.ORIGINATION
        seen = self._screened_before[to_ask.row] & (not first)
        return pa.table(
            {
                "check": pa.array([slot.check.value] * size),
                "kind": pa.array([slot.kind.value] * size),
                "subject": read_subjects(self._space, slot, number).take(positions),
                "identity": identities(owners, slot),
                "image_url": flat(owners["image_url"]) if slot.check is Check.SELFIE else nothing,
                "consent_reference": references(owners) if gated else nothing,
                "consent_ends_at": _ends(owners) if gated else pa.nulls(size, pa.int64()),
                "tier": pa.array(seen.astype(np.int8)),
                "exposure_kobo": pa.array(to_ask.exposure),
                "row": pa.array(to_ask.row.astype(np.int64)),
            },
            schema=NEEDED,
        )

    def chains(self) -> Chains:
        """Return which needed lookups karma asks about each row, in the order of its identities.

        Only where the run stops at the first listing; else nothing is kept for it.
        """
        slots = [self._distinct[slot] for slot in self._slots]
        numbers = number_needed(slots, self._starts)
        each = zip(self._slots, slots, numbers, strict=True)
        return make_chains(
            [
                (slot.kind.value, slot_column, at)
                for slot, slot_column, at in each
                if slot.check is Check.KARMA
            ],
            self.rows,
            needed=sum(int(counts.needed.sum()) for counts in slots),
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
    """Returns the statuses that stored bank account answers give their rows."""

    def statuses(self, rows: pa.Table, refs: AnswerRefs) -> list[str | None]:
        """Return the status of each answer at hand; None if it is no longer there."""


def row_why(whys: Sequence[NDArray[np.int8]]) -> NDArray[np.int8]:
    """Return why a check of several slots leaves a row out: asked where any slot is asked.

    If no lookup is made, a malformed identifier is reported before an absent one: it can be
    corrected.
    """
    stacked = np.vstack(whys)
    asked = (stacked == SkipReason.ASK.value).any(axis=0)
    refused = (stacked == SkipReason.REFUSED.value).any(axis=0)
    invalid = (stacked == SkipReason.INVALID.value).any(axis=0)
    return np.select(
        [asked, refused, invalid],
        [SkipReason.ASK.value, SkipReason.REFUSED.value, SkipReason.INVALID.value],
        SkipReason.INELIGIBLE.value,
    ).astype(np.int8)


def _count_why(counts: CheckCounts, whys: NDArray[np.int8]) -> None:
    counts.rows_ineligible += int((whys == SkipReason.INELIGIBLE.value).sum())
    counts.rows_invalid += int((whys == SkipReason.INVALID.value).sum())
    counts.rows_refused += int((whys == SkipReason.REFUSED.value).sum())


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
) -> Iterator[pa.Table]:
    """Plan a whole batch; yield each chunk's needed lookups, in order."""
    for number in range(chunks):
        planner.gather(read_chunk(number))
    planner.settle(read_chunk, judge)
    for number in range(chunks):
        yield planner.needed_of(number, read_chunk)
