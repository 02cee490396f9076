"""The portal as one ASGI application: addresses, and what they share.

Pages of consent are in `consent`, the page for passwords in `otp`; `web.guard` wraps everything.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import text
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from nightscreen.journal.engine import reading
from nightscreen.portal.config import place_of
from nightscreen.portal.consent import LINK, TOLD, ConsentPages
from nightscreen.portal.otp import LINK as OTP_LINK
from nightscreen.portal.otp import OtpPages
from nightscreen.portal.pages import TEMPLATES, Pages, policy
from nightscreen.runs.run import require_service
from nightscreen.schemas.errors import JournalError
from nightscreen.web.background import Lasting
from nightscreen.web.guard import HEALTH, Guard, Log, fault_pages, headers_of, note
from nightscreen.web.serve import serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

LONGEST_BODY = 8192
"""Bytes of a body: nothing but short forms is sent."""


def application(
    journal: Journal, settings: Settings, *, transport: Transport | None = None
) -> ASGIApp:
    """Return the portal over an open journal.

    Args:
        journal: where links, states and grants are kept; other processes may use it too.
        settings: the service, the consent screen, the portal's address and names.
        transport: another way to the service than sockets, for tests.

    Raises:
        SettingsError: a setting that the portal needs is missing.
    """
    place, lasting = place_of(settings), Lasting()
    pages = Pages(settings.portal_name, settings.portal_contact.strip())
    require_service(settings, quote_only=False)
    consent = ConsentPages(
        journal, settings, pages, lasting, is_secure=place.is_secure, transport=transport
    )
    otp = OtpPages(journal, settings, pages, lasting, transport)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await lasting.drain()

    routes = [
        Route(OTP_LINK, otp.show, methods=["GET"]),
        Route(OTP_LINK, otp.take, methods=["POST"], max_body_size=LONGEST_BODY),
        *_plain_routes(journal, pages),
    ]
    if place.callback_path:  # the registered address goes before all others
        routes = [
            Route(place.callback_path, consent.come_back, methods=["GET"]),
            Route(TOLD, consent.told, methods=["GET"]),
            Route(LINK, consent.start, methods=["GET"]),
            Route(LINK, consent.depart, methods=["POST"], max_body_size=LONGEST_BODY),
            *routes,
        ]
    inner = Starlette(
        routes=routes,
        exception_handlers=fault_pages(pages.trouble, partial(_no_page, pages)),
        lifespan=lifespan,
    )
    inner.router.redirect_slashes = False
    headers = headers_of(policy(), is_secure=place.is_secure)
    log = Log("portal", in_json=settings.log_format == "json")
    return Guard(inner, [place.origin], headers, pages.trouble, log)


def _plain_routes(journal: Journal, pages: Pages) -> list[Route]:
    async def front(_request: Request) -> Response:
        return pages.page("front")

    async def health(_request: Request) -> Response:
        sound = await asyncio.to_thread(_answers, journal)
        return JSONResponse({"ok": sound}, 200 if sound else 503)

    async def robots(_request: Request) -> Response:
        return PlainTextResponse("User-agent: *\nDisallow: /\n")

    async def icon_file(_request: Request) -> Response:
        icon = (TEMPLATES / "icon.svg").read_text("utf-8")
        return Response(icon, media_type="image/svg+xml")

    return [
        Route("/", front),
        Route("/icon.svg", icon_file),
        Route(HEALTH, health),
        Route("/robots.txt", robots),
    ]


def _answers(journal: Journal) -> bool:
    try:
        with reading(journal.engine) as connection:
            return connection.execute(text("SELECT 1")).scalar() == 1
    except JournalError:
        return False


def _no_page(pages: Pages, request: Request, error: HTTPException) -> Response:
    kind = {400: "unreadable", 405: "method"}.get(error.status_code, "not_found")
    note(request.scope, refused=kind)
    return pages.trouble(kind, error.status_code)


def serve(journal: Journal, settings: Settings, *, host: str, port: int | None) -> None:
    """Serve the portal until SIGINT or SIGTERM; answers under way are given first.

    Prints one line on stdout when it listens: `portal listening on http://HOST:PORT for ORIGIN`.

    Args:
        journal: an open journal.
        settings: those of the portal.
        host: address to listen on.
        port: 0 takes a free one; None that of the portal's own address, or 8080.

    Raises:
        UsageError: a setting is missing, or the port is taken.
    """
    place = place_of(settings)
    app = application(journal, settings)
    serve_app(
        lambda _at: app,
        host=host,
        port=place.port if port is None else port,
        announce=lambda at: f"portal listening on {at} for {place.origin}",
    )
