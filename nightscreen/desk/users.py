"""The page of users: who there is, with which roles, rights and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.desk.accounts import RIGHTS, Role
from nightscreen.desk.context import DeskError
from nightscreen.schemas.errors import UsageError
from nightscreen.web.forms import onward
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.config.settings import Settings
    from nightscreen.desk.context import Context


def users(context: Context) -> Response:
    """Show users; add one, change roles and rights, or have a password set anew."""
    if context.request.method == "GET":
        return _page(context)
    accounts, audit = context.accounts, context.audit
    name, does = context.text("name", 200), context.text("do")
    try:
        roles = [Role(each) for each in context.form.get("role", []) if each]
        if does == "add":
            token = accounts.add(name, roles, by=context.name)
            audit.write(context.name, "user added", name=name, roles=roles)
            return _page(context, link=_link(context, token), of=name)
        if does == "reset":
            token = accounts.reset(name, by=context.name)
            audit.write(context.name, "user reset", name=name)
            return _page(context, link=_link(context, token), of=name)
        if does == "factor":
            accounts.remove_second(name)
            audit.write(context.name, "second factor removed", name=name)
        else:
            _change(context, name, roles)
    except ValueError:
        return _page(context, 400, error="There is no such role.")
    except UsageError as error:
        return _page(context, 400, error=str(error), of=name)
    return _page(context)


def _change(context: Context, name: str, roles: list[Role]) -> None:
    rights = {right: context.text(right) == "given" for right in RIGHTS if context.text(right)}
    branches = context.text("branches").split(",") if "branches" in context.form else None
    user = context.accounts.change(name, roles, rights, branches, by=context.name)
    context.record(
        "user changed",
        name=name,
        roles=roles,
        rights=rights,
        branches=user.branches,
    )


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
    role = context.text("role", 20)
    left = [each for each in context.user.roles if each != role]
    if len(left) == len(context.user.roles) or not left:
        raise DeskError(400, "Choose one of several roles that you have.")
    try:
        context.accounts.change(context.name, left, by=context.name)
    except UsageError as error:
        raise DeskError(409, str(error)) from None
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


def _page(
    context: Context, status: int = 200, *, link: str = "", of: str = "", error: str = ""
) -> Response:
    return context.page(
        "users",
        status,
        users=context.accounts.users(),
        roles=list(Role),
        rights=RIGHTS,
        link=link,
        of=of,
        error=error,
    )
