"""What the portal's pages share: their address, rendering and rate limits.

The templates and the style are in `data/pages/portal/`: no scripts, one style, no external
resources. The endpoints in `app` decide which page is shown.
"""

from __future__ import annotations

import re
import time
from base64 import b64encode
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from markupsafe import Markup
from starlette.responses import HTMLResponse

from nightscreen.files.templates import html_templates
from nightscreen.schemas.errors import SettingsError
from nightscreen.schemas.shipped import DATA
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

TEMPLATES = DATA / "pages" / "portal"
USUAL_PORT = 8080  # as in deploy/, behind a proxy; not 8090, the desk's
# chosen limits: a person needs fewer, and a program cannot guess with so few
DEPARTURES_A_MINUTE = 10  # redirects of one link to the consent screen; each is a record
TRIES_A_MINUTE = 6  # passwords typed under one link
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PHONE = re.compile(r"\+?[\d ()-]{7,20}")
_templates = cache(html_templates)


class Place(NamedTuple):
    """The portal's own address."""

    origin: str  # scheme, host and port under which customers reach it
    # path of the registered redirect address; empty if another application serves it
    callback_path: str

    @property
    def is_secure(self) -> bool:
        """Return whether customers reach it over HTTPS."""
        return self.origin.startswith("https://")

    @property
    def port(self) -> int:
        """Return the default port: that of its address, unless a proxy is in front (HTTPS)."""
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


class RateLimit:
    """Limits actions per minute and key, in this process only."""

    def __init__(self, times: int) -> None:
        self._times = times
        self._recent: defaultdict[str, deque[float]] = defaultdict(deque)

    def try_acquire(self, key: str) -> bool:
        """Return whether another action is allowed, and count it if so."""
        now, recent = time.monotonic(), self._recent[key]
        while recent and now - recent[0] >= 60:  # noqa: PLR2004 - a minute
            recent.popleft()
        if len(recent) >= self._times:
            return False
        recent.append(now)
        return True


@dataclass(slots=True)
class Portal:
    """What every page of the portal needs."""

    journal: Journal  # stores links, states and grants; other processes may use it too
    settings: Settings  # the service, the consent screen, the portal's address and names
    transport: Transport | None = None  # replaces sockets in tests
    place: Place = field(init=False)
    departures: RateLimit = field(default_factory=lambda: RateLimit(DEPARTURES_A_MINUTE))
    tries: RateLimit = field(default_factory=lambda: RateLimit(TRIES_A_MINUTE))

    def __post_init__(self) -> None:
        self.place = place_of(self.settings)

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page with the lender's name; `template` is a file name without its ending."""
        contact = self.settings.portal_contact.strip()
        name = self.settings.portal_name
        lender = {"name": name, "contact": contact, "contact_link": contact_link(contact)}
        page = _templates(TEMPLATES).get_template(f"{template}.html.j2")
        css = Markup(style())  # noqa: S704 - a file of the package
        return HTMLResponse(page.render(lender=lender, style=css, **values), status)

    def error_page(self, kind: str, status: int, again: str = "") -> Response:
        """Return a page that says what went wrong and what the customer can do.

        `kind` is a key of the template's table, `again` the path to start again.
        """
        return self.page("trouble", status, kind=kind, again=again)


@cache
def style() -> str:
    """Return the style sheet that every page contains."""
    return (TEMPLATES / "style.css").read_text("utf-8")


def policy(forms_lead_to: str = "") -> str:
    """Return the content security policy of a page.

    Args:
        forms_lead_to: an origin to which a form may be redirected, besides the portal's own. That
            origin may redirect the browser again, to sign in elsewhere; browsers check each
            redirect against the policy.
    """
    digest = b64encode(sha256(style().encode()).digest()).decode()
    onward_to = f" {forms_lead_to} https:" if forms_lead_to else ""
    return (
        f"default-src 'none'; img-src 'self'; style-src 'sha256-{digest}'; "
        f"form-action 'self'{onward_to}; frame-ancestors 'none'; base-uri 'none'"
    )


def contact_link(contact: str) -> str:
    """Return a `mailto:` or `tel:` address for an email or a phone number, else an empty text."""
    if _EMAIL.fullmatch(contact):
        return f"mailto:{contact}"
    return "tel:" + re.sub(r"[^\d+]", "", contact) if _PHONE.fullmatch(contact) else ""
