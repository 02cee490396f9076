"""The hosted form behind a short link: a customer applies for the loan offered, and sees it.

Whoever has the link is taken for the customer. Nothing here is a call of the service: the ledger
does not have it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from starlette.routing import Route

from nightscreen.sandbox import wire
from nightscreen.sandbox.loan_book import (
    CANCELLED,
    PENDING,
    RUNNING,
    SETTLED,
    SHORT_LINK,
    Application,
)
from nightscreen.sandbox.pages import HTML, page_reply, render, secure_headers
from nightscreen.sandbox.people import contact_key
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.loan_book import Loan
    from nightscreen.sandbox.state import Sandbox

_HEADINGS: Final = {
    PENDING: "We have your application",
    RUNNING: "Your loan is running",
    SETTLED: "Your loan is paid back",
    CANCELLED: "Your application is closed",
}
_FIELDS: Final = {
    "first_name": ("First name", "text"),
    "last_name": ("Last name", "text"),
    "date_of_birth": ("Date of birth", "date"),
    "email": ("Email", "email"),
    "phone_number": ("Phone number", "tel"),
    "amount": ("Amount in naira", "text"),
}


class LoanPage:
    """Answers a short link."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the form or the loan, or take the form."""
        raw = await wire.read_body(receive) if scope["method"] == "POST" else b""
        loan = self._sandbox.loans.by_token.get(scope["path_params"]["token"])
        if loan is None:
            reply = _page(404, "This link is not known", loan=None)
        elif scope["method"] == "POST":
            reply = self._take(loan, dict(parse_qsl(raw.decode("utf-8", "replace"))))
        else:
            reply = self._show(loan, {})
        await wire.deliver(reply, scope, receive, send)

    def _show(self, loan: Loan, given: dict[str, str], problem: str = "") -> Reply:
        place = loan.place(self._sandbox.day)
        if not place.can_request:
            return _page(200, _HEADINGS[place.status], loan=loan, place=place)
        values = {"email": loan.email, "phone_number": loan.phone_number, **given}
        title = f"Apply: {loan.product.name}"
        status = 422 if problem else 200
        return _page(
            status, title, loan=loan, place=None, fields=_FIELDS, values=values, problem=problem
        )

    def _take(self, loan: Loan, given: dict[str, str]) -> Reply:
        """Take the form, or show it again with what is wrong."""
        if loan.place(self._sandbox.day).can_request:
            problem = _problem(loan, given)
            if problem:
                return self._show(loan, given, problem)
            user: dict[str, object] = {
                "first_name": given["first_name"],
                "last_name": given["last_name"],
                "email": given["email"],
                "phone_number": contact_key(given["phone_number"]),
            }
            amount = Decimal(given["amount"]).quantize(Decimal("0.01"))
            loan.application = Application(user, self._sandbox.day, amount, int(given["tenor"]))
        return Reply(303, b"", HTML, ((b"location", loan.path.encode()),))


def _problem(loan: Loan, given: dict[str, str]) -> str:
    for name, (label, _) in _FIELDS.items():
        if not given.get(name, "").strip():
            return f"{label} is missing"
    product = loan.product
    try:
        right = product.min_amount <= Decimal(given["amount"]) <= product.max_amount
    except InvalidOperation:
        right = False
    if not right:
        return f"Enter an amount from ₦{product.min_amount:,} to ₦{product.max_amount:,}"
    if given.get("tenor") not in {str(tenor) for tenor in product.tenors}:
        return "Choose for how long you want to borrow"
    return "" if given.get("consent") == "yes" else "Agree to the lender's checks to go on"


def _page(status: int, title: str, **values: object) -> Reply:
    body = render("loan.html", title=title, **values)
    return page_reply(status, body, secure_headers("page.css"))


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the route of the short links."""
    return [Route(SHORT_LINK + "/{token}", LoanPage(sandbox))]
