"""Where customers reach the portal, and whether the consent screen sends them back to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from nightscreen.schemas.errors import SettingsError
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings

USUAL_PORT = 8080


class Place(NamedTuple):
    """The portal's own address."""

    origin: str  # scheme, host and port under which customers reach it
    # path of the registered redirect address; empty where another application answers there
    callback_path: str

    @property
    def is_secure(self) -> bool:
        """Return whether customers reach it by https."""
        return self.origin.startswith("https://")

    @property
    def port(self) -> int:
        """Return the default port: that of its own address, if it is on this machine."""
        port = urlsplit(self.origin).port
        return USUAL_PORT if self.is_secure or port is None else port


def place_of(settings: Settings) -> Place:
    """Return the portal's address.

    Raises:
        SettingsError: neither its address nor a redirect address is set.
    """
    origin = origin_of(settings.portal_url or settings.redirect_uri)
    if not origin:
        raise SettingsError(
            "where customers reach the portal is not known: set NIGHTSCREEN_REDIRECT_URI to the "
            "redirect address you registered, or NIGHTSCREEN_PORTAL_URL"
        )
    is_ours = origin_of(settings.redirect_uri) == origin
    path = unquote(urlsplit(settings.redirect_uri).path) or "/"
    return Place(origin, path if is_ours else "")
