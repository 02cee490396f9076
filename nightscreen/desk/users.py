"""The page of users: who there is, with which roles, rights and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.desk.accounts import RIGHTS, Role
from nightscreen.desk.visit import DeskError
from nightscreen.schemas.errors import UsageError
from nightscreen.web.forms import onward
from nightscreen.web.guard import origin_of

if TYPE_CHECKING:
    from starlette.responses import Response

    from nightscreen.config.settings import Settings
    from nightscreen.desk.visit import Visit


def users(visit: Visit) -> Response:
    """Show users; add one, change roles and rights, or have a password set anew."""
    if visit.request.method == "GET":
        return _page(visit)
    accounts, audit = visit.seat.accounts, visit.seat.audit
    name, does = visit.text("name", 200), visit.text("do")
    try:
        roles = [Role(each) for each in visit.form.get("role", []) if each]
        if does == "add":
            token = accounts.add(name, roles, by=visit.name)
            audit.write(visit.name, "user added", name=name, roles=roles)
            return _page(visit, link=_link(visit, token), of=name)
        if does == "reset":
            token = accounts.reset(name, by=visit.name)
            audit.write(visit.name, "user reset", name=name)
            return _page(visit, link=_link(visit, token), of=name)
        if does == "factor":
            accounts.set_second(name)
            audit.write(visit.name, "second factor removed", name=name)
        else:
            _change(visit, name, roles)
    except ValueError:
        return _page(visit, 400, error="There is no such role.")
    except UsageError as error:
        return _page(visit, 400, error=str(error), of=name)
    return _page(visit)


def _change(visit: Visit, name: str, roles: list[Role]) -> None:
    rights = {right: visit.text(right) == "given" for right in RIGHTS if visit.text(right)}
    branches = visit.text("branches").split(",") if "branches" in visit.form else None
    user = visit.seat.accounts.change(name, roles, rights, branches, by=visit.name)
    visit.seat.audit.write(
        visit.name,
        "user changed",
        name=name,
        roles=roles,
        rights=rights,
        branches=user.branches,
    )


def confirm(visit: Visit) -> Response:
    """Wake the rights of a user who signed in, by an approver who could not have been it."""
    name = visit.text("name", 200)
    assert visit.user is not None  # noqa: S101 - the page is for approvers
    try:
        visit.seat.accounts.confirm(name, visit.user)
    except UsageError as error:
        visit.seat.audit.write(visit.name, "refused", page="rights", name=name)
        raise DeskError(403, str(error)) from None
    visit.seat.audit.write(visit.name, "rights confirmed", name=name)
    return onward("/")


def give_up(visit: Visit) -> Response:
    """Take a role from the user whose request it is; anybody may."""
    assert visit.user is not None  # noqa: S101 - the page is for who is signed in
    role = visit.text("role", 20)
    left = [each for each in visit.user.roles if each != role]
    if len(left) == len(visit.user.roles) or not left:
        raise DeskError(400, "Choose one of several roles that you have.")
    try:
        visit.seat.accounts.change(visit.name, left, by=visit.name)
    except UsageError as error:
        raise DeskError(409, str(error)) from None
    visit.seat.audit.write(visit.name, "user changed", name=visit.name, roles=left)
    return onward("/second-factor")


def _link(visit: Visit, token: str) -> str:
    url = visit.request.url
    return password_link(visit.seat.settings, token, f"{url.scheme}://{url.netloc}")


def password_link(settings: Settings, token: str, at: str) -> str:
    """Return the link that sets a password, at the address people reach the desk by.

    Args:
        settings: may name that address, where a proxy stands before the desk.
        token: of the link.
        at: the desk's own address, where the settings name none.
    """
    return f"{origin_of(settings.desk_url) or at}/first?token={token}"


def _page(
    visit: Visit, status: int = 200, *, link: str = "", of: str = "", error: str = ""
) -> Response:
    return visit.page(
        "users",
        status,
        users=visit.seat.accounts.users(),
        roles=list(Role),
        rights=RIGHTS,
        link=link,
        of=of,
        error=error,
    )
