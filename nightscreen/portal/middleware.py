"""What every request passes before an endpoint sees it, and every answer after.

The host must be the portal's, addresses and bodies short, and each answer carries the headers that
keep a page to itself. A fault ends as a page in kind words and one line in the log.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Final, Protocol

from nightscreen.portal.config import origin_of
from nightscreen.portal.log import note, notes
from nightscreen.schemas.errors import NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from nightscreen.portal.log import Log

HEALTH: Final = "/health"
LONGEST_ADDRESS: Final = 4096
LONGEST_BODY: Final = 8192
_HOST = re.compile(rb"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,4}[0-9]?)?")
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")
_PERMISSIONS = ", ".join(f"{name}=()" for name in _FEATURES)
_YEARS_S = 2 * 365 * 24 * 3600
_PAUSE_S = 20.0
"""A body of which nothing comes for so long is given up."""
BODY_S = 300.0
"""No body takes longer than this, however steadily it drips."""


class TooLargeError(Exception):
    """A body is larger than any form of the portal."""


class TooSlowError(Exception):
    """A body was not complete in time."""


class Refusals(Protocol):
    """Writes the page that says why a request is not answered."""

    def trouble(self, kind: str, status: int) -> Response:
        """Return the page of a kind of trouble."""


def form_limit(_path: str) -> int:
    """Return the most bytes of a body where nothing but short forms is sent."""
    return LONGEST_BODY


class Guard:
    """Wraps the application.

    Args:
        inner: the application.
        origins: scheme, host and port of each address that is served.
        headers: the headers of every answer (`headers_of`).
        pages: writes refusals.
        log: gets one line for each answer.
        longest_body: gives the most bytes of a body by its path.
    """

    def __init__(
        self,
        inner: ASGIApp,
        origins: Collection[str],
        headers: Mapping[str, str],
        pages: Refusals,
        log: Log,
        longest_body: Callable[[str], int] = form_limit,
    ) -> None:
        self._inner = inner
        self._origins = frozenset(origins)
        self._schemes = {origin.partition(":")[0] for origin in origins}
        self._pages = pages
        self._log = log
        self._longest_body = longest_body
        self._headers = tuple((name.encode(), value.encode()) for name, value in headers.items())

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
                own_headers = [header for header in self._headers if header[0] not in own]
                message["headers"] = [*message["headers"], *own_headers]
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await self._refuse(refusal, scope, receive, with_headers)
        else:
            bounded = _bounded(receive, self._longest_body(scope["path"]))
            await self._pass(scope, bounded, with_headers, sent)
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST") else "other"
        self._log.answered(method, sent[0] if sent else 0, began_s, notes(scope))

    async def _pass(self, scope: Scope, receive: Receive, send: Send, sent: list[int]) -> None:
        try:
            await self._inner(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a person
            is_expected = isinstance(error, NightscreenError)
            self._log.failed(str(error) if is_expected else type(error).__name__)
            if not sent:
                await self._refuse(("broken", 500), scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        """Return why a request is not let through, and the status that says so."""
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            return ("too_long", 414)
        if "\0" in scope["path"]:  # no table can hold it
            return ("nul", 400)
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if scope["path"] != HEALTH and not self._is_ours(hosts):
            return ("other_host", 421)
        return None

    def _is_ours(self, hosts: list[bytes]) -> bool:
        if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
            return False
        host = hosts[0].decode("ascii")
        return any(origin_of(f"{scheme}://{host}") in self._origins for scheme in self._schemes)

    async def _refuse(
        self, refusal: tuple[str, int], scope: Scope, receive: Receive, send: Send
    ) -> None:
        kind, status = refusal
        note(scope, refused=kind)
        await self._pages.trouble(kind, status)(scope, receive, send)


def headers_of(content_policy: str, *, is_secure: bool) -> dict[str, str]:
    """Return the headers of every answer, unless the answer sets its own.

    Args:
        content_policy: the content security policy.
        is_secure: browsers reach it by https.
    """
    always = {
        "content-security-policy": content_policy,
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": _PERMISSIONS,
    }
    if is_secure:
        always["strict-transport-security"] = f"max-age={_YEARS_S}"
    return always


def _bounded(receive: Receive, longest: int) -> Receive:
    """Return what reads a body and gives up once it is too large or too slow."""
    size = 0
    began_s = time.monotonic()
    whole = False

    async def read() -> Message:
        nonlocal size, whole
        if whole:  # what comes now is the end of the connection, whenever that is
            return await receive()
        left_s = min(_PAUSE_S, began_s + BODY_S - time.monotonic())
        try:
            message = await asyncio.wait_for(receive(), max(left_s, 0.0))
        except TimeoutError:
            raise TooSlowError from None
        size += len(message.get("body", b""))
        if size > longest:
            raise TooLargeError
        whole = not message.get("more_body", False)
        return message

    return read
