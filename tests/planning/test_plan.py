"""The plan of any batch is what the plain rule says of it, row by row and lookup by lookup."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.checks.registry import CHECKS
from nightscreen.files.frame import Frame
from nightscreen.files.sealed_file import Workspace
from nightscreen.files.sealing import Pseudonyms, Sealer
from nightscreen.journal.answers import StoredAnswer
from nightscreen.planning.customers import gather_customers, planning_queries
from nightscreen.planning.eligibility import slots_of
from nightscreen.planning.freshness import Freshness
from nightscreen.planning.plan import Planner, Wanted, read_row_plan
from nightscreen.planning.shared_identifiers import count_shared
from nightscreen.schemas.checks import IdentityKind, Outcome, Purpose
from nightscreen.schemas.clock import MICROS
from nightscreen.schemas.columns import Flaw
from nightscreen.schemas.plan import CheckCounts, CheckIdentity, SkipReason
from nightscreen.schemas.rows import row_schema
from tests.how_many import examples

AT = datetime(2026, 6, 1, tzinfo=UTC)
NOW = int(AT.timestamp()) * MICROS
DAY = 24 * 3600 * MICROS
AGES = {
    ("karma", "clear"): timedelta(days=4),
    ("karma", "listed"): timedelta(days=40),
    ("bank_account", "found"): timedelta(days=20),
    ("bank_account", "not_found"): timedelta(0),
    ("ecosystem", "found"): timedelta(days=8),
    ("ecosystem", "not_found"): timedelta(days=2),
    ("ecosystem", "unreadable"): timedelta(days=99_999_999),  # never again
    ("karma", "unreadable"): timedelta(days=3),
}
OF_CHECK = {
    "karma": (Outcome.CLEAR, Outcome.LISTED, Outcome.UNREADABLE),
    "bank_account": (Outcome.FOUND, Outcome.NOT_FOUND),
    "ecosystem": (Outcome.FOUND, Outcome.NOT_FOUND, Outcome.UNREADABLE),
}
KINDS = (IdentityKind.BVN, IdentityKind.PHONE, IdentityKind.NUBAN, IdentityKind.EMAIL)
KEY = Pseudonyms(b"k" * 32)


@dataclass(frozen=True)
class Stored:
    """An answer that the journal has."""

    outcome: Outcome
    age: int
    cost_micro: int | None
    own_run: bool
    current: bool

    @property
    def answered_at(self) -> int:
        return NOW - self.age


@dataclass(frozen=True)
class Book:
    """A journal of some answers, by check and pseudonym."""

    stored: Mapping[tuple[str, bytes], Stored]

    def latest_blocks(
        self, check: str, subjects: Sequence[bytes], *, run_id: str, since: int
    ) -> Iterator[list[StoredAnswer]]:
        """Yield the latest answers, in the order of subjects, which ascend."""
        assert (run_id, since) == ("run", 7)
        assert list(subjects) == sorted(set(subjects))
        for subject in subjects:
            if answer := self.stored.get((check, subject)):
                yield [
                    StoredAnswer(
                        subject,
                        answer.outcome.value,
                        answer.answered_at,
                        "run" if answer.own_run else "another",
                        answer.cost_micro,
                        answer.current,
                        b"",
                    )
                ]


few = st.sampled_from(["1", "2", "3", "4", None])
row = st.fixed_dictionaries(
    {
        "bvn": few,
        "phone": few,
        "email": few,
        "bank_code": st.sampled_from(["058", "044"]),
        "account_number": few,
        "exposure": st.sampled_from([None, Decimal("0.00"), Decimal("7.50"), Decimal("900.00")]),
        "consent_reference": st.sampled_from([None, "ref"]),
        "consented_at": st.sampled_from([AT - timedelta(days=9), AT - timedelta(days=400)]),
        "consent_expires_at": st.sampled_from(
            [None, *(AT + timedelta(days=n) for n in (-1, 1, 2))]
        ),
        "flaws": st.sampled_from([0, 0, 0, *map(int, (Flaw.BVN, Flaw.ACCOUNT, Flaw.CONSENT))]),
    }
)
answer = st.tuples(
    st.integers(0, 2),
    st.one_of(st.integers(0, 45 * DAY), st.integers(0, 45).map(lambda days: days * DAY)),
    st.sampled_from([None, 0, 10 * MICROS]),
    st.sampled_from([(False, False), (False, False), (False, True), (True, True)]),
)


@dataclass(frozen=True)
class Night:
    """A batch, what is asked of it, and what the journal has."""

    rows: Sequence[Mapping[str, Any]]
    starts: tuple[int, ...]
    wanted: Wanted
    stored: Mapping[tuple[str, bytes], Stored]

    @property
    def slots(self) -> tuple[CheckIdentity, ...]:
        """Return what may be asked of a row."""
        return slots_of(self.wanted.checks, self.wanted.karma_kinds)

    def chunk(self, number: int) -> pa.Table:
        """Return some of the rows as intake leaves them."""
        start, end = self.starts[number : number + 2]
        return pa.Table.from_pylist(list(self.rows[start:end]), schema=row_schema())


def identity(row: Mapping[str, Any], kind: IdentityKind) -> str | None:
    if kind is IdentityKind.NUBAN:
        return row["account_number"] and f"{row['bank_code']}-{row['account_number']}"
    found: str | None = row[kind.value]
    return found


@st.composite
def nights(draw: st.DrawFn) -> Night:
    rows = [
        {**each, "line": line, "customer_id": f"C{line}"}
        for line, each in enumerate(draw(st.lists(row, max_size=18)), 2)
    ]
    cuts = draw(st.sets(st.integers(1, max(1, len(rows) - 1)), max_size=3))
    starts = tuple(sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))}))
    karma = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True))
    checks = draw(st.lists(st.sampled_from(list(OF_CHECK)), min_size=1, unique=True))
    wanted = Wanted(
        tuple(checks), tuple(karma), draw(st.sampled_from(Purpose)), "run", draw(st.booleans())
    )
    stored: dict[tuple[str, bytes], Stored] = {}
    for slot in slots_of(wanted.checks, wanted.karma_kinds):
        for value in sorted({identity(each, slot.kind) or "" for each in rows}):
            if draw(st.booleans()):
                outcome, age, cost, (own, current) = draw(answer)
                outcomes = OF_CHECK[slot.check]
                found = outcomes[outcome % len(outcomes)]
                of_answer = Stored(found, age, cost, own, current)
                stored[slot.check, KEY.subject(slot.kind.value, value)] = of_answer
    return Night(rows, starts if rows else (0,), wanted, stored)


@dataclass
class Lookup:
    """One distinct lookup by the plain rule."""

    slot: CheckIdentity
    subject: bytes
    rows: list[int]
    owner: int
    exposure: int
    stored: Stored | None
    needed: bool


def ends(row: Mapping[str, Any]) -> datetime:
    """Return when a consent ends; without an expiry it lasts twelve months."""
    found: datetime = row["consent_expires_at"] or row["consented_at"] + timedelta(days=365)
    return found


def why(row: Mapping[str, Any], slot: CheckIdentity) -> SkipReason:
    flaws = {IdentityKind.BVN: Flaw.BVN, IdentityKind.NUBAN: Flaw.ACCOUNT}
    if identity(row, slot.kind) is None:
        return SkipReason.INELIGIBLE
    if row["flaws"] & int(flaws.get(slot.kind, 0)):
        return SkipReason.INVALID
    consents = row["consent_reference"] and not row["flaws"] & Flaw.CONSENT and ends(row) > AT
    return (
        SkipReason.REFUSED if CHECKS[slot.check].needs_consent and not consents else SkipReason.ASK
    )


def fresh(found: Stored | None, check: str) -> bool:
    """Return whether an answer may be used again."""
    if found is None:
        return False
    limit = AGES.get((check, found.outcome.value), timedelta(0)) // timedelta(microseconds=1)
    return found.current or bool(limit and found.age <= limit)


def lookups_of(night: Night) -> dict[CheckIdentity, list[Lookup]]:
    """Return the distinct lookups of a night by the plain rule, in the order of pseudonyms."""
    found: dict[CheckIdentity, list[Lookup]] = {}
    for slot in night.slots:
        groups: dict[bytes, list[int]] = defaultdict(list)
        for number, each in enumerate(night.rows):
            if why(each, slot) is SkipReason.ASK:
                groups[KEY.subject(slot.kind.value, identity(each, slot.kind) or "")].append(number)
        found[slot] = []
        for subject, rows in sorted(groups.items()):
            of_rows = [night.rows[number] for number in rows]
            owner = rows[0]
            if CHECKS[slot.check].needs_consent:
                owner = max(rows, key=lambda number: (ends(night.rows[number]), -number))
            kobo = [-1 if (at := each["exposure"]) is None else int(100 * at) for each in of_rows]
            stored = night.stored.get((slot.check, subject))
            needed = not fresh(stored, slot.check)
            found[slot].append(Lookup(slot, subject, rows, owner, max(kobo), stored, needed))
    return found


def counts_of(night: Night, slot: CheckIdentity, lookups: Sequence[Lookup]) -> CheckCounts:
    """Return a slot's numbers by the plain rule."""
    whys = [why(each, slot) for each in night.rows]
    found = CheckCounts(
        rows_refused=whys.count(SkipReason.REFUSED),
        rows_ineligible=whys.count(SkipReason.INELIGIBLE),
        rows_invalid=whys.count(SkipReason.INVALID),
        lookups=sum(len(lookup.rows) for lookup in lookups),
        distinct=len(lookups),
    )
    for lookup in lookups:
        stored = lookup.stored
        if stored is None:
            continue
        cost = stored.cost_micro or 0
        if stored.outcome is Outcome.UNREADABLE:
            found.unreadable += not lookup.needed
        elif stored.own_run:
            found.free += stored.cost_micro == 0
            found.paid += stored.cost_micro != 0
        elif not lookup.needed:
            found.reused += 1
            found.saved_by_reuse_micro += cost
            found.oldest_reused_at = min(
                found.oldest_reused_at or stored.answered_at, stored.answered_at
            )
    return found


