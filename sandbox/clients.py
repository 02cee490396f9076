"""The client application: who may ask customers for consent, and where they are sent back to.

Registration only, as the service's console would hold it; the screen is `sandbox.consenting`.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

DEFAULT_CLIENT_ID: Final = "sandbox-client"
DEFAULT_NAME: Final = "Sandbox Lender"


@dataclass(frozen=True, slots=True)
class Client:
    """One registered client.

    Attributes:
        client_id: as sent by the client.
        name: as shown to the customer.
        redirect_uris: the addresses registered; None takes any address on loopback.
    """

    client_id: str = DEFAULT_CLIENT_ID
    name: str = DEFAULT_NAME
    redirect_uris: tuple[str, ...] | None = None

    def takes(self, redirect_uri: str) -> bool:
        """Tell whether customers may be sent to this address; a registered one must be exact."""
        if not is_address(redirect_uri):
            return False
        if self.redirect_uris is None:
            return _is_loopback(urlsplit(redirect_uri).hostname or "")
        return redirect_uri in self.redirect_uris

    def as_json(self) -> dict[str, object]:
        """Return the registration as the control surface takes it."""
        uris = None if self.redirect_uris is None else list(self.redirect_uris)
        return {"client_id": self.client_id, "name": self.name, "redirect_uris": uris}


def is_address(text: str) -> bool:
    """Tell whether a text is an absolute address a browser can be sent to: no fragment, no user."""
    plain_text = text.isascii() and text.isprintable()
    if not plain_text or any(sign in " \"'<>\\;," for sign in text):
        return False
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    plain = "@" not in parts.netloc and "#" not in text
    return parts.scheme in ("http", "https") and bool(host) and plain


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
