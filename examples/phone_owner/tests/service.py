"""A service that answers `GET /v2/verification/phone`, charges hits and records the requests."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

import httpx

PRICE = Decimal(10)


@dataclass
class PhoneService:
    """Lines by number, and a prepaid balance.

    Attributes:
        lines: name and type of each line, by its number in the form `+2348030000001`.
        balance: naira left.
        asked: the numbers it was asked about, each as often as it was asked.
    """

    lines: dict[str, tuple[str, str]]
    balance: Decimal = Decimal(100_000)
    asked: list[str] = field(default_factory=list)

    @property
    def charged(self) -> Decimal:
        """Naira charged in all."""
        return PRICE * sum(number in self.lines for number in self.asked)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer one request; a line that no network has costs nothing."""
        assert request.url.path == "/v2/verification/phone"
        number = request.url.params["phone"]
        self.asked.append(number)
        line = self.lines.get(number)
        if line is None:
            said = {"status": "error", "message": "Phone not found", "meta": self._meta(0)}
            return httpx.Response(404, json=said)
        self.balance -= PRICE
        data = {"phone": number, "name": line[0], "line_type": line[1]}
        return httpx.Response(
            200, json={"status": "success", "data": data, "meta": self._meta(int(PRICE))}
        )

    def _meta(self, cost: int) -> dict[str, object]:
        return {"cost": cost, "balance": str(self.balance)}
