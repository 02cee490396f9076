"""Requests of lookups, as tests write them."""

from __future__ import annotations

from nightscreen.client.wire import lookup_request
from nightscreen.schemas.checks import IdentityKind, Lookup
from nightscreen.schemas.requests import Request


def bank_account(account_number: str, bank_code: str) -> Request:
    identity = f"{bank_code}-{account_number}"
    return lookup_request(Lookup("bank_account", IdentityKind.NUBAN, identity))


def karma(kind: IdentityKind, identity: str) -> Request:
    return lookup_request(Lookup("karma", kind, identity))


def ecosystem(bvn: str) -> Request:
    return lookup_request(Lookup("ecosystem", IdentityKind.BVN, bvn))


def selfie(bvn: str, image_url: str) -> Request:
    """Ask whether a photograph is of the holder of a BVN."""
    return lookup_request(Lookup("selfie", IdentityKind.BVN, bvn, image_url))
