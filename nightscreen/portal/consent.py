"""The pages of consent: the link, the departure to the consent screen, the way back, what came.

Links, states and codes are judged in `operations/consents/`; here an answer becomes a page. After
the way back the browser is sent on to a clean address, so that code and state leave its address
bar.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

from nightscreen.client.aggregator import consent_address, read_scopes
from nightscreen.operations.consents.links import Asked, Refusal
from nightscreen.operations.consents.token_exchange import Consent, ExchangeEnd
from nightscreen.portal.pages import policy
from nightscreen.schemas.clock import instant_text
from nightscreen.web.background import RateLimit
from nightscreen.web.forms import onward
from nightscreen.web.guard import note

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.operations.consents.links import ConsentLinks
    from nightscreen.operations.consents.token_exchange import CodeExchange, Redeemed
    from nightscreen.portal.config import PortalConfig
    from nightscreen.portal.pages import Pages
    from nightscreen.portal.session import Browsers
    from nightscreen.schemas.clock import Clock
    from nightscreen.web.background import Lasting

LINK: Final = "/consent/{token}"
TOLD: Final = "/consent/told"
DEPARTURES_A_MINUTE: Final = 10
_LONGEST_CODE = 2000
_READ = ("code", "state", "error")

_LINK_STATUS = {Refusal.USED: 410, Refusal.EXPIRED: 410}
_STATE_STATUS = {Refusal.USED: 410, Refusal.EXPIRED: 410, Refusal.OTHER_BROWSER: 403}
_TOLD_STATUS = {
    "done": 200,
    "denied": 200,
    "nothing_granted": 200,
    "screen_trouble": 502,
    "screen_refused": 502,
    "no_code": 400,
    "code_refused": 400,
    "in_doubt": 502,
    "busy": 503,
    "ours": 502,
}
_ENDED_AS = {
    ExchangeEnd.KEPT: "done",
    ExchangeEnd.NOTHING_GRANTED: "nothing_granted",
    ExchangeEnd.CODE_REFUSED: "code_refused",
    ExchangeEnd.IN_DOUBT: "in_doubt",
    ExchangeEnd.BUSY: "busy",
    ExchangeEnd.CAPPED: "ours",
    ExchangeEnd.KEY_REFUSED: "ours",
    ExchangeEnd.TEST_MODE: "ours",
}
_OWN_TROUBLE = frozenset({"server_error", "temporarily_unavailable"})


class ConsentPages:
    """Answers the addresses of consent.

    Args:
        place: the portal's configuration.
        pages: writes pages.
        browsers: identifies browsers.
        links: checks links and states.
        redeemer: exchanges codes.
        lasting: finishes an exchange in the background. clock: gives the present instant.
    """

    def __init__(
        self,
        place: PortalConfig,
        pages: Pages,
        browsers: Browsers,
        links: ConsentLinks,
        redeemer: CodeExchange,
        lasting: Lasting,
        clock: Clock,
    ) -> None:
        self._place = place
        self._pages = pages
        self._browsers = browsers
        self._links = links
        self._redeemer = redeemer
        self._clock = clock
        self._pace = RateLimit(DEPARTURES_A_MINUTE, 60, time.monotonic)
        self._lasting = lasting

    async def start(self, request: Request) -> Response:
        """Say who asks for what, as often as the link is opened."""
        asked = await self._look(request)
        if isinstance(asked, Refusal):
            return self._link_refused(request, asked)
        word = self._browsers.word_or_new(request)
        response = self._pages.page(
            "start",
            scopes=asked.scopes,
            screen=urlsplit(self._place.consent_origin).netloc,
        )
        response.headers["content-security-policy"] = policy(self._place.consent_origin)
        self._browsers.remember(response, word)
        return response

    async def depart(self, request: Request) -> Response:
        """Send the browser to the consent screen."""
        asked = await self._look(request)
        if isinstance(asked, Refusal):
            return self._link_refused(request, asked)
        if not self._pace.lets(asked.link):
            note(request.scope, refused="pace")
            return self._pages.trouble("pace", 429, again=request.url.path)
        word = self._browsers.word_or_new(request)
        state = await asyncio.to_thread(self._links.depart, asked, word)
        response = onward(
            consent_address(
                self._place.consent_url,
                client_id=self._place.client_id,
                redirect_uri=self._place.redirect_uri,
                scopes=read_scopes(asked.scopes),
                state=state,
            )
        )
        self._browsers.remember(response, word)
        return response

    async def _look(self, request: Request) -> Asked | Refusal:
        asked = await asyncio.to_thread(self._links.look, request.path_params["token"])
        if isinstance(asked, Asked):
            note(request.scope, link=asked.reference)
        return asked

    def _link_refused(self, request: Request, why: Refusal) -> Response:
        note(request.scope, refused=why.value)
        kind = why if why in _LINK_STATUS else Refusal.UNKNOWN
        return self._pages.trouble(f"link_{kind}", _LINK_STATUS.get(why, 404))

    async def come_back(self, request: Request) -> Response:
        """Accept the redirect of the consent screen, and redirect the browser to the result."""
        if request.method != "GET":  # to ask for headers alone must use nothing up
            return self._pages.trouble("method", 405)
        given = _read(request)
        if given is None or not given.get("state"):
            note(request.scope, refused="unreadable")
            return self._pages.trouble("state_unknown", 400)
        word = self._browsers.word(request)
        asked = await asyncio.to_thread(self._links.come_back, given["state"], word)
        if isinstance(asked, Refusal):
            note(request.scope, refused=asked.value)
            kind = Refusal.UNKNOWN if asked is Refusal.TAMPERED else asked
            return self._pages.trouble(f"state_{kind}", _STATE_STATUS.get(asked, 400))
        note(request.scope, link=asked.reference)
        if "error" in given:
            return self._tell(request, _redirect_error(given["error"]), asked)
        if not 0 < len(given.get("code", "")) <= _LONGEST_CODE:
            return self._tell(request, "no_code", asked)
        return await self._redeem(request, asked, given["code"])

    async def _redeem(self, request: Request, asked: Asked, code: str) -> Response:
        """Exchange the code to the end, even where the customer goes away meanwhile."""
        evidence = {
            "channel": "portal",
            "link": asked.reference,
            "came_back_at": instant_text(self._clock()),
            "redirect_uri": self._place.redirect_uri,
        }
        consent = Consent(
            asked.customer_id, code, asked.scopes, f"consent-{asked.reference}", evidence
        )
        done = await self._lasting.to_the_end(self._redeem_and_use_up(consent, asked))
        note(request.scope, ended=done.ending.value)
        if done.trouble:
            note(request.scope, trouble=done.trouble)
        granted = () if done.grant is None else done.grant.scopes
        return self._tell(request, _ENDED_AS[done.ending], asked, granted, done.missing)

    async def _redeem_and_use_up(self, consent: Consent, asked: Asked) -> Redeemed:
        done = await self._redeemer.redeem(consent)
        if done.ending is ExchangeEnd.KEPT:
            await asyncio.to_thread(self._links.use_up, asked)
        return done

    def _tell(
        self,
        request: Request,
        what: str,
        asked: Asked,
        granted: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
    ) -> Response:
        note(request.scope, told=what)
        again = "" if what == "done" else self._links.again(asked)
        message = {"what": what, "granted": granted, "missing": missing, "again": again}
        response = onward(TOLD)
        self._browsers.set_message(response, message)
        return response

    async def told(self, request: Request) -> Response:
        """Return what came of the way back; the address says nothing of it."""
        message = self._browsers.last_message(request)
        if message is None:
            return self._pages.trouble("nothing_told", 404)
        what = message["what"]
        note(request.scope, told=what)
        again = LINK.format(token=message["again"]) if message["again"] else ""
        if what == "done":
            return self._pages.page("done", granted=message["granted"], missing=message["missing"])
        return self._pages.trouble(what, _TOLD_STATUS[what], again)


def _read(request: Request) -> dict[str, str] | None:
    """Return what came back; None if anything is given twice or cannot be read."""
    query = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=50)
    except ValueError:
        return None
    given = [(name, value) for name, value in pairs if name in _READ]
    return dict(given) if len({name for name, _ in given}) == len(given) else None


def _redirect_error(error: str) -> str:
    """Return what an error of the consent screen means (OAuth 2.0, 4.1.2.1)."""
    if error == "access_denied":
        return "denied"
    return "screen_trouble" if error in _OWN_TROUBLE else "screen_refused"
