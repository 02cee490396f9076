"""Parses the service's JSON: takes bytes and returns a typed record, or None.

Numbers become `Decimal` directly; pydantic's own JSON parser would make them floats first. Status
codes and verdicts are in `client/classify.py`.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any

from nightscreen.checks.karma import KarmaListings
from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.answers import (
    BvnAccount,
    BvnDetails,
    BvnStarted,
    LoanProduct,
    LoanProducts,
    LoanStarted,
    LoanState,
    Record,
)
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.consented import RawRecords, TokenAnswer, find_records

_LISTS = frozenset({Operation.AGGREGATOR_TRANSACTIONS, Operation.AGGREGATOR_ACCOUNTS})
_TOKENS = frozenset({Operation.AGGREGATOR_EXCHANGE, Operation.AGGREGATOR_REFRESH})
_LOAN_NAMES = (("loan_reference", "reference"), ("link", "url"), ("short_link", "url"))
"""Other names that the fields of an offer may have; the specification shows none."""

_MASKS = frozenset("*•#")
_CONTACT = re.compile(r"[\w.%+*•#-]+@[\w.*•#-]+|\+?[0-9*•#xX][0-9*•#xX -]{5,}[0-9*•#xX]")
_CONTACT_CHARACTERS = 1000  # searched in each text, so that a whole page does not take long
# masking characters and digits; a text with fewer is a date or a number with a sign or two
_LEAST_COVERED, _LEAST_SHOWN = 2, 2
_BVN_BEGINS = "22"  # every BVN begins with this, and no Nigerian phone number does

AGGREGATOR_DATA = frozenset(
    operation
    for operation in Operation
    if operation.value.startswith("aggregator_") and operation not in _TOKENS
)
LOANS = frozenset({Operation.LOAN_PRODUCTS, Operation.LOAN_START, Operation.LOAN_VIEW})

AnyAnswer = Record | KarmaListings | RawRecords | LoanProducts

_META = re.compile(r'"meta"\s*:\s*(\{[^{}]*\})')
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""A half of a surrogate pair, as JSON escapes characters above U+FFFF; the other may be missing."""

_ACCOUNT_LISTS = ("accounts", "bank_accounts", "linked_accounts")
"""Fields of BVN details that may contain linked accounts; no recorded answer has both."""


def parse_answer(check: str, body: bytes) -> Any:  # noqa: ANN401 - the record of the check, or `AnyAnswer`
    """Return the record in the body of an answered call; None if there is none, as in a miss.

    The fields are those of the specification, "Resources and their fields". A BVN confirmation may
    be the details object, a list of accounts, or both together; karma one record or a list.
    """
    return read_record(check, parse_document(check, body))


def parse_json(body: bytes) -> object:
    """Return a JSON document with exact numbers, or None if the bytes are not JSON.

    Parsing is lenient, because the answer has been paid for. Invalid bytes are replaced; a byte
    order mark and line breaks inside text are accepted; NaN and Infinity become null. If a key
    occurs twice, the last one counts.
    """
    try:
        text = body.decode(json.detect_encoding(body), "replace")
        document: object = _DECODER.decode(text)
        return _whole_characters(document) if _HALF_CHARACTER.search(text) else document
    except (ValueError, RecursionError):
        return None


def find_meta(body: bytes) -> dict[str, object]:
    """Return `{"meta": …}` of a body that is not JSON as a whole, `{}` unless it has exactly one.

    So the cost is known even of an answer that is wrapped in a page, nested too deeply, or broken.
    """
    matches = _META.findall(body.decode("utf-8", "replace"))
    meta = parse_json(matches[0].encode()) if len(matches) == 1 else None
    return {"meta": meta} if isinstance(meta, dict) else {}


def parse_document(operation: str, body: bytes) -> object:
    """Return a JSON document; a bare list of area A is put into an envelope."""
    document = parse_json(body)
    if isinstance(document, list) and operation in AGGREGATOR_DATA:
        return {"data": document}
    return document


