"""`nightscreen consent`: links, codes by hand, the list, taking one back, pulling without one."""

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
from tests.operations.pulls_in_a_test import Lender
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


def test_link_leads_to_the_portal_or_to_the_screen_itself(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone on stdout, so that it can be piped; with --json what a program needs for a letter.

    It is the screen's own, as the specification has it, where no portal takes the redirect; the
    setting may name the service's base or the screen itself.
    """
    link = ("consent", "link", CUSTOMER, "--scope")
    ended = here(*link, LIST)
    assert ended.status == 0
    assert re.fullmatch(r"http://127\.0\.0\.1:8123/consent/[\w.-]{80,120}\n", ended.out)
    assert "reference" in ended.err
    assert Search([CUSTOMER]).found_in(ended.out.encode()) == set()
    document = here(*link, f"{LIST},{PROFILE}", "--json").document
    assert (document["scopes"], document["leads_to"]) == ([LIST, PROFILE], "portal")
    assert set(document) == {
        *("link", "reference", "customer_id", "scopes", "expires_at", "leads_to"),
    }
    monkeypatch.setenv("NIGHTSCREEN_PORTAL_URL", "https://consent.lender.example")
    for place in (SCREEN, f"{SCREEN}/data-share"):
        monkeypatch.setenv("NIGHTSCREEN_CONSENT_URL", place)
        parts = urlsplit(here(*link, LIST).out.strip())
        given = parse_qs(parts.query)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{SCREEN}/data-share"
        assert (given["response_type"], given["client_id"]) == (["code"], ["sandbox-client"])
        assert (given["redirect_uri"], given["scope"]) == ([CALLBACK], [LIST])
        assert Search([CUSTOMER]).found_in(given["state"][0].encode()) == set()


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


LINK, REDEEM = ("consent", "link"), ("consent", "redeem", "--customer", CUSTOMER, "--code")
MISTAKES: tuple[tuple[dict[str, str], tuple[str, ...], str], ...] = (
    ({}, (*LINK, CUSTOMER, "--scope", "money:move"), "is no scope; there are transaction:list"),
    ({}, (*LINK, CUSTOMER, "--scope", " "), "name at least one scope"),
    ({}, (*LINK, CUSTOMER), "--scope"),
    *(({}, (*LINK, odd, "--scope", LIST), "") for odd in ("22212345678", "08031234567", "")),
    *(
        ({name: ""}, (*LINK, CUSTOMER, "--scope", LIST), f"NIGHTSCREEN_{name} is not set")
        for name in ("CONSENT_URL", "CLIENT_ID", "REDIRECT_URI")
    ),
    ({}, (*REDEEM, "never-given"), "the code was used, has expired or is for another address"),
    ({}, (*REDEEM, ""), "--code: give the code alone"),
    ({}, (*REDEEM, "code=abc"), "--code: give the code alone"),
    ({}, (*REDEEM, f"{CALLBACK}?state=x"), "the address holds no code"),
    ({}, (*REDEEM, f"{CALLBACK}?error=access_denied"), "the customer did not allow it"),
    ({}, (*REDEEM, f"{CALLBACK}?error=server_error"), "an error instead of a code"),
    ({}, (*REDEEM, f"{CALLBACK}?code=abc&state=x.y"), "was not made here"),
    ({"REDIRECT_URI": "", "CONSENT_URL": "", "CLIENT_ID": ""}, ("portal",), "portal is not known"),
    ({"CONSENT_URL": ""}, ("portal",), "NIGHTSCREEN_CONSENT_URL is not set"),
    ({}, ("portal", "--port", "{taken}"), "cannot listen on"),
    ({}, ("portal", "--port", "99999"), "--port"),
    ({}, ("portal", "--host", "no.such.host.invalid"), "--host"),
    ({"BASE_URL": ""}, ("portal",), "NIGHTSCREEN_BASE_URL is not set"),
)
"""Changed settings, what is typed, and what is said of it."""


def test_mistakes_are_told_and_nothing_is_kept(
    here: Here, monkeypatch: pytest.MonkeyPatch, sandbox: SandboxProcess
) -> None:
    """With status 2 and the option's or setting's name; somebody's number is no customer's id."""
    taken = str(urlsplit(sandbox.url).port)
    for changes, words, told in MISTAKES:
        with monkeypatch.context() as patch:
            for name, value in changes.items():
                patch.setenv(f"NIGHTSCREEN_{name}", value)
            ended = here(*(word.replace("{taken}", taken) for word in words))
        assert (ended.status, ended.out, told in ended.err) == (2, "", True), (words, ended.err)
    assert here("consent", "list", "--json").document["grants"] == []


def test_whole_address_of_a_redirect_is_understood(
    here: Here, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state says whose it is, and works once."""
    monkeypatch.setenv("NIGHTSCREEN_PORTAL_URL", "https://consent.lender.example")
    link = here(*LINK, CUSTOMER, "--scope", LIST).out.strip()
    state = parse_qs(urlsplit(link).query)["state"][0]
    wrong, address = (f"{CALLBACK}?code={code_of(sandbox)}&state={state}" for _ in range(2))
    other = here("consent", "redeem", "--customer", "CUST-OTHER", "--code", wrong)
    assert (other.status, "belongs to another customer" in other.err) == (2, True)
    ended = here(*REDEEM, address, "--json")
    assert (ended.status, ended.document["result"]) == (0, "kept")
    again = here(*REDEEM, address)
    assert (again.status, "used already" in again.err) == (2, True)


def test_whoever_is_pulled_without_a_usable_consent_is_told_by_place(
    here: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    lender = Lender(folder)
    lender.consent(["LIVE-1", "BACK-2"])
    lender.consent(["OTHER-3"], PROFILE)
    with lender.consents() as consents:
        consents.revoke("BACK-2", "customer asked")
    for customer, says in (
        ("NEVER-4", "never consented"),
        ("BACK-2", "has a grant that is revoked"),
        ("OTHER-3", "did not grant transaction:list"),
    ):
        ended = here("transactions", "pull", "--customer", "LIVE-1", "--customer", customer)
        assert ended.status == 2
        assert f"customer number 2 of those given {says}" in ended.err
        assert "nightscreen consent link" in ended.err
        assert customer not in ended.err
        assert not (folder / "out").exists()
