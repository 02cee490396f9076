"""A wrong address, key or right reads the same, whichever command meets it."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.schemas.stops import REFUSALS
from tests.cli.command import nightscreen, surroundings
from tests.examples import load
from tests.services import answering
from tests.steps.bvn_in_a_test import asked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Here
    from tests.services import EngineServer

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
@pytest.mark.parametrize("path", ["", "/v2/"])
def test_commands_of_one_call(
    here: Here,
    monkeypatch: pytest.MonkeyPatch,
    refusing: tuple[str, str],
    command: tuple[str, ...],
    path: str,
) -> None:
    """The sentence that says what to do, and the exit status of its kind; with the version too."""
    trouble, address = refusing
    for name, value in consenting(f"{address}{path}").items():
        monkeypatch.setenv(name, value)
    ended = here(*command)
    assert ended.status == STATUS[trouble]
    assert REFUSALS[trouble] in ended.err


def test_doctor(here: Here, monkeypatch: pytest.MonkeyPatch, refusing: tuple[str, str]) -> None:
    """Address and key are found out by a question that is free; a right cannot be."""
    trouble, address = refusing
    monkeypatch.setenv("NIGHTSCREEN_BASE_URL", address)
    found = here("doctor", "--json").document
    (service,) = [one for one in found["findings"] if one["name"] == "service"]
    if trouble == "no_right":
        assert service["standing"] == "ok"
        return
    assert service["standing"] == "wrong"
    says, _, first = REFUSALS[trouble].partition(": ")
    assert says in service["says"]
    assert found["first"] == first
    assert found["exit_status"] == 2


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.parametrize("trouble", list(REFUSED))
def test_commands_with_a_run(engine_server: EngineServer, tmp_path: Path, trouble: str) -> None:
    """Screening and BVN consent end alike, and the doctor says the same of what is left."""
    example = REFUSED[trouble]
    rows = [asked(number) for number in range(1, 8)]
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    with answering(lambda *_: (example.response["status"], example.answered())) as address:
        settings = {**engine_server.client, **consenting(address)}
        env = surroundings(tmp_path, **settings)
        for command in (("screen", "in.csv", "--yes"), ("bvn", "request", "in.csv")):
            ended = nightscreen(*command, "--json", cwd=tmp_path, env=env)
            assert ended.status == STATUS[trouble], ended.err
            assert REFUSALS[trouble] in said(ended.document), ended.out
        runs = json.loads(nightscreen("runs", "list", "--json", cwd=tmp_path, env=env).out)["runs"]
        assert len(runs) == (0 if trouble == "address" else 2)
        doctor = nightscreen("doctor", "--json", cwd=tmp_path, env=env).document
        assert REFUSALS[trouble].partition(": ")[2] in str(doctor["first"])


def said(document: dict[str, Any]) -> str:
    """Return what a command says in its document: the error, or the notices of its report."""
    return document.get("error") or " ".join(document["notices"])


def consenting(address: str) -> dict[str, str]:
    """Return the settings of a lender whose customers can consent."""
    return {
        "NIGHTSCREEN_BASE_URL": address,
        "NIGHTSCREEN_API_KEY": "made-up-key",
        "NIGHTSCREEN_CONSENT_URL": "https://consent.service.example",
        "NIGHTSCREEN_CLIENT_ID": "client",
        "NIGHTSCREEN_REDIRECT_URI": "https://lender.example/callback",
    }
