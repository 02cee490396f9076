"""Karma by several identities, and stopping at the first that is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.planning.lookup_table import NOTHING, Chains
from nightscreen.runs.screening import quote_batch
from nightscreen.sandbox.people import karma_of
from nightscreen.schemas.calls import LookupStatus
from tests.how_many import examples
from tests.screening import World, customer

KINDS = ["bvn", "phone", "email", "domain", "nuban"]
STOP: dict[str, Any] = {"checks": ["karma"], "karma_stop_at_first": True}


def asked_by(world: World) -> Counter[str]:
    calls = world.calls("karma")
    return Counter("phone" if call["identity"][0] == "+" else "bvn" for call in calls)


def numbers(kind: str, *, listed: bool) -> Iterator[int]:
    """Yield numbers whose made-up BVN or phone is listed, or is not."""
    for number in range(1, 100_000):
        identity = f"22{number:09d}" if kind == "bvn" else f"+234803{number:07d}"
        if (karma_of(identity) is not None) == listed:
            yield number


def phone(number: int) -> str:
    return f"0803{number:07d}"


def nuban(row: dict[str, str]) -> str:
    return f"{row['bank_code']}-{row['account_number']}"


@pytest.fixture(scope="module")
def people() -> list[dict[str, str]]:
    """Return customers of whom some are listed by BVN, some by phone, some by both, most not."""
    bvns = {listed: numbers("bvn", listed=listed) for listed in (True, False)}
    phones = {listed: numbers("phone", listed=listed) for listed in (True, False)}
    mix = [(True, True), (True, False), (False, True), *[(False, False)] * 5] * 4
    return [
        customer(next(bvns[by_bvn]), phone=phone(next(phones[by_phone])))
        for by_bvn, by_phone in mix
    ]


def test_each_identity_is_its_own_lookup_and_listing(world: World) -> None:
    rows = [
        customer(
            number,
            phone=phone(number),
            email=f"person{number}@mail{number}.example",
            domain=f"shop{number}.example",
        )
        for number in range(1, 16)
    ]
    night = world.screen(rows, checks=["karma"], karma_identities=KINDS)
    paths = Counter(call["identity"] for call in world.calls("karma"))
    asked = [
        [row["bvn"], f"+234{row['phone'][1:]}", row["email"], row["domain"], nuban(row)]
        for row in rows
    ]
    assert len(paths) == 75
    for row, given_ in zip(night.rows, asked, strict=True):
        by = [kind for kind, one in zip(KINDS, given_, strict=True) if karma_of(one) is not None]
        assert (row["karma_listed_by"] or []) == by
        assert row["karma_status"] == ("listed" if by else "clear")
        assert [each["identity_kind"] for each in row["karma_listings"]] == by
    assert night.report["checks"]["karma"]["distinct"] == 75


def test_no_more_is_asked_about_who_is_listed(world: World, people: list[dict[str, str]]) -> None:
    """Phones of those whose BVN is listed are spared, all others asked; no status differs."""
    night = world.screen(people, karma_identities=["bvn", "phone"], **STOP)
    part = night.report["checks"]["karma"]
    assert asked_by(world) == {"bvn": len(people), "phone": len(people) - 8}
    assert part["spared"] == 8
    full = World(world.folder / "full", world.sandbox)
    full.folder.mkdir()
    asked = full.screen(people, checks=["karma"], karma_identities=["bvn", "phone"])
    assert asked.report["checks"]["karma"]["spared"] == 0
    assert night.column("karma_status") == asked.column("karma_status")
    assert set(night.column("karma_status")) == {"listed", "clear"}
    stolen = [
        any(each["karma_type"] == "Identity theft" for each in row["karma_listings"] or ())
        for row in asked.rows
    ]
    both = zip(night.column("decision"), asked.column("decision"), stolen, strict=True)
    assert all(spared == full for spared, full, victim in both if not victim)


def test_the_quote_expects_less(tmp_path: Path, people: list[dict[str, str]]) -> None:
    """Fewer calls are likely, the most is the same, and no line is below nothing."""
    world = World(tmp_path)
    source = str(world.write(people))
    base = {"input": source, "checks": ["karma"], "karma_identities": ["bvn", "phone"]}
    settings_ = read_settings(base_url="http://127.0.0.1:1", api_key="k", home=tmp_path / "home")
    quotes = [
        quote_batch(ScreenBatch(**base, karma_stop_at_first=stop), settings_)
        for stop in (False, True)
    ]
    full, spared = (list(each["lines"]) for each in quotes)
    assert [screening_run["identity"] for screening_run in full] == ["bvn", "phone"]
    assert spared[0] == full[0]
    assert spared[1]["calls"] == full[1]["calls"]
    assert spared[1]["likely_calls"] < full[1]["likely_calls"]
    assert Decimal(quotes[1]["quoted"]["expected"]) < Decimal(quotes[0]["quoted"]["expected"])
    for quote in quotes:
        low, expected, high = (Decimal(quote["quoted"][at]) for at in ("low", "expected", "high"))
        assert 0 <= low <= expected <= high


# --- the counting alone ---


@st.composite
def batches(draw: st.DrawFn) -> tuple[Chains, NDArray[np.bool_]]:
    """Draw rows that share lookups, some listed by what is at hand, and who would be listed."""
    kinds = draw(st.integers(1, 4))
    pool = draw(st.integers(1, 6))
    rows = draw(
        st.lists(
            st.lists(st.integers(NOTHING, pool - 1), min_size=kinds, max_size=kinds),
            min_size=1,
            max_size=12,
        )
    )
    named = [[one if one < 0 else one + pool * at for at, one in enumerate(row)] for row in rows]
    used = sorted({one for row in named for one in row if one >= 0})
    number = {one: place for place, one in enumerate(used)}
    lookups = np.array(
        [[NOTHING if one < 0 else number[one] for one in row] for row in named], dtype=np.int32
    )
    lookups = lookups[(lookups >= 0).any(axis=1)].reshape(-1, kinds)
    at_hand = np.array(draw(st.lists(st.booleans(), min_size=len(lookups), max_size=len(lookups))))
    listed = draw(st.lists(st.booleans(), min_size=len(used), max_size=len(used)))
    chains = Chains(lookups, at_hand.astype(bool), len(used))
    return chains, np.array(listed, dtype=bool)


def drive(chains: Chains, listed: NDArray[np.bool_], leave: Callable[[int], bool]) -> set[int]:
    """Ask stage by stage what may be asked, but for what is left undone; return what was asked."""
    waiting, later = LookupStatus.WAITING.value, LookupStatus.LATER.value
    ended, undone = np.zeros(chains.needed, dtype=bool), np.zeros(chains.needed, dtype=bool)
    states = chains.states()
    while (next_ := np.flatnonzero((states == waiting) & ~ended & ~undone)).size:
        left = np.array([leave(int(one)) for one in next_], dtype=bool)
        ended[next_[~left]], undone[next_[left]] = True, True
        states = np.where(states == later, chains.states(ended, listed & ended), states)
    assert undone.any() or not (states == later).any(), "somebody waits for ever"
    assert not (ended & undone).any()
    return set(np.flatnonzero(ended).tolist())


@settings(max_examples=examples(300), deadline=None)
@given(batches(), st.sampled_from([0.0, 0.0, 0.3]), st.randoms(use_true_random=False))
def test_nothing_waits_for_ever_and_nobody_is_spared_wrongly(
    batch: tuple[Chains, NDArray[np.bool_]],
    undone: float,
    random: Any,  # noqa: ANN401 - hypothesis gives it
) -> None:
    """A row is settled, and what is spared has only rows that an earlier lookup found listed.

    Where money ends in a stage, what comes after it is neither asked nor spared: a resume does it.
    """
    chains, listed = batch
    asked = drive(chains, listed, lambda _: random.random() < undone)
    ended = np.zeros(chains.needed, dtype=bool)
    ended[list(asked)] = True
    states = chains.states(ended, listed & ended)
    of_rows = [[int(one) for one in row] for row in chains.lookups]
    for row, at_hand in zip(of_rows, chains.listed, strict=True):
        mine = {one for one in row if one >= 0}
        if not undone and not at_hand and not any(listed[one] for one in mine):
            assert asked >= mine
    for number in range(chains.needed):
        before = [
            row[: row.index(number)]
            for row, at_hand in zip(of_rows, chains.listed, strict=True)
            if number in row and not at_hand
        ]
        known = [any(one >= 0 and listed[one] and one in asked for one in row) for row in before]
        assert (states[number] == LookupStatus.SPARED.value) == all(known)
    assert not asked & set(np.flatnonzero(chains.spared()).tolist())
