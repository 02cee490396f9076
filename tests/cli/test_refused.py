"""A wrong address, key or right reads the same, whichever command meets it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nightscreen.schemas.stops import REFUSALS
from tests.cli.conftest import Here
from tests.examples import load
from tests.services import answering

RECORDED = {one.name: one for one in load()}
REFUSED = {
    "address": RECORDED["error_unknown_route@karma"],
    "auth": RECORDED["error_wrong_key@karma"],
    "no_right": RECORDED["error_no_right@karma"],
}
STATUS = {"address": 2, "auth": 3, "no_right": 3}
CODE = ("consent", "redeem", "--customer", "C1", "--code", "a-code")


@pytest.fixture(params=list(REFUSED))
def refusing(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Return a trouble, and the address of a service that answers all calls with its text."""
    example = REFUSED[request.param]
    with answering(lambda *_: (example.response["status"], example.answered())) as address:
        yield request.param, address


@pytest.mark.parametrize("command", [("loans", "products"), CODE], ids=lambda words: words[0])
def test_commands_of_one_call(
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    refusing: tuple[str, str],
    command: tuple[str, ...],
) -> None:
    """The sentence that says what to do, and the exit status of its kind; with the version too."""
    trouble, address = refusing
    for name, value in {
        "BASE_URL": f"{address}/v2/",
        "API_KEY": "made-up-key",
        "CONSENT_URL": "https://consent.service.example",
        "CLIENT_ID": "client",
        "REDIRECT_URI": "https://lender.example/callback",
    }.items():
        monkeypatch.setenv(f"NIGHTSCREEN_{name}", value)
    ended = here(*command)
    assert ended.status == STATUS[trouble]
    assert REFUSALS[trouble] in ended.err
