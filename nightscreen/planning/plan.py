"""Plan: which lookups each row needs, by eligibility, consent and freshness.

`plan.sql` decides over pseudonyms which lookups are made; this module adds what SQL cannot see: the
journal's answers, and the rows' identities. Consent is checked per row, before sharing and reuse: a
row without it gets no ecosystem or selfie lookup, and is shown no such answer, even a stored one.
`price` has prices and order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from nightscreen.checks.registry import CHECKS
from nightscreen.files.frame import PSEUDONYM, joined_bytes, plain, pseudonym_column
from nightscreen.files.sealing import SUBJECT_BYTES, portions_of
from nightscreen.planning.customers import subject_column
from nightscreen.planning.eligibility import consent_ends, identities, slots_of
from nightscreen.planning.lookup_table import NOTHING, Chains, LookupRanking
from nightscreen.planning.shared_identifiers import MOST_CUSTOMERS, PLACEHOLDERS
from nightscreen.schemas.checks import IdentityKind, Outcome, Purpose
from nightscreen.schemas.plan import NEEDED, CheckCounts, SkipReason
from nightscreen.values.identifiers import references

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.files.frame import Frame
    from nightscreen.files.sealed_file import Workspace
    from nightscreen.journal.answers import StoredAnswer
    from nightscreen.planning.freshness import Freshness
    from nightscreen.schemas.plan import CheckIdentity


_SUBJECTS_AT_ONCE = 200_000  # pseudonyms of lookups that are single values at a time
_ROW_PLAN = "plan-{}-{:05d}"  # of a slot and a chunk, in the workspace
_OUTCOMES = {outcome.value: number for number, outcome in enumerate(Outcome)}
_ANSWERS = pa.schema(
    [
        pa.field("subject", PSEUDONYM),
        pa.field("outcome", pa.int8()),  # its number in `Freshness.limits`
        pa.field("answered_at", pa.int64()),
        pa.field("own_run", pa.bool_()),
        pa.field("cost_micro", pa.int64()),  # -1 if the service did not say
        pa.field("current", pa.bool_()),
    ]
)


def _answer_columns(block: Sequence[StoredAnswer], run_id: str) -> pa.Table:
    """Return answers in the schema `_ANSWERS`."""
    columns = [
        pseudonym_column(b"".join(each.subject for each in block)),
        [_OUTCOMES.get(each.outcome, -1) for each in block],
        [each.answered_at for each in block],
        [each.run_id == run_id for each in block],
        [-1 if each.cost_micro is None else each.cost_micro for each in block],
        [each.current for each in block],
    ]
    return pa.table(columns, schema=_ANSWERS)


class AnswerBook(Protocol):
    """The part of the journal that a plan reads."""

    def latest_blocks(
        self, check: str, subjects: Sequence[bytes], *, run_id: str, since: int
    ) -> Iterator[list[StoredAnswer]]:
        """Yield the latest answers to some lookups, given in ascending order."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parameters of a plan."""

    checks: tuple[str, ...]  # the checks of the run
    karma_kinds: tuple[IdentityKind, ...]  # the identities that karma asks by
    purpose: Purpose  # decides freshness and order
    run_id: str  # the run; its own earlier answers always count
    stop_at_first: bool = False  # karma stops asking about a row when one identity is listed


