"""One call to the service, and how its parts are encoded; `checks/` and `client/` make requests.

Identifiers are percent-encoded in paths and never in a repr.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from urllib.parse import quote

from nightscreen.schemas.errors import UsageError

VERIFICATION = "/v2/verification"  # path of area B, validation


@dataclass(frozen=True, slots=True)
class Request:
    """One call to the service, ready to be sent."""

    operation: str  # the priced operation it belongs to
    method: str  # HTTP method
    path: str  # below the base address, percent-encoded; it may hold an identifier
    body: bytes | None  # JSON text; None if the operation has no body
    # the identifier asked about, so that an answer about another person is detected; an account
    # with its bank, as in `058-0123456789`
    asked: str = field(default="", repr=False)
    # the customer's token, sent instead of the key (specification, area A, authentication 3); empty
    # if the key is sent
    access_token: str = field(default="", repr=False)

    def __repr__(self) -> str:
        """Show no identifier."""
        return f"Request({self.operation}, {self.method} ***)"


def segment(identity: str) -> str:
    """Return an identifier percent-encoded as one path segment."""
    if not identity.strip(". \t\r\n"):
        raise UsageError("a lookup needs an identifier; leave the row out where it has none")
    try:
        return quote(identity, safe="")
    except UnicodeEncodeError:
        raise UsageError("an identifier holds broken characters; correct the input file") from None


def json_body(**fields: object) -> bytes:
    """Return a compact JSON body."""
    return json.dumps(fields, separators=(",", ":")).encode()


def require(value: str, message: str) -> None:
    """Refuse an empty field: the service answers it with 504 after a minute."""
    if not value.strip():
        raise UsageError(message)