@dataclass(frozen=True)
class Made:
    """The plan that was made."""

    planner: Planner
    needed: list[dict[str, Any]]
    row_plans: dict[str, list[Any]]
    chains: list[list[int]] | None
    listed: list[bool]


def plan(night: Night, folder: Path) -> Made:
    space = Workspace.of(folder, "run", Sealer(b"s" * 32))
    chunks = range(len(night.starts) - 1)
    freshness = Freshness(AGES, NOW, since=7)
    with (
        pytest.MonkeyPatch.context() as patch,
        Frame(planning_queries(), space.folder / "frame") as frame,
    ):
        patch.setattr("nightscreen.planning.plan._SUBJECTS_AT_ONCE", 2)
        starts = gather_customers(
            frame, map(night.chunk, chunks), KEY, kinds=KINDS, slots=night.slots, at=AT
        )
        assert starts == night.starts
        count_shared(frame, counted=KINDS)
        planner = Planner(
            frame,
            night.wanted,
            starts,
            freshness=freshness,
            answers=Book(night.stored),
            workspace=space,
        )
        planner.settle()
        tables = list(planner.needed(night.chunk))
        needed = [each for table in tables for each in table.to_pylist()]
        ranking = planner.ranking()
        for place, each in enumerate(needed):
            assert ranking.slots[ranking.slot[place]] == (each["check"], each["kind"])
            assert ranking.row[place] == each["row"]
            each |= {"tier": ranking.tier[place], "exposure_kobo": ranking.exposure_kobo[place]}
        assert [table.num_rows for table in tables] == [
            sum(start <= each["row"] < end for each in needed) for start, end in pairwise(starts)
        ]
        chains, listed = None, []
        if night.wanted.stop_at_first and "karma" in night.wanted.checks:
            made = planner.chains(len(needed))
            chains, listed = made.lookups.tolist(), made.listed.tolist()
    parts = [read_row_plan(space, night.slots, number).to_pydict() for number in chunks]
    row_plans: dict[str, list[Any]] = defaultdict(list)
    for part in parts:
        for name, values in part.items():
            row_plans[name] += values
    return Made(planner, needed, row_plans, chains, listed)


