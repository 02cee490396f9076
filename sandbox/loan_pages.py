"""The hosted loan form behind a short link: who sees which page, and what their answers do.

A new customer gives their details and applies; who has a login logs in and applies; who has a
loan logs in and sees it (service.md, "Area C: embedded loans"). How the pages look is told by
`sandbox.loan_html`, what may be typed by `sandbox.loan_form`. Nothing here is a call of the
service: the ledger does not have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final

from starlette.routing import Route

from nightscreen.sandbox import loan_form, wire
from nightscreen.sandbox import loan_html as html
from nightscreen.sandbox.borrowers import Borrower, code_of, contact_key, is_phone
from nightscreen.sandbox.doors import header
from nightscreen.sandbox.lives import FIRST_DAY
from nightscreen.sandbox.loan_book import (
    CANCELLED,
    PENDING,
    RUNNING,
    SHORT_LINK,
    Application,
    earlier_of,
)
from nightscreen.sandbox.loans import origin
from nightscreen.sandbox.validation import masked_contact
from nightscreen.sandbox.wire import Reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from nightscreen.sandbox.loan_book import Loan, Place
    from nightscreen.sandbox.loan_form import Filled
    from nightscreen.sandbox.state import Sandbox

COOKIE: Final = "borrower"
_LONGEST_FORM: Final = 20_000
_HTML: Final = b"text/html; charset=utf-8"

_PERSON: Final = (
    html.Field("first_name", "First name", complete="given-name"),
    html.Field("last_name", "Last name", complete="family-name"),
    html.Field("date_of_birth", "Date of birth", "date", "bday"),
    html.Field("email", "Email", "email", "email", mode="email"),
    html.Field("phone_number", "Phone number", "tel", "tel", "Such as 0803 123 4567", "tel"),
)
_CONTACT: Final = html.Field(
    "contact", "Email or phone number", complete="username", hint="The one you applied with before"
)
_CODE: Final = html.Field(
    "code", "Code", complete="one-time-code", hint="Six digits", mode="numeric"
)
_CONSENT: Final = (
    "The lender may check who I am, and how I repaid other loans, to decide on this one."
)
_WORDS: Final = {
    "PENDING": "Being decided",
    "RUNNING": "Running",
    "SETTLED": "Paid back",
    "CANCELLED": "Cancelled",
}


@dataclass(slots=True)
class Visit:
    """One request of a customer's browser.

    Attributes:
        sandbox: the sandbox visited.
        loan: the loan behind the link.
        who: who is logged in, or None.
        origin: address under which the sandbox was reached.
        form: what was sent, empty for a look.
        secret: the secret of the session, or empty.
    """

    sandbox: Sandbox
    loan: Loan
    who: Borrower | None
    origin: str
    form: Filled
    secret: str = ""

    @property
    def address(self) -> str:
        """Where the link leads."""
        return self.loan.path

    @property
    def day(self) -> int:
        """Today."""
        return self.sandbox.day

    @property
    def place(self) -> Place:
        """Where the loan stands today."""
        return self.loan.place(self.day)


def _reply(visit: Visit, title: str, inside: str, *, above: str = "", status: int = 200) -> Reply:
    head = ""
    if visit.who:
        head = html.sending(f"{visit.address}/logout", "", "Log out", kind="quiet small")
    body = html.page(title, inside, above=above, head=head, foot=_steering(visit))
    return Reply(status, body, _HTML, html.HEADERS)


def _steering(visit: Visit) -> str:
    """Tell a person who walks through the sandbox how to move the loan on."""
    steps = (
        ("a day later", "world", f'{{"day": {visit.day + 1}}}'),
        ("let it run", f"loans/{visit.loan.reference}", '{"status": "RUNNING"}'),
        (
            *("turn it down", f"loans/{visit.loan.reference}"),
            '{"status": "CANCELLED", "reject_reason": "Income could not be confirmed"}',
        ),
    )
    lines = "\n".join(
        f"# {about}\ncurl {visit.origin}/_sandbox/{where} -d '{body}'"
        for about, where, body in steps
    )
    return (
        f"<details><summary>Moving this loan on (day {visit.day} of the sandbox)</summary>"
        f"<p>An application is decided on the next day of the sandbox.</p>"
        f'<pre tabindex="0">{escape(lines)}</pre></details>'
    )


def _onward(visit: Visit, path: str = "", secret: str | None = None) -> Reply:
    """Send the browser on after a form was accepted, logging in or out on the way."""
    headers = [(b"location", f"{visit.address}{path}".encode()), (b"cache-control", b"no-store")]
    if secret is not None:
        age = "" if secret else "; Max-Age=0"
        cookie = f"{COOKIE}={secret}; Path={SHORT_LINK}; HttpOnly; SameSite=Lax{age}"
        headers.append((b"set-cookie", cookie.encode()))
    return Reply(303, b"", _HTML, tuple(headers))


def _missing() -> Reply:
    body = html.page(
        "This link is not known",
        "<p>Open it again as it was sent to you, or ask whoever sent it for another.</p>",
    )
    return Reply(404, body, _HTML, html.HEADERS)


def _contact(visit: Visit) -> str:
    return visit.loan.email or visit.loan.phone_number


def _is_known(visit: Visit) -> bool:
    book, loan = visit.sandbox.loans, visit.loan
    return any(book.borrower(contact, visit.day) for contact in loan.contacts())


def show(visit: Visit) -> Reply:
    """Show what the link is for to whoever opens it."""
    if visit.who:
        return _show_own(visit, visit.who)
    if visit.place.application is not None or _is_known(visit):
        return ask_login(visit)
    if not visit.place.can_request:
        return _closed(visit)
    return _show_new(visit)


def _closed(visit: Visit) -> Reply:
    text = "<p>It can no longer be applied for. Ask whoever sent you the link for another.</p>"
    return _reply(visit, "This offer is closed", text)


def _terms(visit: Visit) -> str:
    product = visit.loan.product
    shortest, longest = product.tenors[0], product.tenor_text(product.tenors[-1])
    text = (
        f"₦{product.min_amount:,} to ₦{product.max_amount:,} for {shortest} to {longest}, "
        f"{product.interest_rate} % interest a {product.period}."
    )
    return f'<p>{escape(product.description)}</p><p class="soft">{escape(text)}</p>\n'


def _loan_fields(visit: Visit) -> str:
    product, form = visit.loan.product, visit.form
    choices = [(str(tenor), product.tenor_text(tenor)) for tenor in product.tenors]
    amount = html.Field("amount", "Amount in naira", mode="decimal")
    return (
        '<fieldset><legend>Your loan</legend>\n<div class="pair">'
        + html.text_field(amount, form)
        + html.choice_field("tenor", "For how long", choices, form)
        + "</div>"
        + html.tick_field("consent", _CONSENT, form)
        + "</fieldset>\n"
    )


def _show_new(visit: Visit) -> Reply:
    """Show the form for people without a login, filled in as far as the distributor knows."""
    form, loan = visit.form, visit.loan
    if not form.values:
        form.values = {"email": loan.email, "phone_number": loan.phone_number}
    first, last, *others = _PERSON
    about = (
        '<fieldset><legend>About you</legend>\n<div class="pair">'
        f"{html.text_field(first, form)}{html.text_field(last, form)}</div>"
        + "".join(html.text_field(one, form) for one in others)
        + "</fieldset>\n"
    )
    inside = (
        _terms(visit)
        + f'<p>Borrowed here before? <a href="{visit.address}/login">Log in</a>.</p>\n'
        + html.sending(f"{visit.address}/apply", about + _loan_fields(visit), "Apply")
    )
    title = f"Apply: {loan.product.name}"
    status = 422 if form.errors else 200
    return _reply(visit, title, inside, above=html.problems(form), status=status)


def _show_own(visit: Visit, who: Borrower) -> Reply:
    """Show somebody who is logged in what they have, and the form if they may fill it in."""
    place = visit.place
    application = place.application
    if application is None:
        return _show_known(visit, who)
    if application.borrower != who:
        others = _others(visit, who)
        text = "<p>Somebody else has applied with this link. Ask for one of your own.</p>\n"
        return _reply(visit, "This link has been used", text + others)
    return _show_loan(visit, who, place, application)


def _show_known(visit: Visit, who: Borrower) -> Reply:
    others = _others(visit, who)
    hello = f"<p>You are logged in as {escape(who.first_name)} {escape(who.last_name)}.</p>\n"
    if not visit.place.can_request:
        return _reply(visit, "This offer is closed", hello + others)
    if _is_busy(visit, who):
        text = html.told("You can apply again when your present loan is paid back.")
        return _reply(visit, "You have a loan with us", hello + others + text)
    form = visit.form
    inside = (
        _terms(visit)
        + hello
        + html.sending(f"{visit.address}/apply", _loan_fields(visit), "Apply")
        + others
    )
    title = f"Apply: {visit.loan.product.name}"
    status = 422 if form.errors else 200
    return _reply(visit, title, inside, above=html.problems(form), status=status)


def _is_busy(visit: Visit, who: Borrower) -> bool:
    mine = visit.sandbox.loans.loans_of(who, visit.day)
    return earlier_of(who) is not None or any(place.is_open for _, place in mine)


def _others(visit: Visit, who: Borrower) -> str:
    """List everything this customer has applied for, but for the loan of this link."""
    earlier = earlier_of(who)
    lines = [] if earlier is None else [(earlier.name, earlier.reference, earlier.amount, RUNNING)]
    lines += [
        (one.product.name, one.reference, place.application.amount, place.status)
        for one, place in visit.sandbox.loans.loans_of(who, visit.day)
        if one is not visit.loan and place.application
    ]
    if not lines:
        return ""
    items = "".join(
        f"<li><span>{escape(name)}, {html.naira(amount)}<br>"
        f'<span class="soft">{reference}</span></span>'
        f'<span><span class="tag">{_WORDS[status]}</span></span></li>\n'
        for name, reference, amount, status in lines
    )
    return f'<h2>Your applications and loans</h2><ul class="cards">{items}</ul>\n'


def _show_loan(visit: Visit, who: Borrower, place: Place, application: Application) -> Reply:
    loan, product = visit.loan, visit.loan.product
    whole = product.repayable(application.amount, application.tenor)
    title, text = _tale(place)
    pairs = [
        ("Reference", loan.reference),
        ("Loan", product.name),
        ("Amount", html.naira(application.amount)),
        ("For", product.tenor_text(application.tenor)),
        ("To pay back", html.naira(whole)),
        ("State", _WORDS[place.status]),
    ]
    if place.disbursed_on is not None:
        pairs.append(("Paid so far", html.naira(place.paid)))
        pairs.append(("Left to pay", html.naira(whole - place.paid)))
    inside = html.told(text) + html.facts(pairs)
    if place.can_cancel:
        inside += html.sending(f"{visit.address}/cancel", "", "Cancel my application", kind="quiet")
    return _reply(visit, title, inside + _others(visit, who))


def _tale(place: Place) -> tuple[str, str]:
    """Tell a customer in a heading and a sentence where their loan stands."""
    if place.status == PENDING:
        return "We have your application", "The lender decides within a day and tells you."
    if place.status == RUNNING:
        return "Your loan is running", "The money has been sent."
    if place.status == CANCELLED and place.reason:
        return "Your application was turned down", f"{place.reason}."
    if place.status == CANCELLED:
        return "Your application is cancelled", "Nothing was lent and nothing is owed."
    return "Your loan is paid back", "Nothing is owed any more. Thank you."


def ask_login(visit: Visit) -> Reply:
    """Ask who it is, with the contact filled in that the distributor gave."""
    form = visit.form
    form.values.setdefault("contact", _contact(visit))
    text = "Log in to go on."
    who = visit.sandbox.loans.borrower(_contact(visit), visit.day) if _contact(visit) else None
    if visit.place.application or (who and _is_busy(visit, who)):
        text = "You already have a loan or an application with us. Log in to see it."
    elif who:
        text = "Welcome back. Log in to apply."
    inside = html.told(text) + html.sending(
        f"{visit.address}/login", html.text_field(_CONTACT, form), "Send me a code"
    )
    status = 422 if form.errors else 200
    return _reply(visit, "Log in", inside, above=html.problems(form), status=status)


def _ask_code(visit: Visit) -> Reply:
    form = visit.form
    contact = contact_key(form.value("contact"))
    sent = f"If {masked_contact(contact)} has a login, a code is on its way there."
    played = f"Sandbox: no message is sent. The code is {code_of(contact)}."
    inside = (
        f"<p>{escape(sent)}</p>\n"
        + html.told(played)
        + html.sending(
            f"{visit.address}/login",
            f'<input type="hidden" name="contact" value="{escape(contact)}">'
            + html.text_field(_CODE, form),
            "Log in",
        )
        + f'<p><a href="{visit.address}/login">Use another email or phone number</a></p>\n'
    )
    status = 422 if form.errors else 200
    return _reply(visit, "Enter your code", inside, above=html.problems(form), status=status)


def log_in(visit: Visit) -> Reply:
    """Take a contact and send a code, or take the code and open a session."""
    form = visit.form
    contact = contact_key(form.value("contact"))
    if "@" not in contact and not is_phone(contact):
        form.errors["contact"] = "Enter an email address or a phone number"
        return ask_login(visit)
    if "code" not in form.values:
        return _ask_code(visit)
    who = visit.sandbox.loans.borrower(contact, visit.day)
    if who is None or form.value("code").replace(" ", "") != code_of(contact):
        form.errors["code"] = "This is not the code that was sent"
        return _ask_code(visit)
    return _onward(visit, secret=visit.sandbox.loans.people.open_session(who))


def log_out(visit: Visit) -> Reply:
    """End the session."""
    visit.sandbox.loans.people.close_session(visit.secret)
    return _onward(visit, secret="")


def apply(visit: Visit) -> Reply:
    """Take an application from somebody new or known."""
    form, loan, book = visit.form, visit.loan, visit.sandbox.loans
    if not visit.place.can_request or (visit.who and _is_busy(visit, visit.who)):
        return _onward(visit)
    if visit.who is None:
        loan_form.judge_person(form, FIRST_DAY + timedelta(days=visit.day))
        for name in ("email", "phone_number"):
            if name not in form.errors and book.borrower(form.value(name), visit.day):
                form.errors[name] = "This is known to us already: log in instead"
    loan_form.judge_loan(form, loan.product)
    if form.errors:
        return _show_known(visit, visit.who) if visit.who else _show_new(visit)
    who = visit.who or Borrower(
        *(form.value(name) for name in ("first_name", "last_name", "email", "phone_number"))
    )
    book.apply(loan, Application(who, visit.day, form.amount, form.tenor))
    return _onward(visit, secret=None if visit.who else book.people.open_session(who))


def cancel(visit: Visit) -> Reply:
    """Take back the application of whoever is logged in."""
    place = visit.place
    mine = place.application is not None and place.application.borrower == visit.who
    if mine and place.can_cancel:
        visit.sandbox.loans.cancel(visit.loan, visit.day)
    return _onward(visit)


ADDRESSES: Final[dict[str, dict[str, Callable[[Visit], Reply]]]] = {
    "": {"GET": show},
    "/login": {"GET": ask_login, "POST": log_in},
    "/logout": {"POST": log_out},
    "/apply": {"POST": apply},
    "/cancel": {"POST": cancel},
}
"""What stands below a short link, and what each method does there."""


class Page:
    """One address below the short links."""

    def __init__(self, sandbox: Sandbox, actions: dict[str, Callable[[Visit], Reply]]) -> None:
        self._sandbox = sandbox
        self._actions = actions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a browser with a page, or send it on."""
        raw = await wire.read_body(receive) if scope["method"] == "POST" else b""
        await wire.deliver(self._answer(scope, raw), scope, receive, send)

    def _answer(self, scope: Scope, raw: bytes) -> Reply:
        book = self._sandbox.loans
        loan = book.by_token(scope["path_params"]["token"])
        if loan is None:
            return _missing()
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        action = self._actions.get(method, show)
        form = loan_form.read_form(raw[:_LONGEST_FORM])
        secret = _secret(scope)
        visit = Visit(self._sandbox, loan, book.people.session(secret), origin(scope), form, secret)
        return action(visit)


def _secret(scope: Scope) -> str:
    try:
        cookies = SimpleCookie(header(scope, b"cookie").decode("latin-1"))
    except CookieError:
        return ""
    return cookies[COOKIE].value if COOKIE in cookies else ""


def routes(sandbox: Sandbox) -> list[Route]:
    """Return the routes of the hosted form."""
    return [
        Route(f"{SHORT_LINK}/{{token}}{tail}", Page(sandbox, actions))
        for tail, actions in ADDRESSES.items()
    ]
