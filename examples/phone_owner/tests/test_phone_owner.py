"""Tests of the check: its requests, its answers and its status of a row."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pytest
from phone_owner import PHONE_OWNER
from service import PhoneService

from nightscreen.checks.declaration import Limits
from nightscreen.checks.registry import CHECKS
from nightscreen.client.api import Client
from nightscreen.client.response_parser import parse_answer
from nightscreen.client.wire import lookup_request
from nightscreen.schemas.checks import IdentityKind, Lookup

NUMBER = "+2348030000001"
ADA = {"first_name": "Adaeze", "middle_name": None, "last_name": "Okafor", "full_name": None}


def asked(service: PhoneService, number: str = NUMBER) -> Any:  # noqa: ANN401 - one outcome
    """Ask about a number once."""

    async def once() -> Any:  # noqa: ANN401 - one outcome
        transport = httpx.MockTransport(service)
        async with Client("http://127.0.0.1:1", "made-up-key", transport=transport) as client:
            return await client.send(
                lookup_request(Lookup("phone_owner", IdentityKind.PHONE, number))
            )

    return asyncio.run(once())


def test_nightscreen_knows_the_check() -> None:
    """The entry point names the declaration."""
    assert CHECKS["phone_owner"] is PHONE_OWNER


@pytest.mark.parametrize(
    ("held", "status"),
    [("OKAFOR ADAEZE", "verified"), ("Bola Tinubu", "mismatch"), (None, "mismatch")],
)
def test_a_line_is_held_against_the_customer(held: str | None, status: str) -> None:
    """The name of the row decides."""
    service = PhoneService({NUMBER: (held or "", "mobile")})
    outcome = asked(service)
    assert (outcome.verdict, outcome.cost_micro) == ("answered", 10_000_000)
    record = parse_answer("phone_owner", outcome.body)
    line = PHONE_OWNER.judge(ADA, [(IdentityKind.PHONE, record)], Limits())
    assert line == (status, held, "mobile")


def test_a_line_that_nobody_has_costs_nothing() -> None:
    """A 404 that says so is an answer."""
    service = PhoneService({})
    outcome = asked(service)
    assert (outcome.verdict, outcome.outcome, outcome.cost_micro) == ("answered", "not_found", 0)
    assert service.charged == Decimal(0)
    assert PHONE_OWNER.judge(ADA, [], Limits()) == ("not_found", None, None)


def test_an_answer_about_another_number_is_not_believed() -> None:
    """It was charged anyway."""

    def other(_: httpx.Request) -> httpx.Response:
        data = {"phone": "+2348030000002", "name": "Bola Tinubu", "line_type": "mobile"}
        meta = {"cost": 10, "balance": 5}
        return httpx.Response(200, json={"status": "success", "data": data, "meta": meta})

    outcome = asked(other)  # type: ignore[arg-type]  # any handler will do
    assert (outcome.verdict, outcome.trouble) == ("unreadable", "wrong_identity")
    assert outcome.cost_micro == 10_000_000
