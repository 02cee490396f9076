"""Signing in and out, and the link by which a password is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.desk.context import COOKIE, local_address
from nightscreen.desk.second_factor import ask_for_code, let_in
from nightscreen.schemas.errors import UsageError
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.accounts import User
    from nightscreen.desk.context import Context

_WRONG = "Name and password do not belong together. Nothing else is known of them here."
_SLOW = (
    "Too many wrong passwords came of late. Wait a quarter of an hour, then try again, or sign in "
    "from a browser that you have signed in from before."
)
_BUSY = "Many people sign in at this moment. Try again in a few seconds."


def sign_in(context: Context) -> Response:
    """Show the form, and let in whoever knows a password."""
    if context.request.method == "GET":
        if context.user is not None:
            return onward("/")
        return _form(context)
    accounts, name = context.accounts, context.text("name", 200)
    source = context.source(name)
    if accounts.is_throttled(name, source):
        context.audit.write("", "sign-in throttled")
        return _form(context, 429, error=_SLOW)
    given = context.form.get("password") or [""]
    with accounts.room_for(source) as is_room:
        if not is_room:
            return _form(context, 429, error=_BUSY)
        user = accounts.check(name, given[-1], source)
    if user is None:
        context.audit.write("", "sign-in failed")
        return _form(context, 401, error=_WRONG)
    return _let_in(context, user, local_address(context.text("to", 2000)))


def first(context: Context) -> Response:
    """Make the first user, or set the password of the user whose link it is."""
    post = context.request.method == "POST"
    token = context.text("link", 200) if post else context.asked_first("token")[:200]
    sound, whose = context.accounts.link_for(token)
    if not sound:
        return _form(context, 410, error="This link was used already or has ended.")
    if not post:
        return _form(context, link=token, whose=whose)
    given = context.form.get("password") or [""]
    try:
        user = context.accounts.use_link(token, context.text("name", 200), given[-1])
    except UsageError as error:
        return _form(context, 400, link=token, whose=whose, error=str(error))
    context.audit.write(user.name, "password set", first=whose is None)
    return _let_in(context, user, "/")


def sign_out(context: Context) -> Response:
    """End the session."""
    context.accounts.sign_out(context.session)
    context.record("signed out")
    response = onward("/sign-in")
    response.delete_cookie(context.cookie_name(COOKIE), path="/")
    return response


def _form(
    context: Context,
    status: int = 200,
    *,
    link: str = "",
    whose: str | None = None,
    error: str = "",
) -> Response:
    to = context.text("to", 2000) or context.asked_first("to")
    return context.page(
        "sign_in",
        status,
        link=link,
        whose=whose,
        error=error,
        name=context.text("name", 200),
        to=local_address(to),
    )


def _let_in(context: Context, user: User, to: str) -> Response:
    if user.has_second or user.must_have_second(context.settings.desk_second_factor):
        return ask_for_code(context, user, to)
    return let_in(context, user, to)
