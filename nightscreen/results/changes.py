"""Changes: each customer compared with the last answered state, field by field, reported once.

`write_changes` reads the enriched parts, writes `changes.parquet` and saves the new states in the
workspace; `keep_states` puts them into the journal once the report is written. A run that is
resumed is compared with the state before its own first writing, so that it reports the same. What a
state is made of is in `tracked_state`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.checks.declaration import Column, Compare
from nightscreen.checks.karma import LISTINGS
from nightscreen.files.outputs import CHANGES_FILE
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.customers import BatchMembership, StateWrite
from nightscreen.results.customer_rows import customer_batches
from nightscreen.results.tracked_state import (
    READ,
    TRACKED,
    evidence_digest,
    states_of,
)
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
from nightscreen.schemas.policy import Decision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.files.sealing import Pseudonyms
    from nightscreen.files.workspace import Workspace
    from nightscreen.journal.customers import Customers
    from nightscreen.schemas.decisions import KnownCustomer

BLOCK_ROWS = 1024
"""Rows whose states are in memory together: each takes some kilobytes."""
_KEPT_ROWS = 32_768
"""States written together, in the order of their keys: what two indexes write grows with the number
of transactions. 250,000 rows took 15.7 µs each by three thousand, 10.3 by this or half of it."""
_PIECE = "states-{:05d}"
_GONE = "gone"
_KINDS = tuple(ChangeKind)
_DECISIONS = tuple(Decision)
_KARMA = "karma"
_NEW = FieldChange(None, None, ChangeKind.NEW)
_NONE = -1
_PIECE_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.binary(16)),
        pa.field("sealed", pa.binary()),
        pa.field("differs", pa.bool_()),
    ]
)
_GONE_SCHEMA = pa.schema([pa.field("customer", pa.binary(16))])


def differences(old: State, new: State, *, unreached: Collection[str] = ()) -> list[FieldChange]:
    """Return what differs between a customer's last answered state and the present one.

    A check without a new answer, or without an old one, is no change but for the first answer of a
    blacklist that lists: that is a new listing.

    Args:
        old: the last answered state.
        new: what was answered now.
        unreached: checks of which this run left lookups without an answer: what they no longer
            list may not have been asked.
    """
    found: list[FieldChange] = []
    for check, fields in TRACKED.items():
        then, now = old.get(check), new.get(check)
        if now is None or (then is None and now.values.get("karma_status") != "listed"):
            continue
        was = CheckState(0, "", {}) if then is None else then
        if check == _KARMA and check in unreached:
            now = keep_unreached(was, now)
        if was.values != now.values:
            found += _field_changes(check, fields, was, now)
    return found


def keep_unreached(then: CheckState, now: CheckState) -> CheckState:
    """Return a blacklist's answer with the listings that may only not have been asked this time."""
    if not then.values.get(LISTINGS) or now.values.get("karma_status") != "listed":
        return now
    values = dict(now.values)
    for name in ("karma_listed_by", LISTINGS):
        words = {*_words(then.values.get(name)), *_words(values.get(name))}
        values[name] = ", ".join(sorted(words))
    amounts = [each.values.get("karma_amount_in_contention") for each in (then, now)]
    known = [each for each in amounts if each is not None]
    if known:
        values["karma_amount_in_contention"] = max(known, key=Decimal)
    return now._replace(values=values)


def _field_changes(
    check: str, fields: Sequence[Column], then: CheckState, now: CheckState
) -> Iterator[FieldChange]:
    status = f"{check}_status"
    turned = then.values.get(status) != now.values.get(status)
    for each in fields:
        old, new = then.values.get(each.name), now.values.get(each.name)
        if old == new:
            continue
        kind = _turned_kind(now) if check == _KARMA and turned else field_kind(each, old, new)
        shown_old, shown_new = _shown(each, old, new)
        previous = (then.run_id or None, then.at or None)
        yield FieldChange(check, each.name, kind, shown_old, shown_new, *previous)


def _turned_kind(now: CheckState) -> ChangeKind:
    listed = now.values.get("karma_status") == "listed"
    return ChangeKind.NEW_LISTING if listed else ChangeKind.CLEARED


