"""The hosted loan form behind a short link: who sees which page, and what their answers do.

A new customer gives their details and applies; who has a login logs in and applies; who has a loan
logs in and sees it (service.md, "Area C: embedded loans"). Nothing here is a call of the service:
the ledger does not have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

from starlette.routing import Route

from nightscreen.sandbox import wire
from nightscreen.sandbox.auth import header
from nightscreen.sandbox.loan_book import (
    CANCELLED,
    PENDING,
    RUNNING,
    SHORT_LINK,
    Application,
    Borrower,
    code_of,
    earlier_of,
)
from nightscreen.sandbox.loans import origin
from nightscreen.sandbox.otp import masked_contact
from nightscreen.sandbox.pages import HTML, naira, page_reply, render, secure_headers
from nightscreen.sandbox.people import FIRST_DAY, contact_key, is_phone
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.loan_book import Loan, Place, Product
    from nightscreen.sandbox.state import Sandbox

COOKIE: Final = "borrower"
_LONGEST_FORM: Final = 20_000
_WORDS: Final = {
    "PENDING": "Being decided",
    "RUNNING": "Running",
    "SETTLED": "Paid back",
    "CANCELLED": "Cancelled",
}

_ADULT: Final = 18
_LONGEST: Final = 80
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_NEEDED: Final = {"first_name": "Enter your first name", "last_name": "Enter your last name"}


@dataclass(slots=True)
class Filled:
    """A form as it was sent."""

    values: dict[str, str] = field(default_factory=dict)  # what was typed, by field
    # what is wrong with it, by field, in the order of the form
    errors: dict[str, str] = field(default_factory=dict)
    amount: Decimal = Decimal(0)  # naira, where it was right
    tenor: int = 0  # periods of the product, where it was right

    def value(self, name: str) -> str:
        """Return what was typed into a field, empty if nothing was."""
        return self.values.get(name, "")


def read_form(raw: bytes) -> Filled:
    """Read a submitted form; of a repeated field the first value counts, of a flood none."""
    try:
        pairs = parse_qs(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return Filled()
    return Filled({name: values[0].strip() for name, values in pairs.items()})


def judge_person(form: Filled, today: date) -> None:
    """Check the identity somebody entered, and normalise the contacts."""
    for name, text in _NEEDED.items():
        if not form.value(name):
            form.errors[name] = text
        elif len(form.value(name)) > _LONGEST:
            form.errors[name] = f"Use at most {_LONGEST} letters"
    born = _day(form.value("date_of_birth"))
    if born is None:
        form.errors["date_of_birth"] = "Enter your date of birth"
    elif (today.year - born.year - ((today.month, today.day) < (born.month, born.day))) < _ADULT:
        form.errors["date_of_birth"] = f"You must be {_ADULT} or older to borrow"
    if not _EMAIL.fullmatch(form.value("email")) or len(form.value("email")) > _LONGEST:
        form.errors["email"] = "Enter an email address, such as ada@mail.example"
    form.values["phone_number"] = phone = contact_key(form.value("phone_number"))
    if not is_phone(phone):
        form.errors["phone_number"] = "Enter a phone number, such as 0803 123 4567"


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def judge_loan(form: Filled, product: Product) -> None:
    """Judge what loan somebody asks for, within the product's limits."""
    text = form.value("amount").replace(",", "").replace(" ", "").lstrip("₦Nn")
    try:
        amount = Decimal(text).quantize(Decimal("0.01"))
    except InvalidOperation:
        amount = Decimal(0)
    if amount.is_finite() and product.min_amount <= amount <= product.max_amount:
        form.amount = amount
    else:
        limits = f"₦{product.min_amount:,} to ₦{product.max_amount:,}"
        form.errors["amount"] = f"Enter an amount from {limits}"
    tenor = form.value("tenor")
    if tenor in {str(choice) for choice in product.tenors}:
        form.tenor = int(tenor)
    else:
        form.errors["tenor"] = "Choose for how long you want to borrow"
    if form.value("consent") != "yes":
        form.errors["consent"] = "Agree to the lender's checks to go on"


