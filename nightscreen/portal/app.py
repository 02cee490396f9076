"""The portal as one ASGI application: its routes, and the pages behind links.

Behind a link a customer consents, or types a one-time password for a BVN. `operations/` checks
links, states and codes; this module turns the results into pages; `web.guard` wraps it all. A
password is never shown again, and is in no address, log or cookie.

Consent has four routes: the link, the departure to the consent screen, the redirect back, and the
result. The redirect back leads on to a clean address, so that code and state leave the address bar.
One signed cookie has a random value, which binds a redirect to the browser that started it and
identifies no person, and the message of the next page.

The templates and the style are in `data/pages/portal/`: no scripts, one style, no external
resources.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
import time
from base64 import b64encode
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from markupsafe import Markup
from sqlalchemy import text
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router

from nightscreen.client.wire import consent_address, read_scopes
from nightscreen.files.templates import html_templates
from nightscreen.operations.bvn import (
    PATH,
    LinkView,
    OtpLinkState,
    accept_otp,
    resolve_link,
)
from nightscreen.operations.consent_links import (
    ConsentLinks,
    ExchangeEnd,
    Refusal,
    read_signed,
    redeem,
    signed,
)
from nightscreen.runs.run import require_service
from nightscreen.schemas.errors import JournalError, SettingsError
from nightscreen.schemas.shipped import DATA
from nightscreen.web.guard import HEALTH, Guard, headers_of, log, origin_of, read_form, see_other
from nightscreen.web.serve import listening, serve_app

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

    View = Callable[["Portal", Request], Response | Awaitable[Response]]

TEMPLATES: Final = DATA / "pages" / "portal"
USUAL_PORT: Final = 8080  # as in deploy/, behind a proxy; not 8090, the desk's
# chosen limits: a person needs fewer, and a program cannot guess with so few
DEPARTURES_A_MINUTE: Final = 10  # redirects of one link to the consent screen; each is a record
TRIES_A_MINUTE: Final = 6  # passwords typed under one link
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_PHONE: Final = re.compile(r"\+?[\d ()-]{7,20}")
LONGEST_BODY = 8192  # bytes; requests are short forms
LINK: Final = "/consent/{token}"
RESULT: Final = "/consent/told"
OTP_LINK: Final = f"{PATH}{{token}}"
_LONGEST_TOKEN = 300  # the journal's tokens, signed keys, are shorter
_MOST_FIELDS = 20  # the portal's form has one; a form with many comes from elsewhere
_ASKING = (OtpLinkState.OPEN, OtpLinkState.WRONG_OTP, OtpLinkState.MALFORMED)
_COOKIE_S = 900  # a little more than a customer may take on the consent screen
_BROWSER_ID_BYTES = 16  # 128 bits cannot be guessed
_WAITS_S = 60  # a choice: pauses between the attempts of a call, and writing its result
_LONGEST_CODE = 2000  # the service's specification names no length; limits hostile requests
_CALLBACK_PARAMETERS = ("code", "state", "error")

_KINDS_OF_STATUS: Final = {
    200: ("denied", "nothing_granted"),
    400: ("state_unknown", "no_code", "code_refused"),
    403: ("state_other_browser",),
    404: ("link_unknown", "nothing_told"),
    409: ("otp_busy",),
    410: ("link_used", "link_expired", "state_used", "state_expired", "otp_expired", "otp_closed"),
    429: ("pace",),
    502: ("screen_trouble", "screen_refused", "in_doubt", "ours", "otp_in_doubt"),
    503: ("busy", "otp_unavailable"),
}
_STATUS: Final = {kind: status for status, kinds in _KINDS_OF_STATUS.items() for kind in kinds}
"""The status of each page that says why something did not work."""
_RESULT_OF_EXCHANGE = {
    ExchangeEnd.KEPT: "done",
    ExchangeEnd.CAPPED: "ours",
    ExchangeEnd.KEY_REFUSED: "ours",
    ExchangeEnd.TEST_MODE: "ours",
}
_SCREEN_ERRORS = frozenset({"server_error", "temporarily_unavailable"})


def application(
    journal: Journal, settings: Settings, *, transport: Transport | None = None
) -> ASGIApp:
    """Return the portal over an open journal; arguments are those of `Portal`.

    Raises:
        SettingsError: a setting that the portal needs is missing.
    """
    portal = Portal(journal, settings, place_of(settings), transport)
    require_service(settings, quote_only=False)

    def route(method: str, path: str, view: View) -> Route:
        endpoint = partial(view, portal)
        return Route(path, endpoint, methods=[method], max_body_size=LONGEST_BODY)

    routes = [
        route("GET", OTP_LINK, show_otp),
        route("POST", OTP_LINK, take_otp),
        route("GET", "/", _front),
        route("GET", "/icon.svg", _icon),
        route("GET", HEALTH, _health),
    ]
    if portal.place.callback_path:  # the registered address takes precedence
        routes = [
            route("GET", portal.place.callback_path, come_back),
            route("GET", RESULT, show_result),
            route("GET", LINK, start),
            route("POST", LINK, depart),
            *routes,
        ]

    def no_page(_request: Request, error: HTTPException) -> Response:
        kind = {400: "unreadable", 405: "method"}.get(error.status_code, "not_found")
        return portal.error_page(kind, error.status_code)

    return Guard(
        Router(routes, redirect_slashes=False),
        frozenset({portal.place.origin}),
        headers_of(policy(), is_secure=portal.place.is_secure),
        portal.error_page,
        no_page,
        partial(log, "portal", in_json=settings.log_format == "json"),
    )


def _front(portal: Portal, _request: Request) -> Response:
    return portal.page("front")


def _icon(_portal: Portal, _request: Request) -> Response:
    return Response((TEMPLATES / "icon.svg").read_text("utf-8"), media_type="image/svg+xml")


def _health(portal: Portal, _request: Request) -> Response:
    try:
        with portal.journal.database.reading() as connection:
            is_ok = connection.execute(text("SELECT 1")).scalar() == 1
    except JournalError:
        is_ok = False
    return JSONResponse({"ok": is_ok}, 200 if is_ok else 503)


def serve(journal: Journal, settings: Settings, *, host: str, port: int | None) -> None:
    """Serve the portal until SIGINT or SIGTERM; requests in progress are answered first.

    Prints one line on stdout when it listens: `portal listening on http://HOST:PORT for ORIGIN`.
    Port 0 means any free port, None the port of the portal's own address, or 8080.

    Raises:
        UsageError: a setting is missing, or the port is taken.
    """
    app, place = application(journal, settings), place_of(settings)
    with listening(host, place.port if port is None else port) as (listener, address):
        serve_app(
            app,
            listener,
            f"portal listening on {address} for {place.origin}",
            end_within_s=end_within_s(settings),
        )


def end_within_s(settings: Settings) -> int:
    """Return how many seconds a call under way may need until it is settled.

    A call that is cut after it was sent spends a password or a code, and its money is in doubt.
    """
    longest = max(settings.timeout_s["bvn"], settings.timeout_s["aggregator"])
    return ceil(longest * settings.attempts) + _WAITS_S


# --- consent ---


def start(portal: Portal, request: Request) -> Response:
    """Show who asks for what; a link may be opened any number of times."""
    asked = ConsentLinks(portal.journal).resolve_link(request.path_params["token"])
    if isinstance(asked, Refusal):
        return _refused(portal, "link", asked)
    screen = origin_of(portal.settings.consent_url)
    response = portal.page("start", scopes=asked.scopes, screen=urlsplit(screen).netloc)
    response.headers["content-security-policy"] = policy(screen)
    return _set_cookie(portal, response, word=_browser_id(portal, request))


def depart(portal: Portal, request: Request) -> Response:
    """Send the browser to the consent screen."""
    links = ConsentLinks(portal.journal)
    asked = links.resolve_link(request.path_params["token"])
    if isinstance(asked, Refusal):
        return _refused(portal, "link", asked)
    if not portal.departures.try_acquire(asked.link):
        return portal.error_page("pace", again=request.url.path)
    browser_id = _browser_id(portal, request)
    address = consent_address(
        portal.settings.consent_url,
        client_id=portal.settings.client_id,
        redirect_uri=portal.settings.redirect_uri,
        scopes=read_scopes(asked.scopes),
        state=links.start_redirect(asked, browser_id),
    )
    return _set_cookie(portal, see_other(address), word=browser_id)


def _refused(portal: Portal, what: str, why: Refusal) -> Response:
    """Show why a link or a state does not work; one that was changed counts as unknown."""
    kind = f"{what}_{why}"
    return portal.error_page(kind if kind in _STATUS else f"{what}_unknown")


async def come_back(portal: Portal, request: Request) -> Response:
    """Accept the redirect of the consent screen, and redirect the browser to the result."""
    if request.method != "GET":  # a HEAD request must not use up the state
        return portal.error_page("method", 405)
    parameters = _callback_parameters(request)
    if parameters is None or not parameters.get("state"):
        return portal.error_page("state_unknown")
    browser_id, links = _read_cookie(portal, request).get("word"), ConsentLinks(portal.journal)
    asked = await asyncio.to_thread(links.consume_state, parameters["state"], browser_id)
    if isinstance(asked, Refusal):
        return _refused(portal, "state", asked)
    redeemed = None
    if "error" in parameters:
        result = _redirect_error(parameters["error"])
    elif not 0 < len(parameters.get("code", "")) <= _LONGEST_CODE:
        result = "no_code"
    else:
        redeemed = await redeem(
            portal.journal,
            portal.settings,
            asked,
            parameters["code"],
            channel="portal",
            transport=portal.transport,
        )
        result = _RESULT_OF_EXCHANGE.get(redeemed.ending, redeemed.ending.value)
        if redeemed.ending is not ExchangeEnd.KEPT:  # for the operator
            entry = {"exchange": redeemed.ending.value, "trouble": redeemed.trouble}
            log("portal", entry, in_json=portal.settings.log_format == "json")
    message = {
        "what": result,
        "granted": () if redeemed is None or redeemed.grant is None else redeemed.grant.scopes,
        "missing": () if redeemed is None else redeemed.missing,
        "again": "" if result == "done" else links.reissue_token(asked),
    }
    return _set_cookie(portal, see_other(RESULT), word=_browser_id(portal, request), **message)


def show_result(portal: Portal, request: Request) -> Response:
    """Show the result of a redirect, which the cookie has and the address does not."""
    message = _read_cookie(portal, request)
    result = message.get("what", "nothing_told")
    if result == "done":
        return portal.page("done", granted=message["granted"], missing=message["missing"])
    token = message.get("again")
    return portal.error_page(result, again=LINK.format(token=token) if token else "")


# --- the cookie ---


def _read_cookie(portal: Portal, request: Request) -> dict[str, Any]:
    """Return the contents of the browser's cookie, empty if it is missing, invalid or too old."""
    text = request.cookies.get(portal.cookie, "")
    return read_signed(portal.journal, "browser", text, _COOKIE_S) or {}


