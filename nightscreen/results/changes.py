"""Changes: each customer compared with the last answered state, field by field, reported once.

A state has each check's answer about a customer, as texts. Fields that identify a person are stored
only as digests; fields that change with every lookup (logins, age, when the record was processed)
are left out. New states stay in the workspace until the report is written; then they are saved in
the journal. A resumed run is compared with the states from before it first saved any, so that it
reports the same changes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.checks.declaration import Column, Compare, Kind
from nightscreen.checks.karma import LISTINGS
from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import CHANGES_FILE
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.customers import Customers, StateWrite
from nightscreen.results.enriched import read_customers
from nightscreen.schemas.decisions import (
    CHANGES,
    DECISION_PART,
    DIFFERS,
    LISTED_PART,
    ChangeKind,
    CheckState,
    FieldChange,
    State,
)
from nightscreen.schemas.plan import SUBJECT
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.files.sealed_file import Workspace
    from nightscreen.journal import Journal
    from nightscreen.schemas.contests import Review
    from nightscreen.schemas.decisions import KnownCustomer

BLOCK_ROWS = 1024
"""Rows whose states are in memory together: each takes some kilobytes."""
_STATES_PER_WRITE = 32_768
"""States written in one transaction, in the order of their keys: what the two indexes write grows
with the number of transactions. 250,000 rows took 15.7 µs each in transactions of three thousand,
10.3 µs in transactions of this size or half of it."""
_PIECE = "states-{:05d}"
_GONE = "gone"
_KINDS = list(ChangeKind)  # the most important first
_PSEUDONYM = "S16"
_KARMA = "karma"
_NEW = FieldChange(None, None, ChangeKind.NEW)
_PIECE_SCHEMA = pa.schema(
    [
        pa.field("customer", SUBJECT),
        pa.field("sealed", pa.binary()),
        pa.field("differs", pa.bool_()),
    ]
)
_EVIDENCE_BYTES = 8
_DIGEST_BYTES = 6
TRACKED: dict[str, tuple[Column, ...]] = {
    **{check: declared.tracked for check, declared in CHECKS.items()},
    DECISION_PART: (
        Column("decision", Kind.WORD, "", Compare.RANK, ("approve", "review", "decline")),
        Column("reasons", [Kind.TEXT], "", Compare.PLAIN),
    ),
}
"""The columns that runs are compared by, for each check and for the decision."""

READ = [
    "customer_id",
    "decision",
    "reasons",
    *(declared.checked_at for declared in CHECKS.values()),
    *(each.name for declared in CHECKS.values() for each in declared.tracked),
]
"""The columns of `enriched` that states are made from."""


# --- states ---


def states_of(rows: pa.Table, *, run_id: str, at: int) -> list[State]:
    """Return the answered state of each row of `enriched`.

    Args:
        rows: some rows with the columns `READ`.
        run_id: the run of the rows.
        at: when the rows were decided, in microseconds.
    """
    states: list[State] = [{} for _ in range(rows.num_rows)]
    complete = np.ones(rows.num_rows, bool)  # which rows lack no answer
    for check, declared in CHECKS.items():
        status = rows[declared.status].cast(pa.string())
        answered = pc.is_in(status, value_set=pa.array(declared.answered)).to_numpy()
        complete &= answered | pc.is_in(status, value_set=pa.array(["off"])).to_numpy()
        places = np.flatnonzero(answered)
        some = rows.take(pa.array(places))
        names = [each.name for each in declared.tracked]
        texts = [_field_texts(some[each.name], each) for each in declared.tracked]
        instants = some[declared.checked_at].cast(pa.int64()).fill_null(0).to_pylist()
        for place, instant, *values in zip(places.tolist(), instants, *texts, strict=True):
            named = zip(names, values, strict=True)
            stored = {name: text for name, text in named if text is not None}
            states[place][check] = CheckState(instant, run_id, stored)
    decisions = rows["decision"].cast(pa.string()).fill_null(Decision.UNDECIDED.value).to_pylist()
    listed = zip(states, decisions, rows["reasons"].to_pylist(), complete.tolist(), strict=True)
    for state, decision, codes, is_complete in listed:
        state[LISTED_PART] = CheckState(at, run_id, {"decision": decision})
        if is_complete or decision != Decision.UNDECIDED.value:
            compared = {"decision": decision, "reasons": ", ".join(codes or ())}
            state[DECISION_PART] = CheckState(at, run_id, compared)
    return states


def _field_texts(column: pa.ChunkedArray, field: Column) -> list[str | None]:
    """Return a column as texts to compare; None for a row without the field."""
    if field.name == LISTINGS:
        return [_listings(each) for each in column.to_pylist()]
    if pa.types.is_nested(column.type):
        texts = [_nested_text(each) for each in column.to_pylist()]
    else:
        texts = _texts(column).to_pylist()
    if field.compare is Compare.IDENTIFYING:
        return [None if text is None else digest(text) for text in texts]
    return texts


def _nested_text(value: Any) -> str | None:  # noqa: ANN401 - a list or a struct of a row
    """Return a list sorted as text, so that the same items in another order are equal."""
    if not value:
        return None
    if isinstance(value, list):
        return ", ".join(sorted(_nested_text(each) or "" for each in value))
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict) else str(value)


def _listings(listings: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return a digest of each listing: identity, reporter, kind and date of default."""
    if not listings:
        return None
    names = ("identity_kind", "reporting_entity_name", "karma_type", "default_date")
    return ", ".join(
        sorted(digest("\x1f".join(str(each[name]) for name in names)) for each in listings)
    )


