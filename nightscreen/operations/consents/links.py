"""A customer's consent: links to the consent screen, the state of each redirect, and codes.

A link can be opened any number of times until a consent is saved with it, since mail programs open
links too. Each redirect from it has its own state, which works once, for ten minutes, and in the
same browser. Both are signed and contain nothing about the customer, who is sealed in the journal.

A code is exchanged once, by a normal call: saved in the journal before it is sent, under every cap.
It is repeated only if the service certainly did not act; after a lost answer the customer is asked
again.
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
from nightscreen.journal.keyset import LINKS_LAST, link_keys
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
USUAL = timedelta(days=7)
LONGEST = LINKS_LAST
KEPT = 30 * DAY_MICROS
"""How long a link is stored after its end, so that a late customer is told why it fails."""
_REFERENCE_DIGITS = 12  # hex: 48 bits distinguish links, and are short enough to read aloud
_LINK, _STATE = "consent link", "consent state"
_ID_BYTES = 24  # 192 bits cannot be guessed


def signed(journal: Journal, purpose: str, value: object) -> str:
    """Return a short value as signed text that `read_signed` accepts for the same purpose."""
    return str(_signing(journal, purpose).dumps(value))


def read_signed(journal: Journal, purpose: str, text: str, max_age_s: int | None = None) -> Any:  # noqa: ANN401 - what was signed
    """Return a value signed by `signed`; None if the signature is wrong or too old."""
    with suppress(BadData):
        return _signing(journal, purpose).loads(text, max_age=max_age_s)
    return None


def _signing(journal: Journal, purpose: str) -> URLSafeTimedSerializer:
    """Return the signer of short values for one purpose, with the journal's link keys.

    It is the same in all processes of a journal. Links already sent survive a rotation of the key
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

    # the secret in its address; a person who has it can consent in the customer's name
    token: str = field(repr=False)
    reference: str  # its name in logs and evidence, which gives no access
    expires_at: int  # instant from which it no longer works, microseconds


@dataclass(frozen=True, slots=True)
class AskedConsent:
    """The consent a customer is asked for."""

    customer_id: str = field(repr=False)
    scopes: tuple[str, ...]
    # the link's id; empty if the customer was sent directly to the consent screen
    link: str = field(default="", repr=False)
    reference: str = ""  # the name of link or state in logs and evidence; empty for a code alone


