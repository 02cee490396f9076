"""What every request passes before an endpoint sees it, and every answer after.

The host must be the portal's, addresses and bodies short, and each answer carries the headers that
keep a page to itself. A fault ends as a page in kind words and one line in the log.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from nightscreen.portal.config import origin_of
from nightscreen.portal.log import note, notes
from nightscreen.portal.pages import policy
from nightscreen.schemas.errors import NightscreenError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from nightscreen.portal.config import PortalConfig
    from nightscreen.portal.log import Log
    from nightscreen.portal.pages import Pages

HEALTH: Final = "/health"
LONGEST_ADDRESS: Final = 4096
LONGEST_BODY: Final = 8192
_HOST = re.compile(rb"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,4}[0-9]?)?")
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")
_PERMISSIONS = ", ".join(f"{name}=()" for name in _FEATURES)
_YEARS_S = 2 * 365 * 24 * 3600


class TooLargeError(Exception):
    """A body is larger than any form of ours."""


class Guard:
    """Stands before the application.

    Args:
        inner: the application.
        place: whose host is served.
        pages: writes refusals.
        log: gets one line for each answer.
    """

    def __init__(self, inner: ASGIApp, place: PortalConfig, pages: Pages, log: Log) -> None:
        self._inner = inner
        self._place = place
        self._pages = pages
        self._log = log
        self._headers = tuple(
            (name.encode(), value.encode()) for name, value in headers_of(place).items()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request pass, or answer it here."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        began_s = time.perf_counter()
        sent: list[int] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.append(message["status"])
                own = {name.lower() for name, _ in message["headers"]}
                ours = [each for each in self._headers if each[0] not in own]
                message["headers"] = [*message["headers"], *ours]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, with_headers)
        else:
            await self._pass(scope, _bounded(receive), with_headers, sent)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        self._log.answered(method, sent[0] if sent else 0, began_s, notes(scope))

    async def _pass(self, scope: Scope, receive: Receive, send: Send, sent: list[int]) -> None:
        try:
            await self._inner(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a person
            told = isinstance(error, NightscreenError)
            self._log.failed(str(error) if told else type(error).__name__)
            if not sent:
                await self._refuse(("broken", 500), scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        """Return why a request is not let through, and the status that says so."""
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            return ("too_long", 414)
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if scope["path"] != HEALTH and not self._is_ours(hosts):
            return ("other_host", 421)
        return None

    def _is_ours(self, hosts: list[bytes]) -> bool:
        if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
            return False
        scheme = self._place.origin.partition(":")[0]
        return origin_of(f"{scheme}://{hosts[0].decode('ascii')}") == self._place.origin

    async def _refuse(
        self, refusal: tuple[str, int], scope: Scope, receive: Receive, send: Send
    ) -> None:
        kind, status = refusal
        note(scope, refused=kind)
        await self._pages.trouble(kind, status)(scope, receive, send)


def headers_of(place: PortalConfig) -> dict[str, str]:
    """Return the headers of every answer that does not bear its own of a name."""
    always = {
        "content-security-policy": policy(),
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": _PERMISSIONS,
    }
    if place.is_secure:
        always["strict-transport-security"] = f"max-age={_YEARS_S}"
    return always


def _bounded(receive: Receive) -> Receive:
    """Return what reads a body and gives up once it is too large."""
    size = 0

    async def read() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > LONGEST_BODY:
            raise TooLargeError
        return message

    return read
