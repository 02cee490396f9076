"""A sandbox in a child process, for tests, demonstrations and measurements.

Starting, stopping and steering a sandbox live here, in blocking calls. The program under test makes
the calls to the service itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Self

import httpx

_LINE = "sandbox listening on "
_PATIENCE_S = 20.0


class SandboxProcess:
    """A sandbox that runs while the body of a `with` does.

    It also ends when the process that started it does, however that one ends.

    The options are those of the command, such as `balance` and `ledger_limit`.
    """

    url: str
    pid: int

    def __init__(
        self, scenario: str = "calm", *, api_key: str = "sandbox-key", **options: str | int | None
    ) -> None:
        self.api_key = api_key
        given = {"scenario": scenario, "api-key": api_key, "port": 0, **options}
        self._options = [
            f"--{name.replace('_', '-')}={value}"
            for name, value in given.items()
            if value is not None
        ]

    def __enter__(self) -> Self:
        """Start the child and wait until it listens.

        Raises:
            RuntimeError: the child ended without listening.
        """
        self._child = subprocess.Popen(  # noqa: S603 - our own program, no shell
            [sys.executable, "-m", "nightscreen.sandbox", "--stop-with-stdin", *self._options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # it has no business with an engine: no login of one reaches it
            env={name: each for name, each in os.environ.items() if not name.startswith("PREFECT")},
        )
        line = self._child.stdout.readline() if self._child.stdout else ""
        self.url, self.pid = line.removeprefix(_LINE).strip(), self._child.pid
        self._http = httpx.Client(
            base_url=self.url,
            timeout=_PATIENCE_S,
            trust_env=False,
            verify=False,  # noqa: S501 - http on loopback: no certificates to read
        )
        if not line.startswith(_LINE):
            self.__exit__()
            raise RuntimeError("the sandbox did not start; its stderr says why")
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the child."""
        self._http.close()
        with self._child as child:  # closes its pipes
            child.terminate()
            try:
                child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()

    def request(
        self,
        method: str,
        path: str,
        payload: object = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send one request as it is, without a key."""
        return self._http.request(method, path, json=payload, headers=headers)

    def get(self, path: str) -> dict[str, Any]:
        """Read a control address, for instance `/_sandbox/state`."""
        return _shown(self.request("GET", path))

    def post(self, path: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Set something at a control address, and return what is now in force."""
        return _shown(self.request("POST", path, payload or {}))

    def ledger(self, since: int = 0, operation: str | None = None) -> dict[str, Any]:
        """Read the ledger after a sequence number, of one operation or all; money is text."""
        tail = f"&operation={operation}" if operation else ""
        return self.get(f"/_sandbox/ledger?since={since}{tail}")

    def totals(self) -> dict[str, Any]:
        """Read the ledger's totals, wallet and peaks, without entries."""
        return self.get("/_sandbox/ledger?totals=1")

    def reset(self, scenario: str | None = None) -> None:
        """Empty the ledger and go back to the beginning of a scenario."""
        self.post("/_sandbox/reset", {"scenario": scenario} if scenario else {})

    def wait_until_idle(self, patience_s: float = _PATIENCE_S) -> None:
        """Wait until no call is in flight, so that the ledger holds calls given up by callers.

        Raises:
            TimeoutError: calls are still in flight.
        """
        end = time.monotonic() + patience_s
        while self.totals()["in_flight"]["all"]:
            if time.monotonic() > end:
                raise TimeoutError("calls are still in flight")
            time.sleep(0.01)


def _shown(told: httpx.Response) -> dict[str, Any]:
    """Read an answer of the control surface.

    Raises:
        ValueError: the sandbox refused; the message says why.
    """
    answer: dict[str, Any] = told.json()
    if not told.is_success:
        raise ValueError(answer.get("error", f"status {told.status_code}"))
    return answer
