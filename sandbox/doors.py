"""The doors of the service: who is let in, and on whose behalf a call is made.

Credentials only, and what the caller is told who has none. What happens to a call after that is
the gate's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox import wire
from sandbox.gate import Outcome
from sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Scope

    from sandbox.gate import Operation, Subject
    from sandbox.state import Sandbox


def header(scope: Scope, wanted: bytes) -> bytes:
    """Return the first header of a name, empty where there is none."""
    return next((value for name, value in scope["headers"] if name == wanted), b"")


class KeyDoor:
    """Lets in who has the API key (service.md, "Authentication" 2 and 6)."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def refuse(self, scope: Scope) -> Outcome | None:
        """Refuse a caller without the right key."""
        given = header(scope, b"authorization")
        if given == self._sandbox.authorization:
            return None
        manners = self._sandbox.manners
        if not given.strip():
            body = wire.envelope("error", "Invalid Authorization")
            return Outcome("no_key", Reply(int(manners.missing_key), body))
        return Outcome(
            "wrong_key", Reply(int(manners.wrong_key), wire.envelope("error", "Forbidden"))
        )

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read what a request asks about from its path and body."""
        return operation.read(scope["path_params"], body)
