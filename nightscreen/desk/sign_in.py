"""Signing in and out, the link by which a password is set, and the second factor."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import segno
from markupsafe import Markup
from pyotp import TOTP

from nightscreen.desk.accounts import DEVICE_S, HeldUpError
from nightscreen.desk.context import COOKIE, DEVICE_COOKIE, DeskError, local_address
from nightscreen.schemas.errors import UsageError
from nightscreen.web.forms import onward

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.desk.accounts import User
    from nightscreen.desk.context import Context

_WRONG = "Incorrect name or password."
_WRONG_CODE = "Incorrect or expired code."


def sign_in(context: Context) -> Response:
    """Show the form, and let in whoever knows a password."""
    if context.request.method == "GET":
        return _form(context) if context.user is None else onward("/")
    name, given = context.text("name", 200), context.form.get("password") or [""]
    try:
        user = context.accounts.check(name, given[-1], context.source(name))
    except HeldUpError as error:
        context.record("sign-in throttled")
        return _form(context, 429, error=str(error))
    if user is None:
        context.record("sign-in failed")
        return _form(context, 401, error=_WRONG)
    return _after_password(context, user, local_address(context.text("to", 2000)))


def first(context: Context) -> Response:
    """Make the first user, or set the password of the user whose link it is."""
    post = context.request.method == "POST"
    token = context.text("link", 200) if post else context.asked_first("token")[:200]
    sound, whose = context.accounts.link_for(token)
    if not sound:
        return _form(context, 410, error="This link was used already or has expired.")
    if not post:
        return _form(context, link=token, whose=whose)
    given = context.form.get("password") or [""]
    try:
        user = context.accounts.use_link(token, context.text("name", 200), given[-1])
    except UsageError as error:
        return _form(context, 400, link=token, whose=whose, error=str(error))
    context.audit.write(user.name, "password set", first=whose is None)
    return _after_password(context, user, "/")


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
    return context.page(
        "sign_in",
        status,
        link=link,
        whose=whose,
        error=error,
        name=context.text("name", 200),
        to=_to(context),
    )


def _to(context: Context) -> str:
    """Return the page that was asked for before signing in."""
    return local_address(context.text("to", 2000) or context.asked_first("to"))


def _after_password(context: Context, user: User, to: str) -> Response:
    """Let a user in, or ask for the second factor; nothing else opens meanwhile."""
    if not user.has_second and not _is_wanted(context, user):
        return _let_in(context, user, to)
    response = onward("/second-factor" + (f"?to={quote(to)}" if to != "/" else ""))
    context.set_cookie(response, COOKIE, context.accounts.sign_in(user, half=True))
    return response


def _is_wanted(context: Context, user: User) -> bool:
    return user.must_have_second(context.settings.desk_second_factor)


def _let_in(context: Context, user: User, to: str) -> Response:
    """Begin the session of a user of whom nothing more is wanted."""
    accounts = context.accounts
    accounts.sign_out(context.cookie(COOKIE))
    context.audit.write(user.name, "signed in")
    response = onward(to)
    context.set_cookie(response, COOKIE, accounts.sign_in(user))
    device = accounts.remember_device(user.name, context.cookie(DEVICE_COOKIE))
    context.set_cookie(response, DEVICE_COOKIE, device, DEVICE_S)
    return response


def second_factor(context: Context) -> Response:
    """Ask for a code at the sign-in, or let a user set the second factor up or remove it."""
    accounts, audit = context.accounts, context.audit
    user = context.user or accounts.session(context.cookie(COOKIE), half=True)
    if user is None:
        return onward("/sign-in")
    if context.request.method == "GET":
        return _factor_page(context, user)
    code, does = context.text("code", 20), context.text("do")
    if user.has_second and does == "set up":
        raise DeskError(409, "Your second factor is set up already. Remove it first.")
    take = accounts.check_second if user.has_second else accounts.confirm_second
    try:
        is_right = take(user, code, context.source(user.name))
    except HeldUpError as error:
        audit.write(user.name, "second factor throttled")
        return _factor_page(context, user, 429, error=str(error))
    if not is_right:
        audit.write(user.name, "second factor failed")
        return _factor_page(context, user, 401, error=_WRONG_CODE)
    if not user.has_second:
        accounts.end_others(user.name, context.cookie(COOKIE))
        audit.write(user.name, "second factor set up")
    if context.user is None:
        return _let_in(context, user, _to(context))
    if user.has_second and does == "remove":
        if _is_wanted(context, user):
            raise DeskError(409, "The settings require a second factor of you; it stays.")
        accounts.remove_second(user.name)
        context.record("second factor removed", name=user.name)
    return onward("/second-factor")


def _factor_page(context: Context, user: User, status: int = 200, *, error: str = "") -> Response:
    offered = {}
    if not user.has_second:
        secret = context.accounts.offered_secret(user)
        address = TOTP(secret, name=user.name, issuer="nightscreen").provisioning_uri()
        picture = segno.make(address, micro=False).svg_inline(scale=4, light="#fff")
        offered = {"secret": secret, "picture": Markup(picture)}  # noqa: S704 - drawn here
    return context.page(
        "second_factor",
        status,
        whose=user,
        wanted=_is_wanted(context, user),
        to=_to(context),
        error=error,
        **offered,
    )
