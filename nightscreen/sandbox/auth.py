"""Who is let in, and on whose behalf a call is made.

Credentials only, and what a caller without one is answered. The pipeline handles the call after
that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import wire
from nightscreen.sandbox.aggregator import TOKEN, UNAUTHORISED
from nightscreen.sandbox.grants import NOBODY
from nightscreen.sandbox.request_pipeline import Outcome
from nightscreen.sandbox.test_identifiers import by_customer
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Scope

    from nightscreen.sandbox.request_pipeline import Operation, Subject
    from nightscreen.sandbox.state import Sandbox

NO_KEY: Final = {
    "invalid": "Invalid Authorization",
    "verify": "We couldn't verify your access. Please check your authorization",
}
"""Both texts recorded, by the switch `missing_key_text`."""


def header(scope: Scope, wanted: bytes) -> bytes:
    """Return the first header of a name, empty where there is none."""
    return next((value for name, value in scope["headers"] if name == wanted), b"")


class KeyAuth:
    """Lets in who has the API key (service.md, "Authentication" 2 and 6)."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def refuse(self, scope: Scope) -> Outcome | None:
        """Refuse a caller without the right key."""
        given = header(scope, b"authorization")
        if given == self._sandbox.authorization:
            return None
        if not given.strip():
            text = NO_KEY[self._sandbox.manners.missing_key_text]
            return Outcome("no_key", Reply(401, wire.envelope("error", text)))
        return Outcome("wrong_key", Reply(403, wire.envelope("error", "Forbidden")))

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read what a request asks about from its path and body."""
        return operation.read(scope["path_params"], body)


class TokenEndpointAuth(KeyAuth):
    """Accepts callers with the API key, and knows whose code or refresh token was sent."""

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read the request and name the customer."""
        subject = super().read(operation, scope, body)
        subject.identity = self._sandbox.grants.customer_of(subject.fields["code"])
        row = by_customer(subject.identity)
        subject.trouble = row.trouble(at_auth=True) if row else None
        return subject


class TokenAuth(KeyAuth):
    """Lets in who has a live access token, without the API key (service.md, "Authentication" 3)."""

    def refuse(self, scope: Scope) -> Outcome | None:
        """Refuse a caller whose token is absent, unknown, expired or revoked: all alike."""
        sandbox = self._sandbox
        token = header(scope, b"x-access-token").decode("latin-1")
        found = sandbox.grants.find(token)
        if found and found[1].is_live(sandbox.now()):
            return None
        sandbox.grants.count(found[0].customer if found else NOBODY, "refused_tokens")
        word = "expired_token" if found else "unknown_token" if token else "no_token"
        return Outcome(word, Reply(403, wire.envelope("error", UNAUTHORISED)))

    def read(self, operation: Operation, scope: Scope, body: dict[str, object]) -> Subject:
        """Read the request and name the customer whose token it is."""
        subject = super().read(operation, scope, body)
        token = header(scope, b"x-access-token").decode("latin-1")
        found = self._sandbox.grants.find(token)
        subject.fields[TOKEN] = token
        subject.identity = found[0].customer if found else NOBODY
        row = by_customer(subject.identity)
        subject.trouble = row.trouble(at_auth=False) if row else None
        return subject
