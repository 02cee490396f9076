"""`nightscreen consent`: links, codes by hand, the list, and taking a consent back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from nightscreen.journal import open_journal
from nightscreen.journal.consents import Consents
from nightscreen.sandbox.process import SandboxProcess
from tests.cli.conftest import Here
from tests.privacy.search import Search

CUSTOMER = "CUST-7700155-OBI"
CALLBACK = "http://127.0.0.1:8123/callback"
SCREEN = "https://screen.service.example"
LIST, PROFILE = "transaction:list", "profile:view"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """The service."""
    with SandboxProcess() as sandbox:
        yield sandbox


@pytest.fixture(autouse=True)
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch, sandbox: SandboxProcess) -> None:
    """A lender who registered a redirect address on this machine."""
    for name, value in {
        "BASE_URL": sandbox.url,
        "API_KEY": sandbox.api_key,
        "CONSENT_URL": SCREEN,
        "CLIENT_ID": "sandbox-client",
        "REDIRECT_URI": CALLBACK,
    }.items():
        monkeypatch.setenv(f"NIGHTSCREEN_{name}", value)


def code_of(sandbox: SandboxProcess, *scopes: str, customer: str = "ada@x.example") -> str:
    body = {"customer": customer, "scopes": scopes or (LIST,), "redirect_uri": CALLBACK}
    return str(sandbox.post("/_sandbox/grants", body)["code"])


def test_link_leads_to_the_portal(here: Here) -> None:
    """Alone on stdout, so that it can be piped; with --json what a program needs for a letter."""
    ended = here("consent", "link", CUSTOMER, "--scope", LIST)
    assert ended.status == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:8123/consent/[\w.-]{80,120}\n", ended.out)
    assert "reference" in ended.err
    assert Search([CUSTOMER]).found_in(ended.out.encode()) == set()
    words = ("consent", "link", CUSTOMER, "--scope", f"{LIST},{PROFILE}")
    document = here(*words, "--json").document
    assert document["scopes"] == [LIST, PROFILE]
    assert document["leads_to"] == "portal"
    assert set(document) == {
        *("link", "reference", "customer_id", "scopes", "expires_at", "leads_to"),
    }


def test_link_is_the_screens_own_where_no_portal_takes_the_redirect(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address is as the specification has it.

    The setting may name the service's base or the screen itself.
    """
    monkeypatch.setenv("NIGHTSCREEN_PORTAL_URL", "https://consent.lender.example")
    for place in (SCREEN, f"{SCREEN}/data-share"):
        monkeypatch.setenv("NIGHTSCREEN_CONSENT_URL", place)
        parts = urlsplit(here("consent", "link", CUSTOMER, "--scope", LIST).out.strip())
        given = parse_qs(parts.query)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{SCREEN}/data-share"
        assert (given["response_type"], given["client_id"]) == (["code"], ["sandbox-client"])
        assert (given["redirect_uri"], given["scope"]) == ([CALLBACK], [LIST])
        assert Search([CUSTOMER]).found_in(given["state"][0].encode()) == set()