def row_plan_of(number: int, why: SkipReason, lookup: Lookup | None) -> dict[str, Any]:
    """Return what the end of the run needs of a row."""
    return {
        "why": why.value,
        "subject": None if lookup is None else lookup.subject,
        "own": lookup is not None and lookup.owner == number,
    }


def needed_of(night: Night, lookups: Sequence[Lookup]) -> list[dict[str, Any]]:
    """Return what is asked, in the order of chunks, in each by slot and pseudonym."""
    screened = {
        number
        for lookup in lookups
        if lookup.stored is not None and lookup.stored.outcome is not Outcome.UNREADABLE
        for number in lookup.rows
    }
    first = night.wanted.purpose is Purpose.ORIGINATION
    chunk_of = [
        number
        for number, (start, end) in enumerate(pairwise(night.starts))
        for _ in range(start, end)
    ]
    ordered = sorted(
        (lookup for lookup in lookups if lookup.needed),
        key=lambda lookup: (
            chunk_of[lookup.owner],
            night.slots.index(lookup.slot),
            lookup.subject,
        ),
    )
    return [
        {
            "check": lookup.slot.check,
            "kind": lookup.slot.kind.value,
            "subject": lookup.subject,
            "identity": identity(night.rows[lookup.owner], lookup.slot.kind),
            "tier": int(lookup.owner in screened and not first),
            "exposure_kobo": lookup.exposure,
            "row": lookup.owner,
        }
        for lookup in ordered
    ]