@dataclass(slots=True)
class Planner:
    """Makes the plan of one batch, whose rows are in the frame (`customers`).

    Call `settle` once, which writes the row plans into the workspace, then `needed`. `closed` are
    lookups that are not asked again yet, by check; `unread` those whose latest answer could not be
    read.
    """

    frame: Frame
    wanted: Wanted
    starts: Sequence[int]  # number of the first row of each chunk, and the number of rows
    freshness: Freshness
    answers: AnswerBook
    workspace: Workspace
    whole: bool = True  # whether to write row plans, which a quote does not need
    closed: Mapping[str, Collection[bytes]] = field(default_factory=dict)
    unread: dict[str, set[bytes]] = field(init=False)
    counts: dict[str, CheckCounts] = field(init=False)
    slots: dict[CheckIdentity, CheckCounts] = field(init=False)
    _listed: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        checks, slots = self.wanted.checks, slots_of(self.wanted.checks, self.wanted.karma_kinds)
        self.unread = {check: set() for check in checks}
        self.counts = {check: CheckCounts() for check in checks}
        self.slots = {slot: CheckCounts() for slot in slots}
        self._listed = np.zeros(self.starts[-1], dtype=bool)

    def settle(self) -> None:
        """Find the distinct lookups and which of them have a fresh answer."""
        frame = self.frame
        applicants = self.wanted.purpose is Purpose.ORIGINATION
        frame.run("begin_plan")
        frame.make("limits", self._limits())
        for number, slot in enumerate(self.slots):
            names = _names(slot)
            if slot.kind in PLACEHOLDERS:
                frame.run("placeholder", most=MOST_CUSTOMERS, **names)
            until = "consent_until" if CHECKS[slot.check].needs_consent else "0"
            frame.run("lookups", until=until, **names)
            has_answers, has_any = self._put_answers(slot)
            frame.run("judge", number=number)
            if has_any:
                for name, value in frame.row("counts").items():
                    setattr(self.slots[slot], name, value)
            if has_answers:
                frame.run("screened", **names)
            if self.whole:
                sizes = np.diff(self.starts).tolist()
                for chunk, row_plan in enumerate(frame.pieces("row_plan", sizes, **names)):
                    columns = {
                        f"{slot.column}.{n}": plain(row_plan[n]) for n in row_plan.column_names
                    }
                    self.workspace.put(_ROW_PLAN.format(slot.file_name, chunk), pa.table(columns))
            frame.run("need", number=number)
            if has_answers and self.wanted.stop_at_first and slot.check == "karma":
                self._listed[frame.table("listings", **names)["row"].to_numpy()] = True
        self._count_rows()
        frame.make("chunks", pa.table({"first_row": pa.array(self.starts[:-1], pa.int32())}))
        frame.run("rank", are_applicants=str(applicants))

    def _limits(self) -> pa.Table:
        """Return how old an answer of each slot and outcome may be."""
        limits = [self.freshness.limits(slot.check) for slot in self.slots]
        numbers = np.repeat(np.arange(len(limits), dtype=np.int8), [len(each) for each in limits])
        return pa.concat_tables(limits).append_column("slot", pa.array(numbers))

    def _put_answers(self, slot: CheckIdentity) -> tuple[bool, bool]:
        """Put the journal's latest answers to a slot's lookups into the frame.

        Returns:
            Whether there are any answers, and whether there are answers or closed lookups.
        """
        joined = joined_bytes(self.frame.table("subjects")["subject"])
        run_id, unread, is_any = self.wanted.run_id, self.unread[slot.check], False
        excluded, closed = frozenset(self.closed.get(slot.check, ())), list[bytes]()
        self.frame.make("answers", _ANSWERS.empty_table())
        for subjects in portions_of(joined, _SUBJECTS_AT_ONCE):
            closed += [each for each in subjects if each in excluded]
            for block in self.answers.latest_blocks(
                slot.check, subjects, run_id=run_id, since=self.freshness.since
            ):
                self.frame.add("answers", _answer_columns(block, run_id))
                unread.update(e.subject for e in block if e.outcome == Outcome.UNREADABLE.value)
                is_any = is_any or bool(block)
        self.slots[slot].distinct = len(joined) // SUBJECT_BYTES
        self.frame.make("closed", pa.table({"subject": pseudonym_column(b"".join(closed))}))
        return is_any, is_any or bool(closed)

    def _count_rows(self) -> None:
        """Count the rows that each slot asks, and those that each slot and check leave out.

        A check with several identities leaves a row out only if none of them is asked. Of several
        reasons the one that is easiest to correct counts: no consent, then malformed, then absent.
        """
        columns = ", ".join(f'"{slot.column}"' for slot in self.slots)
        *whys, rows = (column.to_numpy() for column in self.frame.table("reasons", slots=columns))
        for slot, why in zip(self.slots, whys, strict=True):
            _count_left_out(self.slots[slot], why, rows)
            self.slots[slot].lookups = int(rows[why == SkipReason.ASK].sum())
            self.counts[slot.check].add_lookups(self.slots[slot])
        for check, counts in self.counts.items():
            pairs = zip(self.slots, whys, strict=True)
            of_check = np.vstack([why for slot, why in pairs if slot.check == check])
            asked = (of_check == SkipReason.ASK).any(axis=0)
            _count_left_out(counts, np.where(asked, SkipReason.ASK, of_check.max(axis=0)), rows)

    def needed(self, read_chunk: Callable[[int], pa.Table]) -> Iterator[pa.Table]:
        """Yield the lookups made in the name of each chunk's rows (`schemas.plan.NEEDED`).

        A chunk is read only if there are any: with many fresh answers it mostly stays sealed.
        """
        for number, (start, end) in enumerate(pairwise(self.starts)):
            lookups = self.frame.table("needed_of_chunk", start=start, end=end)
            if not lookups.num_rows:
                yield NEEDED.empty_table()
                continue
            rows, slot_of = read_chunk(number), lookups["slot"].to_numpy()
            yield pa.concat_tables(
                self._needed_rows(slot, lookups.filter(pa.array(slot_of == place)), start, rows)
                for place, slot in enumerate(self.slots)
                if (slot_of == place).any()
            )

    def _needed_rows(
        self, slot: CheckIdentity, lookups: pa.Table, start: int, rows: pa.Table
    ) -> pa.Table:
        size = lookups.num_rows
        row = lookups["row"].to_numpy().astype(np.int64)
        owners = rows.take(pa.array(row - start))
        needs_consent, other = CHECKS[slot.check].needs_consent, CHECKS[slot.check].together_with
        nothing = pa.nulls(size, pa.string())
        return pa.table(
            {
                "check": pa.array([slot.check] * size),
                "kind": pa.array([slot.kind.value] * size),
                "subject": plain(lookups["subject"]),
                "identity": identities(owners, slot.kind),
                "together_with": nothing if other is None else identities(owners, other),
                "consent_reference": references(owners) if needs_consent else nothing,
                "consent_ends_at": consent_ends(owners) if needs_consent else pa.nulls(size),
                "row": pa.array(row),
            },
            schema=NEEDED,
        )

    def ranking(self) -> LookupRanking:
        """Return the columns that rank and price the lookups of `needed`, in the same order."""
        columns = (column.to_numpy() for column in self.frame.table("ranking"))
        return LookupRanking(tuple(self.slots), *columns)

    def chains(self, needed: int) -> Chains:
        """Return which of the `needed` lookups karma asks about each row, in order."""
        self.frame.run("number")
        karma = [pair for pair in enumerate(self.slots) if pair[1].check == "karma"]
        lookups = np.full((self.starts[-1], len(karma)), NOTHING, dtype=np.int32)
        for column, (number, slot) in enumerate(karma):
            waiting = self.frame.table("chain", number=number, **_names(slot))
            lookups[waiting["row"].to_numpy(), column] = waiting["number"].to_numpy()
        asking = (lookups >= 0).any(axis=1)
        return Chains(lookups[asking], self._listed[asking], needed)


def _names(slot: CheckIdentity) -> dict[str, str]:
    """Return the columns of `customers` that a slot has."""
    return {"slot": slot.column, "subject": subject_column(slot)}


def _count_left_out(
    counts: CheckCounts, why: NDArray[np.integer[Any]], rows: NDArray[np.int64]
) -> None:
    counts.rows_ineligible = int(rows[why == SkipReason.INELIGIBLE].sum())
    counts.rows_invalid = int(rows[why == SkipReason.INVALID].sum())
    counts.rows_refused = int(rows[why == SkipReason.REFUSED].sum())


def read_row_plan(space: Workspace, slots: Sequence[CheckIdentity], number: int) -> pa.Table:
    """Return a chunk's row plan.

    Columns: for each slot `<slot>.why` int8, `<slot>.subject` binary(16), null if it is not asked,
    and `<slot>.own` bool, true if the call is made in this row's name.
    """
    parts = [space.get(_ROW_PLAN.format(slot.file_name, number)) for slot in slots]
    return pa.table({name: part[name] for part in parts for name in part.column_names})
