"""The sandbox's reading of the recorded-style exchanges: asked the same, it answers alike."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from nightscreen.client.api import Client
from nightscreen.client.classify import CallOutcome, Classifier
from nightscreen.client.response_rules import Exchange
from nightscreen.config.settings import TIMEOUTS_S
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import Profile
from nightscreen.sandbox.operations import OPERATIONS
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.requests import Request
from tests.examples import KEY, Example, alike, differences, load

EXAMPLES = load()
WHOLE = [one for one in EXAMPLES if not one.broken]
BROKEN = [one for one in EXAMPLES if one.broken]
AUTHORIZED = {"Authorization": f"Bearer {KEY}"}
REDIRECT_URI = "https://lender.example/consent/callback"


@dataclass
class Replay:
    """One example on its way through a sandbox."""

    http: httpx.AsyncClient  # a caller of the sandbox
    example: Example  # what is replayed
    # texts of the example, and what stands for them in this sandbox
    values: dict[str, str] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Bring the sandbox to where the example begins."""
        recipe = self.example.sandbox
        for name, body in recipe.get("set", []):
            await self._control(name, body)
        for shown, made in recipe.get("values", {}).items():
            kind, _, rest = made.partition(" ")
            self.values[shown] = await getattr(self, f"_{kind}")(*rest.split(" ", 1))
        for name, body in recipe.get("then", []):
            await self._control(self._own(name), body)

    async def ask(self) -> httpx.Response:
        """Send the example's request, with this sandbox's own codes, tokens and ids in it."""
        request = self.example.request
        headers = {name: self._own(value) for name, value in request["headers"].items()}
        content = self._own(self.example.sent().decode()) or None
        path = self.example.address + self._own(request["path"])
        return await self.http.request(request["method"], path, headers=headers, content=content)

    def request(self) -> Request:
        """Return the same request as the client has it."""
        shown = self.example.request
        return Request(
            self.example.operation,
            shown["method"],
            self._own(shown["path"]),
            self._own(self.example.sent().decode()).encode() or None,
            asked=_asked(self.example),
            access_token=self._own(shown["headers"].get("x-access-token", "")),
        )

    def _own(self, text: str) -> str:
        for shown, made in self.values.items():
            text = text.replace(shown, made)
        return text

    async def _control(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.http.post(f"/_sandbox/{name}", json=body)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def _service(self, method: str, path: str, body: object) -> dict[str, Any]:
        answer = await self.http.request(method, path, json=body, headers=AUTHORIZED)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        return told

    async def _otp(self, bvn: str) -> str:
        path = f"/v2/verification/bvn/{bvn}/accounts"
        await self._service("POST", path, {"contact": await self._phone(bvn)})
        sent = (await self.http.get("/_sandbox/otps", params={"bvn": bvn})).json()["otps"]
        password: str = sent[0]["otp"]
        return password

    async def _phone(self, bvn: str) -> str:
        return person_of_bvn(bvn).contacts[0]

    async def _email(self, bvn: str) -> str:
        return person_of_bvn(bvn).contacts[1]

    async def _code(self, customer: str, scopes: str) -> str:
        body = {"customer": customer, "scopes": scopes.split(), "redirect_uri": REDIRECT_URI}
        code: str = (await self._control("grants", body))["code"]
        return code

    async def _tokens(self, customer: str, scopes: str) -> dict[str, str]:
        body = {
            "code": await self._code(customer, scopes),
            "grant_type": "authorization_code",
            "redirect_uri": REDIRECT_URI,
        }
        return await self._service("POST", "/v2/aggregator/auth", body)

    async def _access_token(self, customer: str, scopes: str) -> str:
        return (await self._tokens(customer, scopes))["access_token"]

    async def _refresh_token(self, customer: str, scopes: str) -> str:
        return (await self._tokens(customer, scopes))["refresh_token"]

    async def _transaction_id(self, customer: str) -> str:
        return await self._first_id(customer, "transaction:list", "transactions")

    async def _account_id(self, customer: str) -> str:
        return await self._first_id(customer, "bank_account:list", "bank-accounts")

    async def _first_id(self, customer: str, scope: str, where: str) -> str:
        token = {"x-access-token": await self._access_token(customer, scope)}
        answer = await self.http.get(f"/v2/aggregator/{where}", headers=token)
        found: str = answer.json()["data"][0]["id"]
        return found

    async def _reference(self, email: str) -> str:
        body = {"product_id": "LP1001", "meta": {"email": email}}
        told = await self._service("POST", "/v2/loans/initialize", body)
        reference: str = told["data"]["reference"]
        return reference


def _asked(example: Example) -> str:
    given = example.arguments
    names = ("identity", "bvn", "account_number", "reference")
    return next((given[name] for name in names if name in given), "")


@asynccontextmanager
async def replayed(example: Example) -> AsyncIterator[tuple[Replay, httpx.Response]]:
    """Replay an example against a fresh sandbox in this process."""
    sandbox = Sandbox(api_key=KEY)
    sandbox.latency.default = Profile(kind="none")
    transport = httpx.ASGITransport(application(sandbox))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
        replay = Replay(http, example)
        await replay.prepare()
        yield replay, await replay.ask()


@pytest.mark.parametrize("example", WHOLE, ids=str)
async def test_the_sandbox_answers_as_shown_and_is_read_as_the_file_is(example: Example) -> None:
    """Status, kind of content, keys, types and texts; to the client it comes to the same."""
    async with replayed(example) as (replay, answer):
        assert answer.status_code == example.response["status"], answer.text
        for name, value in example.response["headers"].items():
            assert answer.headers[name] == value
        if "body" in example.response:
            _require_shape(example, answer.json())
        else:
            assert answer.text
        exchange = Exchange(answer.status_code, await answer.aread())
        reading = Classifier().read(replay.request(), exchange)
    assert _gist(reading) == _gist_shown(example)
    cost = example.reading["cost"]
    assert reading.cost_micro == (None if cost is None else int(cost) * 1_000_000)


def _require_shape(example: Example, told: dict[str, Any]) -> None:
    body, recipe = example.response["body"], example.sandbox
    assert not differences(
        body,
        told if "deprecation" in body else _without_remark(told),
        open_at=tuple(recipe.get("open", ())),
        nullable=tuple(recipe.get("nullable", ())),
    )
    for key in ("status", "token_type"):
        assert told.get(key) == body.get(key)
    if "message" in body:
        assert alike(told["message"], body["message"]), told["message"]


@pytest.mark.parametrize("example", BROKEN, ids=str)
async def test_broken_exchanges_break_the_same_way(
    running_sandbox: SandboxProcess, example: Example
) -> None:
    """Against a real socket a silence is a timeout and a cut is a cut."""
    running_sandbox.reset()
    async with (
        httpx.AsyncClient(base_url=running_sandbox.url) as http,
        Client(running_sandbox.url, KEY, timeouts_s=dict.fromkeys(TIMEOUTS_S, 0.5)) as client,
    ):
        replay = Replay(http, example)
        await replay.prepare()
        reading = await client.send(replay.request())
    await asyncio.to_thread(running_sandbox.wait_until_idle)
    assert _gist(reading) == _gist_shown(example)


def test_every_operation_of_the_sandbox_is_shown() -> None:
    """No route of the service is without an example."""
    for each in OPERATIONS:
        assert any(_is_at(one, each.method, each.path) for one in EXAMPLES), each.name


def test_the_comparison_sees_every_kind_of_difference() -> None:
    """Keys too few or too many, other types, other forms, empty lists and nulls are reported."""
    shown = {"a": 1, "day": "2026-01-31", "list": [{"n": 1.5}], "none": None}
    assert not differences(shown, {"a": 7, "day": "1999-12-01", "list": [{"n": 2}], "none": None})
    for wrong in (
        {"a": 1, "day": "2026-01-31", "list": [{"n": 1.5}]},
        {**shown, "b": 1},
        {**shown, "a": 1.5},
        {**shown, "a": "1"},
        {**shown, "a": True},
        {**shown, "a": None},
        {**shown, "day": "31-Jan-2026"},
        {**shown, "list": []},
        {**shown, "list": [{"n": 1.5}, {"m": 1.5}]},
        {**shown, "none": "text"},
    ):
        assert len(differences(shown, wrong)) > 0, wrong


def _is_at(example: Example, method: str, path: str) -> bool:
    """Return whether an example is asked at a path of the sandbox's table."""
    shown = example.request["path"].split("/")
    parts = path.split("/")
    fits = all(
        part == here or part.startswith("{") for part, here in zip(parts, shown, strict=False)
    )
    right = example.ours and example.request["method"] == method
    return right and len(parts) == len(shown) and fits


def _without_remark(told: dict[str, Any]) -> dict[str, Any]:
    """Leave out the top-level key that some answers carry and no reader may mind."""
    return {key: value for key, value in told.items() if key != "deprecation"}


def _gist(reading: CallOutcome) -> tuple[object, ...]:
    return (
        *(reading.verdict, reading.outcome, reading.trouble),
        *(reading.retry, reading.stop, reading.stop_scope),
    )


def _gist_shown(example: Example) -> tuple[object, ...]:
    names = ("verdict", "outcome", "trouble", "retry", "stop", "stop_scope")
    return tuple(example.reading[name] for name in names)
