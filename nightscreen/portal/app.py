"""The portal as one ASGI application: its addresses.

The pages behind links are in `links`; `web.guard` wraps everything.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import text
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router

from nightscreen.journal.engine import reading
from nightscreen.portal import links
from nightscreen.portal.pages import TEMPLATES, Portal, place_of, policy
from nightscreen.runs.run import require_service
from nightscreen.schemas.errors import JournalError
from nightscreen.web.guard import HEALTH, Guard, headers_of, log
from nightscreen.web.serve import listening, serve_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal

    View = Callable[[Portal, Request], Awaitable[Response]]

LONGEST_BODY = 8192  # bytes; nothing but short forms is sent


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
        route("GET", links.OTP_LINK, links.show_otp),
        route("POST", links.OTP_LINK, links.take_otp),
        route("GET", "/", _front),
        route("GET", "/icon.svg", _icon),
        route("GET", HEALTH, _health),
    ]
    if portal.place.callback_path:  # the registered address goes before all others
        routes = [
            route("GET", portal.place.callback_path, links.come_back),
            route("GET", links.TOLD, links.told),
            route("GET", links.LINK, links.start),
            route("POST", links.LINK, links.depart),
            *routes,
        ]

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        yield
        await portal.drain()

    def no_page(_request: Request, error: HTTPException) -> Response:
        kind = {400: "unreadable", 405: "method"}.get(error.status_code, "not_found")
        return portal.trouble(kind, error.status_code)

    return Guard(
        Router(routes, redirect_slashes=False, lifespan=lifespan),
        [portal.place.origin],
        headers_of(policy(), is_secure=portal.place.is_secure),
        portal.trouble,
        no_page,
        partial(log, "portal", in_json=settings.log_format == "json"),
    )


async def _front(portal: Portal, _request: Request) -> Response:
    return portal.page("front")


async def _icon(_portal: Portal, _request: Request) -> Response:
    return Response((TEMPLATES / "icon.svg").read_text("utf-8"), media_type="image/svg+xml")


async def _health(portal: Portal, _request: Request) -> Response:
    def answers() -> bool:
        try:
            with reading(portal.journal.engine) as connection:
                return connection.execute(text("SELECT 1")).scalar() == 1
        except JournalError:
            return False

    sound = await asyncio.to_thread(answers)
    return JSONResponse({"ok": sound}, 200 if sound else 503)


def serve(journal: Journal, settings: Settings, *, host: str, port: int | None) -> None:
    """Serve the portal until SIGINT or SIGTERM; answers under way are given first.

    Prints one line on stdout when it listens: `portal listening on http://HOST:PORT for ORIGIN`.
    Port 0 takes a free one, None that of the portal's own address, or 8080.

    Raises:
        UsageError: a setting is missing, or the port is taken.
    """
    app, place = application(journal, settings), place_of(settings)
    with listening(host, place.port if port is None else port) as (listener, at):
        serve_app(app, listener, f"portal listening on {at} for {place.origin}")
