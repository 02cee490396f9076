"""Decides from a response, by one table of rules, what a call came to; a pure function.

The table is in `data/manners.toml` and loaded by `client/response_rules.py`; records are parsed in
`client/response_parser.py`. At the end are the rules of retries. The caller decides whether another
attempt is affordable, and does the waiting, during which a lookup should occupy no slot.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import TYPE_CHECKING

from nightscreen.checks.registry import CHECKS
from nightscreen.client.response_parser import find_meta, parse_document, read_record, shown_contact
from nightscreen.client.response_rules import (
    BodyShape,
    Break,
    ChargeStatus,
    Exchange,
    FailureReason,
    ResponseRule,
    ResponseRules,
    StopScope,
    StopSignal,
    load_response_rules,
)
from nightscreen.schemas.answers import BvnDetails, read_number
from nightscreen.schemas.calls import UNREAD_TROUBLES
from nightscreen.schemas.checks import IdentityKind, Operation, Outcome
from nightscreen.schemas.money import MOST_COST_MICRO, to_micro
from nightscreen.values.whose import bvn_named, names_the_same

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping

    from nightscreen.schemas.requests import Request

MESSAGE_CHARACTERS = 1000
"""Only this much of a message is matched; a longer text is a page, not a message."""

SERVER_FAULT = 500  # this status and those above are faults of the service

_WITH_DIGITS = re.compile(r"[\w-]*\d[\w-]*")  # numbers, times, and identifiers of calls

MOST_NAIRA = 10**12
"""A balance beyond this is a fault of the service and is taken as unknown."""

BODY_KEPT = frozenset({ChargeStatus.ANSWERED, ChargeStatus.UNREADABLE})

_SUCCESS = range(200, 300)  # the class 2xx of HTTP


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of one call."""

    verdict: ChargeStatus  # says whether the call was charged
    # the answer as far as it is known without the row; only if the call was answered
    outcome: Outcome | None = None
    trouble: FailureReason | None = None  # why there is no answer; None if the call was answered
    # the lookup may be tried again, if the caller can afford it
    retry: bool = False
    strain: bool = False  # a sign of overload, for the adaptive cap
    stop: StopSignal | None = None  # why further calls are useless, with `stop_scope`
    stop_scope: StopScope | None = None
    retry_after_s: float | None = None  # seconds the service asks us to wait
    # micro-naira the service says it charged; zero if the table says that nothing was charged;
    # None if unknown. In test mode nothing is charged: a stated cost is then an example, and
    # counts as zero.
    cost_micro: int | None = None
    # the service stated a cost too large for any counter; `cost_micro` is None
    absurd_cost: bool = False
    balance_micro: int | None = None  # micro-naira left in the wallet, if the answer said so
    status: int | None = None  # HTTP status, if there was one
    # the raw body of an answered call, readable or not; the first part of one that is too large;
    # otherwise empty
    body: bytes = b""
    names_asked: bool = False  # the answer names the person asked about
    # the registered phone or email, masked, that a refused BVN start shows
    contact: str | None = None
    foreign: bytes = b""  # digest of a record about somebody else, the same for the same record
    rule: str = ""  # name of the rule that decided, for whoever corrects the table
    # digest that groups server faults with the same text, for faults that may have been charged;
    # otherwise empty
    fault: str = ""
    # waits until it is known that nothing follows the response on its connection, and returns the
    # final result; None if there is nothing to wait for
    confirm: Callable[[], Awaitable[CallOutcome]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def is_unread(self) -> bool:
        """Return whether a response arrived but could not be read; its cost may be known or not.

        A response that was lost on its way does not count.
        """
        in_doubt = self.verdict is ChargeStatus.IN_DOUBT and self.trouble in UNREAD_TROUBLES
        return in_doubt or self.verdict is ChargeStatus.UNREADABLE

    def __repr__(self) -> str:
        """Describe the result without its body."""
        word = self.outcome or self.trouble
        return f"CallOutcome({self.verdict}, {word}, status={self.status}, rule={self.rule!r})"


@dataclass(frozen=True, slots=True)
class _Look:
    """The parts of a body that rules can test."""

    document: dict[str, object]
    shapes: frozenset[BodyShape]
    body_status: str
    message: str
    names_asked: bool = False
    contact: str | None = None

    def satisfies(self, rule: ResponseRule) -> bool:
        if rule.shows_contact and self.contact is None:
            return False
        if rule.keys and not any(key in self.document for key in rule.keys):
            return False
        if rule.body_status and self.body_status not in rule.body_status:
            return False
        if rule.body and self.shapes.isdisjoint(rule.body):
            return False
        patterns = rule.message_matches
        return not patterns or any(pattern.search(self.message) for pattern in patterns)


class Classifier:
    """Decides the results of calls by one table of rules."""

    def __init__(self, rules: ResponseRules | None = None) -> None:
        from nightscreen.values.banks import bank_table  # noqa: PLC0415 - it loads Arrow

        self._rules = (rules or load_response_rules()).rules
        bank_table()  # loaded now, so that a broken table is reported before anything is sent
        self._shortlists: dict[tuple[str, Break | int | None], tuple[ResponseRule, ...]] = {}

    def read(self, request: Request, exchange: Exchange) -> CallOutcome:
        """Return the result of a call; never raises, whatever the service sent.

        Statuses and texts are matched by `data/manners.toml`. Cost and balance come from `meta`
        (specification, validation response envelope).
        """
        look = _look(request, exchange)
        rules = self._shortlist(request.operation, exchange.broken or exchange.status)
        rule = next(rule for rule in rules if look.satisfies(rule))
        cost = _meta(look.document, "cost")
        absurd = cost is not None and cost > MOST_COST_MICRO
        cost = None if absurd else cost
        verdict = _verdict(rule, exchange.status, cost)
        if verdict is ChargeStatus.TEST_MODE:
            cost, absurd = (0 if absurd or cost is not None else None), False
        elif cost is None and not absurd and rule.cost_naira is not None:
            cost = to_micro(rule.cost_naira)
        came_unread = verdict is ChargeStatus.IN_DOUBT and rule.trouble in UNREAD_TROUBLES
        is_kept = came_unread or verdict in BODY_KEPT
        return CallOutcome(
            verdict=verdict,
            outcome=Outcome.UNREADABLE if verdict is ChargeStatus.UNREADABLE else rule.outcome,
            trouble=rule.trouble,
            retry=rule.retry and verdict is not ChargeStatus.UNREADABLE,
            strain=rule.strain,
            stop=rule.stop,
            stop_scope=rule.stop_scope,
            retry_after_s=exchange.retry_after_s,
            cost_micro=cost,
            absurd_cost=absurd,
            balance_micro=_meta(look.document, "balance"),
            status=exchange.status,
            body=_kept(request, exchange, look) if is_kept else b"",
            names_asked=look.names_asked,
            contact=look.contact if rule.shows_contact else None,
            foreign=_digest(look) if rule.trouble is FailureReason.WRONG_IDENTITY else b"",
            rule=rule.name,
            fault=_fault(exchange, look) if rule.verdict is ChargeStatus.IN_DOUBT else "",
        )

    def _shortlist(self, operation: str, happened: Break | int | None) -> tuple[ResponseRule, ...]:
        """Return the rules that can apply; cached, because a run has few combinations."""
        key = (operation, happened)
        rules = self._shortlists.get(key)
        if rules is None:
            rules = tuple(rule for rule in self._rules if rule.may_apply(operation, happened))
            self._shortlists[key] = rules
        return rules


def _verdict(rule: ResponseRule, status: int | None, stated_micro: int | None) -> ChargeStatus:
    """Return a rule's verdict, given the cost that the answer states.

    A success with a stated cost is not in doubt, whatever is wrong with the rest of the answer. An
    unreadable answer without a stated cost is in doubt.
    """
    success = status is not None and status in _SUCCESS
    if rule.verdict is ChargeStatus.IN_DOUBT and success and stated_micro is not None:
        return ChargeStatus.UNREADABLE
    if rule.verdict is ChargeStatus.UNREADABLE and stated_micro is None:
        return ChargeStatus.IN_DOUBT
    return rule.verdict


def _kept(request: Request, exchange: Exchange, look: _Look) -> bytes:
    """Return a body as it is stored: without the fields that its check must not keep.

    If such a body cannot be parsed, nothing of it is kept.
    """
    declared = CHECKS.get(request.operation)
    if declared is None or not declared.not_kept:
        return exchange.body
    if BodyShape.UNREADABLE in look.shapes:
        return b""
    data = look.document.get("data")
    records = data if isinstance(data, list) else [data]
    for record in records:
        if isinstance(record, dict):
            for name in declared.not_kept:
                record.pop(name, None)
    return json.dumps(look.document, default=str).encode()


def _look(request: Request, exchange: Exchange) -> _Look:
    whole = exchange.broken is None
    document = parse_document(request.operation, exchange.body) if whole else None
    if not isinstance(document, dict):
        meta = find_meta(exchange.body) if whole else {}
        return _Look(meta, frozenset({BodyShape.UNREADABLE}), "", "")
    message = " ".join(_text(document, "message")[:MESSAGE_CHARACTERS].split())
    shapes, names_asked = _shapes(request, document, message)
    return _Look(
        document=document,
        shapes=shapes,
        body_status=_text(document, "status").casefold(),
        message=message,
        names_asked=names_asked,
        contact=shown_contact(document) if request.operation == Operation.BVN_START else None,
    )


def _digest(look: _Look) -> bytes:
    """Return a digest of only the record: cost, balance and message differ from call to call.

    A miss about somebody else has no record; its message is digested.
    """
    record = json.dumps(look.document.get("data") or look.message, sort_keys=True, default=str)
    return sha256(record.encode()).digest()


def _shapes(
    request: Request, document: dict[str, object], message: str
) -> tuple[frozenset[BodyShape], bool]:
    """Return what a document contains, and whether it names the person asked about."""
    if not document:
        return frozenset({BodyShape.EMPTY}), False
    record = read_record(request.operation, document)
    if record is None:
        is_own = bvn_named(request.asked, message)
        if is_own is False:
            return frozenset({BodyShape.OTHER_MISS}), False
        nothing = document.get("data") in (None, "", [], {})
        shapes = {BodyShape.NO_RECORD, *([BodyShape.NO_DATA] if nothing else [])}
        return frozenset(shapes), is_own is True
    if is_of_another_person(request.operation, request.asked, record):
        return frozenset({BodyShape.OTHER_PERSON}), False
    return frozenset({BodyShape.RECORD}), names_somebody(request.operation, record)


def is_of_another_person(operation: str, asked: str, record: object) -> bool:
    """Return whether a record is about another identifier than the one asked about.

    A check decides this for its own records. An account is asked by `bank_code-account_number`, or
    by the number alone. A BVN record with only accounts names nobody and contradicts nothing.
    """
    if not asked:
        return False
    if (declared := CHECKS.get(operation)) is not None:
        return declared.is_another(asked, record)
    if isinstance(record, BvnDetails):
        return not names_the_same(IdentityKind.BVN, asked, record.bvn)
    return False


def names_somebody(operation: str, record: object) -> bool:
    """Return whether a record names its person; a score, a token or an offer does not."""
    if (declared := CHECKS.get(operation)) is not None:
        return declared.names_somebody
    return isinstance(record, BvnDetails) and record.bvn is not None


def _fault(exchange: Exchange, look: _Look) -> str:
    """Return a digest of a server fault without numbers, which may differ from call to call."""
    if exchange.broken is not None or exchange.status is None or exchange.status < SERVER_FAULT:
        return ""
    text = look.message or exchange.body[:MESSAGE_CHARACTERS].decode("latin-1")
    fault_text = f"{exchange.status} {_WITH_DIGITS.sub('', text).casefold()}"
    return sha256(fault_text.encode()).hexdigest()[:16]


def _text(document: dict[str, object], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _meta(document: dict[str, object], key: str) -> int | None:
    """Return an amount of `meta` in micro-naira; a balance may be below zero, a cost may not."""
    meta = document.get("meta")
    amount = read_number(meta.get(key)) if isinstance(meta, dict) else None
    if amount is None or (key == "cost" and amount < 0):
        return None
    if abs(amount) > MOST_NAIRA:
        return to_micro(Decimal(MOST_NAIRA)) if key == "cost" else None
    return to_micro(amount)


# --- retries: how long to wait before a lookup is tried again, and when to give up ---


@dataclass(frozen=True, slots=True)
class Backoff:
    """The longest wait in seconds: before the second attempt, and before any attempt."""

    first_s: float
    longest_s: float


BY_TROUBLE: Mapping[FailureReason, Backoff] = {
    FailureReason.NOT_SENT: Backoff(first_s=0.5, longest_s=30),
    FailureReason.CUT: Backoff(first_s=0.5, longest_s=30),
    FailureReason.UNREADABLE: Backoff(first_s=1, longest_s=30),
    FailureReason.TIMEOUT: Backoff(first_s=1, longest_s=60),
    FailureReason.OVERLOAD: Backoff(first_s=2, longest_s=60),
    FailureReason.REFUSED: Backoff(first_s=2, longest_s=60),
}
OTHERWISE = Backoff(first_s=2, longest_s=60)  # as for an overload, which waits longest

MOST_DOUBLINGS = 16  # bounds 2**attempt; `longest_s` is reached after six

LONE_WAIT_S = 300.0
"""Limit for the `Retry-After` of a single answer, because an ad-hoc night ends after ten minutes
without an answer. If a second answer also asks for longer, `calling/stops.py` waits longer."""


def next_attempt(
    reading: CallOutcome, attempt: int, attempts: int, *, random: random.Random
) -> float | None:
    """Return seconds to wait before the next attempt, or None to give up.

    Waits grow with each attempt, by class of failure, with full jitter, so that calls refused
    together are not retried together.
    """
    if not reading.retry or attempt >= attempts:
        return None
    backoff = BY_TROUBLE.get(reading.trouble, OTHERWISE) if reading.trouble else OTHERWISE
    doubled = backoff.first_s * 2 ** min(attempt - 1, MOST_DOUBLINGS)
    jitter = random.uniform(0, min(backoff.longest_s, doubled))
    return min(reading.retry_after_s or 0.0, LONE_WAIT_S) + jitter