def read_record(operation: str, document: object) -> AnyAnswer | None:
    """Return the typed record of a document, None if it has no readable one."""
    if not isinstance(document, dict):
        return None
    if operation in _TOKENS:  # a bare object, or under `data`
        data = document.get("data")
        token = TokenAnswer.read(data if isinstance(data, dict) else document)
        return token if token.access_token else None
    if operation in AGGREGATOR_DATA:
        return find_records(document, only_lists=operation in _LISTS)
    if operation in LOANS:
        return _read_loan(operation, document)
    return _read_validation(operation, document.get("data"))


def _read_loan(
    operation: str, document: dict[str, Any]
) -> LoanProducts | LoanStarted | LoanState | None:
    """Return products, an offer's link or a loan."""
    data = document.get("data", document)
    if operation == Operation.LOAN_PRODUCTS:
        if isinstance(data, dict):
            data = next((value for value in data.values() if isinstance(value, list)), None)
        if not isinstance(data, list):
            return None
        products = (LoanProduct.read(product) for product in data if isinstance(product, dict))
        return LoanProducts(tuple(product for product in products if product.product_id))
    if not isinstance(data, dict):
        return None
    fields = dict(data)
    for other, name in _LOAN_NAMES:
        if other in fields and name not in fields:
            fields[name] = fields.pop(other)
    if operation == Operation.LOAN_START:
        started = LoanStarted.read(fields)
        return started if started.reference and started.url else None
    status = fields.get("status")
    if isinstance(status, dict):
        fields = {**fields, **status}
    loan = LoanState.read(fields)
    return loan if loan.status else None


def _read_validation(operation: str, data: object) -> Record | KarmaListings | None:
    if operation == Operation.BVN_START:
        started = BvnStarted(masked_contact=data) if isinstance(data, str) else None
        return started if started and not started.is_blank() else None
    if operation == Operation.BVN_FINISH:
        return _read_bvn(data)
    declared = CHECKS.get(operation)  # the check of a stored answer may no longer be installed
    return None if declared is None else declared.read(data)


def _read_bvn(data: object) -> BvnDetails | None:
    """Return BVN details with their linked accounts, or only the accounts."""
    details: dict[str, Any] = {}
    listed: list[Any] = []
    if isinstance(data, list):
        listed = data
    elif isinstance(data, dict):
        name = next((name for name in _ACCOUNT_LISTS if isinstance(data.get(name), list)), "")
        listed = data.get(name, [])
        details = {key: value for key, value in data.items() if key != name}
    accounts = tuple(BvnAccount.read(item) for item in listed if isinstance(item, dict))
    known = tuple(account for account in accounts if not account.is_blank())
    record = BvnDetails.read(details).model_copy(update={"accounts": known})
    return None if record.is_blank() else record


def shown_contact(document: object) -> str | None:
    """Return the masked phone numbers and emails anywhere in a body, or None.

    It is not known where a refused BVN start shows them: in the message, in `data`, or in a list.
    """
    contacts: dict[str, None] = {}
    nodes: list[object] = [document]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict):
            nodes += [value for name, value in node.items() if name != "meta"]
        elif isinstance(node, list):
            nodes += node
        elif isinstance(node, str):
            tokens = (token.strip(" .,-") for token in _CONTACT.findall(node[:_CONTACT_CHARACTERS]))
            contacts |= dict.fromkeys(token for token in tokens if _is_masked_contact(token))
    return ", ".join(sorted(contacts)) or None


def _is_masked_contact(token: str) -> bool:
    """Return whether this is a masked phone or email, not a masked BVN, a date or a number."""
    if "@" in token:
        return bool(_MASKS & set(token))
    masks = sum(char in _MASKS or char in "xX" for char in token)
    digits = sum(char.isdigit() for char in token)
    return masks >= _LEAST_COVERED and digits >= _LEAST_SHOWN and not token.startswith(_BVN_BEGINS)


def _exact(text: str) -> Decimal | None:
    """Return an exact number; None if it is out of range."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _nothing(_: str) -> None:
    """Return None for NaN and Infinity, which are not numbers."""


_DECODER = json.JSONDecoder(strict=False, parse_float=_exact, parse_constant=_nothing)
"""Made once: `json.loads` makes one for each text, which takes as long as to parse a short one."""


def _whole_characters(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a document without lone surrogates, which cannot be written to a file."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value
