"""The portal as processes: several over one journal, ended in good order, silent about people."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.operations.consent_links import ConsentLinks
from nightscreen.portal.app import end_within_s, place_of
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
    """One sends customers away, the other takes them back, and waits for the answers.

    What is granted is kept also of a customer who does not wait.
    """
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
        made, scopes = ConsentLinks(journal).make, ["transaction:list"]
        links = [made(customer, scopes) for customer in ("CUST-1", "CUST-2")]
    answers: list[httpx.Response] = []
    serve = partial(serving, "portal", cwd=tmp_path, env=env)
    with httpx.Client(trust_env=False) as browser:

        def come_back(elsewhere: str, state: str, patience_s: float) -> None:
            given, host = {"code": "code-1", "state": state}, {"host": urlsplit(origin).netloc}
            back = partial(browser.get, f"{elsewhere}/callback", timeout=patience_s)
            answers.append(back(params=given, headers=host))

        with serve("--port", "0") as second:
            with serve(stop=signal.SIGINT) as first:
                assert first().split()[:4] == ["portal", "listening", "on", origin]
                elsewhere = second().split()[3]
                assert elsewhere != origin
                states = []
                for link in links:
                    browser.get(f"{origin}/consent/{link.token}")
                    away = browser.post(f"{origin}/consent/{link.token}")
                    states += parse_qs(urlsplit(away.headers["location"]).query)["state"]
            customer = threading.Thread(target=come_back, args=(elsewhere, states[0], 10))
            customer.start()
            with pytest.raises(httpx.ReadTimeout):
                come_back(elsewhere, states[1], 0.3)
            assert asked.wait(10)
        customer.join(10)
    assert [answer.status_code for answer in answers] == [303]
    with open_journal(tmp_path / "home") as journal:
        kept = {grant.customer_id for grant in Consents(journal).grants()}
        assert kept == {"CUST-1", "CUST-2"}


def test_time_to_end_is_what_the_longest_call_may_take(tmp_path: Path) -> None:
    """With raised timeouts as well, no call that was sent is cut, and supervisors wait for it."""
    assert end_within_s(settings_in(tmp_path)) == 75 * 5 + 60
    for name in ("bvn", "aggregator"):
        raised = settings_in(tmp_path, timeout_s={name: 200.5}, attempts=2)
        assert end_within_s(raised) == 401 + 60
    compose = (Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text("utf-8")
    portal = compose.partition("\n  portal:\n")[2].partition("\n  proxy:\n")[0]
    assert "stop_grace_period: 8m" in portal
    assert end_within_s(settings_in(tmp_path)) < 8 * 60


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
