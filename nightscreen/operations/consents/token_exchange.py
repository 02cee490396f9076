"""Consent of customers: a code is exchanged once, and its tokens are stored in the vault.

The exchange is a call like any other: written into the journal before it is sent, under every cap.
It is repeated only where the service surely did not act: a code works once, and a lost answer
means that the customer is asked again. The result is a value, which pages and commands describe in
their own words. Links and states are in `links`.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightscreen.calling.caller import NEVER
from nightscreen.calling.lookup_task import ApiCall, LookupTask, outcome_of
from nightscreen.calling.run import known_prices
from nightscreen.client.aggregator import exchange
from nightscreen.client.api import Client
from nightscreen.client.classify import CallOutcome, ChargeStatus, FailureReason
from nightscreen.client.network import Network
from nightscreen.client.response_parser import parse_answer, parse_json
from nightscreen.client.response_rules import load_response_rules
from nightscreen.client.retry import next_attempt
from nightscreen.journal.vault import Vault
from nightscreen.runs.run import caps_of, require_service
from nightscreen.schemas.api_runs import ApiRunParameters
from nightscreen.schemas.calls import Reservation as Reserved
from nightscreen.schemas.calls import ReservationStatus
from nightscreen.schemas.checks import Operation, SubjectKind
from nightscreen.schemas.clock import instant_text, spending_day

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from nightscreen.client.transport import Transport
    from nightscreen.config.settings import Settings
    from nightscreen.journal import Journal
    from nightscreen.journal.vault import Grant
    from nightscreen.schemas.consented import TokenAnswer
    from nightscreen.schemas.requests import Request

PURPOSE = "consent"
PATIENCE_S = 40.0
"""How long a customer is kept waiting in all; the code itself does not live much longer."""
_HELD_S = 0.5


class ExchangeEnd(StrEnum):
    """The result of a code."""

    KEPT = "kept"
    NOTHING_GRANTED = "nothing_granted"
    """The customer allowed nothing of what was asked; an earlier consent stays as it is."""
    CODE_REFUSED = "code_refused"
    """The code was used, expired, or made for another address."""
    IN_DOUBT = "in_doubt"
    """The answer was lost: the code is gone, and the customer is asked again."""
    BUSY = "busy"
    """The service was not reached, or had no time; nothing was exchanged."""
    CAPPED = "capped"
    """A cap leaves no room for the call."""
    KEY_REFUSED = "key_refused"
    """The key, the wallet or the address is not right: the lender must fix it."""
    TEST_MODE = "test_mode"


@dataclass(frozen=True, slots=True)
class Redeemed:
    """The result of a code, with the grant if one was stored.

    Attributes:
        trouble: the client's word for what went wrong, for the person who fixes it.
        missing: scopes that were requested and not granted.
    """

    ending: ExchangeEnd
    grant: Grant | None = None
    trouble: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Consent:
    """A code that a customer came back with, and its meaning.

    Attributes:
        scopes: what was asked for; empty where nobody knows any more.
        reference: what the journal calls the consent, such as the link's.
        evidence: how consent was given, kept with the grant.
    """

    customer_id: str = field(repr=False)
    code: str = field(repr=False)
    scopes: tuple[str, ...]
    reference: str
    evidence: Mapping[str, Any] = field(repr=False)


_NOT_KNOWN = frozenset({ChargeStatus.IN_DOUBT, ChargeStatus.UNREADABLE})
"""Verdicts after which nobody knows whether a code was used up."""


class CodeExchange:
    """Exchanges codes, one call at a time for each customer.

    Args:
        journal: where calls and grants are kept.
        settings: the service, the redirect address, caps.
        transport: another transport than sockets, for tests.
        sleep: waits between attempts.

    Raises:
        SettingsError: the service's address or key is not set.
    """

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        *,
        transport: Transport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        require_service(settings, quote_only=False)
        self._journal = journal
        self._settings = settings
        self._vault = Vault.of(journal)
        self._redirect_uri = settings.redirect_uri
        self._attempts = settings.attempts
        self._caps = caps_of(ApiRunParameters(), settings)
        self._client = Client(
            settings.base_url,
            settings.api_key.get_secret_value(),
            timeouts_s=settings.timeout_s,
            connections=settings.max_in_flight["aggregator"],
            rules=load_response_rules(settings.own_table("manners")),
            network=Network.of(settings),
            transport=transport,
        )
        self._sleep = sleep
        self._random = random.Random()  # noqa: S311 - jitter, not a secret

    async def redeem(self, consent: Consent) -> Redeemed:
        """Exchange a code and keep the grant; never raises for what the service does.

        Raises:
            JournalError: the journal could not be written; an answer that came is in doubt there.
        """
        request = exchange(consent.code, self._redirect_uri)
        task = LookupTask(
            ApiCall(request.operation, SubjectKind.CUSTOMER, request, keeps_body=False),
            subject=self._vault.customer(consent.customer_id),
            worst_micro=known_prices(self._journal, self._settings)[1][request.operation],
            consent_reference=consent.reference,
        )
        task.bound_micro = task.worst_micro
        run_id = f"{PURPOSE}-{spending_day(self._journal.clock())}"
        waited_s = 0.0
        while True:
            reserved = await asyncio.to_thread(self._reserve, run_id, task)
            if reserved.kind in (ReservationStatus.UNAFFORDABLE, ReservationStatus.QUOTA):
                return Redeemed(ExchangeEnd.CAPPED, trouble=reserved.kind.value)
            pause_s: float | None = _HELD_S
            ended = Redeemed(ExchangeEnd.BUSY, trouble="held")
            if reserved.kind is ReservationStatus.GRANTED:
                ended, pause_s = await self._attempt(run_id, task, request, reserved, consent)
            if pause_s is None or waited_s + pause_s > PATIENCE_S:
                return ended
            waited_s += pause_s
            await self._sleep(pause_s)

    def _reserve(self, run_id: str, task: LookupTask) -> Reserved:
        """Write the intent down; calls of a day share the name `consent-DATE`, and are no run."""
        calls = self._journal.calls
        return calls.reserve(run_id, PURPOSE, [task.ask()], self._caps, since=NEVER)[0]

    async def _attempt(
        self, run_id: str, task: LookupTask, request: Request, reserved: Reserved, consent: Consent
    ) -> tuple[Redeemed, float | None]:
        """Make one attempt; return its result, and seconds to wait for another, if any."""
        sent_at = self._journal.clock()
        task.attempts += 1
        reading = await self._client.send(request)
        pause_s = next_attempt(reading, task.attempts, self._attempts, random=self._random)
        if reading.verdict in _NOT_KNOWN:
            pause_s = None
        settled = outcome_of(
            task,
            reserved,
            reading,
            ended=task.ends_as(reading, pause_s, stops=reading.stop is not None),
            sent_at=sent_at,
            now=self._journal.clock(),
        )

        def write() -> Redeemed:
            kept = self._keep(reading, consent)
            self._journal.calls.settle(run_id, [settled])
            return kept

        return await asyncio.to_thread(write), pause_s

    def _keep(self, reading: CallOutcome, consent: Consent) -> Redeemed:
        """Keep the grant before the call is written off: a process may end between the two."""
        if reading.verdict is not ChargeStatus.ANSWERED:
            return Redeemed(_ending(reading), trouble=str(reading.trouble or ""))
        token = parse_answer(Operation.AGGREGATOR_EXCHANGE, reading.body)
        if token is None or _grants_nothing(token, reading.body, consent.scopes):
            return Redeemed(ExchangeEnd.NOTHING_GRANTED, missing=consent.scopes)
        grant = self._vault.keep(
            consent.customer_id,
            token,
            asked_scopes=consent.scopes,
            evidence={**consent.evidence, "redeemed_at": instant_text(self._journal.clock())},
        )
        missing = tuple(scope for scope in consent.scopes if scope not in grant.scopes)
        return Redeemed(ExchangeEnd.KEPT, grant, missing=missing)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.aclose()


def _ending(reading: CallOutcome) -> ExchangeEnd:
    if reading.verdict in _NOT_KNOWN:
        return ExchangeEnd.IN_DOUBT
    if reading.verdict is ChargeStatus.TEST_MODE:
        return ExchangeEnd.TEST_MODE
    if reading.verdict is ChargeStatus.STOP:
        return ExchangeEnd.KEY_REFUSED
    refused = reading.trouble in (FailureReason.GRANT, FailureReason.REJECTED)
    return ExchangeEnd.CODE_REFUSED if refused else ExchangeEnd.BUSY


def _grants_nothing(token: TokenAnswer, body: bytes, asked: Sequence[str]) -> bool:
    """Return whether an answer names no scope of those asked for; saying nothing of scopes is all.

    A scope that is there and empty grants nothing (OAuth 2.0, 5.1: left out where all is granted).
    """
    named = (token.scope or "").replace(",", " ").split()
    if named:
        return bool(asked) and not set(named) & set(asked)
    if not asked:
        return True
    document = parse_json(body)
    data = document.get("data") if isinstance(document, dict) else None
    for part in (data, document):
        if isinstance(part, dict) and "access_token" in part:
            return part.get("scope") is not None
    return False
