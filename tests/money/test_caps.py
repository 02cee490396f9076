"""Caps that hold, whatever a service charges and says, and however many calls are under way."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.calling.lane import Lane
from nightscreen.calling.progress import CheckProgress
from nightscreen.calling.stops import Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.calling.writer import Writer
from nightscreen.journal import open_journal
from nightscreen.schemas.calls import Caps
from tests.how_many import examples
from tests.steps.lane_in_a_test import (
    NAIRA,
    PRICE,
    FakeService,
    bench,
    hit,
    lost,
    miss,
    refused,
    task,
)
from tests.steps.virtual_time import VirtualLoop, run

if TYPE_CHECKING:
    import pytest

    from nightscreen.client.classify import CallOutcome
    from nightscreen.journal import Journal
    from nightscreen.schemas.requests import Request


@dataclass
class Till:
    """A service that charges as it likes, up to a known price, and forgets to say so."""

    rng: random.Random
    price: int
    hit_share: float
    lost_share: float
    charged: int = 0
    answered: set[str] = field(default_factory=set)

    def __call__(self, request: Request, attempt: int) -> CallOutcome:
        """Decide one attempt."""
        if self.rng.random() < 0.1:
            return refused()
        cost = self.rng.randrange(1, self.price + 1) if self.rng.random() < self.hit_share else 0
        self.charged += cost
        if self.rng.random() < self.lost_share:
            return lost()
        assert request.asked not in self.answered, "an answer was paid for twice"
        self.answered.add(request.asked)
        return hit(cost) if cost else miss()


TILLS = st.builds(
    Till,
    rng=st.randoms(use_true_random=False),
    price=st.integers(1, 40 * NAIRA),
    hit_share=st.floats(0, 1),
    lost_share=st.floats(0, 0.6),
)


@settings(max_examples=examples(40), deadline=None)
@given(till=TILLS, cap=st.integers(0, 500 * NAIRA), in_flight=st.integers(1, 64))
def test_no_cap_is_ever_passed(
    till: Till, cap: int, in_flight: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is charged, said or lost, at any concurrency, the sum stays under the cap."""
    home = tmp_path_factory.mktemp("home")

    async def main(loop: VirtualLoop) -> None:
        check = task(0).check
        stops = Stops({check: CheckProgress()})
        with open_journal(home, clock=loop.micros) as journal:
            caps = Caps(day_micro=cap)
            book = Writer(
                journal.calls, run_id="run", purpose="portfolio", caps=caps, since=loop.micros()
            )
            service = FakeService(loop, till)
            lane = Lane(
                check,
                send=service,
                writer=book,
                cap=bench(loop, cap=in_flight).lane._cap,
                stops=stops,
                wallet=Wallet(stops),
                attempts=5,
                random=random.Random(1),
                clock=loop.micros,
            )
            await lane.make([task(each, worst=till.price) for each in range(40)])
            await lane.drain()
            assert till.charged <= cap
            assert journal.money.today().bound_micro <= cap
            book.close()

    run(main)


@settings(max_examples=examples(12), deadline=None)
@given(
    times=st.sampled_from([2, 4, 20]),
    cap=st.integers(1, 1000),
    in_flight=st.integers(1, 64),
    every=st.integers(1, 5),
)
def test_where_the_price_list_is_out_of_date_one_call_may_pass_the_cap(
    times: int,
    cap: int,
    in_flight: int,
    every: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Two processes under one cap, misses among the hits, and a resume: never a second call."""
    home = tmp_path_factory.mktemp("home")
    real, charged = times * PRICE, 0

    def reply(request: Request, _: int) -> CallOutcome:
        nonlocal charged
        if int(request.asked) % every:
            return miss()
        charged += real
        return hit(real)

    async def ask(loop: VirtualLoop, journal: Journal, numbers: range) -> None:
        limits = (("karma", 20 * PRICE),)
        caps = Caps(day_micro=cap * NAIRA, price_limits=limits)
        stops = Stops({task(0).check: CheckProgress()})
        book = Writer(
            journal.calls, run_id="run", purpose="portfolio", caps=caps, since=loop.micros()
        )
        lane = Lane(
            task(0).check,
            send=FakeService(loop, reply),
            writer=book,
            cap=bench(loop, cap=in_flight).lane._cap,
            stops=stops,
            wallet=Wallet(stops, price_limits=dict(limits)),
            attempts=5,
            random=random.Random(1),
            clock=loop.micros,
        )
        await lane.make([task(each) for each in numbers])
        await lane.drain()
        book.close()

    async def main(loop: VirtualLoop) -> None:
        for first in (0, 60):
            openings = [open_journal(home, clock=loop.micros) for _ in range(2)]
            async with asyncio.TaskGroup() as group:
                for place, journal in enumerate(openings):
                    numbers = range(first + 30 * place, first + 30 * place + 30)
                    group.create_task(ask(loop, journal, numbers))
            for journal in openings:
                journal.close()

    run(main)
    assert charged <= cap * NAIRA + real - PRICE
