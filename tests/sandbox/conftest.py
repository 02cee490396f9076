"""One sandbox process for all tests here, brought back to its beginning before each."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from nightscreen.sandbox.process import SandboxProcess
from tests.examples import KEY


class Caller:
    """Calls over a socket, as a client with the right key would."""

    def __init__(self, sandbox: SandboxProcess) -> None:
        self.sandbox = sandbox
        self.headers = {"Authorization": f"Bearer {sandbox.api_key}"}

    def call(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Send one request with the right key."""
        return self.sandbox.request(method, path, body, self.headers)

    def karma(self, identity: str) -> httpx.Response:
        """Look up an identity that needs no percent-encoding."""
        return self.call("GET", f"/v2/verification/karma/{identity}")


@pytest.fixture(scope="session")
def running_sandbox() -> Iterator[SandboxProcess]:
    """A sandbox in a child process."""
    with SandboxProcess(api_key=KEY) as process:
        yield process


@pytest.fixture
def caller(running_sandbox: SandboxProcess) -> Caller:
    """A client of the sandbox at its beginning, which answers at once."""
    running_sandbox.reset()
    running_sandbox.post("/_sandbox/latency", {"kind": "none"})
    return Caller(running_sandbox)
