"""The consent screen: a customer is asked, and sent back with a code or a refusal.

Reading of the authorization request and what follows from the customer's answer live here
(service.md, "Endpoints", area A, first line; OAuth 2.0, 4.1). The pages are written by
`sandbox.consent_page`, grants kept by `sandbox.grants`.

A request that is wrong in any way ends on a page of the screen itself: a browser is never sent to
an address that is not registered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

from starlette.routing import Route

from nightscreen.sandbox import consent_page, magic_customers, wire
from nightscreen.sandbox.grants import SCOPES

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.magic_customers import MagicCustomer
    from nightscreen.sandbox.state import Sandbox
    from nightscreen.sandbox.wire import Reply

PATH: Final = "/data-share"
DEFAULT_CUSTOMER: Final = "ada@customers.example"
LONGEST_NAME: Final = 200
_SEPARATORS: Final = re.compile(r"[\s,+]+")
_ASKED: Final = ("response_type", "client_id", "redirect_uri", "scope", "state")
_HINTS: Final = ("login_hint", "customer")
_SEE_OTHER: Final = 303
_FOUND: Final = 302


@dataclass(slots=True)
class Wish:
    """An authorization request, read.

    Attributes:
        query: the request as it came, form-encoded.
        redirect_uri: where the customer goes back to.
        scopes: what is asked for, each once.
        state: what goes back to the client unchanged; None where it sent none.
        customer: who is signed in, as far as the request says.
        reasons: why it cannot be granted; empty where it can.
    """

    query: str
    redirect_uri: str
    scopes: tuple[str, ...]
    state: str | None
    customer: str
    reasons: list[str] = field(default_factory=list)


def read_wish(sandbox: Sandbox, query: str) -> Wish:
    """Read the parameters of an authorization request.

    Args:
        sandbox: whose client is registered.
        query: the parameters, form-encoded.
    """
    pairs = parse_qsl(query, keep_blank_values=True, errors="surrogateescape")
    names = [name for name, _ in pairs]
    given = {name: value for name, value in pairs if name in _ASKED}
    hints = [value for name, value in pairs if name in _HINTS]
    redirect_uri = given.get("redirect_uri", "")
    words = _SEPARATORS.split(given.get("scope", ""))
    scopes = tuple(dict.fromkeys(word for word in words if word))
    customer = hints[0] if hints else DEFAULT_CUSTOMER
    wish = Wish(query, redirect_uri, scopes, given.get("state"), customer)
    wish.reasons += [f"{name} is given twice." for name in _ASKED if names.count(name) > 1]
    if given.get("response_type") != "code":
        wish.reasons.append("response_type must be code.")
    if given.get("client_id") != sandbox.client.client_id:
        wish.reasons.append("client_id is not registered.")
    if not sandbox.client.takes(redirect_uri):
        wish.reasons.append("redirect_uri is not registered.")
    if not scopes:
        wish.reasons.append("scope is missing.")
    wish.reasons += [f"There is no scope {word}." for word in scopes if word not in SCOPES]
    return wish


class Screen:
    """Answers `/data-share`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the screen, or take the customer's answer: the request stays in the query."""
        form = (await wire.read_body(receive)).decode("latin-1")
        wish = read_wish(self._sandbox, scope["query_string"].decode("latin-1"))
        if scope["method"] not in ("GET", "HEAD", "POST"):
            reply = _refusal(405, ["The screen is read with GET."])
        elif wish.reasons:
            reply = _refusal(400, wish.reasons)
        elif scope["method"] == "POST":
            reply = self._take(wish, form)
        else:
            reply = self._show(wish)
        await wire.deliver(reply, scope, receive, send)

    def _show(self, wish: Wish) -> Reply:
        row = magic_customers.by_customer(wish.customer.strip())
        if row and row.screen == "denied":
            return self._deny(wish, wish.customer.strip(), _FOUND)
        return self._ask(wish)

    def _ask(self, wish: Wish, fault: str = "") -> Reply:
        body = consent_page.asking(
            client=self._sandbox.client.name,
            scopes=wish.scopes,
            customer=wish.customer,
            redirect_uri=wish.redirect_uri,
            query=wish.query,
            fault=fault,
        )
        return consent_page.page_reply(400 if fault else 200, body, wish.redirect_uri)

    def _take(self, wish: Wish, form: str) -> Reply:
        given = dict(parse_qsl(form, errors="replace"))
        wish.customer = customer = given.get("customer", "").strip()
        decision = given.get("decision")
        row = magic_customers.by_customer(customer)
        if decision == "deny" or (row and row.screen == "denied"):
            return self._deny(wish, customer, _SEE_OTHER)
        if not customer or len(customer) > LONGEST_NAME or not customer.isprintable():
            return self._ask(wish, "Write the name you sign in with.")
        if decision != "allow":
            return self._ask(wish, "Choose whether to allow it.")
        return self._allow(wish, customer, row)

    def _allow(self, wish: Wish, customer: str, row: MagicCustomer | None) -> Reply:
        sandbox = self._sandbox
        sandbox.grants.count(customer, "allowed")
        code = sandbox.grants.allow(
            customer,
            wish.scopes,
            client_id=sandbox.client.client_id,
            redirect_uri=wish.redirect_uri,
            ends_at=sandbox.now() + sandbox.manners.code_lifetime_s,
        )
        return _back(wish, _SEE_OTHER, {"code": code}, row.screen if row else "")

    def _deny(self, wish: Wish, customer: str, status: int) -> Reply:
        self._sandbox.grants.count(customer, "denied")
        text = "The customer did not allow it"
        return _back(wish, status, {"error": "access_denied", "error_description": text})


def _back(wish: Wish, status: int, told: dict[str, str], habit: str = "") -> Reply:
    """Send the customer back, with the state as it came unless the habit is another."""
    if wish.state is not None and habit != "state_lost":
        told["state"] = f"{wish.state}x" if habit == "state_changed" else wish.state
    query = urlencode(told, quote_via=quote, errors="surrogateescape")
    sign = "&" if "?" in wish.redirect_uri else "?"
    return consent_page.redirect_reply(status, f"{wish.redirect_uri}{sign}{query}")


def _refusal(status: int, reasons: list[str]) -> Reply:
    return consent_page.page_reply(status, consent_page.refusing(reasons))


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the route of the screen."""
    return [Route(PATH, Screen(sandbox))]
