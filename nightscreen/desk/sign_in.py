"""Signing in and out, and the link by which a password is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.desk.second_factor import ask_for_code, let_in
from nightscreen.desk.visit import COOKIE, local_address
from nightscreen.schemas.errors import UsageError
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.accounts import User
    from nightscreen.desk.visit import Visit

_WRONG = "Name and password do not belong together. Nothing else is known of them here."
_SLOW = (
    "Too many wrong passwords came of late. Wait a quarter of an hour, then try again, or sign in "
    "from a browser that you have signed in from before."
)
_BUSY = "Many people sign in at this moment. Try again in a few seconds."


def sign_in(visit: Visit) -> Response:
    """Show the form, and let in whoever knows a password."""
    if visit.request.method == "GET":
        if visit.user is not None:
            return onward("/")
        return _form(visit)
    accounts, name = visit.seat.accounts, visit.text("name", 200)
    source = visit.source(name)
    if accounts.is_throttled(name, source):
        visit.seat.audit.write("", "sign-in throttled")
        return _form(visit, 429, error=_SLOW)
    given = visit.form.get("password") or [""]
    with accounts.room_for(source) as is_room:
        if not is_room:
            return _form(visit, 429, error=_BUSY)
        user = accounts.check(name, given[-1], source)
    if user is None:
        visit.seat.audit.write("", "sign-in failed")
        return _form(visit, 401, error=_WRONG)
    return _let_in(visit, user, local_address(visit.text("to", 2000)))


def first(visit: Visit) -> Response:
    """Make the first user, or set the password of the user whose link it is."""
    post = visit.request.method == "POST"
    token = visit.text("link", 200) if post else visit.asked_first("token")[:200]
    sound, whose = visit.seat.accounts.link_for(token)
    if not sound:
        return _form(visit, 410, error="This link was used already or has ended.")
    if not post:
        return _form(visit, link=token, whose=whose)
    given = visit.form.get("password") or [""]
    try:
        user = visit.seat.accounts.use_link(token, visit.text("name", 200), given[-1])
    except UsageError as error:
        return _form(visit, 400, link=token, whose=whose, error=str(error))
    visit.seat.audit.write(user.name, "password set", first=whose is None)
    return _let_in(visit, user, "/")


def sign_out(visit: Visit) -> Response:
    """End the session."""
    visit.seat.accounts.sign_out(visit.session)
    visit.seat.audit.write(visit.name, "signed out")
    response = onward("/sign-in")
    response.delete_cookie(visit.seat.cookie(COOKIE), path="/")
    return response


def _form(
    visit: Visit, status: int = 200, *, link: str = "", whose: str | None = None, error: str = ""
) -> Response:
    to = visit.text("to", 2000) or visit.asked_first("to")
    return visit.page(
        "sign_in",
        status,
        link=link,
        whose=whose,
        error=error,
        name=visit.text("name", 200),
        to=local_address(to),
    )


def _let_in(visit: Visit, user: User, to: str) -> Response:
    if user.has_second or user.must_have_second(visit.seat.settings.desk_second_factor):
        return ask_for_code(visit, user, to)
    return let_in(visit, user, to)
