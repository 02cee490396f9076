"""What every request passes before an endpoint sees it, every answer after, and the log of both.

The host must be ours, addresses short, forms from our own pages, and each answer carries the
headers that keep a page to itself. A fault ends as a page and one line in the log. How long a
request may take to arrive is limited in `serve`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException

from nightscreen.schemas.clock import instant_text, system_clock
from nightscreen.schemas.errors import NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Refusal = Callable[[str, int], Response]

HEALTH: Final = "/health"
LONGEST_ADDRESS: Final = 4096
_HOST = re.compile(rb"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,4}[0-9]?)?")
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")
_PERMISSIONS = ", ".join(f"{name}=()" for name in _FEATURES)
_YEARS_S = 2 * 365 * 24 * 3600
_PORTS = {"http": 80, "https": 443}
_NOTES = "nightscreen.notes"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({"same-origin", "none"})


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address as browsers compare them; empty for none."""
    parts = urlsplit(url)
    try:
        number = parts.port
    except ValueError:
        return ""
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if number in (None, _PORTS.get(parts.scheme)) else f":{number}"
    return f"{parts.scheme}://{host}{port}"


def note(scope: Scope, **words: str) -> None:
    """Add words to the log's line of the present answer; never what a person sent."""
    scope.setdefault(_NOTES, {}).update(words)


def page_of(scope: Scope) -> str:
    """Return the name of the page that a request reached; empty where it reached none."""
    return getattr(scope.get("endpoint"), "__name__", "")


class Log:
    """Writes one line on stderr for each answer, without address, query, cookie or person.

    Args:
        name: whose log it is.
        in_json: one JSON object a line.
    """

    def __init__(self, name: str, *, in_json: bool = False) -> None:
        self._name = name
        self._in_json = in_json

    def write(self, words: Mapping[str, str]) -> None:
        """Write a line: names and words, none of them a person's."""
        at = instant_text(system_clock()) or ""
        if self._in_json:
            line = json.dumps({"at": at, "event": self._name, **words})
        else:
            line = " ".join((at, self._name, *(f"{name}={word}" for name, word in words.items())))
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class Guard:
    """Wraps an application.

    Args:
        inner: the application.
        origins: scheme, host and port of each address that is served.
        headers: the headers of every answer (`headers_of`).
        refusal: writes the page of a kind of trouble, with a status.
        log: gets one line for each answer.
    """

    def __init__(
        self,
        inner: ASGIApp,
        origins: Collection[str],
        headers: Mapping[str, str],
        refusal: Refusal,
        log: Log,
    ) -> None:
        self._inner = inner
        self._origins = frozenset(origins)
        self._schemes = {origin.partition(":")[0] for origin in origins}
        self._page = refusal
        self._log = log
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
            await self._refuse(*refusal, scope, receive, with_headers)
        else:
            await self._pass(scope, receive, with_headers, sent)
        self._log.write(
            {
                "method": scope["method"] if scope["method"] in {*_SAFE, "POST"} else "other",
                "status": str(sent[0] if sent else 0),
                "ms": str(round((time.perf_counter() - began_s) * 1000)),
                "page": page_of(scope),
                **scope.get(_NOTES, {}),
            }
        )

    async def _pass(self, scope: Scope, receive: Receive, send: Send, sent: list[int]) -> None:
        try:
            await self._inner(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a person
            is_expected = isinstance(error, NightscreenError)
            self._log.write({"fault": str(error) if is_expected else type(error).__name__})
            if not sent:
                await self._refuse("broken", 500, scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        """Return why a request is not let through, and the status that says so."""
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            return ("too_long", 414)
        if "\0" in scope["path"]:  # no table can hold it
            return ("nul", 400)
        if scope["path"] != HEALTH and not self._is_ours(_values(scope, b"host")):
            return ("other_host", 421)
        if scope["method"] not in _SAFE and not self._is_from_our_pages(scope):
            return ("other_site", 403)
        return None

    def _is_ours(self, hosts: list[bytes]) -> bool:
        if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
            return False
        host = hosts[0].decode("ascii")
        return any(origin_of(f"{scheme}://{host}") in self._origins for scheme in self._schemes)

    def _is_from_our_pages(self, scope: Scope) -> bool:
        """Tell whether a request that changes something comes from a page of ours.

        Browsers say so in Sec-Fetch-Site, older ones in Origin. What sends neither is no browser,
        and has none of its cookies.
        """
        sites = _values(scope, b"sec-fetch-site")
        if sites:
            return {site.decode("latin-1") for site in sites} <= _OWN_SITE
        origins = _values(scope, b"origin")
        return {origin.decode("latin-1") for origin in origins} <= self._origins

    async def _refuse(
        self, kind: str, status: int, scope: Scope, receive: Receive, send: Send
    ) -> None:
        note(scope, refused=kind)
        await self._page(kind, status)(scope, receive, send)


def _values(scope: Scope, wanted: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == wanted]


def headers_of(content_policy: str, *, is_secure: bool) -> dict[str, str]:
    """Return the headers of every answer, unless the answer sets its own.

    Args:
        content_policy: the content security policy.
        is_secure: browsers reach it by https.
    """
    always = {
        "content-security-policy": content_policy,
        "referrer-policy": "same-origin",  # with none, browsers name no origin of our own forms
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


def fault_pages(
    refusal: Refusal, no_page: Callable[[Request, HTTPException], Response]
) -> dict[type[Exception], Callable[[Request, Exception], Response]]:
    """Return what answers an exception that reaches the application's edge.

    Args:
        refusal: writes the page of a kind of trouble, with a status.
        no_page: answers where there is no page, or not for this method.
    """

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101 - registered for that class alone
        if error.status_code == 413:  # noqa: PLR2004 - a body over the limit of its route
            return shown("too_large", 413, request, error)
        return no_page(request, error)

    def shown(kind: str, status: int, request: Request, _error: Exception) -> Response:
        note(request.scope, refused=kind)
        return refusal(kind, status)

    return {HTTPException: refused, Exception: partial(shown, "broken", 500)}
