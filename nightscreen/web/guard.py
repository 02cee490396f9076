"""Checks of every request, security headers of every response, forms, and the log.

The host must be ours, addresses short, and forms from our own pages. An unexpected error gives a
page and one line in the log. `serve` limits how long a request may take to arrive.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from nightscreen.schemas.clock import instant_text, system_clock
from nightscreen.schemas.errors import NightscreenError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Refusal = Callable[[str, int], Response]
    NoPage = Callable[[Request, HTTPException], Response]

HEALTH: Final = "/health"
LONGEST_ADDRESS: Final = 4096  # path and query; the longest of our own pages has 2,000
_HOST = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,4}[0-9]?)?")
_FEATURES = ("camera", "display-capture", "geolocation", "microphone", "payment", "usb")
_PERMISSIONS = ", ".join(f"{name}=()" for name in _FEATURES)
_TOO_LARGE = 413  # a body over the limit of its route
_YEARS_S = 2 * 365 * 24 * 3600  # two years, a choice: browsers use only https for so long
_PORTS = {"http": 80, "https": 443}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITE = frozenset({"same-origin", "none"})


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address as browsers compare them; empty if invalid."""
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


def page_of(scope: Scope) -> str:
    """Return the name of the page that a request reached; empty if it reached none."""
    endpoint = scope.get("endpoint")
    if isinstance(endpoint, StaticFiles):
        return "static"
    return getattr(getattr(endpoint, "func", endpoint), "__name__", "")


def log(name: str, fields: Mapping[str, str], *, in_json: bool = False) -> None:
    """Write a line, or a JSON object, on stderr; it must hold no personal data."""
    at = instant_text(system_clock()) or ""
    if in_json:
        line = json.dumps({"at": at, "event": name, **fields})
    else:
        line = " ".join((at, name, *(f"{key}={value}" for key, value in fields.items())))
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


@dataclass(eq=False)
class Guard:
    """Wraps an application; writes a log line for each response."""

    inner: ASGIApp
    origins: frozenset[str]  # scheme, host and port of each address that is served
    headers: Mapping[str, str]  # of every response, unless it sets its own
    refusal: Refusal  # makes the page for a kind of error and a status
    no_page: NoPage  # responds if there is no page, or not for this method or form
    log: Callable[[Mapping[str, str]], None]  # writes the line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        scope["app"] = self  # makes routes raise errors instead of answering in plain text
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        began_s = time.perf_counter()
        sent: list[int] = []

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(message, is_refusal=refused is not None)
                sent.append(message["status"])
            await send(message)

        refused, response = self._trouble(scope), None
        try:
            if refused is None:
                await self.inner(scope, receive, with_headers)
        except HTTPException as error:
            if error.status_code == _TOO_LARGE:
                refused = ("too_large", 413)
            else:
                response = await asyncio.to_thread(self.no_page, Request(scope), error)
        except Exception as error:  # noqa: BLE001 - the edge: a traceback could show a person
            is_expected = isinstance(error, NightscreenError)
            self.log({"fault": str(error) if is_expected else type(error).__name__})
            refused = ("broken", 500)
        if refused is not None:
            response = self.refusal(*refused)
        if response is not None and not sent:
            await response(scope, receive, with_headers)
        self.log(
            {
                "method": scope["method"] if scope["method"] in {*_SAFE, "POST"} else "other",
                "status": str(sent[0] if sent else 0),
                "ms": str(round((time.perf_counter() - began_s) * 1000)),
                "page": page_of(scope),
                **({} if refused is None else {"refused": refused[0]}),
            }
        )

    def _add_headers(self, message: Message, *, is_refusal: bool) -> None:
        if message["status"] == _TOO_LARGE and not is_refusal:
            raise HTTPException(_TOO_LARGE)  # Starlette would answer in plain text
        headers = MutableHeaders(scope=message)
        for name, value in self.headers.items():
            headers.setdefault(name, value)

    def _trouble(self, scope: Scope) -> tuple[str, int] | None:
        """Return why a request is refused, with the status; None if it is not."""
        if len(scope["path"]) + len(scope["query_string"]) > LONGEST_ADDRESS:
            return ("too_long", 414)
        # no database column can hold it
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return ("nul", 400)
        headers = Headers(scope=scope)
        if scope["path"] != HEALTH and not self._is_ours(headers.getlist("host")):
            return ("other_host", 421)
        if scope["method"] not in _SAFE and not self._is_from_our_pages(headers):
            return ("other_site", 403)
        return None

    def _is_ours(self, hosts: list[str]) -> bool:
        if len(hosts) != 1 or _HOST.fullmatch(hosts[0]) is None:
            return False
        schemes = {origin.partition(":")[0] for origin in self.origins}
        return any(origin_of(f"{scheme}://{hosts[0]}") in self.origins for scheme in schemes)

    def _is_from_our_pages(self, headers: Headers) -> bool:
        """Return whether a request that changes something comes from one of our pages.

        Browsers send Sec-Fetch-Site, older ones Origin. A client that sends neither is not a
        browser and has none of its cookies.
        """
        if sites := headers.getlist("sec-fetch-site"):
            return set(sites) <= _OWN_SITE
        return set(headers.getlist("origin")) <= self.origins


def headers_of(content_policy: str, *, is_secure: bool) -> dict[str, str]:
    """Return the headers of every response, unless the response sets its own."""
    headers = {
        "content-security-policy": content_policy,
        "referrer-policy": "same-origin",  # without it, browsers send no Origin with our own forms
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "x-robots-tag": "noindex, nofollow",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": _PERMISSIONS,
    }
    if is_secure:
        headers["strict-transport-security"] = f"max-age={_YEARS_S}"
    return headers


# --- forms ---

FORM_TYPE: Final = "application/x-www-form-urlencoded"
_LONGEST_FIELD: Final = 64 * 1024  # of a form with a file

Form = dict[str, list[str]]


class _InMemory(MultiPartParser):
    """Keeps a file in memory: on disk it would be unencrypted."""

    spool_max_size = 1 << 40


async def read_form(
    request: Request, most_fields: int, *, takes_file: bool = False
) -> tuple[Form, UploadFile | None]:
    """Return the fields of a form, and its file, in memory, if it has one.

    Raises:
        HTTPException: 415: it is not a form; 400: it cannot be read, has too many fields or a NUL,
            which no database column can hold, or its file did not arrive whole.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != ("multipart/form-data" if takes_file else FORM_TYPE):
        raise HTTPException(415, "The page takes its own form and nothing else.")
    file = None
    try:
        if takes_file:
            limits = {"max_files": 1, "max_fields": most_fields, "max_part_size": _LONGEST_FIELD}
            parser = _InMemory(request.headers, request.stream(), **limits)
            items = (await parser.parse()).multi_items()
            file = next((v for _, v in items if isinstance(v, UploadFile) and v.filename), None)
            pairs = [(name, value) for name, value in items if isinstance(value, str)]
        else:
            body = (await request.body()).decode()
            pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=most_fields)
    except (ValueError, KeyError, MultiPartException, ClientDisconnect):
        raise HTTPException(400, "The form did not arrive whole. Send it again.") from None
    form: Form = {}
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    if "\0" in "".join([*(n + v for n, v in pairs), (file and file.filename) or ""]):
        raise HTTPException(400, "The form holds a character without a sign (NUL).")
    return form, file


def attachment(content: bytes, name: str, media_type: str) -> Response:
    """Return a file that browsers save and never show."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}
    return Response(content, media_type=media_type, headers=headers)


def see_other(address: str) -> Response:
    """Return a redirect that the browser follows with GET."""
    return RedirectResponse(address, 303)
