"""A wrong address, key or right reads the same, whichever command meets it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nightscreen.schemas.stops import REFUSALS
from tests.cli.conftest import Here
from tests.examples import Example, load
from tests.services import answering

RECORDED = {one.name: one for one in load()}
PRODUCTS = ("loans", "products")
CODE = ("consent", "redeem", "--customer", "C1", "--code", "a-code")
REFUSED: tuple[tuple[str, str, int, tuple[tuple[str, ...], ...]], ...] = (
    ("address", "error_unknown_route@karma", 2, (PRODUCTS, CODE)),
    ("auth", "error_wrong_key@karma", 3, (PRODUCTS, CODE)),
    ("no_right", "error_no_right@karma", 3, (PRODUCTS, CODE)),
    ("distributor", "loan_products_no_distributor", 3, (PRODUCTS,)),
)
"""A trouble, what the service answers to all calls, the exit status, and who meets it."""


@contextmanager
def answering_as_in(example: Example) -> Iterator[tuple[str, list[bytes]]]:
    """Answer all calls as an example does; give the address, and the bodies that were sent."""
    sent: list[bytes] = []

    def answer(_: object, body: bytes) -> tuple[int, bytes]:
        sent.append(body)
        return example.response["status"], example.answered()

    with answering(answer) as address:
        yield address, sent


def test_commands_of_one_call(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence that says what to do, and the exit status of its kind; with the version too.

    It is one line, and one document for programs; nothing else is tried.
    """
    for name, value in {
        "API_KEY": "made-up-key",
        "CONSENT_URL": "https://consent.service.example",
        "CLIENT_ID": "client",
        "REDIRECT_URI": "https://lender.example/callback",
    }.items():
        monkeypatch.setenv(f"NIGHTSCREEN_{name}", value)
    for trouble, name, status, commands in REFUSED:
        for command in commands:
            with answering_as_in(RECORDED[name]) as (address, sent):
                monkeypatch.setenv("NIGHTSCREEN_BASE_URL", f"{address}/v2/")
                ended = here(*command, "--json")
            assert (ended.status, len(sent)) == (status, 1), (trouble, command)
            assert ended.err.count("\n") == 1, (trouble, command)
            assert REFUSALS[trouble] in ended.err, (trouble, command)
            assert ended.err == f"nightscreen: {ended.document['error']}\n", (trouble, command)
            assert ended.document["exit_status"] == status, (trouble, command)