def _browser_id(portal: Portal, request: Request) -> str:
    """Return the random value that identifies this browser, a new one if it has none."""
    return _read_cookie(portal, request).get("word") or secrets.token_urlsafe(_BROWSER_ID_BYTES)


def _set_cookie(portal: Portal, response: Response, **contents: object) -> Response:
    response.set_cookie(
        portal.cookie,
        signed(portal.journal, "browser", contents),
        max_age=_COOKIE_S,
        path="/",
        secure=portal.place.is_secure,
        httponly=True,
        samesite="lax",
    )
    return response


def _callback_parameters(request: Request) -> dict[str, str] | None:
    """Return the redirect's parameters; None if one is repeated or is not UTF-8."""
    items = [each for each in request.query_params.multi_items() if each[0] in _CALLBACK_PARAMETERS]
    # stands for bytes that could not be read: the state must not be used up for a damaged code
    if any("\ufffd" in value for _, value in items):
        return None
    return dict(items) if len({name for name, _ in items}) == len(items) else None


def _redirect_error(error: str) -> str:
    """Return the page for an error of the consent screen (OAuth 2.0, 4.1.2.1)."""
    if error == "access_denied":
        return "denied"
    return "screen_trouble" if error in _SCREEN_ERRORS else "screen_refused"


# --- the password for a BVN ---