def _texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column as text, decimals without trailing zeros."""
    text = column.cast(pa.string())
    if pa.types.is_decimal(column.type):
        text = pc.replace_substring_regex(text, pattern=r"\.0*$|(\.\d*[1-9])0+$", replacement=r"\1")
    return text


def digest(text: str) -> str:
    """Return a short digest, which shows that a value differs without storing it."""
    return hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()


def evidence_digest(state: State) -> bytes:
    """Return a digest of all answers of the checks, whatever their date and run."""
    values = {check: state[check].values for check in CHECKS if check in state}
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=_EVIDENCE_BYTES).digest()


def rests_on(review: Review, known: KnownCustomer | None) -> bool:
    """Return whether a review was made on the customer's current evidence."""
    return known is not None and evidence_digest(known.state) == review.evidence


def listed_decision(known: KnownCustomer | None) -> str:
    """Return the decision that the last run listed for a customer, `undecided` if none."""
    part = None if known is None else known.state.get(LISTED_PART)
    return Decision.UNDECIDED.value if part is None else part.values["decision"]


def previous_decision(known: KnownCustomer | None) -> str | None:
    """Return the last decision with complete evidence; None if there is none."""
    part = None if known is None else known.state.get(DECISION_PART)
    return None if part is None else part.values["decision"]


def decided_reasons(state: State, decision: str = "") -> list[str]:
    """Return the reasons of the last decision with complete evidence, the main one first.

    Empty if `decision` is given and that decision differs.
    """
    part = state.get(DECISION_PART)
    if part is None or (decision and part.values["decision"] != decision):
        return []
    return [code for code in part.values.get("reasons", "").split(", ") if code]


# --- comparing ---


def differences(old: State, new: State, *, unreached: Collection[str] = ()) -> list[FieldChange]:
    """Return what differs between a customer's last answered state and the present one.

    A check that lacks the new or the old answer is no change, with one exception: a customer whose
    first answer from the blacklist is `listed` has a new listing.

    Args:
        old: the last answered state.
        new: what was answered now.
        unreached: checks with lookups that this run left unanswered: a listing that is missing now
            may only not have been asked for.
    """
    changes: list[FieldChange] = []
    for check, fields in TRACKED.items():
        previous, current = old.get(check), new.get(check)
        if current is None or (previous is None and current.values.get("karma_status") != "listed"):
            continue
        before = CheckState(0, "", {}) if previous is None else previous
        if check == _KARMA and check in unreached:
            current = keep_unreached(before, current)
        if before.values != current.values:
            changes += _field_changes(check, fields, before, current)
    return changes


