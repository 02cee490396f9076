"""Changes: each customer compared with the last answered state, field by field, reported once.

The new states lie in the workspace until the report is written, then they go into the journal. A
run that is resumed is compared with the state before its own first writing, so that it reports the
same. What a state is made of is in `tracked_state`.
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
from nightscreen.results.enriched import read_customers
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
from nightscreen.schemas.plan import SUBJECT

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
_KEPT_ROWS = 32_768
"""States written together, in the order of their keys: what two indexes write grows with the number
of transactions. 250,000 rows took 15.7 µs each by three thousand, 10.3 by this or half of it."""
_PIECE = "states-{:05d}"
_GONE = "gone"
_KARMA = "karma"
_NEW = FieldChange(None, None, ChangeKind.NEW)
_PIECE_SCHEMA = pa.schema(
    [
        pa.field("customer", SUBJECT),
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


@dataclass(slots=True, kw_only=True)
class Comparison:
    """A run's customers compared with their last answered states, and what came of it."""

    journal: Journal
    workspace: Workspace  # new states lie there sealed until they are kept
    run_id: str
    batch: str
    at: int  # when the run decided, microseconds
    unreached: Collection[str] = ()  # checks of which lookups were left without an answer
    # the reviews that may settle a customer of the batch
    reviewed: Mapping[bytes, Review] = field(default_factory=dict)
    whole: bool = True  # it has the whole batch: whoever is missing is gone
    # customers by kind of change, and `customers`: those with any
    counts: Counter[str] = field(default_factory=Counter)
    news: pa.Table = field(default_factory=NEWS.empty_table)  # of each customer, in their order
    # those of `reviewed` that rest on the customer's very evidence
    standing: dict[bytes, Review] = field(default_factory=dict)
    _pieces: int = 0  # how many pieces of new states lie in the workspace

    def report(self) -> dict[str, int]:
        """Return the counts as `report.json` has them."""
        names = ("customers", *(kind.value for kind in ChangeKind))
        return {name: self.counts[name] for name in names}

    def write(self, folder: RunFolder, parts: Sequence[Path]) -> None:
        """Write `changes.parquet` and save the customers' new states in the workspace."""
        folder.write_parquet(CHANGES_FILE, CHANGES, self._tables(parts))

    def save_states(self) -> int:
        """Put the states that were saved into the journal; return the instant they bear.

        It is safe to do again after a crash.
        """
        customers = Customers(self.journal)
        at = customers.begin(self.run_id)
        writes: list[StateWrite] = []
        for number in range(self._pieces):
            piece = self.workspace.get(_PIECE.format(number)).to_pylist()
            writes += [StateWrite(**each) for each in piece]
            if len(writes) >= _KEPT_ROWS or number == self._pieces - 1:
                ordered = sorted(writes, key=attrgetter("customer"))
                customers.replace(self.run_id, self.batch, at, ordered)
                writes = []
        customers.mark_gone(self.run_id, self.workspace.get(_GONE)["customer"].to_pylist())
        return at

    def _tables(self, parts: Sequence[Path]) -> Iterator[pa.Table]:
        """Yield the changes of the rows, block by block, then the customers that are gone."""
        customers = Customers(self.journal)
        run = self.journal.runs.find(self.run_id)
        before = None if run is None else run.states_first_at
        members = customers.members(self.batch, self.run_id)
        here, news = np.zeros(len(members.customers), bool), [NEWS.empty_table()]
        for rows in read_customers(parts, READ, BLOCK_ROWS):
            ids = rows["customer_id"].to_pylist()
            joined = self.journal.pseudonyms.customers(self.batch, ids)
            place, subjects = members.places(joined), pieces_of(joined)
            here[place[place >= 0]] = True
            old = [subjects[number] for number in np.flatnonzero(place >= 0).tolist()]
            known = base = customers.known(old)
            if before is not None:
                base = customers.known_before(old, before)
            told, new = self._block(rows, subjects, base, known)
            news.append(new)
            if told:
                yield changes_table(told, self.run_id)
        self.news = pa.concat_tables(news).unify_dictionaries().combine_chunks()
        missing = ~here & ~members.gone_before & self.whole
        gone = [members.customer(number) for number in np.flatnonzero(missing).tolist()]
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
        """Return what is told of some customers, and their `NEWS`; save their new states.

        They are compared with what was known before the run (`base`); what is `known` now, perhaps
        of the run itself before it was resumed, is what they are merged into.
        """
        told: list[tuple[bytes, FieldChange]] = []
        writes: list[StateWrite] = []
        news: list[tuple[str | None, str | None, bool]] = []
        states = states_of(rows, run_id=self.run_id, at=self.at)
        for subject, state in zip(subjects, states, strict=True):
            then, now = base.get(subject), known.get(subject)
            found = _changes(then, state, self.unreached)
            told += [(subject, each) for each in found]
            new = merged({} if now is None else now.state, state, unreached=self.unreached)
            back = now is not None and now.gone_run_id is not None
            if now is None or back or now.state != new:
                differs = back or (now is not None and not _same(now.state, new))
                sealed = Customers(self.journal).seal(subject, new)
                writes.append(StateWrite(subject, sealed, differs))
            review = self.reviewed.get(subject)
            if review is not None and review.evidence == evidence_digest(new):
                self.standing[subject] = review
            quiet = subject in self.standing
            news.append((previous_decision(then), self._count(found), quiet))
        if writes:
            columns = dict(zip(StateWrite._fields, zip(*writes, strict=True), strict=True))
            self.workspace.put(_PIECE.format(self._pieces), pa.table(columns, _PIECE_SCHEMA))
            self._pieces += 1
        columns = dict(zip(NEWS.names, zip(*news, strict=True), strict=False))
        return told, pa.table(columns, NEWS) if news else NEWS.empty_table()

    def _count(self, found: Sequence[FieldChange]) -> str | None:
        """Count a customer's changes; return the most telling kind."""
        kinds = {each.kind for each in found}
        self.counts.update(kinds)
        self.counts["customers"] += bool(kinds)
        return next((kind.value for kind in ChangeKind if kind in kinds), None)


def _changes(
    base: KnownCustomer | None, state: State, unreached: Collection[str]
) -> list[FieldChange]:
    """Return what is told of a customer, given what was known before the run."""
    if base is None:
        return [_NEW]
    found = differences(base.state, state, unreached=unreached)
    if base.gone_run_id is None:
        return found
    return [_since(base, "customer", ChangeKind.CHANGED, "gone", "present"), *found]


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
    """Return the checks of a report of which lookups were left without an answer."""
    open_words = ("pending", "failed", "unreadable", "in_doubt", "spared")
    return frozenset(
        check for check, counts in checks.items() if any(counts[word] for word in open_words)
    )
