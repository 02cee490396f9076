"""The raw result of a call, and the table of rules that says what it means.

The rules are in `data/manners.toml`, where a lender can correct a line. Their fields and values are
defined here, and the table is loaded and checked here; `client/classify.py` applies it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import Operation, Outcome
from nightscreen.schemas.shipped import DATA, read_model

if TYPE_CHECKING:
    from pathlib import Path

MANNERS = DATA / "manners.toml"
STATUS_CLASS = re.compile(r"[1-9]xx")
STATUS_RANGE = range(100, 1000)  # three digits, also beyond HTTP's own 599


class Break(StrEnum):
    """How an exchange ended without a complete response."""

    NOT_SENT = "not_sent"  # no byte of the request left this machine
    TIMEOUT = "timeout"  # the request may have left; the time for the whole call was up
    CUT = "cut"  # the request may have left; the connection was lost during the response
    TOO_LARGE = "too_large"  # the response exceeded the size limit


@dataclass(frozen=True, slots=True)
class Exchange:
    """One call: the response, or how it failed."""

    status: int | None = None  # HTTP status, if it arrived
    # the decoded body; only the first part if it is too large; otherwise empty if `broken` is set
    body: bytes = b""
    broken: Break | None = None  # how the exchange failed; None if the response was complete
    retry_after_s: float | None = None  # seconds the service asks us to wait, if it does

    def __repr__(self) -> str:
        """Describe the exchange without its content."""
        return f"Exchange(status={self.status}, broken={self.broken}, body={len(self.body)} bytes)"


class ChargeStatus(StrEnum):
    """The result of one call, which also says whether it was charged."""

    ANSWERED = "answered"
    UNREADABLE = "unreadable"
    """Cannot be read, and cost what the body states; without a stated cost it is in doubt."""
    NOT_SENT = "not_sent"
    NOT_CHARGED = "not_charged"
    IN_DOUBT = "in_doubt"
    TEST_MODE = "test_mode"
    STOP = "stop"


class FailureReason(StrEnum):
    """Why a call has no answer."""

    NOT_SENT = "not_sent"
    REFUSED = "refused"
    OVERLOAD = "overload"
    TIMEOUT = "timeout"
    CUT = "cut"
    UNREADABLE = "unreadable"
    WRONG_IDENTITY = "wrong_identity"
    REJECTED = "rejected"
    AUTH = "auth"
    NO_RIGHT = "no_right"  # the key is known but may not ask this
    UNPRICED = "unpriced"
    BALANCE = "balance"
    ADDRESS = "address"
    TEST_MODE = "test_mode"
    GRANT = "grant"  # a code or a refresh token was refused
    TOKEN = "token"  # noqa: S105 - the name of a failure, not a secret
    """An access token was refused: expired, revoked, or without the scope."""
    DISTRIBUTOR = "distributor"  # the key belongs to no distributor of loans
    NO_PRODUCT = "no_product"  # the service has no such loan product
    UNREACHABLE = "unreachable"  # no one-time password could be sent to the customer
    WRONG_CONTACT = "wrong_contact"
    """The given contact is not the registered one, which the service shows masked."""
    OTP_WRONG = "otp_wrong"
    OTP_EXPIRED = "otp_expired"
    OTP_UNASKED = "otp_unasked"  # the service knows of no open BVN request of the customer


class StopSignal(StrEnum):
    """Why further calls are useless."""

    AUTH = "auth"
    BALANCE = "balance"
    ADDRESS = "address"
    TEST_MODE = "test_mode"


class StopScope(StrEnum):
    """How far a stop reaches."""

    CHECK = "check"
    RUN = "run"


class BodyShape(StrEnum):
    """What a body contains."""

    RECORD = "record"
    OTHER_PERSON = "other_person"
    OTHER_MISS = "other_miss"
    """No record, and a message that names another BVN than the one asked about."""
    NO_RECORD = "no_record"
    NO_DATA = "no_data"
    """A kind of `no_record`: "data" is absent, null or empty, so nothing is left unread."""
    EMPTY = "empty"
    UNREADABLE = "unreadable"


OTHER_CHECKS = "other checks"
"""In a rule's operations: all checks that no rule of the table names."""


def _operation(name: str) -> str:
    known = (*CHECKS, *(each.value for each in Operation), OTHER_CHECKS)
    if name not in known:
        raise ValueError(f"there is no operation {name}; there are {', '.join(known)}")
    return name


def _status(value: object) -> object:
    if isinstance(value, str) and STATUS_CLASS.fullmatch(value.casefold()):
        return value.casefold()
    if type(value) is int and value in STATUS_RANGE:  # no boolean
        return value
    raise ValueError("is no status code; write 404, or 5xx in quotes")


