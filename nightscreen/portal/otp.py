"""The page under a BVN link: the customer types the one-time password that the service sent them.

`operations/bvn/confirmations` decides what a link allows and what happens to a password. A password
is never shown again, and is in no address, log or cookie.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from nightscreen.operations.bvn.confirmations import (
    PATH,
    LinkView,
    LinkWord,
    accept_otp,
    look_at_link,
)
from nightscreen.web.forms import onward, read_form

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.portal.pages import Portal

LINK: Final = f"{PATH}{{token}}"
_LONGEST_TOKEN = 300  # ours, a signed key, are shorter
_MOST_FIELDS = 20  # our form has one; a form with many is not ours
_ASKING = (LinkWord.OPEN, LinkWord.WRONG_OTP, LinkWord.MALFORMED)
_STATUS = {
    LinkWord.EXPIRED: 410,
    LinkWord.CLOSED: 410,
    LinkWord.BUSY: 409,
    LinkWord.IN_DOUBT: 502,
    LinkWord.UNAVAILABLE: 503,
}


async def show(portal: Portal, request: Request) -> Response:
    """Ask for the password, as often as the link is opened."""
    return _answer(portal, request, await _look(portal, request))


async def take(portal: Portal, request: Request) -> Response:
    """Send a password on, and show the result."""
    token = request.path_params["token"]
    form, _ = await read_form(request, _MOST_FIELDS)
    view = await _look(portal, request)
    typed = form.get("otp", [""])[-1].strip()
    if view.word not in _ASKING or not typed:
        return _answer(portal, request, view, "missing")
    clock, transport = portal.journal.clock, portal.transport
    sending = accept_otp(portal.settings, token, typed, clock=clock, transport=transport)
    view = await portal.to_the_end(sending)
    if view.word is LinkWord.CONFIRMED:
        return onward(request.url.path)
    return _answer(portal, request, view, view.word.value)


async def _look(portal: Portal, request: Request) -> LinkView:
    token: str = request.path_params["token"]
    if not token.isascii() or len(token) > _LONGEST_TOKEN:
        return LinkView(LinkWord.CLOSED)
    return await asyncio.to_thread(look_at_link, portal.journal, portal.settings, token)


def _answer(portal: Portal, request: Request, view: LinkView, fault: str = "") -> Response:
    """Ask for the password, saying what was wrong with the last, or say how the link stands."""
    if view.word in _ASKING:
        return portal.page(
            "otp",
            422 if fault else 200,
            contact=view.masked_contact,
            attempts_left=view.attempts_left,
            digits=portal.settings.bvn_consent.otp_digits,
            fault=fault,
        )
    if view.word is LinkWord.CONFIRMED:
        return portal.page("otp_done")
    again = request.url.path if view.word in (LinkWord.BUSY, LinkWord.UNAVAILABLE) else ""
    return portal.trouble(f"otp_{view.word}", _STATUS[view.word], again)