def test_mistakes_in_a_link_are_told(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 2 and the option's or setting's name; somebody's number is no customer's id."""
    for arguments, told in (
        ((CUSTOMER, "--scope", "money:move"), "money:move is no scope; there are transaction:list"),
        ((CUSTOMER, "--scope", " "), "name at least one scope"),
        ((CUSTOMER,), "--scope"),
        (("22212345678", "--scope", LIST), ""),
        (("08031234567", "--scope", LIST), ""),
        (("", "--scope", LIST), ""),
    ):
        ended = here("consent", "link", *arguments)
        assert (ended.status, told in ended.err) == (2, True), (arguments, ended.err)
    for name in ("CONSENT_URL", "CLIENT_ID", "REDIRECT_URI"):
        with monkeypatch.context() as patch:
            patch.delenv(f"NIGHTSCREEN_{name}")
            ended = here("consent", "link", CUSTOMER, "--scope", LIST)
        assert (ended.status, f"NIGHTSCREEN_{name} is not set" in ended.err) == (2, True), name


def test_code_is_redeemed_listed_and_taken_back(
    here: Here, sandbox: SandboxProcess, folder: Path
) -> None:
    """The whole life of a consent at the lender's desk; no token is ever shown."""
    code = code_of(sandbox)
    ended = here("consent", "redeem", "--customer", CUSTOMER, "--code", code)
    assert (ended.status, ended.out) == (0, f"Saved: {LIST}\n")
    with open_journal(folder / ".nightscreen") as journal:
        consents = Consents(journal)
        (grant,) = consents.grants()
        tokens = grant.tokens
    assert tokens is not None
    listed = here("consent", "list")
    assert re.search(rf"{CUSTOMER} +live +today +not yet +{LIST}", listed.out)
    document = here("consent", "list", "--json")
    (row,) = document.document["grants"]
    assert (row["customer_id"], row["state"], row["age_days"]) == (CUSTOMER, "live", 0)
    assert (row["refreshed_at"], row["channel"]) == (None, "by hand")
    taken = here("consent", "revoke", CUSTOMER)
    assert (taken.status, "tokens are destroyed" in taken.out) == (0, True)
    with open_journal(folder / ".nightscreen") as journal:
        assert [each.tokens for each in Consents(journal).grants()] == [None]
    again = here("consent", "revoke", CUSTOMER, "--json")
    assert (again.status, again.document["revoked"], again.document["state"]) == (
        0,
        False,
        "revoked",
    )
    assert here("consent", "list", "--state", "live").out.startswith("No consents")
    search = Search([tokens.access_token, tokens.refresh_token, code])
    for each in (ended, listed, document, taken, again):
        assert search.found_in((each.out + each.err).encode()) == set()


def test_whole_address_of_a_redirect_is_understood_and_what_does_not_work_is_told(
    here: Here, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With status 2, and nothing is kept. A state says whose it is, and works once."""
    monkeypatch.setenv("NIGHTSCREEN_PORTAL_URL", "https://consent.lender.example")
    redeem = ("consent", "redeem", "--customer", CUSTOMER, "--code")
    for code, told in (
        ("never-given", "the code was used, has expired or is for another address"),
        ("", "--code: give the code alone"),
        ("code=abc", "--code: give the code alone"),
        (f"{CALLBACK}?state=x", "the address holds no code"),
        (f"{CALLBACK}?error=access_denied", "the customer did not allow it"),
        (f"{CALLBACK}?error=server_error", "an error instead of a code"),
        (f"{CALLBACK}?code=abc&state=x.y", "was not made here"),
    ):
        ended = here(*redeem, code)
        assert (ended.status, told in ended.err) == (2, True), (code, ended.err)
    assert here("consent", "list", "--json").document["grants"] == []
    link = here("consent", "link", CUSTOMER, "--scope", LIST).out.strip()
    state = parse_qs(urlsplit(link).query)["state"][0]
    wrong, address = (f"{CALLBACK}?code={code_of(sandbox)}&state={state}" for _ in range(2))
    other = here("consent", "redeem", "--customer", "CUST-OTHER", "--code", wrong)
    assert (other.status, "belongs to another customer" in other.err) == (2, True)
    ended = here(*redeem, address, "--json")
    assert (ended.status, ended.document["result"]) == (0, "kept")
    again = here(*redeem, address)
    assert (again.status, "used already" in again.err) == (2, True)


HINDERED: tuple[tuple[dict[str, str], tuple[str, ...], str], ...] = (
    ({"REDIRECT_URI": "", "CONSENT_URL": "", "CLIENT_ID": ""}, (), "portal is not known"),
    ({"CONSENT_URL": ""}, (), "NIGHTSCREEN_CONSENT_URL is not set"),
    ({}, ("--port", "{taken}"), "cannot listen on"),
    ({}, ("--port", "99999"), "--port"),
    ({}, ("--host", "no.such.host.invalid"), "--host"),
    ({"BASE_URL": ""}, (), "NIGHTSCREEN_BASE_URL is not set"),
)


def test_portal_that_cannot_begin_says_why(
    here: Here, monkeypatch: pytest.MonkeyPatch, sandbox: SandboxProcess
) -> None:
    """In one line, with status 2."""
    taken = str(urlsplit(sandbox.url).port)
    for changes, arguments, told in HINDERED:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(f"NIGHTSCREEN_{name}", value)
            ended = here("portal", *(word.replace("{taken}", taken) for word in arguments))
        assert (ended.status, ended.out, told in ended.err) == (2, "", True), told
