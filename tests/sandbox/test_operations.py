"""The six operations over the wire: what hits, misses and refusals look like."""

from __future__ import annotations

import asyncio
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.app import OPERATIONS
from nightscreen.sandbox.people import (
    account_of,
    ecosystem_of,
    karma_of,
    selfie_of,
)
from tests.how_many import examples
from tests.sandbox.in_process import here

if TYPE_CHECKING:
    import httpx

    from nightscreen.sandbox.process import SandboxProcess
    from tests.sandbox.conftest import Caller

CLEAR = test_identifiers.by_word("clear")
LISTED = test_identifiers.by_word("listed")
MISSING = test_identifiers.by_word("missing-account")
NOBODY = test_identifiers.by_word("nobody")
IMAGE = "https://images.example/me.jpg"


def test_karma_hit_carries_record_cost_and_balance(caller: Caller) -> None:
    """A listed identity costs 10 naira and comes with its record."""
    answer = caller.karma(LISTED.bvn)
    assert answer.status == 200
    assert answer.json["status"] == "success"
    assert answer.json["data"] == karma_of(LISTED.bvn)
    assert answer.json["meta"] == {"cost": 10, "balance": 999_990}


@pytest.mark.parametrize(
    "identity",
    [
        *("+2348031234567", "058-0123456789", "lender.example", "a+b/c?d#e%f@x.example"),
        "ọlábísí@x.example",
    ],
)
def test_karma_identity_arrives_as_it_was_meant(caller: Caller, identity: str) -> None:
    """Plus signs, slashes, question marks and letters beyond ASCII survive percent-encoding."""
    caller.karma(quote(identity, safe=""))
    entry = caller.sandbox.ledger()["entries"][-1]
    assert entry["identity"] == identity
    assert entry["outcome"] in {"clear", "listed"}


@pytest.mark.parametrize(
    "identity", ["00000000000", "058-123", "2348031234567", "nonsense", "a b", "058-00000000000"]
)
def test_karma_takes_anything(caller: Caller, identity: str) -> None:
    """What is no identity at all is answered like any that is not listed."""
    answer = caller.karma(quote(identity))
    assert (answer.status, answer.json["status"]) == (404, "success")
    assert answer.json["message"] == "Identity not found in karma ecosystem"


def test_one_digit_eleven_times_is_nobodys_bvn(caller: Caller) -> None:
    """The borrower history does not know it, no password is sent, no photograph compared."""
    bvn = "11111111111"
    answer = caller.ecosystem(bvn)
    assert (answer.status, answer.json["message"]) == (404, f"{bvn} not found in ecosystem")
    assert caller.bvn_start(bvn).status == 404
    assert caller.selfie(bvn, IMAGE).status == 404
    assert caller.karma(bvn).status == 404


@pytest.mark.parametrize("image", ["ftp://images.example/a.jpg", "me.jpg", "/9j/4AAQSkZJRg=="])
def test_image_that_is_no_address_ends_at_the_gateway(caller: Caller, image: str) -> None:
    """The service never answers; its gateway does, not in JSON, and nothing is charged."""
    answer = caller.selfie(CLEAR.bvn, image)
    assert (answer.status, answer.body) == (504, b"upstream request timeout")
    assert caller.sandbox.totals()["totals"]["charged"] == "0"


def test_ecosystem_hit_has_the_record_with_exact_numbers(caller: Caller) -> None:
    """The record is the person's, amounts included."""
    answer = caller.ecosystem(LISTED.bvn)
    assert json.loads(answer.body, parse_float=Decimal)["data"] == ecosystem_of(LISTED.bvn)
    assert answer.json["meta"]["cost"] == 25


def test_bank_account_hit_is_masked(caller: Caller) -> None:
    """The holder's name comes with a BVN that shows four digits."""
    answer = caller.bank_account("058", LISTED.account_number)
    assert answer.json["data"] == account_of("058", LISTED.account_number)
    assert answer.json["data"]["bvn"] == "22000000001"


def test_selfie_gives_match_and_similarity(caller: Caller) -> None:
    """The score is a decimal number, the match the service's own view."""
    answer = caller.selfie(CLEAR.bvn, IMAGE)
    data = json.loads(answer.body, parse_float=Decimal)["data"]
    assert data == selfie_of(CLEAR.bvn, IMAGE)
    assert data["match"] is True