def field_kind(tracked: Column, old: str | None, new: str | None) -> ChangeKind:
    """Return whether a field that differs is worse, better, a new listing, or only changed."""
    match tracked.compare:
        case Compare.LISTING:
            gained = set(_words(new)) - set(_words(old))
            return ChangeKind.NEW_LISTING if gained else ChangeKind.BETTER
        case Compare.RANK if old in tracked.ranks and new in tracked.ranks:
            worse = tracked.ranks.index(str(new)) > tracked.ranks.index(str(old))
            return ChangeKind.WORSE if worse else ChangeKind.BETTER
        case Compare.MORE_IS_WORSE:
            before, after = _number(old), _number(new)
            if before == after:
                return ChangeKind.CHANGED
            return ChangeKind.WORSE if after > before else ChangeKind.BETTER
        case _:
            return ChangeKind.CHANGED


def _number(text: str | None) -> Decimal:
    try:
        return Decimal(text or 0)
    except InvalidOperation:
        return Decimal(0)


def _words(text: str | None) -> list[str]:
    return text.split(", ") if text else []


def _shown(tracked: Column, old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Return old and new as they may be shown."""
    if tracked.compare is Compare.IDENTIFYING:
        return None, DIFFERS
    if tracked.name == LISTINGS:
        return str(len(_words(old))), str(len(_words(new)))
    return old, new


def merged(old: State, new: State, *, unreached: Collection[str] = ()) -> State:
    """Return a state with the newest answer of each check."""
    found = dict(old)
    for name, now in new.items():
        then = old.get(name)
        if then is not None and name == _KARMA and name in unreached:
            now = keep_unreached(then, now)  # noqa: PLW2901 - the answer as it is to be kept
        if then is None or _supersedes(now, then, name):
            found[name] = now
    return found


def _supersedes(now: CheckState, then: CheckState, name: str) -> bool:
    """Return whether an answer is to be kept; one that says and dates the same is not."""
    if now.values == then.values and name in (DECISION_PART, LISTED_PART):
        return False
    return now.at > then.at or (now.at == then.at and now.values != then.values)


def _same(old: State, new: State) -> bool:
    """Return whether two states say the same, whenever it was answered."""
    return old.keys() == new.keys() and all(old[name].values == new[name].values for name in new)


@dataclass(slots=True)
class ChangeSet:
    """What the comparison found, in the order of the enriched rows."""

    # customers by kind of change, as the report has it, and `customers`: those with any
    counts: Counter[str] = field(default_factory=Counter)
    pieces: int = 0  # how many pieces of new states lie in the workspace
    # number of each row's previous decision among `Decision`, -1 where none
    previous: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    # number of each row's most telling kind among `ChangeKind`, -1 where none
    change: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    # 1 where somebody reviewed the row's very evidence
    quiet: NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))

    def report(self) -> dict[str, int]:
        """Return the counts as `report.json` has them."""
        names = ("customers", *(kind.value for kind in _KINDS))
        return {name: self.counts[name] for name in names}


class _Comparison:
    """One pass over a run's rows.

    Args:
        run_id: the run; `batch` its batch name.
        customers: the journal's states.
        pseudonyms: make the customers' pseudonyms.
        workspace: where new states are saved.
        unreached: checks with lookups left without an answer.
        reviewed: digest of the evidence somebody reviewed, by customer.
        at: when the rows were decided.
    """

    def __init__(
        self,
        run_id: str,
        batch: str,
        customers: Customers,
        pseudonyms: Pseudonyms,
        workspace: Workspace,
        unreached: Collection[str],
        reviewed: Mapping[bytes, bytes],
        at: int,
    ) -> None:
        self._run_id = run_id
        self._batch = batch
        self._customers = customers
        self._pseudonyms = pseudonyms
        self._workspace = workspace
        self._unreached = unreached
        self._reviewed = reviewed
        self._at = at
        commit = customers.commit_of(run_id)
        self._before = None if commit is None else commit.first_at
        self._members = customers.members(batch, run_id)
        self._here = np.zeros(len(self._members.customers), bool)
        self._rows: list[NDArray[np.int8]] = []
        self.result = ChangeSet()

    def tables(self, parts: Sequence[Path], *, whole: bool = True) -> Iterator[pa.Table]:
        """Yield the changes of the rows, block by block, then the customers that are gone."""
        for part in parts:
            with pq.ParquetFile(part) as file:
                for customers in customer_batches(file, READ, BLOCK_ROWS):
                    table = self._block(customers)
                    if table.num_rows:
                        yield table
        yield from self._gone(whole=whole)
        noted = np.concatenate(self._rows, axis=1) if self._rows else np.zeros((3, 0), np.int8)
        self.result.previous, self.result.change, self.result.quiet = noted

    def _block(self, rows: pa.Table) -> pa.Table:
        joined = self._pseudonyms.customers(self._batch, rows["customer_id"].to_pylist())
        place = self._members.places(joined)
        self._here[place[place >= 0]] = True
        noted = np.full((3, rows.num_rows), _NONE, np.int8)
        self._rows.append(noted)
        subjects = pieces_of(joined)
        old = [subjects[number] for number in np.flatnonzero(place >= 0).tolist()]
        known = base = self._customers.known(old)
        if self._before is not None:
            base = self._customers.known_before(old, self._before)
        changes: list[tuple[bytes, FieldChange]] = []
        writes: list[StateWrite] = []
        states = states_of(rows, run_id=self._run_id, at=self._at)
        for number, (subject, state) in enumerate(zip(subjects, states, strict=True)):
            then, now = base.get(subject), known.get(subject)
            found = self._changes(then, state)
            changes += [(subject, each) for each in found]
            merge = merged({} if now is None else now.state, state, unreached=self._unreached)
            writes += self._write(subject, now, merge)
            reviewed = self._reviewed.get(subject)
            quiet = reviewed is not None and reviewed == evidence_digest(merge)
            noted[:, number] = (*self._note(then, found), int(quiet))
        self._save(writes)
        return changes_table(changes, self._run_id)

    def _changes(self, base: KnownCustomer | None, state: State) -> list[FieldChange]:
        if base is None:
            return [_NEW]
        found = differences(base.state, state, unreached=self._unreached)
        if base.gone_run_id is None:
            return found
        last = (base.run_id, base.decided_at)
        back = FieldChange(None, "customer", ChangeKind.CHANGED, "gone", "present", *last)
        return [back, *found]

    def _write(self, subject: bytes, known: KnownCustomer | None, new: State) -> list[StateWrite]:
        """Return the write that brings a customer's state up to date, if one is needed."""
        old: State = {} if known is None else known.state
        back = known is not None and known.gone_run_id is not None
        if new == old and not back:
            return []
        differs = known is not None and (back or not _same(old, new))
        return [StateWrite(subject, self._customers.seal(subject, new), differs)]

    def _note(self, base: KnownCustomer | None, found: Sequence[FieldChange]) -> tuple[int, int]:
        """Enter the counts; return what the decision list says of a row."""
        then = None if base is None else base.state.get(DECISION_PART)
        word = None if then is None else then.values.get("decision")
        kinds = sorted({_KINDS.index(each.kind) for each in found})
        for kind in kinds:
            self.result.counts[_KINDS[kind].value] += 1
        self.result.counts["customers"] += bool(kinds)
        previous = _NONE if word is None else _DECISIONS.index(Decision(word))
        return previous, kinds[0] if kinds else _NONE

    def _save(self, writes: Sequence[StateWrite]) -> None:
        if not writes:
            return
        columns = zip(zip(*writes, strict=True), _PIECE_SCHEMA.types, strict=True)
        piece = [pa.array(values, kind) for values, kind in columns]
        table = pa.table(piece, schema=_PIECE_SCHEMA)
        self._workspace.put(_PIECE.format(self.result.pieces), table)
        self.result.pieces += 1

    def _gone(self, *, whole: bool) -> Iterator[pa.Table]:
        """Report who was in the batch and is not in this run; save their pseudonyms."""
        missing = ~self._here & (self._members.standing != BatchMembership.GONE.value)
        gone = [self._members.customer(place) for place in np.flatnonzero(missing & whole).tolist()]
        for block in self._customers.present(gone):
            yield changes_table(
                [
                    (each.customer, FieldChange(None, None, ChangeKind.GONE, None, None, *each[1:]))
                    for each in block
                ],
                self._run_id,
            )
        self.result.counts[ChangeKind.GONE.value] += len(gone)
        self.result.counts["customers"] += len(gone)
        table = pa.table([pa.array(gone, pa.binary(16))], schema=_GONE_SCHEMA)
        self._workspace.put(_GONE, table)


def changes_table(changes: Sequence[tuple[bytes, FieldChange]], run_id: str) -> pa.Table:
    """Return changes as a table of the schema `CHANGES`."""
    columns = [
        [subject.hex() for subject, _ in changes],
        [each.check for _, each in changes],
        [each.field for _, each in changes],
        [each.kind.value for _, each in changes],
        [each.old for _, each in changes],
        [each.new for _, each in changes],
        [each.previous_run_id for _, each in changes],
        [each.previous_at for _, each in changes],
        [run_id] * len(changes),
    ]
    arrays = []
    for column, each in zip(columns, CHANGES, strict=True):
        plain = pa.int64() if pa.types.is_timestamp(each.type) else pa.string()
        array = pa.array(column, plain)
        word = pa.types.is_dictionary(each.type)
        arrays.append(array.dictionary_encode().cast(each.type) if word else array.cast(each.type))
    return pa.table(arrays, schema=CHANGES)


def write_changes(
    folder: RunFolder,
    parts: Sequence[Path],
    *,
    run_id: str,
    batch: str,
    customers: Customers,
    pseudonyms: Pseudonyms,
    workspace: Workspace,
    at: int,
    unreached: Collection[str] = (),
    reviewed: Mapping[bytes, bytes] | None = None,
    whole: bool = True,
) -> ChangeSet:
    """Write `changes.parquet` and save the customers' new states in the workspace.

    Args:
        folder: the run's folder.
        parts: its enriched parts, in order.
        run_id: the run.
        batch: its batch name.
        customers: the journal's states.
        pseudonyms: make the customers' pseudonyms.
        workspace: the run's; new states lie there sealed until `keep_states`.
        at: the present instant, microseconds.
        unreached: checks of which lookups were left without an answer.
        reviewed: digest of the evidence somebody reviewed, by customer
            (`results.reviews.reviewed_evidence`).
        whole: the run has the whole batch; in a part of it nobody is reported gone.
    """
    comparison = _Comparison(
        run_id, batch, customers, pseudonyms, workspace, unreached, reviewed or {}, at
    )
    folder.write_parquet(CHANGES_FILE, CHANGES, comparison.tables(parts, whole=whole))
    return comparison.result


def keep_states(
    compared: ChangeSet, *, run_id: str, batch: str, customers: Customers, workspace: Workspace
) -> None:
    """Put the states that were saved into the journal; safe to do again after a crash."""
    at = customers.begin(run_id, batch)
    writes: list[StateWrite] = []
    for number in range(compared.pieces):
        piece = workspace.get(_PIECE.format(number))
        columns = (piece[name].to_pylist() for name in _PIECE_SCHEMA.names)
        writes += map(StateWrite._make, zip(*columns, strict=True))
        if len(writes) >= _KEPT_ROWS or number == compared.pieces - 1:
            customers.replace(run_id, batch, at, sorted(writes, key=attrgetter("customer")))
            writes = []
    customers.mark_gone(run_id, workspace.get(_GONE)["customer"].to_pylist())


def unreached_checks(checks: Mapping[str, Mapping[str, int]]) -> frozenset[str]:
    """Return the checks of a report of which lookups were left without an answer."""
    open_words = ("pending", "failed", "unreadable", "in_doubt", "spared")
    return frozenset(
        check for check, counts in checks.items() if any(counts[word] for word in open_words)
    )
