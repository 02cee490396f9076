"""The call book: one writer, groups back to back, and what happens when the journal breaks."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from nightscreen.calling import journal_writer
from nightscreen.calling.journal_writer import MOST_EVERY_S, JournalWriter
from nightscreen.schemas.calls import (
    CallResult,
    CallState,
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.errors import JournalError
from tests.steps.virtual_time import VirtualLoop, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ASK = ReserveRequest("karma", "bvn", b"\0" * 16, 10, None, 1)


def settled(number: int) -> CallResult:
    """Return an outcome."""
    return CallResult(number, ASK, 0, CallState.ANSWERED, 0, cost_micro=0)


class Store:
    """Keeps groups as they were committed."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.caps: list[Caps] = []
        self.blocks: list[tuple[list[str], dict[str, int]]] = []
        self.error: Exception | None = None

    def reserve(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        more: Mapping[str, int] | None = None,
    ) -> list[Reservation]:
        """Grant all."""
        self.caps.append(caps)
        self.blocks.append(([ask.check for ask in asks], dict(more or {})))
        if self.error is not None:
            raise self.error
        return [
            Reservation(ReservationStatus.GRANTED, number, 0) for number, _ in enumerate(asks, 1)
        ]

    def settle(self, run_id: str, outcomes: Sequence[CallResult]) -> None:
        """Commit a group."""
        if self.error is not None:
            raise self.error
        self.groups.append([each.call_id for each in outcomes])


def book(store: Store) -> JournalWriter:
    """Return a call book."""
    return JournalWriter(store, run_id="run", purpose="portfolio", caps=Caps(), since=0)


async def test_outcomes_that_arrive_together_are_one_group() -> None:
    """No outcome waits for a commit of its own; the order is kept."""
    store = Store()
    written = book(store)
    done: list[int] = []
    for number in range(5):
        written.settle(settled(number), lambda number=number: done.append(number))  # type: ignore[misc]
    await written.drain()
    written.close()
    assert store.groups == [[0, 1, 2, 3, 4]]
    assert done == [0, 1, 2, 3, 4]


async def test_what_is_asked_for_in_one_turn_of_the_loop_is_one_block() -> None:
    """Each window gets its own grants back, and what follows is told by check."""
    store = Store()
    written = book(store)
    bank = replace(ASK, check="bank_account")
    first, second = await asyncio.gather(written.reserve([ASK, ASK], 3), written.reserve([bank], 0))
    (third,) = await written.reserve([ASK])
    written.close()
    assert [grant.call_id for grant in (*first, *second, third)] == [1, 2, 3, 1]
    assert store.blocks == [
        (["karma", "karma", "bank_account"], {"karma": 3, "bank_account": 0}),
        (["karma"], {"karma": 0}),
    ]


def test_groups_are_larger_where_the_cpu_is_scarce() -> None:
    """So it is among workers, each of which has but a part of what is under way."""

    def groups_at(share: float) -> int:
        async def main(loop: VirtualLoop) -> int:
            store = Store()
            written = book(store)
            written.caps = Caps(in_flight=(("karma", 8),))
            written._cpu.share_waited = lambda: share  # type: ignore[method-assign]
            waits: list[float] = []
            for number in range(400):
                at = loop.time()
                written.settle(settled(number), lambda at=at: waits.append(loop.time() - at))  # type: ignore[misc]
                await asyncio.sleep(0.005)
            await written.drain()
            written.close()
            assert [each for group in store.groups for each in group] == list(range(400))
            assert max(waits) <= MOST_EVERY_S
            return len(store.groups)

        return run(main)

    assert groups_at(0.0) > 150
    assert 5 < groups_at(0.9) < 12
    assert groups_at(0.9) < groups_at(0.1) < groups_at(0.0)


def test_the_share_of_time_without_cpu_is_read_from_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nanoseconds in the second place; where there is no such file, none is waited."""
    place, now = tmp_path / "schedstat", 100.0
    monkeypatch.setattr(journal_writer, "_CPU_WAIT", place)
    monkeypatch.setattr(time, "monotonic", lambda: now)
    waits = journal_writer._CpuWait()
    now = 101.0
    assert waits.share_waited() == 0
    for waited_ns, shares in ((5_000_000_000, 0), (5_400_000_000, 0.2), (5_800_000_000, 0.3)):
        place.write_text(f"7 {waited_ns} 3\n")
        now += 1
        assert waits.share_waited() == pytest.approx(shares)


async def test_outcomes_handed_in_while_writing_go_into_the_next_group() -> None:
    """Commits follow each other; what is handed in by a callback is written too."""
    store = Store()
    written = book(store)
    written.settle(settled(1), lambda: written.settle(settled(2), lambda: None))
    await written.drain()
    written.close()
    assert store.groups == [[1], [2]]


@pytest.mark.parametrize("error", [JournalError("full"), OSError("gone")])
async def test_a_failed_commit_breaks_the_book_and_is_tried_once_more(error: Exception) -> None:
    """Whoever waits is reported; at the end the outcomes get another chance."""
    store = Store()
    store.error = error
    written = book(store)
    told = asyncio.Event()
    written.settle(settled(1), told.set)
    await told.wait()
    assert isinstance(written.broken, JournalError)
    store.error = None
    await written.drain()
    assert store.groups == [[1]]
    await written.drain()
    assert store.groups == [[1]]
    written.close()


async def test_the_first_error_stays() -> None:
    """Later errors do not hide what broke the book."""
    written = book(Store())
    first = JournalError("first")
    assert written.breaks(first) is first
    assert written.breaks(ValueError("22123456789")) is first
    written.close()


async def test_a_strange_error_is_told_without_its_text() -> None:
    """Texts of foreign errors may hold identifiers: only the kind is reported."""
    written = book(Store())
    assert "22123456789" not in str(written.breaks(ValueError("22123456789")))
    written.close()


async def test_caps_may_be_replaced_while_a_run_goes_on() -> None:
    """Each block is held against the caps of its moment."""
    store = Store()
    written = book(store)
    await written.reserve([ASK])
    written.caps = Caps(run_micro=5)
    await written.reserve([ASK])
    written.close()
    assert [caps.run_micro for caps in store.caps] == [None, 5]


async def test_a_refused_reservation_is_raised() -> None:
    """Nothing of the block may be sent."""
    store = Store()
    store.error = JournalError("locked")
    written = book(store)
    with pytest.raises(JournalError, match="locked"):
        await written.reserve([ASK])
    written.close()
