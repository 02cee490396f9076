"""A world whose service also answers what the example's check asks; and its customers."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import httpx
from service import PhoneService  # type: ignore[import-not-found]  # of the example's tests

from tests import recomputed
from tests.screening import World, customer

# What computes a report's figures again reads nothing of the product: it is told of the check.
recomputed.ANSWERED["phone_owner"] = ("verified", "mismatch", "not_found")
recomputed.IDENTITY["phone_owner"] = ("phone",)

CHECKS = ["karma", "phone_owner"]
POLICY = "examples/phone_owner/policy.toml"


def phone(number: int) -> str:
    """Return a customer's number, in the service's form."""
    return f"+23480300{number:05d}"


def borrowers(number: int) -> list[dict[str, str]]:
    """Return made-up customers with a phone each."""
    return [customer(each, phone=phone(each)) for each in range(1, number + 1)]


def lines(number: int) -> dict[str, tuple[str, str]]:
    """Return who holds each line: every fifth is somebody else's, every seventh nobody's."""
    found = {}
    for each in range(1, number + 1):
        row = customer(each + 1000 if each % 5 == 0 else each)
        found[phone(each)] = (f"{row['first_name']} {row['last_name']}", "mobile")
    return {line: held for line, held in found.items() if int(line[-5:]) % 7}


class _Both(httpx.AsyncBaseTransport):
    """Carries a call to whichever service answers it."""

    def __init__(self, phones: PhoneService, other: httpx.AsyncBaseTransport) -> None:
        self._phones, self._other = httpx.MockTransport(phones), other

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        is_phone = request.url.path.endswith("/phone")
        to = self._phones if is_phone else self._other
        return await to.handle_async_request(request)


class PhoneWorld(World):
    """A world of the sandbox's and of a service that knows phones."""

    def __init__(self, folder: Path, number: int = 20) -> None:
        super().__init__(folder)
        self.phones = PhoneService(lines(number))

    def transport(self) -> httpx.AsyncBaseTransport:
        """Return what carries the calls of a night to both."""
        return _Both(self.phones, super().transport())

    @property
    def charged(self) -> str:
        """Return what both charged in all, as decimal text."""
        return str(Decimal(super().charged) + self.phones.charged)
