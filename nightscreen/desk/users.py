"""Users' pages: signing in and out, the link that sets a password, second factor, who there is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import segno
from markupsafe import Markup
from pyotp import TOTP, random_base32

from nightscreen.desk.accounts import DEVICE_S, LONGEST_NAME, ThrottledError
from nightscreen.desk.context import (
    COOKIE,
    DEVICE_COOKIE,
    LONGEST_ADDRESS,
    DeskError,
    local_address,
)
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.users import RIGHTS, Role
from nightscreen.web.guard import origin_of, see_other

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.config.settings import Settings
    from nightscreen.desk.context import Context
    from nightscreen.schemas.users import User

_SECRET: Final = re.compile(r"[A-Z2-7]{32}")

# --- signing in ---


def sign_in(context: Context) -> Response:
    """Show the form."""
    if context.user is not None:
        return see_other("/")
    return context.page("sign_in", link="", whose=None, to=_to(context))


def _to(context: Context) -> str:
    """Return the page that was asked for before signing in."""
    return local_address(context.text("to", LONGEST_ADDRESS) or context.asked_first("to"))


def _password(context: Context) -> str:
    """Return what was typed to the letter: blanks count."""
    return (context.form.get("password") or [""])[-1]


def enter(context: Context) -> Response:
    """Sign in whoever knows the password."""
    name = context.text("name", LONGEST_NAME)
    try:
        user = context.accounts.check(name, _password(context), context.source(name))
    except ThrottledError as error:
        context.record("sign-in throttled")
        raise DeskError(429, str(error)) from None
    if user is None:
        context.record("sign-in failed")
        raise DeskError(401, "Incorrect name or password.")
    return _after_password(context, user, _to(context))


def _link(context: Context) -> tuple[str, User | None]:
    """Return the token of the link that was opened, and whose it is; None for the first user's."""
    token = context.text("link", 500) or context.asked_first("token")[:500]
    try:
        return token, context.accounts.link_for(token)
    except UsageError:
        raise DeskError(
            410, "This link was used already or has expired. Ask an administrator for another."
        ) from None


def first(context: Context) -> Response:
    """Show the form of a link that sets a password."""
    link, whose = _link(context)
    return context.page("sign_in", link=link, whose=whose and whose.name, to="/")


def use_link(context: Context) -> Response:
    """Make the first user, or set the password of the user whose link it is."""
    token, whose = _link(context)
    user = context.accounts.use_link(token, context.text("name", 200), _password(context))
    context.audit.write(user.name, "password set", first=whose is None)
    return _after_password(context, user, "/")


def sign_out(context: Context) -> Response:
    """End the user's sessions, in whatever browser."""
    context.accounts.set(context.name, ends_sessions=True)
    context.record("signed out")
    response, context.session = see_other("/sign-in"), ""
    response.delete_cookie(context.cookie_name(COOKIE), path="/")
    return response


def _after_password(context: Context, user: User, to: str) -> Response:
    """Let a user in, or ask for the second factor; nothing else opens meanwhile."""
    if not user.second and not _is_wanted(context, user):
        return _let_in(context, user, to)
    response = see_other("/second-factor" + (f"?to={quote(to)}" if to != "/" else ""))
    return _keep_session(context, response, context.accounts.sign_in(user, half=True))


def _keep_session(context: Context, response: Response, token: str) -> Response:
    context.session = ""  # the one before ends
    context.set_cookie(response, COOKIE, token)
    return response


def _is_wanted(context: Context, user: User) -> bool:
    return user.must_have_second(context.settings.desk_second_factor)


def _let_in(context: Context, user: User, to: str) -> Response:
    """Begin the session of a user who has given everything that is needed."""
    context.audit.write(user.name, "signed in")
    response = _keep_session(context, see_other(to), context.accounts.sign_in(user))
    device = context.accounts.device(user, context.cookie(DEVICE_COOKIE))
    context.set_cookie(response, DEVICE_COOKIE, device, DEVICE_S)
    return response


# --- the second factor ---


def _half_in(context: Context) -> User | None:
    """Return who is signed in, or gave the password and no code yet."""
    half = context.accounts.session(context.cookie(COOKIE), half=True)
    return context.user or (half[0] if half else None)


def second_factor(context: Context) -> Response:
    """Ask for a code at the sign-in, or show how a second factor is set up or removed."""
    user, offered = _half_in(context), {}
    if user is None:
        return see_other("/sign-in")
    if not user.second:
        secret = str(context.typed("secret", random_base32()))
        address = TOTP(secret, name=user.name, issuer="nightscreen").provisioning_uri()
        picture = segno.make(address, micro=False).svg_inline(scale=4, light="#fff")
        offered = {"secret": secret, "picture": Markup(picture)}  # noqa: S704 - drawn here
    wanted = _is_wanted(context, user)
    return context.page("second_factor", whose=user, wanted=wanted, to=_to(context), **offered)


