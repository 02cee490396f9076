"""Consent: what screens show and refuse, what codes, tokens and passwords open, when they end."""

from __future__ import annotations

from typing import Any

from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.otp import masked_contact
from nightscreen.sandbox.people import otp_of, person_of_bvn
from nightscreen.sandbox.test_identifiers import by_word
from nightscreen.sandbox.transactions import (
    bank_accounts_of,
    transactions_of,
)
from tests.sandbox.in_process import Here, brought_back

ELSEWHERE = "http://127.0.0.1:8123/elsewhere"


WRONG: tuple[dict[str, str | None], ...] = (
    {"response_type": "token"},
    {"client_id": "somebody-else"},
    {"client_id": None},
    {"redirect_uri": None},
    {"redirect_uri": "https://evil.example/callback"},
    {"redirect_uri": "http://127.0.0.1@evil.example/callback"},
    {"redirect_uri": "javascript:alert(1)"},
    {"scope": None},
    {"scope": "transaction:list <script>alert(1)</script>"},
)


async def test_a_wrong_request_ends_on_a_page() -> None:
    """Neither showing nor answering a wrong request sends the customer anywhere.

    Once addresses are registered no other is taken, not even one on loopback.
    """
    here, registered = Here(), "https://lender.example/back?from=bank"
    for changes in WRONG:
        for answer in (await here.screen(**changes), await here.choose("ada", "allow", **changes)):
            assert answer.status_code == 400, changes
            assert "location" not in answer.headers
            assert "<script" not in answer.text
    assert here.sandbox.grants.of(None) == []
    assert here.sandbox.ledger.count == 0
    here.sandbox.redirect_uris = (registered,)
    assert (await here.screen()).status_code == 400
    answer = await here.choose("ada", redirect_uri=registered)
    assert set(brought_back(answer, registered)) == {"from", "code", "state"}


async def test_secrets_are_good_for_their_own_purpose_and_address_alone() -> None:
    """Another address, another kind of secret or another grant type is a 400."""
    here = Here()
    code = await here.consent("ada")
    assert (await here.exchange(code, ELSEWHERE)).status_code == 400
    assert (await here.auth(code, "password")).status_code == 400
    assert (await here.auth(code, 7)).status_code == 400
    tokens = (await here.exchange(code)).json()
    for answer in (
        await here.exchange(tokens["access_token"]),
        await here.exchange(tokens["refresh_token"]),
        await here.refresh(tokens["access_token"]),
        await here.refresh(tokens["refresh_token"], ELSEWHERE),
    ):
        assert (answer.status_code, answer.json()["status"]) == (400, "error")
    assert (await here.refresh(tokens["refresh_token"])).status_code == 200


async def test_codes_and_access_tokens_expire() -> None:
    """A code is good for a minute, a token for five, by the sandbox's clock."""
    here = Here()
    early, late = await here.consent("ada"), await here.consent("ada")
    await here.control("clock", advance_s=59)
    token = (await here.exchange(early)).json()["access_token"]
    await here.control("clock", advance_s=1)
    assert (await here.exchange(late)).json()["message"] == "Authorization code has expired"
    assert (await here.data(token)).status_code == 200
    await here.control("clock", advance_s=299)
    for given, word in ((token, "expired_token"), ("x" * 254, "unknown_token"), ("", "no_token")):
        answer = await here.data(given)
        text = "You are not authorized to access this service."
        assert (answer.status_code, answer.json()["message"]) == (403, text)
        assert here.sandbox.ledger.entries[-1].outcome == word


async def test_a_replayed_code_takes_its_tokens_back() -> None:
    """The second use of a code is refused and ends what came of the first; others go on."""
    here = Here()
    code, other = await here.consent("ada"), await here.tokens("ada")
    tokens = (await here.exchange(code)).json()
    assert (await here.exchange(code)).status_code == 400
    assert (await here.data(tokens["access_token"])).status_code == 403
    assert (await here.refresh(tokens["refresh_token"])).status_code == 400
    assert (await here.data(other["access_token"])).status_code == 200
    assert (await here.counts("ada"))["replays"] == 1


CODE, NUMBER = person_of_bvn("22123456789").account
CALLS: dict[str, tuple[str, str, dict[str, object]]] = {
    "transaction:list": ("GET", "/transactions", {}),
    "transaction:view": ("GET", "/transactions/{transaction}", {}),
    "transaction:update": ("PATCH", "/transactions/{transaction}", {"note": "rent"}),
    "bank_account:list": ("GET", "/bank-accounts", {}),
    "bank_account:view": ("GET", "/bank-accounts/{account}", {}),
    "bank_account:add": ("POST", "/bank-accounts", {"bank_code": CODE, "account_number": NUMBER}),
    "bank_account:update": ("PATCH", "/bank-accounts/{account}", {"account_name": "SHOP"}),
    "bank_account:sync": ("POST", "/bank-accounts/sync", {"account_id": "{account}"}),
    "profile:view": ("GET", "/profile", {}),
    "bank_account:delete": ("DELETE", "/bank-accounts/{account}", {}),
}


