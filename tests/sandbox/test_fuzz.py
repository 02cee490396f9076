"""The sandbox, fuzzed by its own OpenAPI document: nothing outside the schema, no accidental fault.

A third of the requests is as the document wants them, a third besides about what this sandbox
knows, a third wrong on purpose. `FUZZ_EXAMPLES` in the environment makes more of them;
`docs/sandbox.md` says how to fuzz longer still.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS
from schemathesis.core.failures import FailureGroup

from nightscreen.sandbox import test_identifiers
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import NO_WAIT
from nightscreen.sandbox.grants import SCOPES
from nightscreen.sandbox.openapi import document
from nightscreen.sandbox.people import contacts_of, otp_of
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.sandbox.transactions import LinkedAccounts
from tests.how_many import examples
from tests.sandbox.consented import CALLBACK, KEY

if TYPE_CHECKING:
    from collections.abc import Callable

    from schemathesis import Case, Response
    from starlette.applications import Starlette

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0")) or examples(20)
CUSTOMER = "ada@customers.example"
OTHER_CUSTOMER = "bola@customers.example"
THIRD_CUSTOMER = "chidi@customers.example"
FAR = 1e12
"""An instant that codes do not live to see, in the sandbox's seconds."""

PEOPLE = ("clear", "listed", "missing-account", "no-history", "nobody", "no-match", "accounts")
LISTED_OR_NOT = ("listed", "clear", "nobody")
DOCUMENT: dict[str, Any] = document()
NAMES = [
    operation["operationId"]
    for path in DOCUMENT["paths"].values()
    for method, operation in path.items()
    if method != "parameters"
]
ALWAYS = (
    *("content_type_conformance", "response_schema_conformance", "status_code_conformance"),
    *("response_headers_conformance", "ignored_auth"),
)
OWN_REFUSALS = frozenset(
    {
        *("bvn_start", "bvn_finish", "aggregator_auth", "aggregator_bank_account_add"),
        *("loan_start", "consent_screen"),
    }
)
"""Operations that also refuse what has the right form: no password asked for, no such product."""

FAULTS_MEANT = {"bank_account": "Invalid account number"}
"""The one 500 of a calm sandbox: a business answer that the service dresses as a fault."""

CONFIG = schemathesis.Config.from_dict(
    {
        "checks": {
            "negative_data_rejection": {
                "expected-statuses": ["400", "401", "403", "404", "500", "504"]
            },
        }
    }
)
"""What is wrong is refused in the service's own ways: 504 where a field is missing."""


class Service:
    """A calm sandbox in this process, and things it knows."""

    def __init__(self) -> None:
        self.sandbox = Sandbox(Opening())
        self.sandbox.latency.default = NO_WAIT
        self.sandbox.manners = replace(
            self.sandbox.manners, missing_field_delay_s=0.0, access_token_lifetime_s=86_400.0
        )
        self.app: Starlette = application(self.sandbox)
        self.known: dict[str, list[str]] = {
            "product_id": ["LP1001", "LP1005"],
            "redirect_uri": [CALLBACK],
            "client_id": [self.sandbox.client.client_id],
            "scope": ["transaction:list", " ".join(SCOPES)],
            "grant_type": ["authorization_code", "refresh_token"],
        }
        self.token = ""
        asyncio.run(self._get_to_know())

    async def _get_to_know(self) -> None:
        """Let a customer consent and apply for a loan, and note what came of it."""
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

            async def ask(method: str, path: str, body: object = None) -> dict[str, Any]:
                headers = {**KEY, "x-access-token": self.token}
                answer = await http.request(method, path, json=body, headers=headers)
                told: dict[str, Any] = answer.json()
                return told

            async def tokens(customer: str) -> dict[str, str]:
                return await ask("POST", "/v2/aggregator/auth", exchange(self.code(customer)))

            self.token = (await tokens(CUSTOMER))["access_token"]
            self.refresh_token = (await tokens(OTHER_CUSTOMER))["refresh_token"]
            moved = await ask("GET", "/v2/aggregator/transactions")
            linked = await ask("GET", "/v2/aggregator/bank-accounts")
            loan = await ask("POST", "/v2/loans/initialize", {"product_id": "LP1001"})
        self.transaction = moved["data"][0]["id"]
        self.account = linked["data"][0]["id"]
        self.known["reference"] = [loan["data"]["reference"]]

    def code(self, customer: str) -> str:
        """Let a customer consent to everything, and return the code."""
        sandbox = self.sandbox
        client_id = sandbox.client.client_id
        return sandbox.grants.allow(
            customer, tuple(SCOPES), client_id=client_id, redirect_uri=CALLBACK, ends_at=FAR
        )

    def credentials(self, name: str) -> dict[str, str]:
        """Return the header that an operation asks for."""
        by_token = name.startswith("aggregator_") and name != "aggregator_auth"
        return {"x-access-token": self.token} if by_token else dict(KEY)

    def about_somebody(self, case: Case[Any], choose: Callable[[list[str]], str]) -> None:
        """Put what this sandbox knows in the place of what was made up."""
        self.sandbox.linked = LinkedAccounts()
        people = LISTED_OR_NOT if "karma" in case.path else PEOPLE
        known = {**self.known, **self._person(choose(list(people)), case)}
        for place in (case.path_parameters, case.query, case.body):
            if isinstance(place, dict):
                for name in sorted(place.keys() & known.keys()):
                    place[name] = choose(known[name])
        if isinstance(case.body, dict) and "grant_type" in case.body:
            fresh = case.body["grant_type"] == "authorization_code"
            case.body["code"] = self.code(THIRD_CUSTOMER) if fresh else self.refresh_token

    def _person(self, word: str, case: Case[Any]) -> dict[str, list[str]]:
        """Return what belongs to one magic person, a password sent for this case among it."""
        person, sandbox = test_identifiers.by_word(word), self.sandbox
        if case.method.lower() == "put":
            sandbox.otps.send(person.bvn, person.phone, sandbox.now(), "prompt")
        password = sandbox.otps.otp(person.bvn, sandbox.otp_terms()) or otp_of(person.bvn)
        own = self.transaction if "transactions" in case.path else self.account
        return {
            "bvn": [person.bvn],
            "identity": [person.bvn, person.phone, person.email, person.domain],
            "account_number": [person.account_number],
            "bank_code": [test_identifiers.BANK_CODE],
            "otp": [password],
            "contact": list(contacts_of(person.bvn)),
            "id": [own],
            "account_id": [own],
        }


