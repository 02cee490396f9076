"""The page of users: who there is, with which roles, rights and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.desk.context import DeskError
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.users import RIGHTS, Role
from nightscreen.web.forms import onward
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.config.settings import Settings
    from nightscreen.desk.context import Context


def users(context: Context) -> Response:
    """Show users."""
    return _page(context)


def _page(context: Context, link: str = "") -> Response:
    found, name = context.accounts.users(), context.text("name", 200)
    shown = {"users": found, "roles": list(Role), "rights": RIGHTS}
    return context.page("users", **shown, link=link, name=name)


def change(context: Context) -> Response:
    """Add a user, change roles and rights, or have a password set anew."""
    accounts, name, does = context.accounts, context.text("name", 200), context.text("do")
    given = [each for each in context.form.get("role", []) if each]
    if not set(given) <= set(Role):
        raise DeskError(400, "There is no such role.")
    roles = [Role(each) for each in given]
    if does == "add":
        link = _link(context, accounts.add(name, roles, by=context.name))
        context.record("user added", name=name, roles=roles)
        return _page(context, link)
    if does == "reset":
        link = _link(context, accounts.reset(name, by=context.name))
        context.record("user reset", name=name)
        return _page(context, link)
    if does == "factor":
        accounts.remove_second(name)
        context.record("second factor removed", name=name)
        return _page(context)
    rights = {right: context.text(right) == "given" for right in RIGHTS if context.text(right)}
    branches = context.text("branches").split(",") if "branches" in context.form else None
    user = accounts.change(name, roles, rights, branches, by=context.name)
    context.record("user changed", name=name, roles=roles, rights=rights, branches=user.branches)
    return _page(context)


def confirm(context: Context) -> Response:
    """Wake the rights of a user who signed in, by an approver who could not have been it."""
    name = context.text("name", 200)
    assert context.user is not None  # noqa: S101 - the page is for approvers
    try:
        context.accounts.confirm(name, context.user)
    except UsageError as error:
        context.record("refused", page="rights", name=name)
        raise DeskError(403, str(error)) from None
    context.record("rights confirmed", name=name)
    return onward("/")


def give_up(context: Context) -> Response:
    """Take a role from the user whose request it is; anybody may."""
    assert context.user is not None  # noqa: S101 - the page is for who is signed in
    left = [each for each in context.user.roles if each != context.text("role", 20)]
    if len(left) == len(context.user.roles) or not left:
        raise DeskError(400, "Choose one of several roles that you have.")
    context.accounts.change(context.name, left, by=context.name)
    context.record("user changed", name=context.name, roles=left)
    return onward("/second-factor")


def _link(context: Context, token: str) -> str:
    url = context.request.url
    return password_link(context.settings, token, f"{url.scheme}://{url.netloc}")


def password_link(settings: Settings, token: str, at: str) -> str:
    """Return the link that sets a password, at the address people reach the desk by.

    Args:
        settings: may name that address, where a proxy stands before the desk.
        token: of the link.
        at: the desk's own address, where the settings name none.
    """
    return f"{origin_of(settings.desk_url) or at}/first?token={token}"
