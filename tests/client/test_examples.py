"""The client's reading of the recorded-style exchanges: what it sends, and what it understands."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import httpx
import pytest

from nightscreen.checks.registry import CHECKS
from nightscreen.client import wire
from nightscreen.client.api import Client
from nightscreen.client.classify import CallOutcome
from nightscreen.client.response_parser import parse_answer
from nightscreen.schemas.answers import LoanProducts, Record
from nightscreen.schemas.checks import HITS, IdentityKind, Operation, Outcome
from nightscreen.schemas.consented import RawRecords
from nightscreen.schemas.money import from_micro
from nightscreen.schemas.requests import Request
from tests.client.fakes import Canned, FakeTransport
from tests.client.lookups import bank_account, ecosystem, karma, selfie
from tests.examples import KEY, MARKS, Example, load

EXAMPLES = load()
BY_OPERATION = {
    operation: [one for one in EXAMPLES if one.operation == operation]
    for operation in sorted({one.operation for one in EXAMPLES})
}

BUILDERS: dict[str, Callable[..., Request]] = {
    "bank_account": bank_account,
    "karma": lambda kind, identity: karma(IdentityKind(kind), identity),
    "ecosystem": ecosystem,
    "selfie": selfie,
    Operation.BVN_START: wire.bvn_start,
    Operation.BVN_FINISH: wire.bvn_finish,
    Operation.AGGREGATOR_EXCHANGE: wire.exchange,
    Operation.AGGREGATOR_REFRESH: wire.refresh,
    Operation.LOAN_PRODUCTS: wire.loan_products,
    Operation.LOAN_START: wire.loan_start,
    Operation.LOAN_VIEW: wire.loan_view,
}
BROKEN = {"timeout": httpx.ReadTimeout(""), "cut": httpx.ReadError("")}


def built(example: Example) -> Request:
    operation, given = example.operation, dict(example.arguments)
    if operation not in wire.SCOPED:
        return BUILDERS[operation](**given)
    fields = {**given.pop("fields", {}), **{k: given.pop(k) for k in ("note",) if k in given}}
    if operation == Operation.AGGREGATOR_ACCOUNT_SYNC:
        fields["account_id"] = given.pop("account_id")
    token = given.pop("access_token")
    return wire.scoped(operation, token, item=next(iter(given.values()), None), fields=fields)


@dataclass(frozen=True)
class Carried:
    """A call carried out against an example: what went out, and what it came to."""

    request: httpx.Request
    reading: CallOutcome


async def carried(example: Example) -> Carried:
    response = example.response
    fake = FakeTransport(
        Canned(error=BROKEN[example.broken])
        if example.broken
        else Canned(response["status"], example.answered(), response["headers"])
    )
    bearer = example.request["headers"].get("Authorization", f"Bearer {KEY}")
    key = bearer.removeprefix("Bearer ")
    base = f"https://service.example{example.address}"
    async with Client(base, key, transport=fake) as client:
        reading = await client.send(built(example))
    return Carried(fake.requests[0], reading)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON
    """Return a typed record in JSON's terms: amounts and times become text."""
    if isinstance(value, Record):
        named = {name: plain(getattr(value, name)) for name in sorted(type(value).model_fields)}
        return {**named, "extra": plain(value.extra)}
    if isinstance(value, RawRecords):
        return {"shape": value.shape, "records": plain(value.records)}
    if isinstance(value, LoanProducts):
        return plain(value.products)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else _text(value)


def _text(value: object) -> object:
    """Return an exact number as text, and all else as it is."""
    return str(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("operation", BY_OPERATION)
async def test_each_exchange_is_sent_and_read_as_shown(operation: str) -> None:
    """Of each recorded exchange of an operation: our request, our reading and the typed record."""
    for example in BY_OPERATION[operation]:
        found = await carried(example)
        if example.ours:
            await require_request(example, found.request)
        assert read(found.reading) == example.reading, example
        if example.answer is not None:
            require_record(example, found.reading)


async def require_request(example: Example, request: httpx.Request) -> None:
    """Plain arguments became the method, path, credential and body of the example."""
    shown = example.request
    credentials = {
        name: value
        for name, value in request.headers.items()
        if name in ("authorization", "x-access-token")
    }
    assert request.method == shown["method"], example
    assert request.url.raw_path.decode() == example.address + shown["path"], example
    expected = {name.lower(): value for name, value in shown["headers"].items()}
    assert credentials == expected, example
    body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
    assert (json.loads(body) if body else None) == shown.get("body"), example
    assert ("content-type" in request.headers) == bool(body), example


def read(reading: CallOutcome) -> dict[str, object]:
    """Return verdict, outcome, trouble, money, and whether to try again or stop, as a file does."""
    return {
        "verdict": reading.verdict,
        "outcome": reading.outcome,
        "trouble": reading.trouble,
        "retry": reading.retry,
        "strain": reading.strain,
        "stop": reading.stop,
        "stop_scope": reading.stop_scope,
        "cost": None if reading.cost_micro is None else _naira(reading.cost_micro),
        "balance": None if reading.balance_micro is None else _naira(reading.balance_micro),
        "retry_after_s": reading.retry_after_s,
    }


def require_record(example: Example, reading: CallOutcome) -> None:
    """Every field of an answer became the value the file names, and no field is lost."""
    answer = plain(parse_answer(example.operation, reading.body))
    shown = example.answer
    if isinstance(shown, dict) and "extra" not in shown and "shape" not in shown:
        answer = {name: answer[name] for name in shown}
    assert plain_numbers(answer) == plain_numbers(shown), example


def plain_numbers(value: object) -> object:
    """Return JSON with every fraction as text, so that 5000.5 and "5000.5" are one."""
    return json.loads(json.dumps(value), parse_float=str)


def test_every_hit_shows_what_it_is_read_as() -> None:
    """No hit stands in the folder without the record it becomes."""
    hits = {one.name for one in EXAMPLES if one.reading["outcome"] in HITS}
    bare = {one.name for one in EXAMPLES if one.answer is None}
    assert hits & bare == {"bank_account_removed"}


def test_every_operation_has_a_hit() -> None:
    """Each operation of the specification is shown answered, in each outcome that it can have."""
    answered = {(one.operation, one.reading["outcome"]) for one in EXAMPLES}
    for operation in (*CHECKS, *Operation):
        assert any((operation, outcome) in answered for outcome in HITS), operation
    for operation, miss in (
        ("karma", Outcome.CLEAR),
        ("ecosystem", Outcome.NOT_FOUND),
        ("bank_account", Outcome.NOT_FOUND),
        (Operation.LOAN_VIEW, Outcome.NOT_FOUND),
    ):
        assert (operation, miss) in answered


def test_examples_say_where_they_come_from() -> None:
    """Each has a known mark and a sentence, and no two are alike."""
    assert EXAMPLES
    assert {one.mark for one in EXAMPLES} <= set(MARKS)
    assert all(one.note.endswith(".") for one in EXAMPLES)
    notes = [(one.operation, one.note) for one in EXAMPLES]
    assert len(notes) == len(set(notes))


def _naira(micro: int) -> str:
    """Write an amount as plainly as the examples do."""
    return f"{from_micro(micro).normalize():f}"
