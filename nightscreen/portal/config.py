"""Where customers reach the portal, and what its pages share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from nightscreen.portal.pages import Pages
from nightscreen.schemas.errors import SettingsError
from nightscreen.web.background import Lasting, RateLimit
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

USUAL_PORT = 8080
DEPARTURES_A_MINUTE = 10
TRIES_A_MINUTE = 6


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


@dataclass(slots=True)
class Portal:
    """What the pages share.

    Attributes:
        journal: where links, states and grants are kept; other processes may use it too.
        settings: the service, the consent screen, the portal's address and names.
        transport: another way to the service than sockets, for tests.
        lasting: finishes in the background what a customer does not wait for.
        departures: how often one link leads to the consent screen.
        tries: how often a password is typed under one link.
    """

    journal: Journal
    settings: Settings
    transport: Transport | None = None
    place: Place = field(init=False)
    pages: Pages = field(init=False)
    lasting: Lasting = field(default_factory=Lasting)
    departures: RateLimit = field(default_factory=lambda: RateLimit(DEPARTURES_A_MINUTE, 60))
    tries: RateLimit = field(default_factory=lambda: RateLimit(TRIES_A_MINUTE, 60))

    def __post_init__(self) -> None:
        self.place = place_of(self.settings)
        self.pages = Pages(self.settings.portal_name, self.settings.portal_contact.strip())
