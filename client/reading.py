"""The border between the service's JSON and our records: bytes in, typed answer or None out.

Numbers become `Decimal` on their way out of the text; pydantic's own JSON reader would take them
through a float. What does not belong here: status codes and verdicts (`client/classify.py`).
"""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, Literal, overload

from schemas.answers import (
    Answer,
    BankAccountAnswer,
    BvnAccount,
    BvnDetails,
    BvnStarted,
    EcosystemRecord,
    KarmaListing,
    SelfieAnswer,
)
from schemas.checks import Check, Operation

SAME_DIGITS = 10
"""Identifiers are compared on this many last digits: `+234` and `0` before a phone are one."""


@overload
def parse_answer(
    check: Literal[Check.BANK_ACCOUNT, Operation.BANK_ACCOUNT], body: bytes
) -> BankAccountAnswer | None: ...
@overload
def parse_answer(
    check: Literal[Check.KARMA, Operation.KARMA], body: bytes
) -> KarmaListing | None: ...
@overload
def parse_answer(
    check: Literal[Check.ECOSYSTEM, Operation.ECOSYSTEM], body: bytes
) -> EcosystemRecord | None: ...
@overload
def parse_answer(
    check: Literal[Check.SELFIE, Operation.SELFIE], body: bytes
) -> SelfieAnswer | None: ...
@overload
def parse_answer(check: Check | Operation, body: bytes) -> Answer | None: ...
def parse_answer(check: Check | Operation, body: bytes) -> Answer | None:
    """Return the record an answered call holds; None where there is none, as in a miss.

    Shapes are those of the specification, "Resources and their fields"; a BVN confirmation is read
    as the details object or as a list of accounts.
    """
    return read_record(Operation(check.value), parse_json(body))


def parse_json(body: bytes) -> object:
    """Return a JSON document with exact numbers, or None where the bytes are no JSON."""
    try:
        return json.loads(body, parse_float=_exact, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def read_record(operation: Operation, document: object) -> Answer | None:
    """Return the typed record of a document, None where it holds no readable one."""
    data = document.get("data") if isinstance(document, dict) else None
    if operation is Operation.BVN_START:
        started = BvnStarted(masked_contact=data) if isinstance(data, str) else None
        return started if started and not started.is_blank() else None
    if operation is Operation.BVN_FINISH and isinstance(data, list):
        accounts = tuple(BvnAccount.read(item) for item in data if isinstance(item, dict))
        return tuple(account for account in accounts if not account.is_blank()) or None
    return _read_object(operation, data) if isinstance(data, dict) else None


def is_other_person(operation: Operation, asked: str, answer: Answer) -> bool:
    """Tell whether a record is plainly about another identifier than the one asked about.

    Digits the service masks (zeros, asterisks) agree with anything, and so do identifiers of
    different kinds: in doubt the record is taken for the right one.
    """
    if operation is Operation.KARMA and isinstance(answer, KarmaListing):
        return _differ(asked, answer.karma_identity)
    if operation is Operation.ECOSYSTEM and isinstance(answer, EcosystemRecord):
        return _differ(asked, answer.bvn)
    if operation is Operation.BANK_ACCOUNT and isinstance(answer, BankAccountAnswer):
        return _differ(asked, answer.account_number)
    if operation is Operation.BVN_FINISH and isinstance(answer, BvnDetails):
        return _differ(asked, answer.bvn)
    return False


def _differ(asked: str, answered: str | None) -> bool:
    if not answered:
        return False
    if "@" in asked and "@" in answered:
        masked = "*" in answered
        return not masked and asked.strip().casefold() != answered.casefold()
    ours, theirs = _digits(asked), _digits(answered)
    if not ours or not theirs or len(ours) < SAME_DIGITS or len(theirs) < SAME_DIGITS:
        return False
    pairs = zip(ours[-SAME_DIGITS:], theirs[-SAME_DIGITS:], strict=True)
    return any(mine != other and other not in "0*" for mine, other in pairs)


def _digits(identifier: str) -> str:
    """Return the digits and masks of an identifier made of nothing else, or an empty text."""
    bare = identifier.translate({ord(mark): None for mark in " +-()"})
    return bare if bare.isascii() and bare.replace("*", "0").isdigit() else ""


def _read_object(operation: Operation, data: dict[str, Any]) -> Answer | None:
    """Return the record an object holds; None where not one specified field could be read."""
    record: BankAccountAnswer | KarmaListing | EcosystemRecord | SelfieAnswer | BvnDetails
    match operation:
        case Operation.BANK_ACCOUNT:
            record = BankAccountAnswer.read(data)
        case Operation.KARMA:
            record = KarmaListing.read(_flat_karma(data))
        case Operation.ECOSYSTEM:
            record = EcosystemRecord.read(data)
        case Operation.SELFIE:
            record = SelfieAnswer.read(data)
        case Operation.BVN_FINISH:
            record = BvnDetails.read(data)
        case Operation.BVN_START:
            return None
    return None if record.is_blank() else record


def _flat_karma(data: dict[str, Any]) -> dict[str, Any]:
    """Lay the nested objects of a karma record flat (specification, karma record)."""
    flat = dict(data)
    for outer, inner, name in (
        ("karma_type", "karma", "karma_type"),
        ("karma_identity_type", "identity_type", "identity_type"),
    ):
        held = flat.pop(outer, None)
        flat[name] = held.get(inner) if isinstance(held, dict) else held
    entity = flat.pop("reporting_entity", None)
    if isinstance(entity, dict):
        flat["reporting_entity_name"] = entity.get("name")
        flat["reporting_entity_email"] = entity.get("email")
    else:
        flat["reporting_entity_name"] = entity
    return flat


def _exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("a number beyond every bound") from None


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is no JSON")
