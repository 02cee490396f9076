"""`nightscreen desk` as a user starts it: what it prints, that it answers, that it stops."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nightscreen.desk.accounts import Accounts
from nightscreen.journal import open_journal
from nightscreen.schemas.users import Role
from tests.cli.command import serving, surroundings
from tests.portal.crowds import CROWDS, crowd


@contextmanager
def new_desk(folder: Path, env: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Run a new desk; give its address, and the link that makes the first user."""
    with serving("desk", "--port", "0", cwd=folder, env=env) as says:
        line = says()
        assert line.startswith("desk listening on "), line
        yield line.removeprefix("desk listening on "), says().removeprefix("first user: ")


FORM = {"content-type": "application/x-www-form-urlencoded"}


def slowly() -> Iterator[bytes]:
    """Give a body that is not as slow as a drip."""
    for _ in range(20):
        time.sleep(0.05)
        yield b"x" * 8192


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """A desk that nobody has used yet: its address, its first link, its folder."""
    folder = tmp_path_factory.mktemp("desk")
    env = surroundings(folder, NIGHTSCREEN_HOME=str(folder / "home"))
    with new_desk(folder, env) as (address, first):
        yield address, first, folder


def test_desk_prints_the_link_that_makes_the_first_user(new: tuple[str, str, Path]) -> None:
    """It opens the form; before that the desk leads to the sign-in."""
    address, first, _ = new
    assert address.startswith("http://127.0.0.1:")
    assert httpx.get(first).status_code == 200
    answer = httpx.get(f"{address}/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_others_are_served_beside_connections_that_bring_no_whole_request(
    new: tuple[str, str, Path],
) -> None:
    """However many are held half open or drip, a page is given to whoever asks for it."""
    address = new[0]
    with httpx.Client(trust_env=False, timeout=60) as asking:
        for what, number, begins, drip in CROWDS:
            with crowd(int(address.rpartition(":")[2]), number, begins, drip):
                close = {"connection": "close"}
                pages = [asking.get(f"{address}/sign-in", headers=close) for _ in range(10)]
                form = asking.post(f"{address}/sign-in", content=slowly(), headers=FORM)
            assert form.status_code == 401, what  # it came whole, and names nobody
            assert {page.status_code for page in pages} == {200}, what


def signing_in(address: str, name: str, password: str, said: str) -> int:
    """Try to sign in with a new browser, as a proxy says from where; return what was answered."""
    headers = {"x-forwarded-for": said}
    with httpx.Client(base_url=address, headers=headers, trust_env=False) as browser:
        fields = {"name": name, "password": password}
        return browser.post("/sign-in", data=fields).status_code


def held_up(address: str, home: Path) -> list[int]:
    """Give five wrong passwords and a right one from one address, then one from another."""
    right = ("ada", "palm wine at noon")
    with open_journal(home) as journal:
        accounts = Accounts(journal)
        accounts.use_link(accounts.add("ada", [Role.ANALYST]), *right)
    for number in range(5):
        said = f"203.0.113.{number}, 192.0.2.1"  # whoever is at 192.0.2.1 wrote the first
        assert signing_in(address, "ada", "wrong one", said) == 401
    return [signing_in(address, *right, said) for said in ("203.0.113.9, 192.0.2.1", "192.0.2.2")]


def test_where_a_sign_in_comes_from_is_believed_of_configured_proxies_alone(
    new: tuple[str, str, Path], tmp_path: Path
) -> None:
    """An address that anybody may claim is none; others behind a known proxy are not held up."""
    assert held_up(new[0], new[2] / "home") == [429, 429]
    home = {"NIGHTSCREEN_HOME": str(tmp_path / "home"), "NIGHTSCREEN_DESK_PROXIES": "127.0.0.1"}
    with new_desk(tmp_path, surroundings(tmp_path, **home)) as (address, _):
        assert held_up(address, tmp_path / "home") == [429, 303]
