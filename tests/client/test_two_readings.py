"""Client and sandbox read the same specification apart from each other; here they meet."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from nightscreen.client.api import Client
from nightscreen.config.settings import TIMEOUTS_S
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.test_identifiers import TABLE, by_word
from nightscreen.schemas.checks import IdentityKind
from nightscreen.schemas.money import from_micro
from tests.client.lookups import bank_account, ecosystem, karma, selfie

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nightscreen.client.classify import CallOutcome
    from nightscreen.schemas.requests import Request

FAULTS = {
    "http-429": "not_charged refused",
    "http-500": "in_doubt overload",
    "http-502": "in_doubt overload",
    "http-503": "not_charged refused",
    "http-504": "in_doubt overload",
    "cut-before-charge": "in_doubt cut",
    "cut-after-charge": "in_doubt cut",
    "truncated": "in_doubt cut",
    "unreadable": "in_doubt unreadable",
    "no-data": "in_doubt unreadable",
    "timeout": "in_doubt timeout",
    "timeout-before-charge": "in_doubt timeout",
    "http-500-after-charge": "in_doubt overload",
    "http-502-after-charge": "in_doubt overload",
    "http-504-after-charge": "in_doubt overload",
    "mock-response": "test_mode test_mode",
    "empty-object": "test_mode test_mode",
    "denied": "stop no_right",
    "unpriced": "stop unpriced",
    "low-wallet": "stop balance",
    "foreign-404": "stop address",
    "redirect": "stop address",
    "huge": "in_doubt unreadable",
    "not-offered": "stop unpriced",
    "mock-message": "test_mode test_mode",
}
OUTCOMES = {
    "clear": ("clear", "found", "found", "scored"),
    "listed": ("listed", "found", "found", "scored"),
    "mismatch": ("clear", "found", "found", "scored"),
    "missing-account": ("clear", "not_found", "found", "scored"),
    "no-history": ("clear", "found", "not_found", "scored"),
    "no-match": ("clear", "found", "found", "scored"),
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxProcess]:
    """Run one sandbox for this module."""
    with SandboxProcess() as running:
        yield running


def requests(word: str) -> tuple[Request, ...]:
    """Return the four lookups about a magic person."""
    person = by_word(word)
    return (
        karma(IdentityKind.BVN, person.bvn),
        bank_account(person.account_number, "058"),
        ecosystem(person.bvn),
        selfie(person.bvn, "https://img.example/a.jpg"),
    )


def told(reading: CallOutcome) -> str:
    """Return verdict and trouble in two words."""
    return f"{reading.verdict} {reading.trouble}"


@pytest.mark.parametrize("word", list(OUTCOMES))
async def test_outcomes_and_money_agree(sandbox: SandboxProcess, word: str) -> None:
    """Each lookup means what the sandbox meant, and costs what its ledger says."""
    sandbox.reset()
    async with Client(sandbox.url, sandbox.api_key) as client:
        readings = [await client.send(request) for request in requests(word)]
    assert tuple(reading.outcome for reading in readings) == OUTCOMES[word]
    cost = sum(reading.cost_micro or 0 for reading in readings)
    assert from_micro(cost) == Decimal(sandbox.totals()["totals"]["charged"])


@pytest.mark.parametrize("word", list(FAULTS))
async def test_faults_agree(sandbox: SandboxProcess, word: str) -> None:
    """Each fault is read as what it is, whatever the operation; what was charged is in doubt."""
    sandbox.reset()
    times = TIMEOUTS_S | {"karma": 1.0, "bank_account": 1.0, "ecosystem": 1.0, "selfie": 1.0}
    async with Client(sandbox.url, sandbox.api_key, timeouts_s=times) as client:
        for request in requests(word):
            assert told(await client.send(request)) == FAULTS[word], request


def test_every_fault_of_the_sandbox_is_looked_at() -> None:
    """A new fault needs a reading."""
    known = {row.word for row in TABLE if row.fault and not row.only}
    assert known - {"slow"} == set(FAULTS)


@pytest.mark.parametrize("kind", [IdentityKind.PHONE, IdentityKind.EMAIL, IdentityKind.DOMAIN])
async def test_every_kind_of_identity_arrives(sandbox: SandboxProcess, kind: IdentityKind) -> None:
    """Encoded into the path, an identifier is still the one that was meant."""
    person = by_word("listed")
    identity = {"phone": person.phone, "email": person.email, "domain": person.domain}[kind]
    async with Client(sandbox.url, sandbox.api_key) as client:
        reading = await client.send(karma(kind, identity))
    assert reading.outcome == "listed"
