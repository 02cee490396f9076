"""The consent screen: a customer is asked, and sent back with a code or a refusal.

(service.md, "Endpoints", area A, first line; OAuth 2.0, 4.1.) For a wrong request an error page is
shown; a browser is never sent to an address that is not registered. No page has a script, and
all values from a request are escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID, LONGEST_NAME, SCOPES
from nightscreen.sandbox.state import Here  # noqa: TC001 - FastAPI reads it
from nightscreen.sandbox.test_identifiers import by_customer

if TYPE_CHECKING:
    from nightscreen.sandbox.state import Sandbox

router: Final = APIRouter()

PATH: Final = "/data-share"
CLIENT: Final = "Sandbox Lender"  # the one client that is registered, as customers see it
_SEPARATORS: Final = re.compile(r"[\s,+]+")
_ASKED: Final = ("response_type", "client_id", "redirect_uri", "scope", "state")
_HEADERS: Final = {"referrer-policy": "no-referrer", "cache-control": "no-store"}
_HINTS: Final = ("login_hint", "customer")
_TEMPLATES: Final = Environment(
    loader=PackageLoader("nightscreen.sandbox"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@router.get(PATH)
@router.post(PATH)
async def consent(request: Request, sandbox: Here) -> Response:
    """Show the customer who asks and what for, and take the answer; the request is the query."""
    wish = ConsentRequest(sandbox, request)
    form = {name: str(value) for name, value in (await request.form()).items()}
    return wish.refusal() or (wish.ask() if request.method == "GET" else wish.take(form))


class ConsentRequest:
    """An authorization request, form-encoded in the query."""

    def __init__(self, sandbox: Sandbox, request: Request) -> None:
        query = request.query_params
        hints = [value for name, value in query.multi_items() if name in _HINTS]
        words = _SEPARATORS.split(query.get("scope", ""))
        self._sandbox, self._query = sandbox, request.url.query
        self._redirect_uri = query.get("redirect_uri", "")
        self._scopes = tuple(dict.fromkeys(word for word in words if word))
        self._state = query.get("state")  # goes back to the client unchanged
        self._customer = hints[0] if hints else "ada@customers.example"  # who is signed in
        wrong = {
            **{f"{name} is given twice.": len(query.getlist(name)) > 1 for name in _ASKED},
            "response_type must be code.": query.get("response_type") != "code",
            "client_id is not registered.": query.get("client_id") != DEFAULT_CLIENT_ID,
            "redirect_uri is not registered.": not sandbox.takes(self._redirect_uri),
            "scope is missing.": not self._scopes,
            **{f"There is no scope {word}.": word not in SCOPES for word in self._scopes},
        }
        self._reasons = [reason for reason, holds in wrong.items() if holds]

    def refusal(self) -> Response | None:
        """Say why the request cannot be granted; None where it can."""
        title, reasons = "This link does not work", self._reasons
        return _page(400, title=title, reasons=reasons) if reasons else None

    def ask(self, fault: str = "") -> Response:
        """Show the screen, with what was wrong about the customer's answer."""
        return _page(
            400 if fault else 200,
            title=f"{CLIENT} asks for access to your bank data",
            reasons=[],
            client=CLIENT,
            scopes=[(scope, SCOPES[scope]) for scope in self._scopes],
            customer=self._customer,
            host=urlsplit(self._redirect_uri).netloc,
            query=self._query,
            fault=fault,
        )

    def take(self, given: dict[str, str]) -> Response:
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
        code = sandbox.grants.allow(customer, self._scopes, self._redirect_uri, sandbox.now())
        return self._back({"code": code}, by_customer(customer).word)

    def _back(self, carried: dict[str, str], habit: str = "") -> Response:
        """Send the customer back, with the state as it came unless their habit is another."""
        if self._state is not None and habit != "state-lost":
            carried["state"] = f"{self._state}x" if habit == "state-changed" else self._state
        query = urlencode(carried, quote_via=quote)
        location = f"{self._redirect_uri}{'&' if '?' in self._redirect_uri else '?'}{query}"
        return Response(status_code=303, headers={"location": location, **_HEADERS})


def _page(status: int, **values: object) -> HTMLResponse:
    """Write the page; letters that have no place in UTF-8 become question marks."""
    body = _TEMPLATES.get_template("consent.html").render(values).encode("utf-8", "replace")
    return HTMLResponse(body, status, headers=_HEADERS)
