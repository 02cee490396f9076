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

from nightscreen.sandbox.grants import DEFAULT_CLIENT_ID, SCOPES, is_username
from nightscreen.sandbox.state import Here  # noqa: TC001 - FastAPI reads it
from nightscreen.sandbox.test_identifiers import by_customer

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

router: Final = APIRouter(
    responses={
        "4XX": {"description": "a page that says what is wrong", "content": {"text/html": {}}}
    },
    default_response_class=HTMLResponse,
)

PATH: Final = "/data-share"
CLIENT: Final = "Sandbox Lender"  # the one client that is registered, as customers see it
_SEPARATORS: Final = re.compile(r"[\s,+]+")
_ASKED: Final = ("response_type", "client_id", "redirect_uri", "scope", "state")
_HEADERS: Final = {"referrer-policy": "no-referrer", "cache-control": "no-store"}
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
    query = request.query_params
    redirect_uri, given = query.get("redirect_uri", ""), query.get("scope", "")
    scopes = tuple(dict.fromkeys(word for word in _SEPARATORS.split(given) if word))
    wrong = {
        **{f"{name} is given twice.": len(query.getlist(name)) > 1 for name in _ASKED},
        "response_type must be code.": query.get("response_type") != "code",
        "client_id is not registered.": query.get("client_id") != DEFAULT_CLIENT_ID,
        "redirect_uri is not registered.": not sandbox.takes(redirect_uri),
        "scope is missing.": not scopes,
        **{f"There is no scope {word}.": word not in SCOPES for word in scopes},
    }
    if reasons := [reason for reason, holds in wrong.items() if holds]:
        return _page(400, title="This link does not work", reasons=reasons)
    customer, fault = "ada@customers.example", ""  # who is signed in
    if request.method == "POST":
        form = await request.form()
        decision, customer = form.get("decision"), str(form.get("customer", "")).strip()
        if decision == "deny":
            sandbox.grants.count(customer, "denied")
            text = "The customer did not allow it"
            return _back(query, {"error": "access_denied", "error_description": text})
        if not is_username(customer):
            fault = "Write the name you sign in with."
        elif decision != "allow":
            fault = "Choose whether to allow it."
        else:
            sandbox.grants.count(customer, "allowed")
            code = sandbox.grants.allow(customer, scopes, redirect_uri, sandbox.now())
            return _back(query, {"code": code}, by_customer(customer).word)
    return _page(
        400 if fault else 200,
        title=f"{CLIENT} asks for access to your bank data",
        reasons=[],
        client=CLIENT,
        scopes=[(scope, SCOPES[scope]) for scope in scopes],
        customer=customer,
        host=urlsplit(redirect_uri).netloc,
        query=request.url.query,
        fault=fault,
    )


def _back(query: QueryParams, carried: dict[str, str], habit: str = "") -> Response:
    """Send the customer back, with the state as it came unless their habit is another."""
    address, state = query["redirect_uri"], query.get("state")
    if state is not None and habit != "state-lost":
        carried["state"] = f"{state}x" if habit == "state-changed" else state
    location = f"{address}{'&' if '?' in address else '?'}{urlencode(carried, quote_via=quote)}"
    return Response(status_code=303, headers={"location": location, **_HEADERS})


def _page(status: int, **values: object) -> HTMLResponse:
    """Write the page; letters that have no place in UTF-8 become question marks."""
    body = _TEMPLATES.get_template("consent.html").render(values).encode("utf-8", "replace")
    return HTMLResponse(body, status, headers=_HEADERS)