def exchange(code: str) -> dict[str, str]:
    """Return the body of an exchange."""
    return {"code": code, "grant_type": "authorization_code", "redirect_uri": CALLBACK}


SERVICE = Service()
SCHEMA = schemathesis.openapi.from_asgi("/_sandbox/openapi.json", SERVICE.app, config=CONFIG)


def meant(response: Response, name: str, case: Case[Any]) -> bool:
    """Return whether a fault is one of those a calm sandbox means."""
    if response.status_code == 500:
        return FAULTS_MEANT.get(name, "?") in response.text
    required = (
        DOCUMENT["paths"][case.path][case.method.lower()]
        .get("requestBody", {})
        .get("content", {})
        .get("application/json", {})
        .get("schema", {})
        .get("required", [])
    )
    body = case.body if isinstance(case.body, dict) else {}
    empty = any(body.get(field) in (None, "") for field in required)
    no_address = not str(body.get("image", "http://")).startswith(("http://", "https://"))
    return response.status_code == 504 and bool(required) and (empty or no_address)


def spoils_delivery(case: Case[Any]) -> bool:
    """Return whether a request happens to name a person whose answers are cut off on purpose."""
    places = (case.path_parameters, case.body)
    texts = [
        each
        for place in places
        if isinstance(place, dict)
        for each in place.values()
        if isinstance(each, str)
    ]
    rows = (
        find(each)
        for each in texts
        for find in (test_identifiers.by_karma_identity, test_identifiers.by_account)
    )
    return any(row is not None and row.fault for row in rows)


def judged(name: str, mode: GenerationMode) -> list[Any]:
    """Return the checks of an operation."""
    positive = mode is GenerationMode.POSITIVE
    extra = "positive_data_acceptance" if positive else "negative_data_rejection"
    names = ALWAYS if positive and name in OWN_REFUSALS else (*ALWAYS, extra)
    return list(CHECKS.get_by_names(list(names)))


@pytest.mark.parametrize("kind", ["right", "known", "wrong"])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_comes_that_the_document_does_not_say(name: str, kind: str) -> None:
    """Right requests are taken, wrong ones refused, and every answer is as described."""
    mode = GenerationMode.NEGATIVE if kind == "wrong" else GenerationMode.POSITIVE
    operation = SCHEMA.find_operation_by_id(name)
    checks = judged(name, mode)
    met: set[int] = set()

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=EXAMPLES <= 100,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), data=st.data())
    def fuzz(case: Case[Any], data: st.DataObject) -> None:
        if kind == "known":
            SERVICE.about_somebody(case, lambda words: data.draw(st.sampled_from(words)))
        assume(not spoils_delivery(case))
        response = case.call(headers=SERVICE.credentials(name))
        met.add(response.status_code)
        case.validate_response(response, checks=checks, headers=SERVICE.credentials(name))
        if response.status_code >= 500:
            assert meant(response, name, case), (response.status_code, response.text[:200])

    fuzz()
    assert kind != "known" or 200 in met, "no request about what is known was answered"


def test_fuzzing_notices_an_answer_outside_the_document() -> None:
    """Held against a document that says something else of a hit, the same answers fail."""
    other = document()
    other["components"]["schemas"]["Karma"]["required"] = ["fingerprint"]  # type: ignore[index]
    schema = schemathesis.openapi.from_dict(other, config=CONFIG)
    schema.app = SERVICE.app
    case = schema.find_operation_by_id("karma").Case(
        path_parameters={"identity": test_identifiers.by_word("listed").bvn}
    )
    response = case.call(headers=KEY)
    with pytest.raises(FailureGroup, match="fingerprint"):
        case.validate_response(response, checks=judged("karma", GenerationMode.POSITIVE))
