"""Pure builders of requests: an operation of the specification in, method, path and body out.

The validation area is in this module; `aggregator` has area A and `loans` area C. What does not
belong here: sending (`client/api.py`), headers and addresses (`client/transport.py`), reading
answers (`client/response_parser.py`). Identifiers appear percent-encoded in paths, never in a repr.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from nightscreen.schemas.checks import Check, IdentityKind, Operation
from nightscreen.schemas.errors import UnsupportedIdentityError, UsageError

if TYPE_CHECKING:
    from nightscreen.schemas.checks import Lookup

VERIFICATION = "/v2/verification"


@dataclass(frozen=True, slots=True)
class Request:
    """One call to the service, ready to be written.

    Attributes:
        operation: the priced operation it belongs to.
        method: HTTP method.
        path: path below the base address, percent-encoded; it may hold an identifier.
        body: JSON text, None where the operation has no body.
        asked: the identifier asked about, so that an answer for somebody else is noticed; of an
            account with its bank, as in `058-0123456789`.
        access_token: the customer's token, sent in place of the key (specification, area A,
            authentication 3); empty where the key is sent.
    """

    operation: Operation
    method: str
    path: str
    body: bytes | None
    asked: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)

    def __repr__(self) -> str:
        """Name the operation without the person."""
        return f"Request({self.operation}, {self.method} ***)"


def lookup_request(lookup: Lookup) -> Request:
    """Build the request that answers a lookup.

    Raises:
        UnsupportedIdentityError: the identity is an image.
        UsageError: the identity does not fit the check.
    """
    match lookup.check:
        case Check.BANK_ACCOUNT:
            bank_code, _, account_number = lookup.identity.partition("-")
            return bank_account(account_number, bank_code)
        case Check.KARMA:
            return karma(lookup.kind, lookup.identity)
        case Check.ECOSYSTEM:
            return ecosystem(lookup.identity)
        case Check.SELFIE:
            return selfie(lookup.identity, lookup.image_url or "")


def bank_account(account_number: str, bank_code: str) -> Request:
    """Build a bank account verification (specification, area B: `/bankaccount/bvn`)."""
    require(account_number, "a bank account lookup needs an account number (058-0123456789)")
    require(bank_code, "a bank account lookup needs a bank code (058-0123456789)")
    return Request(
        Operation.BANK_ACCOUNT,
        "POST",
        f"{VERIFICATION}/bankaccount/bvn",
        json_body(account_number=account_number, bank_code=bank_code),
        asked=f"{bank_code}-{account_number}",
    )


def karma(kind: IdentityKind, identity: str) -> Request:
    """Build a blacklist lookup (specification, area B: `/karma/:identity`).

    Raises:
        UnsupportedIdentityError: the identity is an image; the specification does not show how
            one is carried in the path (area B, rule 5).
    """
    if kind is IdentityKind.IMAGE:
        raise UnsupportedIdentityError(
            "karma cannot be asked by image: the service does not say how one is sent; "
            "use bvn, phone, email, domain or nuban"
        )
    path = f"{VERIFICATION}/karma/{segment(identity)}"
    return Request(Operation.KARMA, "GET", path, None, asked=identity)


def ecosystem(bvn: str) -> Request:
    """Build a borrower history lookup (specification, area B: `/ecosystem/:bvn`)."""
    path = f"{VERIFICATION}/ecosystem/{segment(bvn)}"
    return Request(Operation.ECOSYSTEM, "GET", path, None, asked=bvn)


def selfie(bvn: str, image_url: str) -> Request:
    """Build an image match (specification, area B: `/bvn/:bvn/selfies`)."""
    require(image_url, "an image match needs the address of an image")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/selfies"
    return Request(Operation.SELFIE, "POST", path, json_body(image=image_url), asked=bvn)


def bvn_start(bvn: str, contact: str) -> Request:
    """Build the first BVN call, which sends the customer an OTP (specification, area B rule 1)."""
    require(contact, "a BVN request needs the customer's phone number or email")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/accounts"
    return Request(Operation.BVN_START, "POST", path, json_body(contact=contact), asked=bvn)


def bvn_finish(bvn: str, otp: str) -> Request:
    """Build the second BVN call, with the customer's OTP (specification, area B rule 1)."""
    require(otp, "a BVN confirmation needs the one-time password")
    path = f"{VERIFICATION}/bvn/{segment(bvn)}/accounts"
    return Request(Operation.BVN_FINISH, "PUT", path, json_body(otp=otp), asked=bvn)


def segment(identity: str) -> str:
    """Return an identifier as one path segment; nothing in it is left to be read as a path."""
    if not identity.strip(". \t\r\n"):
        raise UsageError("a lookup needs an identifier; leave the row out where it has none")
    try:
        return quote(identity, safe="")
    except UnicodeEncodeError:
        raise UsageError("an identifier holds broken characters; correct the input file") from None


def json_body(**fields: object) -> bytes:
    """Return a compact JSON body."""
    return json.dumps(fields, separators=(",", ":")).encode()


def require(value: str, message: str) -> None:
    """Refuse an empty field: the service answers one with 504 after a minute."""
    if not value.strip():
        raise UsageError(message)
