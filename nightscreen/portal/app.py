"""The portal as one ASGI application: addresses, and what they share.

Pages of consent are in `consent`, the page for passwords in `otp`; `middleware` wraps everything.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import text
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nightscreen.journal.engine import reading
from nightscreen.operations.bvn.links import accept_otp
from nightscreen.operations.consents.links import ConsentLinks
from nightscreen.operations.consents.token_exchange import CodeExchange
from nightscreen.portal.background import Lasting
from nightscreen.portal.config import place_of
from nightscreen.portal.consent import LINK, TOLD, ConsentPages
from nightscreen.portal.log import Log, note
from nightscreen.portal.middleware import (
    HEALTH,
    Guard,
    TooLargeError,
    TooSlowError,
    headers_of,
)
from nightscreen.portal.otp import LINK as OTP_LINK
from nightscreen.portal.otp import OtpPages
from nightscreen.portal.pages import Pages, icon, policy
from nightscreen.portal.session import Browsers
from nightscreen.schemas.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal


def application(
    journal: Journal,
    settings: Settings,
    *,
    transport: Transport | None = None,
) -> ASGIApp:
    """Return the portal over an open journal.

    Args:
        journal: where links, states and grants are kept; other processes may use it too.
        settings: the service, the consent screen, the portal's address and names.
        transport: another way to the service than sockets, for tests.

    Raises:
        SettingsError: a setting that the portal needs is missing.
    """
    place = place_of(settings)
    pages, browsers, lasting = Pages(place), Browsers(journal, place), Lasting()
    redeemer = CodeExchange(journal, settings, transport=transport)
    links = ConsentLinks(journal)
    consent = ConsentPages(place, pages, browsers, links, redeemer, lasting, journal.clock)
    accept = partial(accept_otp, clock=journal.clock, transport=transport)
    otp = OtpPages(journal, settings, pages, browsers, lasting, accept)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await lasting.drain()
            await redeemer.aclose()

    routes = [
        *(_consent_routes(consent, place.callback_path) if place.answers_redirects else []),
        Route(OTP_LINK, otp.show, methods=["GET"]),
        Route(OTP_LINK, otp.take, methods=["POST"]),
        *_plain_routes(journal, pages),
    ]
    inner = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _refusing(pages),
            TooLargeError: partial(_shown, pages, "too_large", 413),
            TooSlowError: partial(_shown, pages, "too_slow", 408),
            Exception: partial(_shown, pages, "broken", 500),
        },
        lifespan=lifespan,
    )
    inner.router.redirect_slashes = False
    headers = headers_of(policy(), is_secure=place.is_secure)
    log = Log("portal", in_json=settings.log_format == "json")
    return Guard(inner, [place.origin], headers, pages, log)


def _consent_routes(consent: ConsentPages, callback_path: str) -> list[Route]:
    """Return the addresses of consent; the registered one goes before all others."""
    return [
        Route(callback_path, consent.come_back, methods=["GET"]),
        Route(TOLD, consent.told, methods=["GET"]),
        Route(LINK, consent.start, methods=["GET"]),
        Route(LINK, consent.depart, methods=["POST"]),
    ]


def _plain_routes(journal: Journal, pages: Pages) -> list[Route]:
    async def front(request: Request) -> Response:
        note(request.scope, page="front")
        return pages.page("front")

    async def health(request: Request) -> Response:
        note(request.scope, page="health")
        sound = await asyncio.to_thread(_answers, journal)
        return JSONResponse({"ok": sound}, 200 if sound else 503)

    async def robots(request: Request) -> Response:
        note(request.scope, page="robots")
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    async def picture(request: Request) -> Response:
        note(request.scope, page="icon")
        return Response(icon(), media_type="image/svg+xml")

    return [
        Route("/", front),
        Route("/icon.svg", picture),
        Route(HEALTH, health),
        Route("/robots.txt", robots),
    ]


def _answers(journal: Journal) -> bool:
    try:
        with reading(journal.engine) as connection:
            return connection.execute(text("SELECT 1")).scalar() == 1
    except JournalError:
        return False


def _refusing(pages: Pages) -> Callable[[Request, Exception], Response]:
    def refuse(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        kind = "method" if status == 405 else "not_found"  # noqa: PLR2004 - method not allowed
        note(request.scope, refused=kind)
        return pages.trouble(kind, status)

    return refuse


def _shown(pages: Pages, kind: str, status: int, request: Request, _error: Exception) -> Response:
    """Answer a fault with a page; the guard logs what it was."""
    note(request.scope, refused=kind)
    return pages.trouble(kind, status)
