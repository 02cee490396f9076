"""Money of the sandbox: the wallet, prices, and the ledger of every request and charge.

All amounts are whole micro-naira, so that nothing is ever rounded. `sandbox.request_pipeline`
decides whether a call is charged.
"""

from __future__ import annotations

from collections import Counter, deque
from decimal import Decimal
from itertools import islice
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from nightscreen.sandbox.fiction import SERVICE

MICROS: Final = 1_000_000
PRICES: Final[dict[str, int]] = {name: naira * MICROS for name, naira in SERVICE["prices"].items()}
Amount = Annotated[Decimal, Field(ge=0, max_digits=27, decimal_places=6)]
"""Naira, no finer than a millionth."""


def micros_of(amount: Decimal) -> int:
    """Return naira as whole micro-naira."""
    return int(amount.scaleb(6))


def naira(micros: int) -> Decimal:
    """Return micro-naira as naira, exactly."""
    return Decimal(micros).scaleb(-6)


def naira_text(micros: int) -> str:
    """Write micro-naira as plain decimal text in naira, without needless zeros."""
    text = f"{naira(micros):f}"
    return text.rstrip("0").rstrip(".")


class Wallet:
    """A balance in micro-naira that other consumers may draw on too.

    Attributes:
        balance: what is left now.
        previous: what was left before the last charge.
        calls: priced calls so far, charged or not.
    """

    def __init__(self, opening: int) -> None:
        self.opening = self.balance = self.previous = opening
        self.topped_up = self.drained = self.calls = 0

    def charge(self, amount: int) -> None:
        """Take the price of one call, which the wallet must hold."""
        self.previous = self.balance
        self.balance -= amount

    def drain(self, amount: int) -> None:
        """Let another consumer take an amount, or the whole balance if that is less."""
        taken = min(amount, self.balance)
        self.balance -= taken
        self.drained += taken

    def top_up(self, amount: int) -> None:
        """Pay money in."""
        self.balance += amount
        self.topped_up += amount

    def set_balance(self, amount: int) -> None:
        """Set the balance to an amount; the difference counts as topped up or drained."""
        if amount >= self.balance:
            self.top_up(amount - self.balance)
        else:
            self.drain(self.balance - amount)

    def as_json(self) -> dict[str, object]:
        """Return the wallet, money as decimal text."""
        money = ("opening", "balance", "topped_up", "drained")
        shown: dict[str, object] = {name: naira_text(getattr(self, name)) for name in money}
        return {**shown, "calls": self.calls}


class Entry(NamedTuple):
    """One request, as it was answered."""

    at: float  # seconds since 1970
    operation: str
    identity: str  # in plain text, because nobody here exists
    http_status: int  # 0 where nothing was sent
    outcome: str  # in one word
    fault: str  # name of the fault that was met, empty for none
    charged: int  # micro-naira
    balance: int  # micro-naira, after the call
    delivery: str  # `sent`, `cut` by the sandbox, or `abandoned` by the caller
    attempt: int  # how often the same was asked, this request included; 0 without authorisation
    authorized: bool
    in_flight: int  # calls of all operations in flight at arrival, this one included


class Ledger:
    """All entries since the last reset, or the newest of them; the totals hold all."""

    def __init__(self, limit: int | None = None) -> None:
        self.entries: deque[Entry] = deque(maxlen=limit)
        self.count = 0
        self.repeated = 0  # charges for something charged before
        self._totals: dict[str, Counter[str]] = {}
        self._charged_before: set[tuple[str, str]] = set()

    def append(self, entry: Entry) -> None:
        """Record one request."""
        self.entries.append(entry)
        self.count += 1
        totals = self._totals.setdefault(entry.operation, Counter())
        totals["requests"] += 1
        if entry.charged:
            totals["charges"] += 1
            totals["charged"] += entry.charged
            key = (entry.operation, entry.identity)
            self.repeated += key in self._charged_before
            self._charged_before.add(key)

    def read(self, since: int = 0, operation: str | None = None) -> list[dict[str, object]]:
        """Read the entries after a sequence number, money as decimal text."""
        forgotten = self.count - len(self.entries)
        kept = islice(self.entries, max(0, since - forgotten), None)
        found: list[dict[str, object]] = []
        for seq, entry in enumerate(kept, max(since, forgotten) + 1):
            if operation in (None, entry.operation):
                money = {name: naira_text(getattr(entry, name)) for name in ("charged", "balance")}
                found.append({"seq": seq, **entry._asdict(), **money})
        return found

    def totals_json(self) -> dict[str, object]:
        """Return what was counted, whole and by operation; money as decimal text."""
        return {
            **_counted(sum(self._totals.values(), Counter())),
            "repeated_charges": self.repeated,
            "by_operation": {name: _counted(totals) for name, totals in self._totals.items()},
        }


def _counted(totals: Counter[str]) -> dict[str, object]:
    shown: dict[str, object] = {name: totals[name] for name in ("requests", "charges")}
    return {**shown, "charged": naira_text(totals["charged"])}