def keep_unreached(previous: CheckState, current: CheckState) -> CheckState:
    """Return the blacklist's answer, with earlier listings that were not asked for now."""
    if not previous.values.get(LISTINGS) or current.values.get("karma_status") != "listed":
        return current
    values = dict(current.values)
    for name in ("karma_listed_by", LISTINGS):
        listings = {*_split(previous.values.get(name)), *_split(values.get(name))}
        values[name] = ", ".join(sorted(listings))
    amounts = [each.values.get("karma_amount_in_contention") for each in (previous, current)]
    known = [each for each in amounts if each is not None]
    if known:
        values["karma_amount_in_contention"] = max(known, key=Decimal)
    return current._replace(values=values)


def _field_changes(
    check: str, fields: Sequence[Column], previous: CheckState, current: CheckState
) -> Iterator[FieldChange]:
    status = f"{check}_status"
    turned = previous.values.get(status) != current.values.get(status)
    listed = current.values.get("karma_status") == "listed"
    for each in fields:
        old, new = previous.values.get(each.name), current.values.get(each.name)
        if old == new:
            continue
        kind = field_kind(each, old, new)
        if check == _KARMA and turned:
            kind = ChangeKind.NEW_LISTING if listed else ChangeKind.CLEARED
        shown_old, shown_new = _displayed(each, old, new)
        answered = (previous.run_id or None, previous.at or None)
        yield FieldChange(check, each.name, kind, shown_old, shown_new, *answered)


def field_kind(tracked: Column, old: str | None, new: str | None) -> ChangeKind:
    """Return the kind of change of a field that differs: worse, better, new listing or changed."""
    match tracked.compare:
        case Compare.LISTING:
            gained = set(_split(new)) - set(_split(old))
            return ChangeKind.NEW_LISTING if gained else ChangeKind.BETTER
        case Compare.RANK if old in tracked.ranks and new in tracked.ranks:
            worse = tracked.ranks.index(str(new)) > tracked.ranks.index(str(old))
            return ChangeKind.WORSE if worse else ChangeKind.BETTER
        case Compare.MORE_IS_WORSE:
            more = Decimal(new or 0) - Decimal(old or 0)
            if not more:
                return ChangeKind.CHANGED
            return ChangeKind.WORSE if more > 0 else ChangeKind.BETTER
        case _:
            return ChangeKind.CHANGED


def _split(text: str | None) -> list[str]:
    return text.split(", ") if text else []


