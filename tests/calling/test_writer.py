"""The writer of a run's calls: groups back to back, and what happens when the journal breaks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import cast

import pytest

from nightscreen.calling.writer import Change, Writer
from nightscreen.journal.calls import Calls, Claim, ClaimRequest
from nightscreen.schemas.calls import CallResult, CallState, Caps, LookupStatus, ReserveRequest
from nightscreen.schemas.errors import JournalError

ASK = ReserveRequest("karma", "bvn", b"\0" * 16, 10, None, 1)


def settled(number: int) -> CallResult:
    return CallResult(number, ASK, CallState.ANSWERED, 0, cost_micro=0)


class Store:
    """Keeps groups as they were committed, and which threads wrote."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.threads: set[int] = set()
        self.error: Exception | None = None

    def claim(
        self, run_id: str, purpose: str, request: ClaimRequest, caps: Caps, *, since: int
    ) -> Claim:
        self.threads.add(threading.get_ident())
        return Claim()

    def settle(
        self, run_id: str, outcomes: Sequence[CallResult], changes: Sequence[Change] = ()
    ) -> None:
        self.threads.add(threading.get_ident())
        if self.error is not None:
            raise self.error
        self.groups.append(
            [*(each.call_id for each in outcomes), *(number for number, *_ in changes)]
        )


def book(store: Store) -> Writer:
    journal = cast("Calls", store)
    return Writer(journal, run_id="run", purpose="portfolio", caps=Caps(), since=0)


async def test_outcomes_are_written_in_groups_with_what_becomes_of_their_lookups() -> None:
    """None waits for a commit of its own; what comes while a group is written is the next.

    One thread writes, so that claims and outcomes never overtake another, and never the loop's: a
    disk that takes its time holds up no answer.
    """
    store = Store()
    written = book(store)
    done: list[int] = []
    await written.claim(ClaimRequest("karma", [ASK]))
    for number in range(1, 4):
        written.settle(settled(number), None, lambda number=number: done.append(number))  # type: ignore[misc]
    written.settle(settled(4), (7, LookupStatus.PAID, 1), lambda: done.append(4))
    written.settle(
        *(None, (8, LookupStatus.LAPSED, 0)),
        lambda: written.settle(settled(5), None, lambda: done.append(5)),
    )
    await written.drain()
    written.close()
    assert store.groups == [[1, 2, 3, 4, 7, 8], [5]]
    assert done == [1, 2, 3, 4, 5]
    assert len(store.threads) == 1
    assert threading.get_ident() not in store.threads


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
    for _ in range(2):
        await written.drain()
        assert store.groups == [[1]]
    written.close()


async def test_the_first_error_stays_and_a_strange_one_is_told_without_its_text() -> None:
    """Texts of foreign errors may hold identifiers: only the kind is reported."""
    written = book(Store())
    first = written.breaks(ValueError("22123456789"))
    assert "22123456789" not in str(first)
    assert written.breaks(JournalError("second")) is first
    written.close()
