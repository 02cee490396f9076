"""The portal as one ASGI application: its routes, and the pages behind links.

Behind a link a customer consents, or types a one-time password for a BVN. `operations/` checks
links, states and codes; this module turns the results into pages; `web.guard` wraps it all. A
password is never shown again, and is in no address, log or cookie.

Consent has four routes: the link, the departure to the consent screen, the redirect back, and the
result. The redirect back leads on to a clean address, so that code and state leave the address bar.
One signed cookie has a random value, which binds a redirect to the browser that started it and
identifies no person, and the message of the next page.
"""

from __future__ import annotations

import asyncio
import secrets
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from sqlalchemy import text
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from nightscreen.client.wire import consent_address, read_scopes
from nightscreen.operations.bvn import (
    PATH,
    LinkView,
    OtpLinkState,
    accept_otp,
    resolve_link,
)
from nightscreen.operations.consent_links import (
    AskedConsent,
    ConsentLinks,
    ExchangeEnd,
    Refusal,
    read_signed,
    redeem,
    signed,
)
from nightscreen.portal.pages import TEMPLATES, Portal, place_of, policy
from nightscreen.runs.run import require_service
from nightscreen.schemas.errors import JournalError
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

    View = Callable[[Portal, Request], Awaitable[Response]]

LONGEST_BODY = 8192  # bytes; requests are short forms
LINK: Final = "/consent/{token}"
RESULT: Final = "/consent/told"
OTP_LINK: Final = f"{PATH}{{token}}"
_LONGEST_TOKEN = 300  # the journal's tokens, signed keys, are shorter
_MOST_FIELDS = 20  # the portal's form has one; a form with many comes from elsewhere
_ASKING = (OtpLinkState.OPEN, OtpLinkState.WRONG_OTP, OtpLinkState.MALFORMED)
_OTP_STATUS = {
    OtpLinkState.EXPIRED: 410,
    OtpLinkState.CLOSED: 410,
    OtpLinkState.BUSY: 409,
    OtpLinkState.IN_DOUBT: 502,
    OtpLinkState.UNAVAILABLE: 503,
}
_COOKIE_S = 900  # a little more than a customer may take on the consent screen
_BROWSER_ID_BYTES = 16  # 128 bits cannot be guessed
_WAITS_S = 60  # a choice: pauses between the attempts of a call, and writing its result
_LONGEST_CODE = 2000  # the service's specification names no length; limits hostile requests
_CALLBACK_PARAMETERS = ("code", "state", "error")

_REFUSED_STATUS = {Refusal.USED: 410, Refusal.EXPIRED: 410, Refusal.OTHER_BROWSER: 403}
_RESULT_STATUS = {
    "denied": 200,
    "nothing_granted": 200,
    "screen_trouble": 502,
    "screen_refused": 502,
    "no_code": 400,
    "code_refused": 400,
    "in_doubt": 502,
    "busy": 503,
    "ours": 502,
}
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
    portal = Portal(journal, settings, transport)
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
        [portal.place.origin],
        headers_of(policy(), is_secure=portal.place.is_secure),
        portal.error_page,
        no_page,
        partial(log, "portal", in_json=settings.log_format == "json"),
    )


async def _front(portal: Portal, _request: Request) -> Response:
    return portal.page("front")


async def _icon(_portal: Portal, _request: Request) -> Response:
    return Response((TEMPLATES / "icon.svg").read_text("utf-8"), media_type="image/svg+xml")


async def _health(portal: Portal, _request: Request) -> Response:
    def journal_answers() -> bool:
        try:
            with portal.journal.database.reading() as connection:
                return connection.execute(text("SELECT 1")).scalar() == 1
        except JournalError:
            return False

    is_ok = await asyncio.to_thread(journal_answers)
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


async def start(portal: Portal, request: Request) -> Response:
    """Show who asks for what; a link may be opened any number of times."""
    asked = await _resolve_consent(portal, request)
    if isinstance(asked, Refusal):
        return _refused(portal, "link", asked, 404)
    screen = origin_of(portal.settings.consent_url)
    response = portal.page("start", scopes=asked.scopes, screen=urlsplit(screen).netloc)
    response.headers["content-security-policy"] = policy(screen)
    return _set_cookie(portal, response, word=_browser_id(portal, request))