def _pattern(value: object) -> object:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is no expression; write some words of the message")
    try:
        return re.compile(value, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None


def _word(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value


StatusCode = Annotated[int | str, BeforeValidator(_status)]
Pattern = Annotated[Any, BeforeValidator(_pattern)]
Word = Annotated[str, BeforeValidator(_word)]


class ResponseRule(BaseModel):
    """One rule of the table; the top of `data/manners.toml` explains each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1)
    operations: tuple[Annotated[str, AfterValidator(_operation)], ...] = ()
    broken: tuple[Break, ...] = ()
    status: tuple[StatusCode, ...] = ()
    body_status: tuple[Word, ...] = ()
    message_matches: tuple[Pattern, ...] = ()
    keys: tuple[str, ...] = ()
    body: tuple[BodyShape, ...] = ()
    shows_contact: bool = False
    verdict: ChargeStatus
    outcome: Outcome | None = None
    trouble: FailureReason | None = None
    retry: bool = False
    strain: bool = False
    stop: StopSignal | None = None
    stop_scope: StopScope | None = None
    cost_naira: Decimal | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _conclusions_agree(self) -> Self:
        answered = self.verdict is ChargeStatus.ANSWERED
        if answered != (self.outcome is not None):
            raise ValueError("`outcome` belongs to the verdict answered, and only there")
        if self.outcome is Outcome.UNREADABLE:
            raise ValueError('write verdict = "unreadable" with a `trouble`, not an outcome')
        if answered == (self.trouble is not None):
            raise ValueError("`trouble` says why there is no answer; an answered rule has none")
        stops = self.verdict in (ChargeStatus.STOP, ChargeStatus.TEST_MODE)
        if stops != (self.stop is not None) or stops != (self.stop_scope is not None):
            raise ValueError("`stop` and `stop_scope` belong to the verdicts stop and test_mode")
        if self.retry and (answered or stops):
            raise ValueError("`retry` makes no sense after an answer or a stop")
        if self.broken and self.looks_at_body():
            raise ValueError("a broken exchange has no body to look at")
        found = self.outcome not in (None, Outcome.CLEAR, Outcome.NOT_FOUND)
        if found and self.body != (BodyShape.RECORD,):
            raise ValueError('an answer with evidence needs body = ["record"]')
        return self

    def looks_at_body(self) -> bool:
        """Return whether any condition is about the body."""
        return self.shows_contact or bool(
            self.body_status or self.message_matches or self.keys or self.body
        )

    def may_apply(self, operation: str, happened: Break | int | None) -> bool:
        """Return whether the conditions that are not about the body are met."""
        if self.operations and operation not in self.operations:
            return False
        if self.broken:
            return happened in self.broken
        if isinstance(happened, Break):
            return not self.status and not self.looks_at_body()
        if not self.status:
            return True
        return happened is not None and (
            happened in self.status or f"{happened // 100}xx" in self.status
        )


class ResponseRules(BaseModel):
    """The whole table, in the order in which rules are tried."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rules: tuple[ResponseRule, ...] = Field(min_length=1)

    @field_validator("rules")
    @classmethod
    def _of_other_checks(cls, rules: tuple[ResponseRule, ...]) -> tuple[ResponseRule, ...]:
        """Replace `OTHER_CHECKS` by the names of the checks that no rule names."""
        named = {operation for rule in rules for operation in rule.operations}
        others = tuple(name for name in CHECKS if name not in named)
        return tuple(
            rule.model_copy(update={"operations": others})
            if OTHER_CHECKS in rule.operations
            else rule
            for rule in rules
            if others or OTHER_CHECKS not in rule.operations
        )

    @model_validator(mode="after")
    def _ends_in_doubt(self) -> Self:
        last = self.rules[-1]
        conditions = last.operations or last.broken or last.status or last.looks_at_body()
        if conditions or last.verdict is not ChargeStatus.IN_DOUBT:
            raise ValueError("the last rule must have no condition and the verdict in_doubt")
        names = [rule.name for rule in self.rules]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise ValueError(f'two rules are named "{twice}"')
        return self


def load_response_rules(path: Path | None = None) -> ResponseRules:
    """Return the table of `data/manners.toml`, or of a file like it.

    Raises:
        SettingsError: the file cannot be read, is not TOML, or has a mistake. The message names
            the file, and the line if the mistake is in one rule.
    """
    return _package_rules() if path is None else read_model(path, ResponseRules)


@cache
def _package_rules() -> ResponseRules:
    return read_model(MANNERS, ResponseRules)
