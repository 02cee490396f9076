"""The portal as processes: several over one journal, ended in good order, silent about people."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.operations.consents.links import ConsentLinks
from nightscreen.portal.pages import place_of
from tests.cli.command import serving, surroundings
from tests.portal.visiting import settings_in
from tests.services import answering, free_port

TOKEN = {"access_token": "acc", "refresh_token": "ref", "scope": "transaction:list"}


@pytest.fixture
def slow() -> Iterator[tuple[str, threading.Event]]:
    """The address of a service that answers a while after it was asked, and what says it was."""
    asked = threading.Event()

    def late(*_: object) -> tuple[int, bytes]:
        asked.set()
        time.sleep(0.8)
        return 200, json.dumps(TOKEN).encode()

    with answering(late) as address:
        yield address, asked


def test_processes_share_states_and_end_in_good_order(
    tmp_path: Path, slow: tuple[str, threading.Event]
) -> None:
    """One sends the customer away, the other takes them back, and waits for the answer."""
    service, asked = slow
    origin = f"http://127.0.0.1:{free_port()}"
    env = surroundings(
        tmp_path,
        NIGHTSCREEN_BASE_URL=service,
        NIGHTSCREEN_API_KEY="key",
        NIGHTSCREEN_CONSENT_URL=service,
        NIGHTSCREEN_CLIENT_ID="client",
        NIGHTSCREEN_REDIRECT_URI=f"{origin}/callback",
        NIGHTSCREEN_HOME=str(tmp_path / "home"),
    )
    with open_journal(tmp_path / "home") as journal:
        link = ConsentLinks(journal).make("CUST-1", ["transaction:list"], timedelta(days=1))
    answers: list[httpx.Response] = []
    serve = partial(serving, "portal", cwd=tmp_path, env=env)
    with httpx.Client(trust_env=False) as browser:

        def come_back(elsewhere: str, state: str) -> None:
            given, host = {"code": "code-1", "state": state}, {"host": urlsplit(origin).netloc}
            answers.append(browser.get(f"{elsewhere}/callback", params=given, headers=host))

        with serve("--port", "0") as second:
            with serve(stop=signal.SIGINT) as first:
                assert first().split()[:4] == ["portal", "listening", "on", origin]
                elsewhere = second().split()[3]
                assert elsewhere != origin
                browser.get(f"{origin}/consent/{link.token}")
                away = browser.post(f"{origin}/consent/{link.token}")
                state = parse_qs(urlsplit(away.headers["location"]).query)["state"][0]
            customer = threading.Thread(target=come_back, args=(elsewhere, state))
            customer.start()
            assert asked.wait(10)
        customer.join(10)
    assert [answer.status_code for answer in answers] == [303]
    with open_journal(tmp_path / "home") as journal:
        assert [grant.customer_id for grant in Consents(journal).grants()] == ["CUST-1"]


PLACES: list[tuple[str, str, str, str, int]] = [
    ("https://a.example/x/y", "", "https://a.example", "/x/y", 8080),
    ("https://a.example:443/x", "https://A.example", "https://a.example", "/x", 8080),
    ("https://a.example", "", "https://a.example", "/", 8080),
    ("https://a.example/x%20y?app=1", "", "https://a.example", "/x y", 8080),
    ("https://a.example/x", "https://b.example:8443", "https://b.example:8443", "", 8080),
    ("http://127.0.0.1:8123/x", "", "http://127.0.0.1:8123", "/x", 8123),
    ("http://[::1]:8123/x", "", "http://[::1]:8123", "/x", 8123),
]


def test_place_is_read_off_the_settings(tmp_path: Path) -> None:
    """The portal answers at whatever path was registered, where it is the portal's host."""
    for redirect, portal, origin, callback, port in PLACES:
        place = place_of(settings_in(tmp_path, redirect_uri=redirect, portal_url=portal))
        assert (place.origin, place.callback_path, place.port) == (origin, callback, port), redirect