class ConsentLinks:
    """Makes links and states, and checks those that come back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._records = Records(journal, ConsentLink)

    def make(
        self,
        customer_id: str,
        scopes: Iterable[str],
        valid_for: timedelta,
        *,
        direct: bool = False,
    ) -> Link:
        """Return a new link of the portal, or a state for the consent screen's own address.

        Such a state is not bound to a browser.

        Raises:
            UsageError: there is no customer or scope, the customer's id is an identifier in
                disguise, or the link would be valid for too long or not at all.
        """
        opened = self._open(customer_id, scopes, valid_for)
        purpose, held = (_STATE, {"state": opened}) if direct else (_LINK, opened)
        token = signed(self._journal, purpose, held)
        return Link(token, reference_of(opened), self._journal.clock() + span_micros(valid_for))

    def _open(self, customer_id: str, scopes: Iterable[str], valid_for: timedelta) -> str:
        """Return the id of a new link or state; the journal stores only its hash."""
        if not timedelta(0) < valid_for <= LONGEST:
            raise UsageError(f"a consent link is valid for at most {LONGEST.days} days")
        wanted = tuple(dict.fromkeys(scopes))
        if not customer_id or not wanted:
            raise UsageError("a consent link needs a customer id and at least one scope")
        disguised = judge_customer_id(customer_id)
        if disguised is not None:
            raise UsageError(disguised.hint)
        opened, now = secrets.token_urlsafe(_ID_BYTES), self._journal.clock()
        link = ConsentLink(
            key=_digest("link", opened),
            customer=self._journal.pseudonyms.customers_anywhere([customer_id]),
            customer_id=customer_id,
            scopes=wanted,
            at=now,
            expires_at=now + span_micros(valid_for),
        )
        self._records.drop_before(now - KEPT)
        self._records.add([link])
        return opened

    def resolve_link(self, token: str) -> AskedConsent | Refusal:
        """Return the consent that a link asks for, without using the link up."""
        link_id = read_signed(self._journal, _LINK, token)
        if link_id is None:
            return Refusal.TAMPERED
        found = self._good(link_id)
        if isinstance(found, Refusal):
            return found
        return AskedConsent(found.customer_id, found.scopes, link_id, reference_of(link_id))

    def start_redirect(self, asked: AskedConsent, browser: str) -> str:
        """Return the state of a new redirect in a browser."""
        state_id = self._open(asked.customer_id, asked.scopes, DEPARTURE)
        held = {"state": state_id, "link": asked.link, "browser": _digest("browser", browser)}
        return signed(self._journal, _STATE, held)

    def consume_state(
        self, state: str, browser: str | None = None, *, of: str | None = None
    ) -> AskedConsent | Refusal:
        """Use a state up and return the consent that the customer was asked for.

        A state from another browser is refused and not used up, since the right browser may still
        use it. If an operator enters the state from an address (`of` is the customer), no browser
        is checked, but a state of another customer is refused. A state is also refused if its link
        has led to a consent meanwhile.
        """
        held: dict[str, str] | None = read_signed(self._journal, _STATE, state)
        if held is None:
            return Refusal.TAMPERED
        here = "" if browser is None else _digest("browser", browser)
        if of is None and not hmac.compare_digest(held.get("browser", here), here):
            return Refusal.OTHER_BROWSER
        link, found = held.get("link", ""), self._good(held["state"])
        if isinstance(found, Refusal):
            return found
        if of is not None and found.customer_id != of:
            return Refusal.OTHER_CUSTOMER
        if (link and self._good(link) is Refusal.USED) or not self._use(found):
            return Refusal.USED
        reference = reference_of(link or held["state"])
        return AskedConsent(found.customer_id, found.scopes, link, reference)

    def _good(self, opened: str) -> ConsentLink | Refusal:
        found = self._records.find(_digest("link", opened))
        if found is None:
            return Refusal.UNKNOWN
        if found.used_at is not None:
            return Refusal.USED
        return Refusal.EXPIRED if self._journal.clock() >= found.expires_at else found

    def _use(self, found: ConsentLink) -> bool:
        """Use a link or state up; of two concurrent attempts, one succeeds."""
        now = self._journal.clock()
        return self._records.replace(found.model_copy(update={"used_at": now}), found, now)

    def consume_link(self, asked: AskedConsent) -> None:
        """Use a link up after a consent was saved with it."""
        if asked.link and isinstance(found := self._good(asked.link), ConsentLink):
            self._use(found)

    def reissue_token(self, asked: AskedConsent) -> str:
        """Return the token of a link again; empty if there was no link."""
        return signed(self._journal, _LINK, asked.link) if asked.link else ""


def reference_of(opened: str) -> str:
    """Return the name of a link or state, which gives no access."""
    return _digest("consent", opened)[:_REFERENCE_DIGITS]


def _digest(what: str, secret: str) -> str:
    return hashlib.sha256(f"{what}\x1f{secret}".encode("utf-8", "replace")).hexdigest()


# --- codes ---

PATIENCE_S = 40.0
"""How long a customer waits at most; the code itself is not valid much longer."""


class ExchangeEnd(StrEnum):
    """The result of a code."""

    KEPT = "kept"
    NOTHING_GRANTED = "nothing_granted"
    """The customer granted none of the scopes; an earlier consent stays unchanged."""
    CODE_REFUSED = "code_refused"  # the code was used, expired, or made for another address
    IN_DOUBT = "in_doubt"  # the answer was lost: the code is gone, and the customer is asked again
    BUSY = "busy"  # the service was not reached, or had no time; nothing was exchanged
    CAPPED = "capped"  # a cap leaves no room for the call
    KEY_REFUSED = "key_refused"
    """The key, the wallet or the address is wrong: the lender must correct it."""
    TEST_MODE = "test_mode"


_ENDINGS = {
    ChargeStatus.IN_DOUBT: ExchangeEnd.IN_DOUBT,
    ChargeStatus.UNREADABLE: ExchangeEnd.IN_DOUBT,
    ChargeStatus.TEST_MODE: ExchangeEnd.TEST_MODE,
    ChargeStatus.STOP: ExchangeEnd.KEY_REFUSED,
}


@dataclass(frozen=True, slots=True)
class Redeemed:
    """The result of a code, with the grant if one was stored."""

    ending: ExchangeEnd
    grant: Grant | None = None
    trouble: str = ""  # the client's failure reason, for the person who corrects it
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
    """Exchange a code, save the grant and use up its link; a fault of the service never raises.

    Without scopes it is unknown which were requested. A call that was sent is always waited for,
    even beyond `patience_s`.

    Raises:
        UsageError: the settings are wrong.
        JournalError: the journal could not be written; an answer that came stays in doubt.
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
    return await asyncio.to_thread(_kept, journal, asked, evidence, task.reading)


