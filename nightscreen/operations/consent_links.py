"""Consent to share transactions: links to the consent screen, redirect states, codes and grants.

A link may be opened any number of times until a consent was saved with it: mail programs open links
too. Each redirect from it has its own state, which works once, for ten minutes, in the same
browser. Both are signed and contain no data of the customer, which is sealed in the journal.

A code is exchanged by a call like any other: saved in the journal before it is sent, and counted
against every cap. The call is repeated only if the service surely did not act; after a lost answer
the customer must consent again. The pages are the portal's.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from itsdangerous import BadData, TimestampSigner, URLSafeTimedSerializer

from nightscreen.client.response_parser import parse_answer
from nightscreen.client.response_rules import ChargeStatus, FailureReason
from nightscreen.client.wire import exchange
from nightscreen.journal.consents import Consents
from nightscreen.journal.keyset import link_keys
from nightscreen.journal.records import Records
from nightscreen.operations.person_run import single_call
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import DAY_MICROS, MICROS, instant_text, span_micros
from nightscreen.schemas.consented import ConsentLink
from nightscreen.schemas.errors import InputError, UsageError
from nightscreen.schemas.stops import StopReason
from nightscreen.values.identifiers import judge_customer_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nightscreen.client.classify import CallOutcome
    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.schemas.consented import Grant, GrantState, TokenAnswer

DEPARTURE = timedelta(minutes=10)  # the time a customer has on the consent screen
VALID_FOR = timedelta(days=7)  # a link
_RETENTION_MICROS = 30 * DAY_MICROS
"""How long an ended link is stored, so that its page can say why it does not work."""
_REFERENCE_DIGITS = 12  # hex: 48 bits distinguish links, and are short enough to read out
_LINK, _STATE = "consent link", "consent state"  # what tokens are signed for
_ID_BYTES = 24  # 192 bits cannot be guessed


def signed(journal: Journal, purpose: str, value: object) -> str:
    """Return a short value as signed text, which `read_signed` accepts for this purpose only."""
    return str(_signing(journal, purpose).dumps(value))


def read_signed(journal: Journal, purpose: str, text: str, max_age_s: int | None = None) -> Any:  # noqa: ANN401 - what was signed
    """Return a signed value; None if the signature is not the journal's, or is too old."""
    with suppress(BadData):
        return _signing(journal, purpose).loads(text, max_age=max_age_s)
    return None


def _signing(journal: Journal, purpose: str) -> URLSafeTimedSerializer:
    """Return a serializer for one purpose, which signs with the journal's keys for links.

    All processes of a journal share the keys. Links already sent survive a rotation of the key
    until they end, unless it was rotated at once.
    """

    class ByTheJournal(TimestampSigner):
        def get_timestamp(self) -> int:
            return journal.clock() // MICROS

    return URLSafeTimedSerializer(
        list(reversed(link_keys(journal))),  # the last one signs
        salt=f"nightscreen {purpose}",
        signer=ByTheJournal,
        signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
    )


# --- links and states ---


class Refusal(StrEnum):
    """Why a link or a state does not work."""

    TAMPERED = "tampered"
    UNKNOWN = "unknown"
    USED = "used"
    EXPIRED = "expired"
    OTHER_BROWSER = "other_browser"
    OTHER_CUSTOMER = "other_customer"


@dataclass(frozen=True, slots=True)
class Link:
    """A new link."""

    # the secret in its address: anyone who has it can consent in the customer's name
    token: str = field(repr=False)
    reference: str  # names the link in logs and evidence, and gives no access
    expires_at: int  # microseconds; from then on it does not work


@dataclass(frozen=True, slots=True)
class AskedConsent:
    """The consent a customer is asked for."""

    customer_id: str = field(repr=False)
    scopes: tuple[str, ...]
    # the link's id; empty if the customer got the consent screen's own address
    link: str = field(default="", repr=False)
    reference: str = ""  # names link or state in logs and evidence; empty for a code alone