@pytest.mark.parametrize("bvn", ["2212345678", "221234567890", "2212345678O", "%20", "a/b"])
def test_malformed_bvn_is_400(caller: Caller, bvn: str) -> None:
    """A BVN that is not eleven digits is refused with the service's words."""
    answer = caller.ecosystem(bvn)
    assert answer.status == 400
    assert answer.json["message"] == "Enter a valid BVN number."


@pytest.mark.parametrize(
    "body", [{}, {"bank_code": "058"}, {"bank_code": "", "account_number": "0123456789"}, []]
)
def test_missing_field_is_504_and_not_json(caller: Caller, body: object) -> None:
    """A required field that is absent or empty ends in a gateway timeout."""
    answer = caller.call("POST", "/v2/verification/bankaccount/bvn", body)
    assert answer.status == 504
    with pytest.raises(json.JSONDecodeError):
        _ = answer.json


@pytest.mark.parametrize(
    "body",
    [
        {"bank_code": "058", "account_number": 123456789},
        {"bank_code": "058", "account_number": "123456789"},
        {"bank_code": "000013", "account_number": "0123456789"},
    ],
)
def test_malformed_account_is_400(caller: Caller, body: object) -> None:
    """Numbers for text, nine digits and codes of other schemes are refused."""
    assert caller.call("POST", "/v2/verification/bankaccount/bvn", body).status == 400


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [({}, 401, "no_key"), ({"Authorization": "Bearer other"}, 403, "wrong_key")],
)
def test_key_is_asked_for(
    sandbox: SandboxProcess, headers: dict[str, str], status: int, word: str
) -> None:
    """No key and a wrong key are told apart, and written down as unauthorised."""
    answer = sandbox.request("GET", "/v2/verification/karma/22999000001", None, headers)
    assert answer[0] == status
    entry = sandbox.ledger()["entries"][-1]
    assert (entry["outcome"], entry["authorized"], entry["attempt"]) == (word, False, 0)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v2/nowhere"),
        ("DELETE", "/v2/verification/karma/22999000001"),
        ("HEAD", "/v2/verification/karma/22999000001"),
        ("GET", "/v2/verification/karma/"),
        ("GET", "/v2/verification/bankaccount/bvn"),
    ],
)
def test_unknown_route_or_method_is_404(caller: Caller, method: str, path: str) -> None:
    """Whatever the service does not know is a 404, never a 405, and costs nothing."""
    answer = caller.call(method, path)
    assert answer.status == 404
    assert caller.sandbox.ledger()["entries"][-1]["operation"] == "unknown"
    if method != "HEAD":
        assert answer.json == {
            "status": "error",
            "message": f"The requested URL - {path} and method - {method} is not found. "
            "Please check the endpoint and try again",
        }


TEXT = st.text(max_size=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT, lambda inner: st.dictionaries(TEXT, inner)
)
FIELDS = ("bank_code", "account_number", "contact", "otp", "image", "product_id", "meta", "code")
BODIES = st.dictionaries(st.sampled_from(FIELDS), ANYTHING) | ANYTHING
ROUTED = [
    (one.path, one.method)
    for one in OPERATIONS
    if one.name == "aggregator_auth" or not one.name.startswith("aggregator")
]


@given(routed=st.sampled_from(ROUTED), part=st.text(min_size=1, max_size=20), body=BODIES)
@settings(max_examples=examples(150), deadline=None)
def test_whatever_is_sent_is_answered(routed: tuple[str, str], part: str, body: object) -> None:
    """Nothing breaks the sandbox: a 5xx is one of the two that are meant; refusals are free."""
    path, method = routed

    async def ask() -> httpx.Response:
        async with here() as one:
            address = re.sub(r"\{[^}]*\}", quote(part, safe=""), path)
            answer = await one.client.request(method, address, json=body)
            charged = (await one.control("ledger?totals=1"))["totals"]["charged"]
            assert charged == "0" or answer.status_code == 200
            return answer

    answer = asyncio.run(ask())
    assert answer.status_code in {200, 400, 404, 500, 504}
    if answer.status_code == 500:
        assert answer.json()["message"] == "Invalid account number"