@settings(max_examples=examples(100), deadline=None)
@given(nights())
def test_a_plan_is_what_the_plain_rule_says(night: Night) -> None:
    """Owner, order, freshness, need, tier, exposure, counts, row plans and chains of any batch."""
    lookups = lookups_of(night)
    every = [lookup for of_slot in lookups.values() for lookup in of_slot]
    with tempfile.TemporaryDirectory() as folder:
        made = plan(night, Path(folder))
        assert not list(Path(folder).rglob("frame"))
    needed = needed_of(night, every)
    names = needed[0] if needed else ()
    assert [{name: each[name] for name in names} for each in made.needed] == needed
    for slot, of_slot in lookups.items():
        assert made.planner.slots[slot] == counts_of(night, slot, of_slot)
        asked = {number: lookup for lookup in of_slot for number in lookup.rows}
        for number, each in enumerate(night.rows):
            expected = row_plan_of(number, why(each, slot), asked.get(number))
            found = {name: made.row_plans[f"{slot.column}.{name}"][number] for name in expected}
            assert found == expected
    if made.chains is not None:
        assert chains_of(night, lookups, needed) == (made.chains, made.listed)


def chains_of(
    night: Night,
    lookups: Mapping[CheckIdentity, Sequence[Lookup]],
    needed: Sequence[Mapping[str, Any]],
) -> tuple[list[list[int]], list[bool]]:
    """Return the lookups that karma may still ask of each row, and which rows are listed."""
    keys = ("check", "kind", "subject")
    number_of = {tuple(each[key] for key in keys): at for at, each in enumerate(needed)}
    chains, listed = [], []
    for number in range(len(night.rows)):
        chain, is_listed = [], False
        for slot, of_slot in lookups.items():
            if slot.check == "karma":
                lookup = next((each for each in of_slot if number in each.rows), None)
                key = (*map(str, slot), lookup.subject if lookup else b"")
                chain.append(number_of.get(key, -1))
                stored = lookup.stored if lookup and not lookup.needed else None
                is_listed |= stored is not None and stored.outcome is Outcome.LISTED
        if max(chain) >= 0:
            chains.append(chain)
            listed.append(is_listed)
    return chains, listed