async def ask(here: Here, token: str, scope: str, customer: str) -> tuple[int, Any]:
    """Make the call of a scope about somebody's records; returns status and body."""
    method, path, body = CALLS[scope]
    ids = {
        "account": bank_accounts_of(customer)[0]["id"],
        "transaction": transactions_of(customer)[0]["id"],
    }
    sent = {name: str(value).format(**ids) for name, value in body.items()}
    answer = await here.data(token, path.format(**ids), method, **sent)
    return answer.status_code, answer.json()


async def test_each_scope_opens_its_operation_and_no_other() -> None:
    """With one scope granted exactly one of the ten operations answers, for its customer alone."""
    for scope in SCOPES:
        here = Here()
        token = (await here.tokens("ada", scope))["access_token"]
        others = [one for one in CALLS if one != scope]
        for other in others:
            status, body = await ask(here, token, other, "ada")
            assert (status, body["status"]) == (403, "error"), (scope, other)
            assert other in body["message"], (scope, other)
        if "{account}" in str(CALLS[scope]) or "{transaction}" in str(CALLS[scope]):
            assert (await ask(here, token, scope, "bola"))[0] == 404, scope
        assert (await ask(here, token, scope, "ada"))[0] == 200, scope
        assert (await here.counts("ada"))["refused_scopes"] == len(others), scope
        assert here.sandbox.ledger.entries[-1].identity == "ada", scope


BVN = "22123456789"
PHONE, EMAIL = person_of_bvn(BVN).contacts


async def held(here: Here, bvn: str = BVN) -> dict[str, Any]:
    """Look at what a customer holds."""
    (shown,) = (await here.control(f"otps?bvn={bvn}"))["otps"]
    assert isinstance(shown, dict)
    return shown


async def test_customer_reads_the_password_and_consents_once() -> None:
    """The start is free, a wrong password harmless, the right one ends in the record for 20."""
    here = Here()
    assert (await here.finish(BVN, otp_of(BVN))).json()["message"] == "Please call initialize"
    started = (await here.start(BVN)).json()
    assert (started["data"], started["meta"]["cost"]) == (masked_contact(PHONE), 0)
    seen = await held(here)
    assert (seen["state"], seen["contact"], seen["number"]) == ("arrived", PHONE, 1)
    wrong = await here.finish(BVN, "000001")
    assert (wrong.status_code, wrong.json()["message"]) == (400, "Wrong OTP entered")
    assert (await held(here))["wrong"] == 1
    done = (await here.finish(BVN, seen["otp"])).json()
    assert (done["data"]["bvn"], done["meta"]["cost"]) == (BVN, 20)
    assert (await held(here))["state"] == "used"
    again = await here.finish(BVN, seen["otp"])
    assert (again.status_code, again.json()["message"]) == (400, "Please call initialize")
    told = [(entry.outcome, entry.charged) for entry in here.sandbox.ledger.entries]
    words = ("not_started", "otp_sent", "wrong_otp", "consented", "not_started")
    assert told == [(word, 20_000_000 * (word == "consented")) for word in words]


async def test_passwords_arrive_and_expire_without_waiting() -> None:
    """Time is moved ahead: ten minutes, fifteen for a late one, or never; a reset ends it all."""
    here = Here()
    for word, after_s, state, arrives, message in (
        ("clear", 599, "arrived", True, "Successful"),
        ("clear", 601, "expired", True, "OTP has expired"),
        ("otp-late", 899, "expired", False, "OTP has expired"),
        ("otp-late", 900, "expired", True, "OTP has expired"),
        ("otp-never", 500, "under_way", False, "Wrong OTP entered"),
    ):
        bvn = by_word(word).bvn
        await here.start(bvn)
        await here.control("clock", advance_s=after_s)
        seen = await held(here, bvn)
        assert (seen["state"], seen["otp"] is not None) == (state, arrives)
        assert (await here.finish(bvn, otp_of(bvn))).json()["message"] == message
        await here.control("reset", {})
        assert (await here.control("otps"))["otps"] == [], (word, after_s)
        assert (await here.control("state"))["ahead_s"] == 0, (word, after_s)
