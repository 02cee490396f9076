"""Who is let in: the doors of the three areas, and what a caller without a credential is answered.

A door adds to the fields of a request what its operations must know of the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nightscreen.sandbox import wire
from nightscreen.sandbox.grants import NOBODY
from nightscreen.sandbox.request_pipeline import Outcome
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Scope

    from nightscreen.sandbox.state import Sandbox

NO_KEY: Final = {
    "invalid": "Invalid Authorization",
    "verify": "We couldn't verify your access. Please check your authorization",
}
"""Both texts recorded, by the switch `missing_key_text`."""
UNAUTHORISED: Final = "You are not authorized to access this service."


def _header(scope: Scope, wanted: bytes) -> bytes:
    return next((value for name, value in scope["headers"] if name == wanted), b"")


def by_key(sandbox: Sandbox, scope: Scope, _fields: dict[str, str]) -> Outcome | None:
    """Let in who has the API key (service.md, "Authentication" 2 and 6)."""
    given = _header(scope, b"authorization")
    if given == sandbox.authorization:
        return None
    if not given.strip():
        text = NO_KEY[sandbox.manners.missing_key_text]
        return Outcome("no_key", Reply(401, wire.envelope("error", text)))
    return Outcome("wrong_key", Reply(403, wire.envelope("error", "Forbidden")))


def by_key_for_links(sandbox: Sandbox, scope: Scope, fields: dict[str, str]) -> Outcome | None:
    """Let in who has the API key, and note the address under which short links are to lead."""
    host = _header(scope, b"host").decode("latin-1") or "localhost"
    fields["origin"] = f"{scope['scheme']}://{host}"
    return by_key(sandbox, scope, fields)


def by_token(sandbox: Sandbox, scope: Scope, fields: dict[str, str]) -> Outcome | None:
    """Let in who has a live access token, without the API key (service.md, "Authentication" 3).

    A token that is absent, unknown, expired or revoked is answered alike.
    """
    token = fields["token"] = _header(scope, b"x-access-token").decode("latin-1")
    found = sandbox.grants.find(token)
    if found and found[1].is_live(sandbox.now()):
        return None
    sandbox.grants.count(found[0].customer if found else NOBODY, "refused_tokens")
    word = "expired_token" if found else "unknown_token" if token else "no_token"
    return Outcome(word, Reply(403, wire.envelope("error", UNAUTHORISED)))
