"""`nightscreen desk` as a user starts it: what it prints, that it answers, that it stops."""

from __future__ import annotations

import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from nightscreen.desk.accounts import Accounts
from nightscreen.journal import open_journal
from nightscreen.journal.audit import Audit
from tests.cli.command import COMMAND, nightscreen, surroundings
from tests.portal.crowds import CROWDS, crowd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(folder: Path, env: dict[str, str], *, is_new: bool = True) -> Iterator[tuple[str, str]]:
    """Run a desk; give its address, and of a new one the link that makes the first user."""
    with (folder / "log").open("wb") as log:
        child = subprocess.Popen(
            [COMMAND, "desk", "--port", "0"],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    try:
        assert child.stdout is not None
        says = child.stdout.readline().decode().strip()
        assert says.startswith("desk listening on "), says
        line = child.stdout.readline().decode().strip() if is_new else ""
        link = line.removeprefix("first user: ")
        yield says.removeprefix("desk listening on "), link
    finally:
        child.terminate()
        status = child.wait(60)
        if child.stdout is not None:
            child.stdout.close()
    assert status == 0


FORM = {"content-type": "application/x-www-form-urlencoded"}


def slowly() -> Iterator[bytes]:
    """Give a body that is not as slow as a drip."""
    for _ in range(20):
        time.sleep(0.05)
        yield b"x" * 8192


def test_others_are_served_beside_connections_that_bring_no_whole_request(tmp_path: Path) -> None:
    """However many are held half open or drip, a page is given to whoever asks for it."""
    env = surroundings(tmp_path, NIGHTSCREEN_HOME=str(tmp_path / "home"))
    with (
        serving(tmp_path, env) as (address, _),
        httpx.Client(trust_env=False, timeout=60) as asking,
    ):
        for what, number, begins, drip in CROWDS:
            with crowd(int(address.rpartition(":")[2]), number, begins, drip):
                close = {"connection": "close"}
                pages = [asking.get(f"{address}/sign-in", headers=close) for _ in range(20)]
                form = asking.post(f"{address}/sign-in", content=slowly(), headers=FORM)
            assert form.status_code == 401, what  # it came whole, and names nobody
            assert {page.status_code for page in pages} == {200}, what


def signing_in(address: str, name: str, password: str, said: str = "") -> int:
    """Try to sign in with a new browser, as a proxy says from where; return what was answered."""
    headers = {"x-forwarded-for": said} if said else {}
    with httpx.Client(base_url=address, headers=headers, trust_env=False) as browser:
        fields = {"name": name, "password": password}
        return browser.post("/sign-in", data=fields).status_code


@pytest.mark.parametrize(("proxies", "elsewhere"), [("127.0.0.1", 303), ("", 429)])
def test_where_a_sign_in_comes_from_is_believed_of_configured_proxies_alone(
    tmp_path: Path, proxies: str, elsewhere: int
) -> None:
    """Five wrong ones hold up an address; another one that anybody may claim is none."""
    home = {"NIGHTSCREEN_HOME": str(tmp_path / "home"), "NIGHTSCREEN_DESK_PROXIES": proxies}
    with open_journal(tmp_path / "home") as journal:
        accounts = Accounts(journal)
        accounts.use_link(accounts.link(), "ada", "palm wine at noon")
    with serving(tmp_path, surroundings(tmp_path, **home), is_new=False) as (address, _):
        for number in range(5):
            said = f"203.0.113.{number}, 192.0.2.1"  # whoever is at 192.0.2.1 wrote the first
            assert signing_in(address, "ada", "wrong one", said) == 401
        right = ("ada", "palm wine at noon")
        assert signing_in(address, *right, "203.0.113.9, 192.0.2.1") == 429
        assert signing_in(address, *right, "192.0.2.2") == elsewhere


def test_desk_prints_the_first_link_and_users_are_added_by_command(tmp_path: Path) -> None:
    """The link on stdout opens the form; a user added meanwhile stands in list and audit."""
    env = surroundings(tmp_path, NIGHTSCREEN_HOME=str(tmp_path / "home"))
    with serving(tmp_path, env) as (address, first):
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(first).status_code == 200
        answer = httpx.get(first.partition("/first")[0] + "/")
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        added = nightscreen(
            *("desk", "user", "add", "ada", "--role", "analyst", "--json"), cwd=tmp_path, env=env
        )
        assert added.status == 0, added.err
        assert "/first?token=" in added.document["link"]
        with open_journal(tmp_path / "home") as journal:
            entries = Audit(journal).entries()
        assert [each["action"] for each in entries] == ["user added"]
