"""The border between the service's JSON and our records: bytes in, typed answer or None out.

Numbers become `Decimal` on their way out of the text; pydantic's own JSON reader would take them
through a float. What does not belong here: status codes and verdicts (`client/classify.py`).
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
"""Other names under which the fields of an offer may come: the specification shows none."""

_MASKS = frozenset("*•#")
_CONTACT = re.compile(r"[\w.%+*•#-]+@[\w.*•#-]+|\+?[0-9*•#xX][0-9*•#xX -]{5,}[0-9*•#xX]")
_CONTACT_CHARACTERS = 1000  # read of each text: bounds what the pattern costs on a whole page
# signs that hide, and digits: with fewer it is a date, or a number with a sign or two
_LEAST_COVERED, _LEAST_SHOWN = 2, 2
_BVN_BEGINS = "22"  # no Nigerian phone number begins so, and every BVN does

AGGREGATOR_DATA = frozenset(
    operation
    for operation in Operation
    if operation.value.startswith("aggregator_") and operation not in _TOKENS
)
LOANS = frozenset({Operation.LOAN_PRODUCTS, Operation.LOAN_START, Operation.LOAN_VIEW})

AnyAnswer = Record | KarmaListings | RawRecords | LoanProducts

_META = re.compile(r'"meta"\s*:\s*(\{[^{}]*\})')
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""How JSON text escapes a character beyond the first 65,536, in two halves; one may be missing."""

_ACCOUNT_LISTS = ("accounts", "bank_accounts", "linked_accounts")
"""Where linked accounts may be beside BVN details: the two were never recorded together."""


def parse_answer(check: str, body: bytes) -> Any:  # noqa: ANN401 - the record of the check, or `AnyAnswer`
    """Return the record an answered call holds; None where there is none, as in a miss.

    Shapes are those of the specification, "Resources and their fields"; a BVN confirmation is read
    as the details object, as a list of accounts, or as both together, karma as one record or a list
    of them.
    """
    return read_record(check, parse_document(check, body))


def parse_json(body: bytes) -> object:
    """Return a JSON document with exact numbers, or None where the bytes are no JSON.

    Read leniently, because the answer has been paid for: a byte that belongs to no character is
    replaced, so that a name with one is just a name; a byte order mark, line breaks inside text and
    numbers such as NaN, which become null, are accepted. Where a key comes twice, the last counts.
    """
    try:
        text = body.decode(json.detect_encoding(body), "replace")
        document: object = _DECODER.decode(text)
        return _whole_characters(document) if _HALF_CHARACTER.search(text) else document
    except (ValueError, RecursionError):
        return None


def find_meta(body: bytes) -> dict[str, object]:
    """Return `{"meta": …}` of a body that is no JSON as a whole, `{}` where it has not just one.

    An answer wrapped in a page, nested too deep or broken in its record still states its cost.
    """
    found = _META.findall(body.decode("utf-8", "replace"))
    meta = parse_json(found[0].encode()) if len(found) == 1 else None
    return {"meta": meta} if isinstance(meta, dict) else {}


def parse_document(operation: str, body: bytes) -> object:
    """Return a JSON document; a bare list of area A is treated as if it were in an envelope."""
    document = parse_json(body)
    if isinstance(document, list) and operation in AGGREGATOR_DATA:
        return {"data": document}
    return document


def read_record(operation: str, document: object) -> AnyAnswer | None:
    """Return the typed record of a document, None where it holds no readable one."""
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
    """Return products, an offer's link or a loan; all but products are under `data`."""
    data = document.get("data", document)
    if operation == Operation.LOAN_PRODUCTS:
        if isinstance(data, dict):
            data = next((value for value in data.values() if isinstance(value, list)), None)
        if not isinstance(data, list):
            return None
        found = (LoanProduct.read(product) for product in data if isinstance(product, dict))
        return LoanProducts(tuple(product for product in found if product.product_id))
    if not isinstance(data, dict):
        return None
    named = dict(data)
    for other, name in _LOAN_NAMES:
        if other in named and name not in named:
            named[name] = named.pop(other)
    if operation == Operation.LOAN_START:
        started = LoanStarted.read(named)
        return started if started.reference and started.url else None
    status = named.get("status")
    if isinstance(status, dict):
        named = {**named, **status}
    loan = LoanState.read(named)
    return loan if loan.status else None


def _read_validation(operation: str, data: object) -> Record | KarmaListings | None:
    if operation == Operation.BVN_START:
        started = BvnStarted(masked_contact=data) if isinstance(data, str) else None
        return started if started and not started.is_blank() else None
    if operation == Operation.BVN_FINISH:
        return _read_bvn(data)
    declared = CHECKS.get(operation)  # a stored answer's check may be installed no longer
    return None if declared is None else declared.read(data)


def _read_bvn(data: object) -> BvnDetails | None:
    """Return BVN details with the accounts linked to them, or the accounts alone."""
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
    """Return the masked phone numbers and emails that a body shows anywhere, or None.

    Nobody recorded where a refused BVN start shows them: it may be the message, `data`, or a list.
    """
    found: dict[str, None] = {}
    held: list[object] = [document]
    while held:
        node = held.pop()
        if isinstance(node, dict):
            held += [value for name, value in node.items() if name != "meta"]
        elif isinstance(node, list):
            held += node
        elif isinstance(node, str):
            tokens = (token.strip(" .,-") for token in _CONTACT.findall(node[:_CONTACT_CHARACTERS]))
            found |= dict.fromkeys(token for token in tokens if _is_masked_contact(token))
    return ", ".join(sorted(found)) or None


def _is_masked_contact(token: str) -> bool:
    """Tell a masked phone or email apart from a masked BVN, a date, or a number with signs."""
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
    """Replace NaN and Infinity, which are no numbers."""


_DECODER = json.JSONDecoder(strict=False, parse_float=_exact, parse_constant=_nothing)
"""Made once: `json.loads` makes one for each text, which takes as long as a short answer."""


def _whole_characters(value: object) -> Any:  # noqa: ANN401 - any JSON value
    """Return a document without halves of characters, which no file can be written with."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return value