async def depart(portal: Portal, request: Request) -> Response:
    """Send the browser to the consent screen."""
    asked = await _resolve_consent(portal, request)
    if isinstance(asked, Refusal):
        return _refused(portal, "link", asked, 404)
    if not portal.departures.try_acquire(asked.link):
        return portal.error_page("pace", 429, again=request.url.path)
    browser_id, links = _browser_id(portal, request), ConsentLinks(portal.journal)
    address = consent_address(
        portal.settings.consent_url,
        client_id=portal.settings.client_id,
        redirect_uri=portal.settings.redirect_uri,
        scopes=read_scopes(asked.scopes),
        state=await asyncio.to_thread(links.start_redirect, asked, browser_id),
    )
    return _set_cookie(portal, see_other(address), word=browser_id)


async def _resolve_consent(portal: Portal, request: Request) -> AskedConsent | Refusal:
    links = ConsentLinks(portal.journal)
    return await asyncio.to_thread(links.resolve_link, request.path_params["token"])


def _refused(portal: Portal, what: str, why: Refusal, unknown: int) -> Response:
    """Show why a link or a state does not work; one that was changed counts as unknown."""
    kind = why if why in _REFUSED_STATUS else Refusal.UNKNOWN
    return portal.error_page(f"{what}_{kind}", _REFUSED_STATUS.get(why, unknown))


async def come_back(portal: Portal, request: Request) -> Response:
    """Accept the redirect of the consent screen, and redirect the browser to the result."""
    if request.method != "GET":  # a HEAD request must not use up the state
        return portal.error_page("method", 405)
    parameters = _callback_parameters(request)
    if parameters is None or not parameters.get("state"):
        return portal.error_page("state_unknown", 400)
    browser_id, links = _read_cookie(portal, request).get("word"), ConsentLinks(portal.journal)
    asked = await asyncio.to_thread(links.consume_state, parameters["state"], browser_id)
    if isinstance(asked, Refusal):
        return _refused(portal, "state", asked, 400)
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


async def show_result(portal: Portal, request: Request) -> Response:
    """Show the result of a redirect, which the cookie has and the address does not."""
    message = _read_cookie(portal, request)
    result = message.get("what")
    if result is None:
        return portal.error_page("nothing_told", 404)
    if result == "done":
        return portal.page("done", granted=message["granted"], missing=message["missing"])
    again = LINK.format(token=message["again"]) if message["again"] else ""
    return portal.error_page(result, _RESULT_STATUS[result], again)


# --- the cookie ---


def _cookie_name(portal: Portal) -> str:
    return "__Host-nightscreen" if portal.place.is_secure else "nightscreen"


def _read_cookie(portal: Portal, request: Request) -> dict[str, Any]:
    """Return the contents of the browser's cookie, empty if it is missing, invalid or too old."""
    text = request.cookies.get(_cookie_name(portal), "")
    return read_signed(portal.journal, "browser", text, _COOKIE_S) or {}


def _browser_id(portal: Portal, request: Request) -> str:
    """Return the random value that identifies this browser, a new one if it has none."""
    return _read_cookie(portal, request).get("word") or secrets.token_urlsafe(_BROWSER_ID_BYTES)


def _set_cookie(portal: Portal, response: Response, **contents: object) -> Response:
    response.set_cookie(
        _cookie_name(portal),
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


async def show_otp(portal: Portal, request: Request) -> Response:
    """Show the password form; a link may be opened any number of times."""
    return _otp_page(portal, request, await _resolve_otp(portal, request))


async def take_otp(portal: Portal, request: Request) -> Response:
    """Send the service a password, and show the result."""
    token = request.path_params["token"]
    form, _ = await read_form(request, _MOST_FIELDS)
    view = await _resolve_otp(portal, request)
    typed = form.get("otp", [""])[-1].strip()
    if view.state not in _ASKING or not typed:
        return _otp_page(portal, request, view, "missing")
    if not portal.tries.try_acquire(token):
        return portal.error_page("pace", 429, again=request.url.path)
    clock, transport = portal.journal.clock, portal.transport
    view = await accept_otp(portal.settings, token, typed, clock=clock, transport=transport)
    if view.state is OtpLinkState.CONFIRMED:
        return see_other(request.url.path)
    return _otp_page(portal, request, view, view.state.value)


async def _resolve_otp(portal: Portal, request: Request) -> LinkView:
    token: str = request.path_params["token"]
    if not token.isascii() or len(token) > _LONGEST_TOKEN:
        return LinkView(OtpLinkState.CLOSED)
    return await asyncio.to_thread(resolve_link, portal.journal, portal.settings, token)


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
    return portal.error_page(f"otp_{view.state}", _OTP_STATUS[view.state], again)
