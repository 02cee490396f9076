"""The consent screen: a customer is asked, and sent back with a code or a refusal.

(service.md, "Endpoints", area A, first line; OAuth 2.0, 4.1.) A request that is wrong in any way
ends on a page of the screen itself: a browser is never sent to an address that is not registered.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

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


async def consent_page(sandbox: Sandbox, scope: Scope, receive: Receive, send: Send) -> None:
    """Show the screen, or take the customer's answer: the request stays in the query."""
    form = (await wire.read_body(receive)).decode("latin-1")
    request = ConsentRequest(sandbox, scope["query_string"].decode("latin-1"))
    if scope["method"] not in ("GET", "HEAD", "POST"):
        reply = _refusal(405, ["The screen is read with GET."])
    elif request.reasons:
        reply = _refusal(400, request.reasons)
    elif scope["method"] == "POST":
        reply = request.take(dict(parse_qsl(form, errors="replace")))
    else:
        reply = request.ask()
    await wire.deliver(reply, scope, receive, send)


class ConsentRequest:
    """An authorization request, form-encoded; `reasons` says why it cannot be granted."""

    def __init__(self, sandbox: Sandbox, query: str) -> None:
        pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
        names = [name for name, _ in pairs]
        given = {name: value for name, value in pairs if name in _ASKED}
        hints = [value for name, value in pairs if name in _HINTS]
        words = _SEPARATORS.split(given.get("scope", ""))
        self._sandbox, self._query = sandbox, query
        self._redirect_uri = given.get("redirect_uri", "")
        self._scopes = tuple(dict.fromkeys(word for word in words if word))
        self._state = given.get("state")  # goes back to the client unchanged
        self._customer = hints[0] if hints else DEFAULT_CUSTOMER  # who is signed in
        wrong = {
            "response_type must be code.": given.get("response_type") != "code",
            "client_id is not registered.": given.get("client_id") != sandbox.client.client_id,
            "redirect_uri is not registered.": not sandbox.client.takes(self._redirect_uri),
            "scope is missing.": not self._scopes,
        }
        self.reasons = [f"{name} is given twice." for name in _ASKED if names.count(name) > 1]
        self.reasons += [reason for reason, holds in wrong.items() if holds]
        self.reasons += [
            f"There is no scope {word}." for word in self._scopes if word not in SCOPES
        ]

    def ask(self, fault: str = "") -> Reply:
        """Show the screen, with what was wrong about the customer's answer."""
        client = self._sandbox.client.name
        body = render(
            "consent.html",
            title=f"{client} asks for access to your bank data",
            reasons=[],
            client=client,
            scopes=[(scope, SCOPES[scope]) for scope in self._scopes],
            customer=self._customer,
            host=urlsplit(self._redirect_uri).netloc,
            query=self._query,
            fault=fault,
        )
        return page_reply(400 if fault else 200, body, _headers(self._redirect_uri))

    def take(self, given: dict[str, str]) -> Reply:
        """Take the customer's answer, and send them back to the client."""
        sandbox, decision = self._sandbox, given.get("decision")
        self._customer = customer = given.get("customer", "").strip()
        if decision == "deny":
            sandbox.grants.count(customer, "denied")
            text = "The customer did not allow it"
            return self._back({"error": "access_denied", "error_description": text})
        if not customer or len(customer) > LONGEST_NAME or not customer.isprintable():
            return self.ask("Write the name you sign in with.")
        if decision != "allow":
            return self.ask("Choose whether to allow it.")
        sandbox.grants.count(customer, "allowed")
        code = sandbox.grants.allow(
            customer,
            self._scopes,
            client_id=sandbox.client.client_id,
            redirect_uri=self._redirect_uri,
            now=sandbox.now(),
        )
        row = by_customer(customer)
        return self._back({"code": code}, row.screen if row else "")

    def _back(self, carried: dict[str, str], habit: str = "") -> Reply:
        """Send the customer back, with the state as it came unless the habit is another."""
        if self._state is not None and habit != "state_lost":
            carried["state"] = f"{self._state}x" if habit == "state_changed" else self._state
        query = urlencode(carried, quote_via=quote, errors="surrogateescape")
        location = f"{self._redirect_uri}{'&' if '?' in self._redirect_uri else '?'}{query}"
        headers = ((b"location", location.encode("ascii")), *_headers(location))
        return Reply(_SEE_OTHER, b"", HTML, headers)


def _headers(redirect_uri: str) -> tuple[tuple[bytes, bytes], ...]:
    parts = urlsplit(redirect_uri)
    return secure_headers("page.css", f"{parts.scheme}://{parts.netloc}" if parts.netloc else "")


def _refusal(status: int, reasons: list[str]) -> Reply:
    body = render("consent.html", title="This link does not work", reasons=reasons)
    return page_reply(status, body, _headers(""))
