"""The portal's addresses and the lender's name: plain values, read from the settings once.

The pages show them to customers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from nightscreen.schemas.errors import SettingsError
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings

USUAL_PORT = 8080


@dataclass(frozen=True, slots=True)
class PortalConfig:
    """The portal's configuration.

    Attributes:
        origin: scheme, host and port under which customers reach it.
        callback_path: path of the registered redirect address; empty where another application
            answers there.
        consent_url: address of the consent screen.
        name: who asks, as customers know them.
        contact: where customers get help; may be empty.
    """

    origin: str
    callback_path: str
    redirect_uri: str
    consent_url: str
    client_id: str
    name: str
    contact: str

    @property
    def is_secure(self) -> bool:
        """Return whether customers reach it by https."""
        return self.origin.startswith("https://")

    @property
    def port(self) -> int:
        """Return the default port: that of the portal's own address, if it is on this machine."""
        parts = urlsplit(self.origin)
        return USUAL_PORT if self.is_secure or parts.port is None else parts.port

    @property
    def consent_origin(self) -> str:
        """Return scheme, host and port of the consent screen."""
        return origin_of(self.consent_url)

    @property
    def answers_redirects(self) -> bool:
        """Return whether customers come back to the portal from the consent screen."""
        return bool(self.callback_path)


def place_of(settings: Settings) -> PortalConfig:
    """Return the portal's configuration.

    Raises:
        SettingsError: neither its address nor a redirect address is set.
    """
    origin = origin_of(settings.portal_url or settings.redirect_uri)
    if not origin:
        raise SettingsError(
            "where customers reach the portal is not known: set NIGHTSCREEN_REDIRECT_URI to the "
            "redirect address you registered, or NIGHTSCREEN_PORTAL_URL"
        )
    back = urlsplit(settings.redirect_uri)
    is_ours = origin_of(settings.redirect_uri) == origin
    return PortalConfig(
        origin=origin,
        callback_path=(unquote(back.path) or "/") if is_ours else "",
        redirect_uri=settings.redirect_uri,
        consent_url=settings.consent_url,
        client_id=settings.client_id,
        name=settings.portal_name,
        contact=settings.portal_contact.strip(),
    )
