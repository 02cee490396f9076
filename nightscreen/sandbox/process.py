"""A sandbox in a child process, for tests, demonstrations and measurements.

Starting, stopping and steering a sandbox live here, in blocking calls and with the standard
library only. The program under test makes the calls to the service itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from typing import Any, Self
from urllib.parse import urlsplit

_LINE = "sandbox listening on "
_PATIENCE_S = 20.0


class SandboxProcess:
    """A running sandbox: start it with `with`, or with `start` and `stop`.

    It also ends when the process that started it does, however that one ends.

    Args:
        scenario: mood to start in.
        api_key: the only key that is right.
        balance: naira in the wallet, as decimal text; None takes the default.
        seed: chooses faults and latencies.
        ledger_limit: how many ledger entries are kept; None keeps all.
    """

    def __init__(
        self,
        scenario: str = "calm",
        *,
        api_key: str = "sandbox-key",
        balance: str | None = None,
        seed: int = 0,
        ledger_limit: int | None = None,
    ) -> None:
        self.api_key = api_key
        self.url = ""
        self._options = ["--scenario", scenario, "--api-key", api_key]
        self._options += ["--port", "0", "--seed", str(seed)]
        if balance is not None:
            self._options += ["--balance", balance]
        if ledger_limit is not None:
            self._options += ["--ledger-limit", str(ledger_limit)]
        self._child: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id of the running child."""
        return self._running().pid

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None:
            raise RuntimeError("the sandbox is not running")
        return self._child

    def start(self) -> None:
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
        if not line.startswith(_LINE):
            self.stop()
            raise RuntimeError("the sandbox did not start; its stderr says why")
        self.url = line.removeprefix(_LINE).strip()

    def stop(self) -> int:
        """Stop the child, and return its exit status; harmless when it is not running."""
        if self._child is None:
            return 0
        with self._running() as child:  # closes its pipes
            self._child = None
            child.terminate()
            try:
                return child.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                return child.wait()

    def request(
        self,
        method: str,
        path: str,
        payload: object = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send one request as it is, without a key, and return status and body.

        Raises:
            OSError: no connection, or it was cut; `http.client.HTTPException` likewise.
        """
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_PATIENCE_S)
        body = None if payload is None else json.dumps(payload)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> dict[str, Any]:
        """Read a control address, for instance `/_sandbox/state`.

        Raises:
            ValueError: the sandbox refused; the message says why.
        """
        return self._control("GET", path, None)

    def post(self, path: str, payload: dict[str, Any] | None = None) -> dict[str, Any]:
        """Set something at a control address, and return what is now in force.

        Raises:
            ValueError: the sandbox refused; the message says why.
        """
        return self._control("POST", path, payload or {})

    def _control(self, method: str, path: str, payload: object) -> dict[str, Any]:
        status, body = self.request(method, path, payload)
        answer: dict[str, Any] = json.loads(body)
        if status != 200:  # noqa: PLR2004 - OK
            raise ValueError(answer.get("error", f"status {status}"))
        return answer

    def ledger(self, since: int = 0, operation: str | None = None) -> dict[str, Any]:
        """Read the ledger after a sequence number, whole, of one operation or all.

        It is read page by page; money is decimal text.
        """
        tail = f"&operation={operation}" if operation else ""
        whole = self.get(f"/_sandbox/ledger?since={since}{tail}")
        while whole["more"]:
            page = self.get(f"/_sandbox/ledger?since={whole['next']}{tail}")
            page["entries"] = whole["entries"] + page["entries"]
            whole = page
        return whole

    def totals(self) -> dict[str, Any]:
        """Read the ledger's totals, wallet and peaks, without entries."""
        return self.get("/_sandbox/ledger?totals=1")

    def reset(self, scenario: str | None = None) -> None:
        """Empty the ledger and go back to the beginning of a scenario."""
        self.post("/_sandbox/reset", {"scenario": scenario} if scenario else {})

    def grant(
        self,
        customer: str,
        scopes: tuple[str, ...] = ("transaction:list",),
        redirect_uri: str | None = None,
    ) -> str:
        """Let a customer consent without a browser, and return the authorization code.

        Where no `redirect_uri` is given, the exchange may name any address.
        """
        wanted = {"customer": customer, "scopes": list(scopes), "redirect_uri": redirect_uri}
        return str(self.post("/_sandbox/grants", wanted)["code"])

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
