"""`nightscreen desk` as a user starts it: what it prints, that it answers, that it stops."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import ASGIApp

from nightscreen.cli.serve import EngineStarter
from nightscreen.desk import accounts
from nightscreen.desk.accounts import Accounts
from nightscreen.journal import open_journal
from nightscreen.schemas.users import Role
from tests.cli.command import serving, surroundings
from tests.cli.conftest import Here
from tests.desk.office import QUICK
from tests.portal.crowds import CROWDS, crowd

FORM = {"content-type": "application/x-www-form-urlencoded"}


def slowly() -> Iterator[bytes]:
    """Give a body that is not as slow as a drip."""
    for _ in range(20):
        time.sleep(0.05)
        yield b"x" * 8192


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A desk that nobody has used yet: its address, and the link that makes the first user."""
    folder = tmp_path_factory.mktemp("desk")
    env = surroundings(folder, NIGHTSCREEN_HOME=str(folder / "home"))
    with serving("desk", "--port", "0", cwd=folder, env=env) as says:
        line = says()
        assert line.startswith("desk listening on "), line
        yield line.removeprefix("desk listening on "), says().removeprefix("first user: ")


def test_desk_prints_the_link_that_makes_the_first_user(new: tuple[str, str]) -> None:
    """It opens the form; before that the desk leads to the sign-in."""
    address, first = new
    assert address.startswith("http://127.0.0.1:")
    assert httpx.get(first).status_code == 200
    answer = httpx.get(f"{address}/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_others_are_served_beside_connections_that_bring_no_whole_request(
    new: tuple[str, str],
) -> None:
    address = new[0]
    with httpx.Client(trust_env=False, timeout=60) as asking:
        for what, number, begins, drip in CROWDS:
            with crowd(int(address.rpartition(":")[2]), number, begins, drip):
                close = {"connection": "close"}
                pages = [asking.get(f"{address}/sign-in", headers=close) for _ in range(10)]
                form = asking.post(f"{address}/sign-in", content=slowly(), headers=FORM)
            assert form.status_code == 401, what  # it came whole, and names nobody
            assert {page.status_code for page in pages} == {200}, what


def signing_in(app: ASGIApp, address: str, name: str, password: str, said: str) -> int:
    """Try to sign in with a new browser, as a proxy says from where; return what was answered."""

    async def sign_in() -> int:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
        headers, fields = {"x-forwarded-for": said}, {"name": name, "password": password}
        async with httpx.AsyncClient(transport=transport, base_url=address) as browser:
            return (await browser.post("/sign-in", data=fields, headers=headers)).status_code

    return asyncio.run(sign_in())


def held_up(app: ASGIApp, address: str, home: Path) -> list[int]:
    """Give five wrong passwords and a right one from one address, then one from another."""
    right = ("ada", "palm wine at noon")
    with open_journal(home) as journal:
        accounts = Accounts(journal)
        accounts.use_link(accounts.add("ada", [Role.ANALYST]), *right)
    for number in range(5):
        said = f"203.0.113.{number}, 192.0.2.1"  # whoever is at 192.0.2.1 wrote the first
        assert signing_in(app, address, "ada", "wrong one", said) == 401
    places = ("203.0.113.9, 192.0.2.1", "192.0.2.2")
    return [signing_in(app, address, *right, said) for said in places]


def test_where_a_sign_in_comes_from_is_believed_of_configured_proxies_alone(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address that anybody may claim is none; others behind a known proxy are not held up.

    The command runs here, as far as its server: hashes are quick, and no socket is used.
    """
    found: list[list[int]] = []

    def serve(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        server.config.load()
        address = f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
        home = Path(os.environ["NIGHTSCREEN_HOME"])
        found.append(held_up(server.config.loaded_app, address, home))

    monkeypatch.setattr(uvicorn.Server, "run", serve)
    monkeypatch.setattr(accounts, "PasswordHasher", lambda: QUICK)
    monkeypatch.setattr(EngineStarter, "prepare", lambda _: None)
    for proxies in ("", "127.0.0.1"):
        monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / f"home{proxies}"))
        monkeypatch.setenv("NIGHTSCREEN_DESK_PROXIES", proxies)
        ended = here("desk", "--port", "0")
        assert ended.status == 0, ended.err
    assert found == [[429, 429], [429, 303]]
