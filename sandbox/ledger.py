"""The ledger: every request and every charge, in the order in which they were decided.

Appending is cheap (one tuple and a few counters a call); reading turns tuples into JSON shapes.
With a limit only the newest entries are kept, while the totals stay exact.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final, NamedTuple

from nightscreen.sandbox.money import naira_text

PAGE: Final = 50_000


class Entry(NamedTuple):
    """One request. Money in micro-naira; the sequence number is the position in the ledger.

    Attributes:
        at: seconds since 1970, when the outcome was decided.
        operation: name of the operation, or `unknown`.
        identity: what was looked up, in clear.
        http_status: status of the answer, 0 where none was sent.
        outcome: one word, such as `listed`, `not_found`, `low_wallet`.
        fault: name of the fault played, or empty.
        charged: what the call cost.
        balance: what the wallet held afterwards.
        delivery: `sent`, `cut` (by the sandbox) or `abandoned` (by the caller).
        attempt: how often this operation was asked about this identity; 0 without a right key.
        authorized: whether the key was right.
        in_flight: calls of all operations in flight at arrival, this one included.
    """

    at: float
    operation: str
    identity: str
    http_status: int
    outcome: str
    fault: str
    charged: int
    balance: int
    delivery: str
    attempt: int
    authorized: bool
    in_flight: int


class Totals:
    """Counters of one operation."""

    __slots__ = ("charged", "charges", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.charges = 0
        self.charged = 0

    def as_json(self) -> dict[str, object]:
        """Return the counters, money as decimal text."""
        return {
            "requests": self.requests,
            "charges": self.charges,
            "charged": naira_text(self.charged),
        }


class Ledger:
    """All entries since the last reset, or the newest of them.

    Args:
        limit: how many entries to keep; None keeps all (about 400 bytes each).
    """

    __slots__ = ("by_operation", "charged_before", "count", "entries", "everything", "repeated")

    def __init__(self, limit: int | None = None) -> None:
        self.entries: deque[Entry] = deque(maxlen=limit)
        self.count = 0
        self.everything = Totals()
        self.by_operation: dict[str, Totals] = {}
        self.charged_before: dict[tuple[str, str], int] = {}
        self.repeated = 0

    def append(self, entry: Entry) -> None:
        """Write one request down."""
        self.entries.append(entry)
        self.count += 1
        totals = self.by_operation.get(entry.operation)
        if totals is None:
            totals = self.by_operation[entry.operation] = Totals()
        totals.requests += 1
        self.everything.requests += 1
        if entry.charged:
            self._charge(totals, entry)

    def _charge(self, totals: Totals, entry: Entry) -> None:
        totals.charges += 1
        totals.charged += entry.charged
        self.everything.charges += 1
        self.everything.charged += entry.charged
        key = (entry.operation, entry.identity)
        times = self.charged_before.get(key, 0)
        self.charged_before[key] = times + 1
        self.repeated += times > 0

    def read(
        self, since: int = 0, operation: str | None = None, limit: int = PAGE
    ) -> tuple[list[dict[str, object]], int]:
        """Read entries after a sequence number.

        Args:
            since: the last sequence number already seen; 0 reads from the beginning.
            operation: only entries of this operation.
            limit: at most so many entries.

        Returns:
            The entries, and the sequence number to go on from.
        """
        forgotten = self.count - len(self.entries)
        last = max(since, forgotten)
        found: list[dict[str, object]] = []
        kept = islice(self.entries, last - forgotten, None)
        for seq, entry in enumerate(kept, last + 1):
            last = seq
            if operation is None or entry.operation == operation:
                found.append(entry_json(seq, entry))
                if len(found) >= limit:
                    break
        return found, last

    def newest(self, count: int) -> list[dict[str, object]]:
        """Read the newest entries, newest first."""
        latest = islice(reversed(self.entries), count)
        return [entry_json(self.count - age, entry) for age, entry in enumerate(latest)]

    def totals_json(self) -> dict[str, object]:
        """Return what was counted; `repeated_charges` are charges for something charged before."""
        return {
            **self.everything.as_json(),
            "repeated_charges": self.repeated,
            "by_operation": {name: one.as_json() for name, one in self.by_operation.items()},
        }


def entry_json(seq: int, entry: Entry) -> dict[str, object]:
    """Turn an entry into its JSON shape, money as decimal text."""
    shape = entry._asdict()
    shape["charged"] = naira_text(entry.charged)
    shape["balance"] = naira_text(entry.balance)
    return {"seq": seq, **shape}
