"""Links under which customers supply their passwords themselves: made, looked at, and used.

One link for each request, signed with a key that only the journal has and so never stored; it ends
with the request, when too much time has passed, or after too many wrong passwords. The pages that
customers see are the portal's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from itsdangerous import BadData

from nightscreen.journal import journal_of
from nightscreen.operations.bvn.confirmations import BvnConfirmations, given_to, refusal, tidy_otp
from nightscreen.operations.bvn.states import bring_up_to_date, newest, requests_of
from nightscreen.operations.consents.links import signing
from nightscreen.operations.person_run import FAILED, PENDING, single_call
from nightscreen.schemas.bvn import BvnRequest, BvnState, ConfirmBvns
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.clock import span_micros, system_clock

if TYPE_CHECKING:
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.schemas.clock import Clock

PATH = "/otp/"  # the portal's path of the page; the token follows


class LinkWord(StrEnum):
    """The state of a link, or the result of a password typed under it."""

    OPEN = "open"  # the customer may type a password
    CONFIRMED = "confirmed"
    WRONG_OTP = "wrong_otp"
    MALFORMED = "malformed"  # it cannot be a password; nothing was sent, and it does not count
    EXPIRED = "expired"  # the password or the request is too old, or the service knows of none
    CLOSED = "closed"  # there is no such link, it has been used, or too many passwords were wrong
    BUSY = "busy"  # a password is being looked at right now
    IN_DOUBT = "in_doubt"  # the password was sent and its answer lost: it is not sent again
    UNAVAILABLE = "unavailable"
    """Nothing was sent: the service is away, or a limit of the lender's is reached; try later."""


@dataclass(frozen=True, slots=True)
class LinkView:
    """What a page may show about a link: nothing that identifies the customer."""

    word: LinkWord
    # where the service sent the password; None if that must not be shown
    masked_contact: str | None = None
    attempts_left: int = 0  # passwords that may still be tried


_WORDS = {
    "already_confirmed": LinkWord.CONFIRMED,
    "request_expired": LinkWord.EXPIRED,
    "request_abandoned": LinkWord.EXPIRED,
    "finish_in_doubt": LinkWord.IN_DOUBT,
    "under_way": LinkWord.BUSY,
}
"""What a customer is told where no password is sent on; `CLOSED` for any other reason."""


def token_for(journal: Journal, request: BvnRequest) -> str:
    """Return the token of a request's link."""
    return str(signing(journal, "bvn request").dumps(request.key))


def link_for(journal: Journal, settings: Settings, request: BvnRequest) -> str:
    """Return a request's link, at the portal's host where that is known."""
    parts = urlsplit(settings.portal_url or settings.redirect_uri)
    host = f"{parts.scheme}://{parts.netloc}" if parts.netloc else ""
    return f"{host}{PATH}{token_for(journal, request)}"


def look_at_link(journal: Journal, settings: Settings, token: str) -> LinkView:
    """Return what a link is good for at this moment; nothing is sent."""
    return _look(journal, settings, token)[1]


def _look(journal: Journal, settings: Settings, token: str) -> tuple[BvnRequest | None, LinkView]:
    """Return a link's request too; None if the token was not made here, or the request is gone."""
    try:
        request = requests_of(journal).find(signing(journal, "bvn request").loads(token))
    except BadData:
        request = None
    if request is None or newest(journal, [request.customer])[request.customer].key != request.key:
        return None, LinkView(LinkWord.CLOSED)
    return request, view(request, settings, journal.clock())


def view(request: BvnRequest, settings: Settings, now: int) -> LinkView:
    """Return what the link of a request is good for at an instant in microseconds."""
    given = settings.bvn_consent
    contact = request.held.masked_contact
    left = max(0, given.otp_attempts - request.attempts)
    word = LinkWord.WRONG_OTP if request.state is BvnState.WRONG_OTP else LinkWord.OPEN
    if code := refusal(request, given, now):
        word = _WORDS.get(code, LinkWord.CLOSED)
    if request.is_open and now - request.at >= span_micros(given.abandon_after):
        word = LinkWord.EXPIRED
    is_shown = word in {LinkWord.OPEN, LinkWord.WRONG_OTP, LinkWord.BUSY}
    return LinkView(word, contact, left) if is_shown else LinkView(word)


async def accept_otp(
    settings: Settings,
    token: str,
    otp: str,
    *,
    clock: Clock = system_clock,
    transport: Transport | None = None,
) -> LinkView:
    """Send on a password that a customer typed under their link, at once, and return the result.

    The password is kept nowhere. The call is written into the journal before it is sent and counts
    under every cap; two at a time for one link are one.

    Raises:
        UsageError: the settings are wrong.
        JournalError: the journal cannot be used; nothing was sent, or what was sent is in doubt.
    """
    request, before = await asyncio.to_thread(_look_first, settings, token, clock)
    if request is None or before.word not in {LinkWord.OPEN, LinkWord.WRONG_OTP}:
        return before
    digits = tidy_otp(otp, settings.bvn_consent.otp_digits)
    if digits is None:
        return LinkView(LinkWord.MALFORMED, before.masked_contact, before.attempts_left)
    operation = Operation.BVN_FINISH
    async with single_call(settings, operation, clock=clock, transport=transport) as caller:
        sending = BvnConfirmations(caller.run, ConfirmBvns())
        given = given_to(request, digits)
        await sending.turn(caller, given)
    if given.task is None:
        return LinkView(LinkWord.BUSY, request.held.masked_contact)
    if given.word in {PENDING, FAILED}:
        return LinkView(LinkWord.UNAVAILABLE, request.held.masked_contact)
    return view(given.record, settings, clock())


def _look_first(settings: Settings, token: str, clock: Clock) -> tuple[BvnRequest | None, LinkView]:
    """Look before a run is opened, so that a link that is none costs nothing."""
    with journal_of(settings, clock=clock) as journal:
        bring_up_to_date(journal, settings.bvn_consent)
        return _look(journal, settings, token)
