"""Links under which customers type their passwords: one a request, limited, and leaving nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from nightscreen.operations.bvn.confirmations import LinkWord, accept_otp
from nightscreen.sandbox.app import application
from nightscreen.schemas.clock import MICROS, system_clock
from tests.steps.bvn_in_a_test import BvnWorld, asked


@pytest.fixture
def world(tmp_path: Path) -> BvnWorld:
    """A world that begins with nothing."""
    return BvnWorld(tmp_path)


def link_of(world: BvnWorld, number: int = 1) -> str:
    """Ask a customer and return their link."""
    link = world.request([asked(number)]).rows[f"C{number}"]["otp_link"]
    assert isinstance(link, str)
    return link


def test_customer_types_the_password_and_is_confirmed(world: BvnWorld) -> None:
    """The call is made at once, charged once, and the lender's next table shows it."""
    link = link_of(world)
    seen = world.look(link)
    assert (seen.word, seen.attempts_left) == (LinkWord.OPEN, 3)
    assert seen.masked_contact is not None
    assert "*" in seen.masked_contact
    done = world.type_otp(link, f" {world.otp(asked(1))} ")
    assert done.word is LinkWord.CONFIRMED
    assert world.charged == "20"
    told = world.request([asked(1)])
    assert told.rows["C1"]["state"] == "confirmed"
    assert told.rows["C1"]["bvn_first_name"]
    assert told.rows["C1"]["otp_link"] is None
    assert world.type_otp(link, "123456").word is LinkWord.CONFIRMED
    assert len(world.calls("bvn_finish")) == 1


def test_link_ends_with_time(world: BvnWorld) -> None:
    """After the set time it is expired, and nothing is sent."""
    ahead = timedelta(0)
    world.clock = lambda: system_clock() + int(ahead.total_seconds()) * MICROS
    link = link_of(world)
    otp = world.otp(asked(1)) or ""
    ahead = timedelta(days=1, seconds=1)
    assert world.type_otp(link, otp).word is LinkWord.EXPIRED
    assert world.calls("bvn_finish") == []


def test_two_at_a_time_are_one(world: BvnWorld) -> None:
    """A password typed twice in one moment is sent once."""
    link = link_of(world)
    transport = httpx.ASGITransport(application(world.sandbox))
    token, otp = link.rpartition("/")[2], world.otp(asked(1)) or ""

    async def both() -> list[LinkWord]:
        each = (
            accept_otp(world.read_settings(), token, otp, transport=transport) for _ in range(4)
        )
        return [view.word for view in await asyncio.gather(*each)]

    words = asyncio.run(both())
    assert LinkWord.CONFIRMED in words
    assert set(words) <= {LinkWord.CONFIRMED, LinkWord.BUSY}
    assert len(world.calls("bvn_finish")) == 1
    assert world.charged == "20"


def test_limit_of_the_lender_sends_nothing(world: BvnWorld) -> None:
    """A daily cap that is used up makes the link unavailable, not closed."""
    link = link_of(world)
    world.settings = {"daily_spend_cap": "19"}
    otp = world.otp(asked(1)) or ""
    assert world.type_otp(link, otp).word is LinkWord.UNAVAILABLE
    assert world.calls("bvn_finish") == []
    world.settings = {}
    assert world.type_otp(link, otp).word is LinkWord.CONFIRMED


def test_no_password_is_left_anywhere(world: BvnWorld) -> None:
    """Neither journal nor outputs hold what was typed or given, right or wrong."""
    links = {n: link_of(world, n) for n in (1, 2)}
    right = world.otp(asked(1)) or ""
    world.type_otp(links[2], "860193")
    world.type_otp(links[1], right)
    for place in (world.folder / "home", world.folder / "out"):
        for path in place.rglob("*"):
            assert right not in path.name
            if path.is_file():
                content = path.read_bytes()
                for otp in (right, "860193"):
                    assert otp.encode() not in content, path