class ConsentLinks:
    """Makes links and states, and checks those that come back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records = Records(journal, ConsentLink)

    def make(self, customer_id: str, scopes: Iterable[str], *, direct: bool = False) -> Link:
        """Return a new link of the portal, or with `direct` a state for the consent screen itself.

        A direct state is bound to no browser.

        Raises:
            UsageError: there is no customer or scope, or the customer's id is a personal
                identifier.
        """
        link_id = self._add(customer_id, scopes, VALID_FOR)
        purpose, value = (_STATE, {"state": link_id}) if direct else (_LINK, link_id)
        token = signed(self._journal, purpose, value)
        return Link(token, reference_of(link_id), self._journal.clock() + span_micros(VALID_FOR))

    def _add(self, customer_id: str, scopes: Iterable[str], valid_for: timedelta) -> str:
        """Save a new link or state under the hash of its id; return the id."""
        distinct_scopes = tuple(dict.fromkeys(scopes))
        if not customer_id or not distinct_scopes:
            raise UsageError("a consent link needs a customer id and at least one scope")
        issue = judge_customer_id(customer_id)
        if issue is not None:
            raise UsageError(issue.hint)
        link_id, now = secrets.token_urlsafe(_ID_BYTES), self._journal.clock()
        link = ConsentLink(
            key=_digest("link", link_id),
            customer=self._journal.pseudonyms.customers_anywhere([customer_id]),
            customer_id=customer_id,
            scopes=distinct_scopes,
            at=now,
            expires_at=now + span_micros(valid_for),
        )
        self._records.drop_before(now - _RETENTION_MICROS)
        self._records.add([link])
        return link_id

    def resolve_link(self, token: str) -> AskedConsent | Refusal:
        """Return the consent that a link asks for, without using the link."""
        link_id = read_signed(self._journal, _LINK, token)
        if link_id is None:
            return Refusal.TAMPERED
        link = self._find(link_id)
        if isinstance(link, Refusal):
            return link
        return AskedConsent(link.customer_id, link.scopes, link_id, reference_of(link_id))

    def start_redirect(self, asked: AskedConsent, browser: str) -> str:
        """Return a signed state for a redirect that starts now in a browser."""
        state_id = self._add(asked.customer_id, asked.scopes, DEPARTURE)
        value = {"state": state_id, "link": asked.link, "browser": _digest("browser", browser)}
        return signed(self._journal, _STATE, value)

    def consume_state(
        self, state: str, browser: str | None = None, *, of: str | None = None
    ) -> AskedConsent | Refusal:
        """Use a state up and return the consent that the customer was asked for.

        A state in another browser is refused and stays usable in the right one. An operator who
        copies a state from an address names the customer (`of`) instead of a browser; if the state
        belongs to another customer, it is refused and stays usable, too. A state whose link has led
        to a consent meanwhile is refused.
        """
        value: dict[str, str] | None = read_signed(self._journal, _STATE, state)
        if value is None:
            return Refusal.TAMPERED
        digest = "" if browser is None else _digest("browser", browser)
        if of is None and not hmac.compare_digest(value.get("browser", digest), digest):
            return Refusal.OTHER_BROWSER
        link, saved = value.get("link", ""), self._find(value["state"])
        if isinstance(saved, Refusal):
            return saved
        if of is not None and saved.customer_id != of:
            return Refusal.OTHER_CUSTOMER
        if (link and self._find(link) is Refusal.USED) or not self._use(saved):
            return Refusal.USED
        reference = reference_of(link or value["state"])
        return AskedConsent(saved.customer_id, saved.scopes, link, reference)

    def _find(self, link_id: str) -> ConsentLink | Refusal:
        link = self._records.find(_digest("link", link_id))
        if link is None:
            return Refusal.UNKNOWN
        if link.used_at is not None:
            return Refusal.USED
        return Refusal.EXPIRED if self._journal.clock() >= link.expires_at else link

    def _use(self, link: ConsentLink) -> bool:
        """Mark a link or state as used; False if another process was faster."""
        now = self._journal.clock()
        return self._records.replace(link.model_copy(update={"used_at": now}), link, now)

    def consume_link(self, asked: AskedConsent) -> None:
        """Use a link up, once a consent was saved with it."""
        if asked.link and isinstance(link := self._find(asked.link), ConsentLink):
            self._use(link)

    def reissue_token(self, asked: AskedConsent) -> str:
        """Return the token of a link again; empty if there was no link."""
        return signed(self._journal, _LINK, asked.link) if asked.link else ""


def reference_of(link_id: str) -> str:
    """Return a name for a link or a state that gives no access."""
    return _digest("consent", link_id)[:_REFERENCE_DIGITS]


def _digest(what: str, secret: str) -> str:
    return hashlib.sha256(f"{what}\x1f{secret}".encode("utf-8", "replace")).hexdigest()


# --- codes ---

PATIENCE_S = 40.0
"""How long a customer waits at most; the code itself is not valid much longer."""


class ExchangeEnd(StrEnum):
    """The result of exchanging a code."""

    KEPT = "kept"  # a grant was saved
    NOTHING_GRANTED = "nothing_granted"
    """The customer granted none of the requested scopes; an earlier consent stays as it is."""
    CODE_REFUSED = "code_refused"  # the code was used, expired, or made for another address
    IN_DOUBT = "in_doubt"  # the answer was lost: the code is used up, the customer must start again
    BUSY = "busy"  # the service was not reached, or was busy; nothing was exchanged
    CAPPED = "capped"  # a cap does not allow the call
    KEY_REFUSED = "key_refused"
    """The key, the wallet or the address is wrong: the lender must fix it."""
    TEST_MODE = "test_mode"


_ENDINGS = {
    ChargeStatus.IN_DOUBT: ExchangeEnd.IN_DOUBT,
    ChargeStatus.UNREADABLE: ExchangeEnd.IN_DOUBT,
    ChargeStatus.TEST_MODE: ExchangeEnd.TEST_MODE,
    ChargeStatus.STOP: ExchangeEnd.KEY_REFUSED,
}


@dataclass(frozen=True, slots=True)
class Redeemed:
    """The result of exchanging a code, with the grant if one was saved."""

    ending: ExchangeEnd
    grant: Grant | None = None
    trouble: str = ""  # the client's code of the error, for the operator
    missing: tuple[str, ...] = ()  # scopes that were requested and not granted


async def redeem(
    journal: Journal,
    settings: Settings,
    asked: AskedConsent,
    code: str,
    *,
    channel: str,
    transport: Transport | None = None,
    patience_s: float = PATIENCE_S,
) -> Redeemed:
    """Exchange a code, save the grant and use up its link; the service's errors are results.

    `asked` has no scopes if it is not known which were requested. `patience_s` limits the wait
    before the call is sent; a call that was sent is always awaited.

    Raises:
        UsageError: the settings are wrong.
        JournalError: the journal could not be written; a received answer is in doubt there.
    """
    request = exchange(code, settings.redirect_uri)
    async with single_call(
        settings, Operation.AGGREGATOR_EXCHANGE, clock=journal.clock, transport=transport
    ) as caller:
        task = caller.task(
            request,
            kind=SubjectKind.CUSTOMER,
            subject=journal.pseudonyms.customers_anywhere([asked.customer_id]),
            keeps_body=False,
            consent_reference=f"consent-{asked.reference or 'by-hand'}",
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(caller.make_call(task), patience_s)
        stops = caller.run.stops
        is_capped = caller.short or stops.reason in (StopReason.BUDGET, StopReason.QUOTA)
    if task.reading is None:
        return Redeemed(ExchangeEnd.CAPPED if is_capped else ExchangeEnd.BUSY)
    evidence = {"channel": channel, "redirect_uri": settings.redirect_uri}
    return await asyncio.to_thread(_save_grant, journal, asked, evidence, task.reading)


def _save_grant(
    journal: Journal, asked: AskedConsent, evidence: dict[str, str], reading: CallOutcome
) -> Redeemed:
    if reading.verdict is not ChargeStatus.ANSWERED:
        refused = reading.trouble in (FailureReason.GRANT, FailureReason.REJECTED)
        default = ExchangeEnd.CODE_REFUSED if refused else ExchangeEnd.BUSY
        ending = _ENDINGS.get(reading.verdict, default)
        return Redeemed(ending, trouble=str(reading.trouble or ""))
    token = parse_answer(Operation.AGGREGATOR_EXCHANGE, reading.body)
    if token is None or _grants_nothing(token, asked.scopes):
        return Redeemed(ExchangeEnd.NOTHING_GRANTED, missing=asked.scopes)
    at = {"redeemed_at": instant_text(journal.clock())}
    link = {"link": asked.reference} if asked.reference else {}
    grant = Consents(journal).keep(
        asked.customer_id, token, asked_scopes=asked.scopes, evidence={**evidence, **link, **at}
    )
    ConsentLinks(journal).consume_link(asked)
    missing = tuple(scope for scope in asked.scopes if scope not in grant.scopes)
    return Redeemed(ExchangeEnd.KEPT, grant, missing=missing)


def _grants_nothing(token: TokenAnswer, asked: Sequence[str]) -> bool:
    """Return whether an answer grants none of the requested scopes.

    An answer without the field `scope` grants all of them, one with an empty field none.
    """
    if token.scopes is None:
        return not asked
    return not token.scopes or (bool(asked) and not set(token.scopes) & set(asked))


# --- for operators: codes entered by hand, the list of grants, revocation ---

_REVOKED = "taken back"  # the reason in the list of grants
_REFUSED = {
    Refusal.TAMPERED: "its state was not made here or was changed on the way",
    Refusal.UNKNOWN: "its state is not known here",
    Refusal.USED: "it was used already",
    Refusal.EXPIRED: "it has expired",
}


def read_code(text: str) -> tuple[str, str]:
    """Return the code and the state, if any, from a redirect's address or from a code alone.

    Raises:
        InputError: the customer refused, or there is no code.
    """
    text = text.strip()
    if "://" not in text and "?" not in text:
        if not text or any(sign in text for sign in " =&"):
            raise InputError("--code: give the code alone, or the whole address of the redirect")
        return text, ""
    query = dict(parse_qsl(urlsplit(text).query))
    if "error" in query:
        denied = query["error"] == "access_denied"
        raise InputError(
            "the customer did not allow it; nothing was saved"
            if denied
            else "the consent screen reported an error instead of a code; nothing was saved"
        )
    if not query.get("code"):
        raise InputError(
            "--code: the address holds no code; copy it whole, with what follows the ?"
        )
    return query["code"], query.get("state", "")


def consume_manual_state(journal: Journal, customer_id: str, state: str) -> AskedConsent:
    """Return the consent a customer was asked for, whose code an operator enters by hand.

    A state, which is used up, says for which scopes; without one (empty) that is not known.

    Raises:
        InputError: the state does not work, or belongs to another customer.
    """
    if not state:
        return AskedConsent(customer_id, ())
    asked = ConsentLinks(journal).consume_state(state, of=customer_id)
    if asked is Refusal.OTHER_CUSTOMER:
        raise InputError("this redirect belongs to another customer than --customer names")
    if isinstance(asked, Refusal):
        raise InputError(
            f"this redirect does not work: {_REFUSED[asked]}; ask the customer to consent again, "
            "or, if you are sure whose it is, give its code alone"
        )
    return asked


def grant_rows(journal: Journal, *, state: GrantState | None = None) -> list[dict[str, Any]]:
    """Return every grant, newest first, with the plain customer_id and without tokens."""
    now = journal.clock()
    return [
        {
            "customer_id": grant.customer_id,
            "state": grant.state.value,
            "reason": grant.reason,
            "scopes": list(grant.scopes),
            "asked_scopes": list(grant.asked_scopes),
            "granted_at": instant_text(grant.at),
            "ended_at": instant_text(grant.ended_at),
            "age_days": (now - grant.at) // DAY_MICROS,
            "refreshed_at": instant_text(grant.refreshed_at),
            "channel": grant.evidence.get("channel"),
            "link": grant.evidence.get("link"),
        }
        for grant in reversed(Consents(journal).grants(state))
    ]


def revoke(journal: Journal, customer_id: str) -> dict[str, Any]:
    """End a customer's live grant and destroy its tokens; a grant that has ended stays as it is.

    Raises:
        InputError: the customer has no consent in this journal.
        UsageError: there is no customer id.
    """
    if not customer_id:
        raise UsageError("name the customer whose consent is revoked")
    consents = Consents(journal)
    ended = consents.revoke(customer_id, _REVOKED)
    grant = next(iter(consents.history(customer_id)), None)
    if grant is None:
        raise InputError(
            "this customer has no consent here; see those there are with: nightscreen consent list"
        )
    return {
        "customer_id": customer_id,
        "revoked": ended,
        "state": grant.state.value,
        "ended_at": instant_text(grant.ended_at),
    }