@dataclass(slots=True)
class LoanPageRequest:
    """One request of a customer's browser."""

    sandbox: Sandbox  # the sandbox visited
    loan: Loan  # the loan behind the link
    who: Borrower | None  # who is logged in
    origin: str  # address under which the sandbox was reached
    form: Filled  # what was sent, empty for a look
    secret: str = ""  # the secret of the session

    @property
    def day(self) -> int:
        """Today."""
        return self.sandbox.day

    @property
    def place(self) -> Place:
        """The loan's state today."""
        return self.loan.place(self.day)

    def page(self, page: str, title: str, **values: object) -> Reply:
        """Make a page of this loan; a form with errors is a 422."""
        body = render(
            "loan.html",
            page=page,
            title=title,
            who=self.who,
            form=self.form,
            address=self.loan.path,
            product=self.loan.product,
            reference=self.loan.reference,
            origin=self.origin,
            day=self.day,
            **values,
        )
        status = 422 if self.form.errors else 200
        return page_reply(status, body, secure_headers("loan.css"))

    def onward(self, secret: str | None = None) -> Reply:
        """Send the browser on after a form was accepted, logging in or out on the way."""
        headers = [(b"location", self.loan.path.encode()), (b"cache-control", b"no-store")]
        if secret is not None:
            age = "" if secret else "; Max-Age=0"
            cookie = f"{COOKIE}={secret}; Path={SHORT_LINK}; HttpOnly; SameSite=Lax{age}"
            headers.append((b"set-cookie", cookie.encode()))
        return Reply(303, b"", HTML, tuple(headers))


def show(request: LoanPageRequest) -> Reply:
    """Show what the link is for."""
    who, place, loan_book = request.who, request.place, request.sandbox.loans
    application = place.application
    if who and application is None:
        return _show_known(request, who)
    if who and application:
        if application.borrower != who:
            others = _others(request, who)
            return request.page("used", "This link has been used", others=others)
        return _show_loan(request, who, place, application)
    known = any(loan_book.borrower(contact, request.day) for contact in request.loan.contacts())
    if application is not None or known:
        return ask_login(request)
    if not place.can_request:
        return request.page("closed", "This offer is closed")
    return _show_new(request)


def _show_new(request: LoanPageRequest) -> Reply:
    """Show the form for people without a login, filled in as far as the distributor knows."""
    form, loan = request.form, request.loan
    if not form.values:
        form.values = {"email": loan.email, "phone_number": loan.phone_number}
    return request.page("new", f"Apply: {loan.product.name}")


def _show_known(request: LoanPageRequest, who: Borrower) -> Reply:
    others = _others(request, who)
    if not request.place.can_request:
        return request.page("closed", "This offer is closed", others=others)
    if _is_busy(request, who):
        return request.page("busy", "You have a loan with us", others=others)
    return request.page("known", f"Apply: {request.loan.product.name}", others=others)


def _is_busy(request: LoanPageRequest, who: Borrower) -> bool:
    own = request.sandbox.loans.loans_of(who, request.day)
    return earlier_of(who) is not None or any(place.is_open for _, place in own)


def _others(request: LoanPageRequest, who: Borrower) -> list[tuple[str, str, Decimal, str]]:
    """List everything this customer has applied for, except the loan of this link."""
    earlier = earlier_of(who)
    lines = [] if earlier is None else [(earlier.name, earlier.reference, earlier.amount, RUNNING)]
    lines += [
        (loan.product.name, loan.reference, place.application.amount, place.status)
        for loan, place in request.sandbox.loans.loans_of(who, request.day)
        if loan is not request.loan and place.application
    ]
    return [(*line[:3], _WORDS[line[3]]) for line in lines]


def _show_loan(
    request: LoanPageRequest, who: Borrower, place: Place, application: Application
) -> Reply:
    loan, product = request.loan, request.loan.product
    whole = product.repayable(application.amount, application.tenor)
    title, text = _tale(place)
    facts = [
        ("Reference", loan.reference),
        ("Loan", product.name),
        ("Amount", naira(application.amount)),
        ("For", product.tenor_text(application.tenor)),
        ("To pay back", naira(whole)),
        ("State", _WORDS[place.status]),
    ]
    if place.disbursed_on is not None:
        facts += [("Paid so far", naira(place.paid)), ("Left to pay", naira(whole - place.paid))]
    others, can_cancel = _others(request, who), place.can_cancel
    return request.page("loan", title, text=text, facts=facts, can_cancel=can_cancel, others=others)


def _tale(place: Place) -> tuple[str, str]:
    """Describe the state of a customer's loan in a heading and a sentence."""
    if place.status == PENDING:
        return "We have your application", "The lender decides within a day and lets you know."
    if place.status == RUNNING:
        return "Your loan is running", "The money has been sent."
    if place.status == CANCELLED and place.reason:
        return "Your application was turned down", f"{place.reason}."
    if place.status == CANCELLED:
        return "Your application is cancelled", "Nothing was lent and nothing is owed."
    return "Your loan is paid back", "Nothing is owed any more. Thank you."


