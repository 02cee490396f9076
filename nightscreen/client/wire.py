"""Pure builders of requests of area B, validation: an operation in, method, path and body out.

Lookups are built as their check declares; `aggregator` has area A and `loans` area C. What does not
belong here: sending (`client/api.py`), headers and addresses (`client/transport.py`), reading
answers (`client/response_parser.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.checks.registry import CHECKS
from nightscreen.schemas.checks import Operation
from nightscreen.schemas.requests import VERIFICATION, Request, json_body, require, segment

if TYPE_CHECKING:
    from nightscreen.schemas.checks import Lookup


def lookup_request(lookup: Lookup) -> Request:
    """Build the request that answers a lookup.

    Raises:
        UsageError: the identity is an image.
        UsageError: the identity does not fit the check.
    """
    return CHECKS[lookup.check].request(lookup)


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