def take_code(context: Context) -> Response:
    """Let in whoever has a code, or set the second factor up or remove it."""
    user, accounts, does = _half_in(context), context.accounts, context.text("do")
    if user is None:
        return see_other("/sign-in")
    offered = context.text("secret", 40)
    if user.second and does == "set up":
        raise DeskError(409, "Your second factor is set up already. Remove it first.")
    if not user.second and not _SECRET.fullmatch(offered):
        raise DeskError(400, "Load the page again, and scan the code that it shows.")
    _require_code(context, user, user.second or offered)
    if not user.second:  # sessions that were begun without it end
        user = accounts.set(user.name, ends_sessions=True, second=offered)
        context.audit.write(user.name, "second factor set up")
        if context.user is not None:
            return _keep_session(context, see_other("/second-factor"), accounts.sign_in(user))
    if context.user is None:
        return _let_in(context, user, _to(context))
    if does == "remove":
        if _is_wanted(context, user):
            raise DeskError(409, "The settings require a second factor of you; it stays.")
        accounts.set(user.name, second="")
        context.record("second factor removed", name=user.name)
    return see_other("/second-factor")


def _require_code(context: Context, user: User, secret: str) -> None:
    """Refuse to go on without a code of an authenticator."""
    code, source = context.text("code", 20), context.source(user.name)
    try:
        is_right = context.accounts.code_counts(user, secret, code, source)
    except ThrottledError as error:
        context.audit.write(user.name, "second factor throttled")
        raise DeskError(429, str(error)) from None
    if not is_right:
        context.audit.write(user.name, "second factor failed")
        raise DeskError(401, "Incorrect or expired code.")


# --- who there is, with which roles, rights and limits ---


def users(context: Context, link: str = "") -> Response:
    """Show users."""
    found = context.accounts.users()
    return context.page("users", users=found, roles=list(Role), rights=RIGHTS, link=link)


def change(context: Context) -> Response:
    """Add a user, change roles and rights, or have a password set anew."""
    accounts, name, does = context.accounts, context.text("name", 200), context.text("do")
    given = [each for each in context.form.get("role", []) if each]
    if not set(given) <= set(Role):
        raise DeskError(400, "There is no such role.")
    roles, link = [Role(each) for each in given], ""
    if does in {"add", "reset"}:
        by, url = context.name, context.request.url
        token = accounts.add(name, roles, by=by) if does == "add" else accounts.reset(name, by=by)
        link = password_link(context.settings, token, f"{url.scheme}://{url.netloc}")
        context.record("user added" if does == "add" else "user reset", name=name, roles=roles)
    elif does == "factor":
        accounts.set(name, second="")
        context.record("second factor removed", name=name)
    else:
        rights = {right: context.text(right) == "given" for right in RIGHTS if context.text(right)}
        branches = context.text("branches").split(",") if "branches" in context.form else None
        shown = context.text("shown")
        user = accounts.change(name, roles, rights, branches, by=context.name, shown=shown)
        about: dict[str, Any] = {"roles": roles, "rights": rights, "branches": user.branches}
        context.record("user changed", name=name, **about)
    return users(context, link)


def confirm(context: Context) -> Response:
    """Restore the rights of a user who signed in, by an approver who cannot be the same person."""
    name = context.text("name", 200)
    assert context.user is not None  # noqa: S101 - the page is for approvers
    try:
        context.accounts.confirm(name, context.user)
    except UsageError as error:
        context.record("refused", page="rights", name=name)
        raise DeskError(403, str(error)) from None
    context.record("rights confirmed", name=name)
    return see_other("/")


def give_up(context: Context) -> Response:
    """Take a role from the user whose request it is; anybody may."""
    assert context.user is not None  # noqa: S101 - the page is for who is signed in
    left = [each for each in context.user.roles if each != context.text("role", 20)]
    if len(left) == len(context.user.roles) or not left:
        raise DeskError(400, "Choose one of several roles that you have.")
    context.accounts.change(context.name, left, by=context.name)
    context.record("user changed", name=context.name, roles=left)
    return see_other("/second-factor")


def password_link(settings: Settings, token: str, at: str) -> str:
    """Return the link that sets a password, at the address people reach the desk by.

    That is the desk's own (`at`), unless the settings name a proxy's before it.
    """
    return f"{origin_of(settings.desk_url) or at}/first?token={token}"