def ask_login(request: LoanPageRequest) -> Reply:
    """Ask who it is, with the contact filled in that the distributor gave."""
    loan = request.loan
    contact = loan.email or loan.phone_number
    request.form.values.setdefault("contact", contact)
    text = "Log in to go on."
    who = request.sandbox.loans.borrower(contact, request.day) if contact else None
    if request.place.application or (who and _is_busy(request, who)):
        text = "You already have a loan or an application with us. Log in to see it."
    elif who:
        text = "Welcome back. Log in to apply."
    return request.page("login", "Log in", text=text)


def log_in(request: LoanPageRequest) -> Reply:
    """Take a contact and send a code, or take the code and open a session."""
    form, loan_book = request.form, request.sandbox.loans
    contact = contact_key(form.value("contact"))
    if "@" not in contact and not is_phone(contact):
        form.errors["contact"] = "Enter an email address or a phone number"
        return ask_login(request)
    code = code_of(contact)
    if "code" in form.values:
        who = loan_book.borrower(contact, request.day)
        if who and form.value("code").replace(" ", "") == code:
            return request.onward(loan_book.people.open_session(who))
        form.errors["code"] = "This is not the code that was sent"
    masked = masked_contact(contact)
    return request.page("code", "Enter your code", contact=contact, masked=masked, code=code)


def log_out(request: LoanPageRequest) -> Reply:
    """End the session."""
    request.sandbox.loans.people.close_session(request.secret)
    return request.onward("")


def apply(request: LoanPageRequest) -> Reply:
    """Take an application from somebody new or known."""
    form, loan, loan_book = request.form, request.loan, request.sandbox.loans
    if not request.place.can_request or (request.who and _is_busy(request, request.who)):
        return request.onward()
    if request.who is None:
        judge_person(form, FIRST_DAY + timedelta(days=request.day))
        for name in ("email", "phone_number"):
            if name not in form.errors and loan_book.borrower(form.value(name), request.day):
                form.errors[name] = "This is known to us already: log in instead"
    judge_loan(form, loan.product)
    if form.errors:
        return _show_known(request, request.who) if request.who else _show_new(request)
    who = request.who or Borrower(
        *(form.value(name) for name in ("first_name", "last_name", "email", "phone_number"))
    )
    loan_book.apply(loan, Application(who, request.day, form.amount, form.tenor))
    return request.onward(None if request.who else loan_book.people.open_session(who))


def cancel(request: LoanPageRequest) -> Reply:
    """Withdraw the application of the customer who is logged in."""
    place = request.place
    own = place.application is not None and place.application.borrower == request.who
    if own and place.can_cancel:
        request.sandbox.loans.cancel(request.loan, request.day)
    return request.onward()


ADDRESSES: Final[dict[str, dict[str, Callable[[LoanPageRequest], Reply]]]] = {
    "": {"GET": show},
    "/login": {"GET": ask_login, "POST": log_in},
    "/logout": {"POST": log_out},
    "/apply": {"POST": apply},
    "/cancel": {"POST": cancel},
}
"""The pages below a short link, and what each method does there."""


class LoanPage:
    """One address below the short links."""

    def __init__(
        self, sandbox: Sandbox, actions: dict[str, Callable[[LoanPageRequest], Reply]]
    ) -> None:
        self._sandbox = sandbox
        self._actions = actions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser with a page, or send it on."""
        raw = await wire.read_body(receive) if scope["method"] == "POST" else b""
        await wire.deliver(self._answer(scope, raw), scope, receive, send)

    def _answer(self, scope: Scope, raw: bytes) -> Reply:
        loan_book = self._sandbox.loans
        loan = loan_book.by_token(scope["path_params"]["token"])
        if loan is None:
            title = "This link is not known"
            body = render("loan.html", page="unknown", title=title, who=None, form=None)
            return page_reply(404, body, secure_headers("loan.css"))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        action = self._actions.get(method, show)
        form = read_form(raw[:_LONGEST_FORM])
        secret = _secret(scope)
        who = loan_book.people.session(secret)
        return action(LoanPageRequest(self._sandbox, loan, who, origin(scope), form, secret))


def _secret(scope: Scope) -> str:
    try:
        cookies = SimpleCookie(header(scope, b"cookie").decode("latin-1"))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the routes of the hosted form."""
    return [
        Route(f"{SHORT_LINK}/{{token}}{tail}", LoanPage(sandbox, actions))
        for tail, actions in ADDRESSES.items()
    ]
