"""One sandbox process for all tests here, brought back to its beginning before each."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from nightscreen.sandbox.people import contacts_of
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


class Answer(NamedTuple):
    """Status and body of one answer."""

    status: int
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        """The body, read as a JSON object."""
        value: dict[str, Any] = json.loads(self.body)
        return value


class Caller:
    """Calls the six operations as a client with the right key would."""

    def __init__(self, sandbox: SandboxProcess) -> None:
        self.sandbox = sandbox
        self.headers = {"Authorization": f"Bearer {sandbox.api_key}"}

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Send one request with the right key."""
        return Answer(*self.sandbox.request(method, path, body, self.headers))

    def karma(self, identity: str) -> Answer:
        """Look up an identity that needs no percent-encoding."""
        return self.call("GET", f"/v2/verification/karma/{identity}")

    def ecosystem(self, bvn: str) -> Answer:
        """Look up a borrower."""
        return self.call("GET", f"/v2/verification/ecosystem/{bvn}")

    def bank_account(self, bank_code: str, account_number: str) -> Answer:
        """Look up an account."""
        body = {"bank_code": bank_code, "account_number": account_number}
        return self.call("POST", "/v2/verification/bankaccount/bvn", body)

    def selfie(self, bvn: str, image: str) -> Answer:
        """Compare a photograph."""
        return self.call("POST", f"/v2/verification/bvn/{bvn}/selfies", {"image": image})

    def bvn_start(self, bvn: str, contact: str = "") -> Answer:
        """Start BVN consent with the registered phone, or another contact."""
        body = {"contact": contact or contacts_of(bvn)[0]}
        return self.call("POST", f"/v2/verification/bvn/{bvn}/accounts", body)

    def bvn_finish(self, bvn: str, otp: str) -> Answer:
        """Finish BVN consent."""
        return self.call("PUT", f"/v2/verification/bvn/{bvn}/accounts", {"otp": otp})


@pytest.fixture(scope="session")
def running_sandbox() -> Iterator[SandboxProcess]:
    """A sandbox in a child process."""
    with SandboxProcess() as process:
        yield process


@pytest.fixture
def sandbox(running_sandbox: SandboxProcess) -> SandboxProcess:
    """The sandbox at its beginning, answering at once."""
    running_sandbox.reset()
    running_sandbox.post("/_sandbox/latency", {"kind": "none"})
    return running_sandbox


@pytest.fixture
def caller(sandbox: SandboxProcess) -> Caller:
    """A client of the sandbox."""
    return Caller(sandbox)