def _displayed(tracked: Column, old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Return the old and new value without anything that may not be shown."""
    if tracked.compare is Compare.IDENTIFYING:
        return None, DIFFERS
    if tracked.name == LISTINGS:
        return str(len(_split(old))), str(len(_split(new)))
    return old, new


def merged(old: State, new: State, *, unreached: Collection[str] = ()) -> State:
    """Return the state with the newest answer of each check."""
    state = dict(old)
    for name, current in new.items():
        previous = old.get(name)
        if previous is not None and name == _KARMA and name in unreached:
            current = keep_unreached(previous, current)  # noqa: PLW2901 - the answer as it is saved
        if previous is None or _supersedes(current, previous, name):
            state[name] = current
    return state


def _supersedes(new: CheckState, old: CheckState, name: str) -> bool:
    """Return whether an answer replaces the older one; the same values and date do not."""
    if new.values == old.values and name in (DECISION_PART, LISTED_PART):
        return False
    return new.at > old.at or (new.at == old.at and new.values != old.values)


def _same(old: State, new: State) -> bool:
    """Return whether two states have the same values, whatever their dates."""
    return old.keys() == new.keys() and all(old[name].values == new[name].values for name in new)


NEWS: Final = pa.schema(
    [
        (":previous", pa.dictionary(pa.int8(), pa.string())),
        (":change", pa.dictionary(pa.int8(), pa.string())),
        (":quiet", pa.bool_()),
    ]
)
"""What the decision list needs besides a customer's enriched row: the previous decision, null if
there was none; the most important kind of change, null if nothing differs; and whether a person
reviewed exactly this evidence. No column of a lender's file begins with a colon."""


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A run's customers compared with their last answered states, and the result."""

    journal: Journal
    workspace: Workspace  # holds the new states, sealed, until they are saved
    run_id: str
    batch: str
    at: int  # when the run decided, microseconds
    unreached: Collection[str] = ()  # checks with lookups that were left unanswered
    # the reviews that may settle a customer of the batch
    reviewed: Mapping[bytes, Review] = field(default_factory=dict)
    whole: bool = True  # the run has the whole batch: a missing customer is gone
    # customers by kind of change, and `customers`: those with any change
    counts: Counter[str] = field(default_factory=Counter)
    news: pa.Table = field(default_factory=NEWS.empty_table)  # a row per customer, in order
    # those of `reviewed` made on exactly the customer's current evidence
    standing: dict[bytes, Review] = field(default_factory=dict)
    _pieces: int = 0  # pieces of new states in the workspace

    def report(self) -> dict[str, int]:
        """Return the counts for `report.json`."""
        names = ("customers", *(kind.value for kind in ChangeKind))
        return {name: self.counts[name] for name in names}

    def write(self, folder: RunFolder, parts: Sequence[Path]) -> None:
        """Write `changes.parquet`, and the customers' new states into the workspace."""
        folder.write_parquet(CHANGES_FILE, CHANGES, self._tables(parts))

    def save_states(self) -> int:
        """Save the new states in the journal; return the instant they are dated, in microseconds.

        Safe to repeat after a crash.
        """
        customers = Customers(self.journal)
        at = customers.begin(self.run_id)
        writes: list[StateWrite] = []
        for number in range(self._pieces):
            piece = self.workspace.get(_PIECE.format(number)).to_pylist()
            writes += [StateWrite(**each) for each in piece]
            if len(writes) >= _STATES_PER_WRITE or number == self._pieces - 1:
                ordered = sorted(writes, key=attrgetter("customer"))
                customers.replace(self.run_id, self.batch, at, ordered)
                writes = []
        customers.mark_gone(self.run_id, self.workspace.get(_GONE)["customer"].to_pylist())
        return at

    def _tables(self, parts: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the changes block by block, then the customers who are gone."""
        customers = Customers(self.journal)
        run = self.journal.runs.find(self.run_id)
        before = None if run is None else run.states_first_at
        last_night = customers.members(self.batch, self.run_id) if self.whole else b""
        present, news = list[bytes](), [NEWS.empty_table()]
        for rows in read_customers(parts, READ, BLOCK_ROWS):
            ids = rows["customer_id"].to_pylist()
            joined = self.journal.pseudonyms.customers(self.batch, ids)
            present.append(joined)
            subjects = pieces_of(joined)
            known = base = customers.known(subjects)
            if before is not None:
                base = customers.known_before(subjects, before)
            changes, new = self._block(rows, subjects, base, known)
            news.append(new)
            if changes:
                yield changes_table(changes, self.run_id)
        self.news = pa.concat_tables(news).unify_dictionaries().combine_chunks()
        here = np.frombuffer(b"".join(present), _PSEUDONYM)
        missing = np.setdiff1d(np.frombuffer(last_night, _PSEUDONYM), here)
        gone = pieces_of(missing.tobytes())
        for start in range(0, len(gone), BLOCK_ROWS):
            last = customers.known(gone[start : start + BLOCK_ROWS])
            yield changes_table(
                [(who, _since(state, None, ChangeKind.GONE)) for who, state in last.items()],
                self.run_id,
            )
        self.counts.update({ChangeKind.GONE.value: len(gone), "customers": len(gone)})
        self.workspace.put(_GONE, pa.table({"customer": pa.array(gone, SUBJECT)}))

    def _block(
        self,
        rows: pa.Table,
        subjects: Sequence[bytes],
        base: Mapping[bytes, KnownCustomer],
        known: Mapping[bytes, KnownCustomer],
    ) -> tuple[list[tuple[bytes, FieldChange]], pa.Table]:
        """Return some customers' changes and their `NEWS`; save their new states.

        They are compared with the states from before the run (`base`), and merged into the states
        `known` now, which the run itself may have written before it was resumed.
        """
        reported: list[tuple[bytes, FieldChange]] = []
        writes: list[StateWrite] = []
        news: list[tuple[str | None, str | None, bool]] = []
        states = states_of(rows, run_id=self.run_id, at=self.at)
        for subject, state in zip(subjects, states, strict=True):
            before, latest = base.get(subject), known.get(subject)
            changes = _changes(before, state, self.unreached)
            reported += [(subject, each) for each in changes]
            new = merged({} if latest is None else latest.state, state, unreached=self.unreached)
            back = latest is not None and latest.gone_run_id is not None
            if latest is None or back or latest.state != new:
                differs = back or (latest is not None and not _same(latest.state, new))
                sealed = Customers(self.journal).seal(subject, new)
                writes.append(StateWrite(subject, sealed, differs))
            review = self.reviewed.get(subject)
            if review is not None and review.evidence == evidence_digest(new):
                self.standing[subject] = review
            quiet = subject in self.standing
            news.append((previous_decision(before), self._count(changes), quiet))
        if writes:
            columns = dict(zip(StateWrite._fields, zip(*writes, strict=True), strict=True))
            self.workspace.put(_PIECE.format(self._pieces), pa.table(columns, _PIECE_SCHEMA))
            self._pieces += 1
        columns = dict(zip(NEWS.names, zip(*news, strict=True), strict=False))
        return reported, pa.table(columns, NEWS) if news else NEWS.empty_table()

    def _count(self, changes: Sequence[FieldChange]) -> str | None:
        """Count a customer's changes; return the most important kind."""
        if not changes:
            return None
        kinds = {each.kind for each in changes}
        self.counts.update(["customers", *kinds])
        return min(kinds, key=_KINDS.index).value


def _changes(
    base: KnownCustomer | None, state: State, unreached: Collection[str]
) -> list[FieldChange]:
    """Return a customer's changes from the state before the run."""
    if base is None:
        return [_NEW]
    changes = differences(base.state, state, unreached=unreached)
    if base.gone_run_id is None:
        return changes
    return [_since(base, "customer", ChangeKind.CHANGED, "gone", "present"), *changes]


def _since(last: KnownCustomer, name: str | None, kind: ChangeKind, *values: str) -> FieldChange:
    old, new = values or (None, None)
    return FieldChange(None, name, kind, old, new, last.run_id, last.decided_at)


def changes_table(changes: Sequence[tuple[bytes, FieldChange]], run_id: str) -> pa.Table:
    """Return changes as a table of the schema `CHANGES`."""
    if not changes:
        return CHANGES.empty_table()
    columns = zip(*((subject.hex(), *each, run_id) for subject, each in changes), strict=True)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, CHANGES, strict=True)]
    return pa.table(arrays, schema=CHANGES)


def unreached_checks(checks: Mapping[str, Mapping[str, int]]) -> frozenset[str]:
    """Return the checks of a report that left lookups unanswered."""
    unanswered = ("pending", "failed", "unreadable", "in_doubt", "spared")
    return frozenset(
        check for check, counts in checks.items() if any(counts[name] for name in unanswered)
    )