def show_otp(portal: Portal, request: Request) -> Response:
    """Show the password form; a link may be opened any number of times."""
    return _otp_page(portal, request, _resolve_otp(portal, request))


async def take_otp(portal: Portal, request: Request) -> Response:
    """Send the service a password, and show the result."""
    token = request.path_params["token"]
    form, _ = await read_form(request, _MOST_FIELDS)
    view = await asyncio.to_thread(_resolve_otp, portal, request)
    typed = form.get("otp", [""])[-1].strip()
    if view.state not in _ASKING or not typed:
        return _otp_page(portal, request, view, "missing")
    if not portal.tries.try_acquire(token):
        return portal.error_page("pace", again=request.url.path)
    clock, transport = portal.journal.clock, portal.transport
    view = await accept_otp(portal.settings, token, typed, clock=clock, transport=transport)
    if view.state is OtpLinkState.CONFIRMED:
        return see_other(request.url.path)
    return _otp_page(portal, request, view, view.state.value)


def _resolve_otp(portal: Portal, request: Request) -> LinkView:
    token: str = request.path_params["token"]
    if not token.isascii() or len(token) > _LONGEST_TOKEN:
        return LinkView(OtpLinkState.CLOSED)
    return resolve_link(portal.journal, portal.settings, token)


def _otp_page(portal: Portal, request: Request, view: LinkView, fault: str = "") -> Response:
    """Return the password form, with the error of the last attempt, or the page of the result."""
    if view.state in _ASKING:
        return portal.page(
            "otp",
            422 if fault else 200,
            contact=view.masked_contact,
            attempts_left=view.attempts_left,
            digits=portal.settings.bvn_consent.otp_digits,
            fault=fault,
        )
    if view.state is OtpLinkState.CONFIRMED:
        return portal.page("otp_done")
    again = request.url.path if view.state in (OtpLinkState.BUSY, OtpLinkState.UNAVAILABLE) else ""
    return portal.error_page(f"otp_{view.state}", again=again)


