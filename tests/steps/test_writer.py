"""The writer of a run's calls: groups back to back, and what happens when the journal breaks."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from nightscreen.calling.writer import Change, Writer
from nightscreen.journal.calls import Claim, Wish
from nightscreen.schemas.calls import (
    CallResult,
    CallState,
    Caps,
    LookupStatus,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.journal.calls import Calls

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

    def claim(
        self,
        run_id: str,
        purpose: str,
        asks: Sequence[ReserveRequest],
        caps: Caps,
        *,
        since: int,
        wishes: Mapping[str, Wish],
    ) -> tuple[list[Reservation], dict[str, Claim]]:
        """Grant all."""
        self.caps.append(caps)
        self.blocks.append(
            ([ask.check for ask in asks], {check: each.number for check, each in wishes.items()})
        )
        if self.error is not None:
            raise self.error
        granted = ReservationStatus.GRANTED
        grants = [Reservation(granted, number, 0) for number, _ in enumerate(asks, 1)]
        return grants, {check: Claim(stops={check: ""}) for check in wishes}

    def settle(
        self, run_id: str, outcomes: Sequence[CallResult], changes: Sequence[Change] = ()
    ) -> None:
        """Commit a group."""
        if self.error is not None:
            raise self.error
        self.groups.append(
            [*(each.call_id for each in outcomes), *(number for number, *_ in changes)]
        )


def book(store: Store) -> Writer:
    """Return a writer."""
    journal = cast("Calls", store)
    return Writer(journal, run_id="run", purpose="portfolio", caps=Caps(), since=0)


async def test_outcomes_that_arrive_together_are_one_group() -> None:
    """No outcome waits for a commit of its own; the order is kept."""
    store = Store()
    written = book(store)
    done: list[int] = []
    for number in range(5):
        written.settle(settled(number), None, lambda number=number: done.append(number))  # type: ignore[misc]
    await written.drain()
    written.close()
    assert store.groups == [[0, 1, 2, 3, 4]]
    assert done == [0, 1, 2, 3, 4]


async def test_one_thread_writes_and_never_the_loop() -> None:
    """A disk that takes its time holds up no answer; claims and outcomes never overtake another."""
    threads: set[int] = set()

    class Watched(Store):
        def claim(self, *given: Any, **more: Any) -> Any:  # noqa: ANN401 - as the store has it
            threads.add(threading.get_ident())
            return super().claim(*given, **more)

        def settle(self, *given: Any, **more: Any) -> None:  # noqa: ANN401 - as the store has it
            threads.add(threading.get_ident())
            super().settle(*given, **more)

    written = book(Watched())
    for number in range(3):
        await written.reserve("karma", [ASK])
        written.settle(settled(number), None, lambda: None)
        await written.drain()
    written.close()
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_what_is_asked_for_in_one_turn_of_the_loop_is_one_block() -> None:
    """Each check gets its own grants back, and what became of its own wish."""
    store = Store()
    written = book(store)
    bank = replace(ASK, check="bank_account")
    (first, karma), (second, none) = await asyncio.gather(
        written.reserve("karma", [ASK, ASK], Wish(3)), written.reserve("bank_account", [bank])
    )
    (third,), _ = await written.reserve("karma", [ASK])
    written.close()
    assert [grant.call_id for grant in (*first, *second, third)] == [1, 2, 3, 1]
    assert (karma and karma.stops, none) == ({"karma": ""}, None)
    assert store.blocks == [
        (["karma", "karma", "bank_account"], {"karma": 3}),
        (["karma"], {}),
    ]


async def test_what_becomes_of_a_lookup_is_written_with_its_outcome() -> None:
    """A lookup that ends without a call is written too."""
    store = Store()
    written = book(store)
    written.settle(settled(1), (7, LookupStatus.PAID, 1), lambda: None)
    written.settle(None, (8, LookupStatus.LAPSED, 0), lambda: None)
    await written.drain()
    written.close()
    assert store.groups == [[1, 7, 8]]


async def test_outcomes_handed_in_while_writing_go_into_the_next_group() -> None:
    """Commits follow each other; what is handed in by a callback is written too."""
    store = Store()
    written = book(store)
    written.settle(settled(1), None, lambda: written.settle(settled(2), None, lambda: None))
    await written.drain()
    written.close()
    assert store.groups == [[1], [2]]


@pytest.mark.parametrize("error", [JournalError("full"), OSError("gone")])
async def test_a_failed_commit_breaks_the_writer_and_is_tried_once_more(error: Exception) -> None:
    """Whoever waits is reported; at the end the outcomes get another chance."""
    store = Store()
    store.error = error
    written = book(store)
    told = asyncio.Event()
    written.settle(settled(1), None, told.set)
    await told.wait()
    assert isinstance(written.broken, JournalError)
    store.error = None
    await written.drain()
    assert store.groups == [[1]]
    await written.drain()
    assert store.groups == [[1]]
    written.close()


async def test_the_first_error_stays() -> None:
    """Later errors do not hide what broke it."""
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
