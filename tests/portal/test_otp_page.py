"""The page for one-time passwords: one link a request, few tries, nothing shown twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from nightscreen.journal import Journal, open_journal
from nightscreen.operations.bvn import link_for
from nightscreen.operations.bvn_table import requests_of
from nightscreen.portal.app import TRIES_A_MINUTE, application
from tests.operations.bvn_in_a_test import BvnWorld, asked
from tests.portal.visiting import PORTAL, Clock, heading, settings_in
from tests.privacy.search import Search
from tests.sandbox.in_process import quick_sandbox


class Desk:
    """A customer with a link, and their browser."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.world = BvnWorld(folder, quick_sandbox(), clock=self.clock)
        self.row = asked(1, customer_id="CUST-7700155-OBI")
        self.world.request([self.row])
        self.journal: Journal = open_journal(folder / "home", clock=self.clock)
        (request,) = requests_of(self.journal).all(batch="customers")
        settings = settings_in(folder)
        self.path = urlsplit(link_for(self.journal, settings, request)).path
        from nightscreen.sandbox.app import application as sandbox  # noqa: PLC0415 - two of one name

        service = httpx.ASGITransport(sandbox(self.world.sandbox))
        app = application(self.journal, settings, transport=service)
        self.browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=PORTAL)

    @property
    def otp(self) -> str:
        """Return the password as the customer reads it."""
        otp = self.world.otp(self.row)
        assert otp is not None
        return otp

    async def type(self, otp: str) -> httpx.Response:
        """Type a password on the page."""
        return await self.browser.post(self.path, data={"otp": otp})


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A customer who was sent a password."""
    desk = Desk(tmp_path)
    yield desk
    desk.journal.close()


async def test_wrong_password_is_told_beside_the_field_and_counted(desk: Desk) -> None:
    wrong = "000000" if desk.otp != "000000" else "111111"
    for left in ("2 times", "once"):
        page = await desk.type(wrong)
        assert page.status_code == 422
        assert 'aria-invalid="true"' in page.text
        assert 'href="#otp"' in page.text
        assert f"You can try {left}" in page.text
        assert wrong not in page.text
    last = await desk.type(wrong)
    assert (last.status_code, heading(last)) == (410, "This link does not work any more")
    assert (await desk.type(desk.otp)).status_code == 410


async def test_right_password_confirms_and_what_cannot_be_one_is_not_sent(desk: Desk) -> None:
    """Nor does it count, nor use anything up while the service is away; opened again it says so.

    A link that is none says nothing, not even whether there was one.
    """
    for token in ("x", "x.y", "é", "a" * 400):
        page = await desk.browser.get(f"/otp/{token}")
        assert (page.status_code, heading(page)) == (410, "This link does not work any more"), token
    before = desk.world.sandbox.ledger.count
    for typed in ("", "   ", "12", "12345678901", "abcdef"):
        page = await desk.type(typed)
        assert page.status_code == 422, typed
        assert "You can try 3 times" in page.text, typed
    assert desk.world.sandbox.ledger.count == before
    sandbox, right = desk.world.sandbox, desk.world.sandbox.authorization
    sandbox.authorization = "Bearer another"
    page = await desk.type(desk.otp)
    assert (page.status_code, heading(page)) == (503, "The code could not be checked now")
    sandbox.authorization = right
    answer = await desk.type(f" {desk.otp[:3]} {desk.otp[3:]} ")
    assert (answer.status_code, answer.headers["location"]) == (303, desk.path)
    page = await desk.browser.get(desk.path)
    assert heading(page) == "Thank you, your BVN is confirmed"
    assert heading(await desk.type(desk.otp)) == "Thank you, your BVN is confirmed"


async def test_many_tries_a_minute_are_slowed(desk: Desk) -> None:
    for _ in range(TRIES_A_MINUTE):
        assert (await desk.type("12")).status_code == 422
    page = await desk.type("12")
    assert (page.status_code, heading(page)) == (429, "That was too often in a short time")


async def test_page_shows_where_the_code_went_and_nothing_else_of_the_customer(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither page nor log nor HOME has password, BVN or customer in clear."""
    otp = desk.otp
    page = await desk.browser.get(desk.path)
    await desk.type(otp)
    row = desk.row
    search = Search([row["bvn"], row["customer_id"], desk.path.rpartition("/")[2]])
    assert "sent to <strong>" in page.text
    assert search.found_in(page.text.encode()) == set()
    log = capsys.readouterr().err
    assert search.found_in(log.encode()) == set()
    assert f"{otp}" not in log
    assert f'"{otp}"' not in page.text
    for file in (desk.world.folder / "home").rglob("*"):
        if file.is_file():
            assert Search([row["bvn"], row["customer_id"]]).found_in(file.read_bytes()) == set()
            assert otp.encode() not in file.read_bytes() or file.suffix == ".sqlite"
