"""The pages of consent: the link, the departure to the consent screen, the way back, what came.

Links, states and codes are judged in `operations/consents/`; here an answer becomes a page. After
the way back the browser is sent on to a clean address, so that code and state leave its address
bar. One signed cookie has a random word, which ties a redirect to the browser that started it and
identifies no person, and what the next page is to say.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlsplit

from itsdangerous import BadData

from nightscreen.client.aggregator import consent_address, read_scopes
from nightscreen.operations.consents.links import (
    AskedConsent,
    Consent,
    ConsentLinks,
    ExchangeEnd,
    Refusal,
    redeem,
    signing,
)
from nightscreen.portal.pages import policy
from nightscreen.schemas.clock import instant_text
from nightscreen.web.background import RateLimit
from nightscreen.web.forms import onward
from nightscreen.web.guard import note, origin_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.operations.consents.links import Redeemed
    from nightscreen.portal.pages import Pages
    from nightscreen.web.background import Lasting

LINK: Final = "/consent/{token}"
TOLD: Final = "/consent/told"
DEPARTURES_A_MINUTE: Final = 10
_COOKIE_S = 900
"""A little more than a customer may take on the consent screen."""
_WORD_BYTES = 16
_LONGEST_CODE = 2000
_READ = ("code", "state", "error")

_LINK_STATUS = {Refusal.USED: 410, Refusal.EXPIRED: 410}
_STATE_STATUS = {Refusal.USED: 410, Refusal.EXPIRED: 410, Refusal.OTHER_BROWSER: 403}
_TOLD_STATUS = {
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
_TOLD_AS = {
    ExchangeEnd.KEPT: "done",
    ExchangeEnd.CAPPED: "ours",
    ExchangeEnd.KEY_REFUSED: "ours",
    ExchangeEnd.TEST_MODE: "ours",
}
_OWN_TROUBLE = frozenset({"server_error", "temporarily_unavailable"})


class ConsentPages:
    """Answers the addresses of consent.

    Args:
        journal: where links and states are kept.
        settings: the consent screen and the redirect address.
        pages: writes pages.
        lasting: finishes an exchange in the background.
        is_secure: customers reach the portal by https.
        transport: another way to the service than sockets, for tests.
    """

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        pages: Pages,
        lasting: Lasting,
        *,
        is_secure: bool,
        transport: Transport | None,
    ) -> None:
        self._journal = journal
        self._settings = settings
        self._pages = pages
        self._transport = transport
        self._lasting = lasting
        self._links = ConsentLinks(journal)
        self._pace = RateLimit(DEPARTURES_A_MINUTE, 60, time.monotonic)
        self._is_secure = is_secure
        self._cookie = "__Host-nightscreen" if is_secure else "nightscreen"

    async def start(self, request: Request) -> Response:
        """Say who asks for what, as often as the link is opened."""
        asked = await self._look(request)
        if isinstance(asked, Refusal):
            return self._link_refused(request, asked)
        screen = origin_of(self._settings.consent_url)
        response = self._pages.page("start", scopes=asked.scopes, screen=urlsplit(screen).netloc)
        response.headers["content-security-policy"] = policy(screen)
        return self._remember(response, word=self._word(request))

    async def depart(self, request: Request) -> Response:
        """Send the browser to the consent screen."""
        asked = await self._look(request)
        if isinstance(asked, Refusal):
            return self._link_refused(request, asked)
        if not self._pace.lets(asked.link):
            note(request.scope, refused="pace")
            return self._pages.trouble("pace", 429, again=request.url.path)
        word = self._word(request)
        address = consent_address(
            self._settings.consent_url,
            client_id=self._settings.client_id,
            redirect_uri=self._settings.redirect_uri,
            scopes=read_scopes(asked.scopes),
            state=await asyncio.to_thread(self._links.depart, asked, word),
        )
        return self._remember(onward(address), word=word)

    async def _look(self, request: Request) -> AskedConsent | Refusal:
        asked = await asyncio.to_thread(self._links.look, request.path_params["token"])
        if isinstance(asked, AskedConsent):
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
        word = self._held(request).get("word")
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
        done = await self._lasting.to_the_end(self._redeem(asked, given["code"]))
        note(request.scope, ended=done.ending.value, trouble=done.trouble)
        return self._tell(request, _TOLD_AS.get(done.ending, done.ending.value), asked, done)

    async def _redeem(self, asked: AskedConsent, code: str) -> Redeemed:
        """Exchange a code to the end, even where the customer goes away meanwhile."""
        evidence = {
            "channel": "portal",
            "link": asked.reference,
            "came_back_at": instant_text(self._journal.clock()),
            "redirect_uri": self._settings.redirect_uri,
        }
        reference = f"consent-{asked.reference}"
        consent = Consent(asked.customer_id, code, asked.scopes, reference, evidence)
        done = await redeem(self._journal, self._settings, consent, transport=self._transport)
        if done.ending is ExchangeEnd.KEPT:
            await asyncio.to_thread(self._links.use_up, asked)
        return done

    def _tell(
        self, request: Request, what: str, asked: AskedConsent, done: Redeemed | None = None
    ) -> Response:
        message = {
            "what": what,
            "granted": () if done is None or done.grant is None else done.grant.scopes,
            "missing": () if done is None else done.missing,
            "again": "" if what == "done" else self._links.again(asked),
        }
        return self._remember(onward(TOLD), word=self._word(request), **message)

    async def told(self, request: Request) -> Response:
        """Return what came of the way back; the address says nothing of it."""
        message = self._held(request)
        what = message.get("what")
        if what is None:
            return self._pages.trouble("nothing_told", 404)
        note(request.scope, told=what)
        if what == "done":
            return self._pages.page("done", granted=message["granted"], missing=message["missing"])
        again = LINK.format(token=message["again"]) if message["again"] else ""
        return self._pages.trouble(what, _TOLD_STATUS[what], again)

    # --- the cookie ---

    def _held(self, request: Request) -> dict[str, Any]:
        """Return what the browser's cookie holds; nothing where it is not ours or too old."""
        cookies = signing(self._journal, "browser")
        try:
            held: dict[str, Any] = cookies.loads(
                request.cookies.get(self._cookie, ""), max_age=_COOKIE_S
            )
        except BadData:
            return {}
        return held

    def _word(self, request: Request) -> str:
        """Return the word that identifies this browser, a new one where it has none."""
        return self._held(request).get("word") or secrets.token_urlsafe(_WORD_BYTES)

    def _remember(self, response: Response, **held: object) -> Response:
        signed = signing(self._journal, "browser").dumps(held)
        response.set_cookie(
            self._cookie,
            signed if isinstance(signed, str) else signed.decode("ascii"),
            max_age=_COOKIE_S,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="lax",
        )
        return response


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
