"""The page under a BVN link: the customer types the one-time password that the service sent them.

`operations/bvn/links` decides what a link allows and what happens to a password. A password is
never shown again, and is in no address, log or cookie.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from nightscreen.operations.bvn.links import PATH, LinkView, LinkWord, accept_otp, look_at_link
from nightscreen.web.background import RateLimit
from nightscreen.web.forms import onward, read_form
from nightscreen.web.guard import note

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.portal.pages import Pages
    from nightscreen.web.background import Lasting

LINK: Final = f"{PATH}{{token}}"
TRIES_A_MINUTE: Final = 6
_LONGEST_TOKEN = 300
_MOST_FIELDS = 20
_ASKING = (LinkWord.OPEN, LinkWord.WRONG_OTP, LinkWord.MALFORMED)
_STATUS = {
    LinkWord.EXPIRED: 410,
    LinkWord.CLOSED: 410,
    LinkWord.BUSY: 409,
    LinkWord.IN_DOUBT: 502,
    LinkWord.UNAVAILABLE: 503,
}


class OtpPages:
    """Answers the addresses of BVN links.

    Args:
        journal: where requests are kept.
        settings: how many digits a password has, how many may be wrong.
        pages: writes pages.
        lasting: carries calls to their end.
        transport: another way to the service than sockets, for tests.
    """

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        pages: Pages,
        lasting: Lasting,
        transport: Transport | None,
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._pages = pages
        self._lasting = lasting
        self._transport = transport
        self._pace = RateLimit(TRIES_A_MINUTE, 60, time.monotonic)

    async def show(self, request: Request) -> Response:
        """Ask for the password, as often as the link is opened."""
        return self._answer(request, await self._look(request))

    async def take(self, request: Request) -> Response:
        """Send a password on, and show the result."""
        form, token = await read_form(request, _MOST_FIELDS), request.path_params["token"]
        view = await self._look(request)
        typed = form.get("otp", [""])[-1].strip()
        if view.word not in _ASKING or not typed:
            return self._answer(request, view, "missing")
        if not self._pace.lets(token):
            note(request.scope, refused="pace")
            return self._pages.trouble("pace", 429, again=request.url.path)
        sending = accept_otp(
            self._settings, token, typed, clock=self._journal.clock, transport=self._transport
        )
        view = await self._lasting.to_the_end(sending)
        if view.word is LinkWord.CONFIRMED:
            note(request.scope, told=view.word.value)
            return onward(request.url.path)
        return self._answer(request, view, view.word.value)

    async def _look(self, request: Request) -> LinkView:
        token: str = request.path_params["token"]
        if not token.isascii() or len(token) > _LONGEST_TOKEN:
            return LinkView(LinkWord.CLOSED)
        return await asyncio.to_thread(look_at_link, self._journal, self._settings, token)

    def _answer(self, request: Request, view: LinkView, fault: str = "") -> Response:
        """Ask for the password, saying what was wrong with the last, or say how the link stands."""
        note(request.scope, told=view.word.value)
        if view.word in _ASKING:
            return self._pages.page(
                "otp",
                422 if fault else 200,
                contact=view.masked_contact,
                attempts_left=view.attempts_left,
                digits=self._settings.bvn_consent.otp_digits,
                fault=fault,
            )
        if view.word is LinkWord.CONFIRMED:
            return self._pages.page("otp_done")
        again = request.url.path if view.word in (LinkWord.BUSY, LinkWord.UNAVAILABLE) else ""
        return self._pages.trouble(f"otp_{view.word}", _STATUS[view.word], again)
