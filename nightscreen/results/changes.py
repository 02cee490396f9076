"""Changes: each customer compared with the last answered state, field by field, reported once.

`write_changes` reads the enriched parts, writes `changes.parquet` and saves the new states in the
workspace; `keep_states` puts them into the journal once the report is written. A run that is
resumed is compared with the state before its own first writing, so that it reports the same. What a
state is made of is in `tracked_state`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nightscreen.checks.declaration import Column, Compare
from nightscreen.checks.karma import LISTINGS
from nightscreen.files.outputs import CHANGES_FILE
from nightscreen.files.sealing import pieces_of
from nightscreen.journal.customers import Customers, StateWrite
from nightscreen.results.customer_rows import read_customers
from nightscreen.results.tracked_state import (
    READ,
    TRACKED,
    evidence_digest,
    previous_decision,
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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.files.workspace import Workspace
    from nightscreen.journal import Journal
    from nightscreen.schemas.decisions import KnownCustomer

BLOCK_ROWS = 1024
"""Rows whose states are in memory together: each takes some kilobytes."""
_KEPT_ROWS = 32_768
"""States written together, in the order of their keys: what two indexes write grows with the number
of transactions. 250,000 rows took 15.7 µs each by three thousand, 10.3 by this or half of it."""
_PIECE = "states-{:05d}"
_GONE = "gone"
_KARMA = "karma"
_NEW = FieldChange(None, None, ChangeKind.NEW)
_PIECE_SCHEMA = pa.schema(
    [
        pa.field("customer", pa.binary(16)),
        pa.field("sealed", pa.binary()),
        pa.field("differs", pa.bool_()),
    ]
)


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
            more = Decimal(new or 0) - Decimal(old or 0)
            if not more:
                return ChangeKind.CHANGED
            return ChangeKind.WORSE if more > 0 else ChangeKind.BETTER
        case _:
            return ChangeKind.CHANGED


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


NEWS: Final = pa.schema(
    [
        (":previous", pa.dictionary(pa.int8(), pa.string())),
        (":change", pa.dictionary(pa.int8(), pa.string())),
        (":quiet", pa.bool_()),
    ]
)
"""What is new of a customer beside the enriched row: the decision before, null where there was
none; the most telling kind of change, null where nothing differs; and whether somebody reviewed the
row's very evidence. No column of a lender's file begins with a colon."""


@dataclass(slots=True)
class ChangeSet:
    """What the comparison found."""

    # customers by kind of change, as the report has it, and `customers`: those with any
    counts: Counter[str] = field(default_factory=Counter)
    pieces: int = 0  # how many pieces of new states lie in the workspace
    news: pa.Table = field(default_factory=NEWS.empty_table)  # of each customer, in their order

    def report(self) -> dict[str, int]:
        """Return the counts as `report.json` has them."""
        names = ("customers", *(kind.value for kind in ChangeKind))
        return {name: self.counts[name] for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """A run whose customers are compared with their last answered states."""

    journal: Journal
    workspace: Workspace  # new states lie there sealed until `keep_states`
    run_id: str
    batch: str
    at: int  # when it decided, microseconds
    unreached: Collection[str] = ()  # checks of which lookups were left without an answer
    # the digest of the evidence that somebody decided on, by customer
    reviewed: Mapping[bytes, bytes] = field(default_factory=dict)
    whole: bool = True  # it has the whole batch: whoever is missing is gone


class _Comparison:
    """One pass over a run's rows."""

    def __init__(self, run: ComparedRun) -> None:
        self._run, self.result = run, ChangeSet()
        self._customers = Customers(run.journal)
        commit = self._customers.commit_of(run.run_id)
        self._before = None if commit is None else commit.first_at
        self._members = self._customers.members(run.batch, run.run_id)
        self._here = np.zeros(len(self._members.customers), bool)

    def tables(self, parts: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the changes of the rows, block by block, then the customers that are gone."""
        news = [NEWS.empty_table()]
        for rows in read_customers(parts, READ, BLOCK_ROWS):
            changes, new = self._block(rows)
            news.append(new)
            if changes:
                yield changes_table(changes, self._run.run_id)
        yield from self._gone()
        self.result.news = pa.concat_tables(news).unify_dictionaries().combine_chunks()

    def _block(self, rows: pa.Table) -> tuple[list[tuple[bytes, FieldChange]], pa.Table]:
        """Return what is told of some customers, and their `NEWS`; save their new states."""
        joined = self._run.journal.pseudonyms.customers(
            self._run.batch, rows["customer_id"].to_pylist()
        )
        place = self._members.places(joined)
        self._here[place[place >= 0]] = True
        subjects = pieces_of(joined)
        old = [subjects[number] for number in np.flatnonzero(place >= 0).tolist()]
        known = base = self._customers.known(old)
        if self._before is not None:
            base = self._customers.known_before(old, self._before)
        told: list[tuple[bytes, FieldChange]] = []
        writes: list[StateWrite] = []
        news: list[tuple[str | None, str | None, bool]] = []
        states = states_of(rows, run_id=self._run.run_id, at=self._run.at)
        for subject, state in zip(subjects, states, strict=True):
            then, now = base.get(subject), known.get(subject)
            found = _changes(then, state, self._run.unreached)
            told += [(subject, each) for each in found]
            new = merged({} if now is None else now.state, state, unreached=self._run.unreached)
            back = now is not None and now.gone_run_id is not None
            if now is None or back or now.state != new:
                differs = back or (now is not None and not _same(now.state, new))
                writes.append(StateWrite(subject, self._customers.seal(subject, new), differs))
            reviewed = self._run.reviewed.get(subject)
            quiet = reviewed is not None and reviewed == evidence_digest(new)
            news.append((previous_decision(then), self._count(found), quiet))
        if writes:
            columns = dict(zip(StateWrite._fields, zip(*writes, strict=True), strict=True))
            self._run.workspace.put(
                _PIECE.format(self.result.pieces), pa.table(columns, _PIECE_SCHEMA)
            )
            self.result.pieces += 1
        columns = dict(zip(NEWS.names, zip(*news, strict=True), strict=False))
        return told, pa.table(columns, NEWS) if news else NEWS.empty_table()

    def _count(self, found: Sequence[FieldChange]) -> str | None:
        """Count a customer's changes; return the most telling kind."""
        kinds = {each.kind for each in found}
        self.result.counts.update(kinds)
        self.result.counts["customers"] += bool(kinds)
        return next((kind.value for kind in ChangeKind if kind in kinds), None)

    def _gone(self) -> Iterator[pa.Table]:
        """Report who was in the batch and is not in this run; save their pseudonyms."""
        missing = ~self._here & ~self._members.gone_before
        gone = [
            self._members.customer(place)
            for place in np.flatnonzero(missing & self._run.whole).tolist()
        ]
        for start in range(0, len(gone), BLOCK_ROWS):
            some = gone[start : start + BLOCK_ROWS]
            known = self._customers.known(some)
            yield changes_table(
                [(who, _gone_since(known[who])) for who in some if who in known], self._run.run_id
            )
        self.result.counts[ChangeKind.GONE.value] += len(gone)
        self.result.counts["customers"] += len(gone)
        self._run.workspace.put(_GONE, pa.table({"customer": pa.array(gone, pa.binary(16))}))


def _changes(
    base: KnownCustomer | None, state: State, unreached: Collection[str]
) -> list[FieldChange]:
    """Return what is told of a customer, given what was known before the run."""
    if base is None:
        return [_NEW]
    found = differences(base.state, state, unreached=unreached)
    if base.gone_run_id is None:
        return found
    last = (base.run_id, base.decided_at)
    back = FieldChange(None, "customer", ChangeKind.CHANGED, "gone", "present", *last)
    return [back, *found]


def _gone_since(last: KnownCustomer) -> FieldChange:
    run_id, at = last.run_id, last.decided_at
    return FieldChange(None, None, ChangeKind.GONE, None, None, run_id, at)


def changes_table(changes: Sequence[tuple[bytes, FieldChange]], run_id: str) -> pa.Table:
    """Return changes as a table of the schema `CHANGES`."""
    if not changes:
        return CHANGES.empty_table()
    columns = zip(*((subject.hex(), *each, run_id) for subject, each in changes), strict=True)
    arrays = [pa.array(values, each.type) for values, each in zip(columns, CHANGES, strict=True)]
    return pa.table(arrays, schema=CHANGES)


def write_changes(folder: RunFolder, parts: Sequence[Path], run: ComparedRun) -> ChangeSet:
    """Write `changes.parquet` and save the customers' new states in the workspace."""
    comparison = _Comparison(run)
    folder.write_parquet(CHANGES_FILE, CHANGES, comparison.tables(parts))
    return comparison.result


def keep_states(compared: ChangeSet, run: ComparedRun) -> None:
    """Put the states that were saved into the journal; safe to do again after a crash."""
    customers, run_id, batch = Customers(run.journal), run.run_id, run.batch
    at = customers.begin(run_id, batch)
    writes: list[StateWrite] = []
    for number in range(compared.pieces):
        piece = run.workspace.get(_PIECE.format(number)).to_pylist()
        writes += [StateWrite(**each) for each in piece]
        if len(writes) >= _KEPT_ROWS or number == compared.pieces - 1:
            customers.replace(run_id, batch, at, sorted(writes, key=attrgetter("customer")))
            writes = []
    customers.mark_gone(run_id, run.workspace.get(_GONE)["customer"].to_pylist())


def unreached_checks(checks: Mapping[str, Mapping[str, int]]) -> frozenset[str]:
    """Return the checks of a report of which lookups were left without an answer."""
    open_words = ("pending", "failed", "unreadable", "in_doubt", "spared")
    return frozenset(
        check for check, counts in checks.items() if any(counts[word] for word in open_words)
    )