def _kept(
    journal: Journal, asked: AskedConsent, evidence: dict[str, str], reading: CallOutcome
) -> Redeemed:
    if reading.verdict is not ChargeStatus.ANSWERED:
        refused = reading.trouble in (FailureReason.GRANT, FailureReason.REJECTED)
        otherwise = ExchangeEnd.CODE_REFUSED if refused else ExchangeEnd.BUSY
        ending = _ENDINGS.get(reading.verdict, otherwise)
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

    An answer without the field grants all requested ones; an empty field grants nothing.
    """
    if token.scopes is None:
        return not asked
    return not token.scopes or (bool(asked) and not set(token.scopes) & set(asked))


# --- for operators: enter a redirect by hand, list grants, revoke a grant ---

TOOK_BACK = "taken back"
_REFUSED = {
    Refusal.TAMPERED: "its state was not made here or was changed on the way",
    Refusal.UNKNOWN: "its state is not known here",
    Refusal.USED: "it was used already",
    Refusal.EXPIRED: "it has expired",
}


def read_code(text: str) -> tuple[str, str]:
    """Return code and state of a redirect, given as the code alone or as the whole address.

    Raises:
        InputError: the customer refused, or there is no code.
    """
    text = text.strip()
    if "://" not in text and "?" not in text:
        if not text or any(sign in text for sign in " =&"):
            raise InputError("--code: give the code alone, or the whole address of the redirect")
        return text, ""
    given = dict(parse_qsl(urlsplit(text).query))
    if "error" in given:
        denied = given["error"] == "access_denied"
        raise InputError(
            "the customer did not allow it; nothing was kept"
            if denied
            else "the consent screen reported an error instead of a code; nothing was kept"
        )
    if not given.get("code"):
        raise InputError(
            "--code: the address holds no code; copy it whole, with what follows the ?"
        )
    return given["code"], given.get("state", "")


def consume_manual_state(
    journal: Journal, customer_id: str, state: str, scopes: Iterable[str]
) -> AskedConsent:
    """Return the consent behind a code that an operator enters, and use its state up.

    The operator names the customer and, if known, the scopes; a state, if there is one, overrides
    the scopes.

    Raises:
        InputError: the state does not work, or belongs to another customer.
    """
    if not state:
        return AskedConsent(customer_id, tuple(scopes))
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
    """Return every grant, newest first, with the customer's id and without its tokens."""
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
    """End a customer's live grant and delete its tokens; an ended grant stays unchanged.

    Raises:
        InputError: the customer has no consent in this journal.
        UsageError: there is no customer id.
    """
    if not customer_id:
        raise UsageError("name the customer whose consent is revoked")
    consents = Consents(journal)
    ended = consents.revoke(customer_id, TOOK_BACK)
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
