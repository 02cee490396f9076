"""The service over the wire: hits, misses, refusals, unknown addresses, and anything at all."""

from __future__ import annotations

import asyncio
import json
import re
from decimal import Decimal
from urllib.parse import quote

from hypothesis import given, settings
from hypothesis import strategies as st

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.operations import OPERATIONS
from nightscreen.sandbox.people import account_of, ecosystem_of, karma_of, selfie_of
from tests.how_many import examples
from tests.sandbox.in_process import VALIDATION, Here

CLEAR = test_identifiers.by_word("clear")
LISTED = test_identifiers.by_word("listed")
IMAGE = "https://images.example/me.jpg"
ACCOUNT = {"bank_code": "058", "account_number": LISTED.account_number}


HITS: tuple[tuple[str, str, object, object, int], ...] = (
    ("GET", f"karma/{LISTED.bvn}", None, karma_of(LISTED.bvn), 10),
    ("GET", f"ecosystem/{LISTED.bvn}", None, ecosystem_of(LISTED.bvn), 25),
    ("POST", "bankaccount/bvn", ACCOUNT, account_of(*ACCOUNT.values()), 10),
    ("POST", f"bvn/{CLEAR.bvn}/selfies", {"image": IMAGE}, selfie_of(CLEAR.bvn, IMAGE), 30),
)
UNKNOWN = (
    ("GET", "/v1/loans/products"),
    ("HEAD", f"/v2/verification/karma/{LISTED.bvn}"),
    ("GET", "/v2/verification/karma/"),
    ("GET", "/v2/verification/bankaccount/bvn"),
)


async def test_a_hit_carries_record_cost_and_balance() -> None:
    """The record is the person's, its amounts exact; the balance is less by the cost."""
    for method, path, body, record, cost in HITS:
        answer = await Here().client.request(method, f"{VALIDATION}/{path}", json=body)
        told = json.loads(answer.content, parse_float=Decimal)
        assert (answer.status_code, told["status"]) == (200, "success"), path
        assert told["data"] == record
        assert told["meta"] == {"cost": cost, "balance": 1_000_000 - cost}


async def test_unknown_route_or_method_is_404() -> None:
    """Whatever the service does not know is a 404, never a 405, and the text echoes the path."""
    here = Here()
    for method, path in UNKNOWN:
        answer = await here.client.request(method, path)
        assert answer.status_code == 404, (method, path)
        assert here.sandbox.ledger.entries[-1].operation == "unknown", (method, path)
        assert method == "HEAD" or answer.json() == {
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

    async def ask() -> tuple[int, str]:
        here = Here()
        address = re.sub(r"\{[^}]*\}", quote(part, safe=""), path)
        answer = await here.client.request(method, address, json=body)
        charged = here.sandbox.ledger.totals_json()["charged"]
        assert charged == "0" or answer.status_code == 200
        return answer.status_code, answer.text

    status, text = asyncio.run(ask())
    assert status in {200, 400, 404, 500, 504}
    assert status != 500 or "Invalid account number" in text