# --- what pages share ---

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
        # when the latest actions of each key were
        self._latest = defaultdict[str, deque[float]](partial(deque, maxlen=times))
        self._lock = threading.Lock()  # views run in several threads

    def try_acquire(self, key: str) -> bool:
        """Return whether another action is allowed, and count it if so."""
        with self._lock:
            now, latest = time.monotonic(), self._latest[key]
            if len(latest) == latest.maxlen and now - latest[0] < 60:  # noqa: PLR2004 - a minute
                return False
            latest.append(now)  # the earliest goes
            return True


@dataclass
class Portal:
    """What every page of the portal needs."""

    journal: Journal  # stores links, states and grants; other processes may use it too
    settings: Settings  # the service, the consent screen, the portal's address and names
    place: Place  # where customers reach it
    transport: Transport | None = None  # replaces sockets in tests
    departures: RateLimit = field(default_factory=lambda: RateLimit(DEPARTURES_A_MINUTE))
    tries: RateLimit = field(default_factory=lambda: RateLimit(TRIES_A_MINUTE))

    @property
    def cookie(self) -> str:
        """Return the cookie's name; by https it is bound to this host."""
        return "__Host-nightscreen" if self.place.is_secure else "nightscreen"

    def page(self, template: str, status: int = 200, **values: object) -> Response:
        """Render a page with the lender's name; `template` is a file name without its ending."""
        contact = self.settings.portal_contact.strip()
        name = self.settings.portal_name
        lender = {"name": name, "contact": contact, "contact_link": contact_link(contact)}
        page = _templates(TEMPLATES).get_template(f"{template}.html.j2")
        css = Markup(style())  # noqa: S704 - a file of the package
        return HTMLResponse(page.render(lender=lender, style=css, **values), status)

    def error_page(self, kind: str, status: int = 0, again: str = "") -> Response:
        """Return a page that says what went wrong and what the customer can do.

        `kind` is a key of the template's table, `again` the path to start again.
        """
        return self.page("trouble", status or _STATUS[kind], kind=kind, again=again)


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
