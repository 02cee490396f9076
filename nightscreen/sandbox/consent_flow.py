"""The consent screen: a customer is asked, and sent back with a code or a refusal.

(service.md, "Endpoints", area A, first line; OAuth 2.0, 4.1.) A request that is wrong in any way
ends on a page of the screen itself: a browser is never sent to an address that is not registered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.routing import Route

from nightscreen.sandbox import wire
from nightscreen.sandbox.grants import LONGEST_NAME, SCOPES
from nightscreen.sandbox.pages import HTML, page_reply, render, secure_headers
from nightscreen.sandbox.test_identifiers import by_customer
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.state import Sandbox

PATH: Final = "/data-share"
DEFAULT_CUSTOMER: Final = "ada@customers.example"
_SEPARATORS: Final = re.compile(r"[\s,+]+")
_ASKED: Final = ("response_type", "client_id", "redirect_uri", "scope", "state")
_HINTS: Final = ("login_hint", "customer")
_SEE_OTHER: Final = 303


@dataclass(slots=True)
class ConsentRequest:
    """An authorization request, read."""

    query: str  # the request as it came, form-encoded
    redirect_uri: str  # where the customer goes back to
    scopes: tuple[str, ...]  # what is asked for, each once
    state: str | None  # what goes back to the client unchanged; None where it sent none
    customer: str  # who is signed in, as far as the request says
    reasons: list[str] = field(default_factory=list)  # why it cannot be granted


def read_request(sandbox: Sandbox, query: str) -> ConsentRequest:
    """Read the parameters of an authorization request, form-encoded."""
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    names = [name for name, _ in pairs]
    given = {name: value for name, value in pairs if name in _ASKED}
    hints = [value for name, value in pairs if name in _HINTS]
    redirect_uri = given.get("redirect_uri", "")
    words = _SEPARATORS.split(given.get("scope", ""))
    scopes = tuple(dict.fromkeys(word for word in words if word))
    customer = hints[0] if hints else DEFAULT_CUSTOMER
    request = ConsentRequest(query, redirect_uri, scopes, given.get("state"), customer)
    request.reasons += [f"{name} is given twice." for name in _ASKED if names.count(name) > 1]
    if given.get("response_type") != "code":
        request.reasons.append("response_type must be code.")
    if given.get("client_id") != sandbox.client.client_id:
        request.reasons.append("client_id is not registered.")
    if not sandbox.client.takes(redirect_uri):
        request.reasons.append("redirect_uri is not registered.")
    if not scopes:
        request.reasons.append("scope is missing.")
    request.reasons += [f"There is no scope {word}." for word in scopes if word not in SCOPES]
    return request


class ConsentScreen:
    """Answers `/data-share`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the screen, or take the customer's answer: the request stays in the query."""
        form = (await wire.read_body(receive)).decode("latin-1")
        request = read_request(self._sandbox, scope["query_string"].decode("latin-1"))
        if scope["method"] not in ("GET", "HEAD", "POST"):
            reply = _refusal(405, ["The screen is read with GET."])
        elif request.reasons:
            reply = _refusal(400, request.reasons)
        elif scope["method"] == "POST":
            reply = self._take(request, form)
        else:
            reply = self._ask(request)
        await wire.deliver(reply, scope, receive, send)

    def _ask(self, request: ConsentRequest, fault: str = "") -> Reply:
        client = self._sandbox.client.name
        body = render(
            "consent.html",
            title=f"{client} asks for access to your bank data",
            reasons=[],
            client=client,
            scopes=[(scope, SCOPES[scope]) for scope in request.scopes],
            customer=request.customer,
            host=urlsplit(request.redirect_uri).netloc,
            query=request.query,
            fault=fault,
        )
        return page_reply(400 if fault else 200, body, _headers(request.redirect_uri))

    def _take(self, request: ConsentRequest, form: str) -> Reply:
        given = dict(parse_qsl(form, errors="replace"))
        request.customer = customer = given.get("customer", "").strip()
        decision, row = given.get("decision"), by_customer(customer)
        screen = row.screen if row else ""
        if decision == "deny":
            return self._deny(request, customer)
        if not customer or len(customer) > LONGEST_NAME or not customer.isprintable():
            return self._ask(request, "Write the name you sign in with.")
        if decision != "allow":
            return self._ask(request, "Choose whether to allow it.")
        sandbox = self._sandbox
        sandbox.grants.count(customer, "allowed")
        code = sandbox.grants.allow(
            customer,
            request.scopes,
            client_id=sandbox.client.client_id,
            redirect_uri=request.redirect_uri,
            now=sandbox.now(),
        )
        return _back(request, {"code": code}, screen)

    def _deny(self, request: ConsentRequest, customer: str) -> Reply:
        self._sandbox.grants.count(customer, "denied")
        text = "The customer did not allow it"
        return _back(request, {"error": "access_denied", "error_description": text})


def _headers(redirect_uri: str) -> tuple[tuple[bytes, bytes], ...]:
    parts = urlsplit(redirect_uri)
    return secure_headers("page.css", f"{parts.scheme}://{parts.netloc}" if parts.netloc else "")


def _back(request: ConsentRequest, carried: dict[str, str], habit: str = "") -> Reply:
    """Send the customer back, with the state as it came unless the habit is another."""
    if request.state is not None and habit != "state_lost":
        carried["state"] = f"{request.state}x" if habit == "state_changed" else request.state
    query = urlencode(carried, quote_via=quote, errors="surrogateescape")
    location = f"{request.redirect_uri}{'&' if '?' in request.redirect_uri else '?'}{query}"
    headers = ((b"location", location.encode("ascii")), *_headers(location))
    return Reply(_SEE_OTHER, b"", HTML, headers)


def _refusal(status: int, reasons: list[str]) -> Reply:
    body = render("consent.html", title="This link does not work", reasons=reasons)
    return page_reply(status, body, _headers(""))


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the route of the screen."""
    return [Route(PATH, ConsentScreen(sandbox))]
