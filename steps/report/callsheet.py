"""The call sheet: a run's calls as the auditor reads them (`calls.parquet`), and as the books do.

One reading of the journal's rows, several accounts of it: table, latency, books, doubt. Pure.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from schemas.calls import CallState
from schemas.money import from_micro
from schemas.rows import INSTANT
from steps.report.books import BookedCall, Books
from steps.results.enriched import COST, WORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Row

    from storage.outputs import RunFolder

# `attempts` counts the attempts of a lookup up to this call; `outcome` is what was answered, and
# where nothing was, how the call ended (`state` says only the latter).
CALLS = pa.schema(
    [
        pa.field("call_id", pa.int64()),
        pa.field("run_id", WORD),
        pa.field("pseudonym", pa.string()),
        pa.field("check", WORD),
        pa.field("identity_kind", WORD),
        pa.field("purpose", WORD),
        pa.field("consent_reference", pa.string()),
        pa.field("attempts", pa.int32()),
        pa.field("state", WORD),
        pa.field("outcome", WORD),
        pa.field("trouble", WORD),
        pa.field("http_status", pa.int32()),
        pa.field("cost", COST),
        pa.field("worst_cost", COST),
        pa.field("balance", COST),
        pa.field("intent_at", INSTANT),
        pa.field("sent_at", INSTANT),
        pa.field("settled_at", INSTANT),
        pa.field("latency_ms", pa.float64()),
    ]
)

_PERCENTILES = (50, 95, 99)


@dataclass(slots=True)
class CheckCalls:
    """One check's calls in numbers."""

    attempts: int = 0
    cost_micro: int = 0
    in_doubt_micro: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    by_attempt: Counter[int] = field(default_factory=Counter)
    latencies_ms: array[float] = field(default_factory=lambda: array("f"))

    @property
    def retries(self) -> int:
        """Return how many calls repeated an earlier one of the same lookup."""
        return sum(number for attempt, number in self.by_attempt.items() if attempt > 1)

    def latency(self) -> dict[str, float | None]:
        """Return percentiles of the time answers took, in milliseconds."""
        if not self.latencies_ms:
            return {f"p{each}": None for each in _PERCENTILES}
        values = np.percentile(np.frombuffer(self.latencies_ms, np.float32), _PERCENTILES)
        return {f"p{p}": round(float(v), 1) for p, v in zip(_PERCENTILES, values, strict=True)}


@dataclass(slots=True)
class CallSheet:
    """Takes a run's calls block by block and gives back each block as a table.

    Attributes:
        checks: numbers by check.
        identities: attempts and cost by check and identity.
        books: balances and what they lost.
    """

    checks: dict[str, CheckCalls] = field(default_factory=lambda: defaultdict(CheckCalls))
    identities: dict[tuple[str, str], CheckCalls] = field(
        default_factory=lambda: defaultdict(CheckCalls)
    )
    books: Books = field(default_factory=Books)

    @property
    def cost_micro(self) -> int:
        """Return what is known to have been charged."""
        return sum(each.cost_micro for each in self.checks.values())

    @property
    def in_doubt_micro(self) -> int:
        """Return the worst cost of every attempt whose answer was lost."""
        return sum(each.in_doubt_micro for each in self.checks.values())

    def take(self, rows: Sequence[Row[Any]]) -> pa.Table:
        """Enter a block of calls, in the order of their intents, and return it as a table."""
        sent = [row for row in rows if row.state != CallState.NOT_SENT.value]
        for row in sent:
            self._enter(row)
        self.books.add(_booked(sent))
        return calls_table(rows)

    def _enter(self, row: Row[Any]) -> None:
        check = self.checks[row.check]
        check.attempts += 1
        check.by_attempt[row.attempt] += 1
        check.cost_micro += row.cost_micro or 0
        identity = self.identities[(row.check, row.kind)]
        identity.attempts += 1
        identity.cost_micro += row.cost_micro or 0
        unknown = row.state == CallState.ANSWERED.value and row.cost_micro is None
        if row.state in {CallState.IN_DOUBT.value, CallState.INTENT.value} or unknown:
            check.in_doubt_micro += row.reserved_micro
        if row.trouble is not None:
            check.troubles[row.trouble] += 1
        if row.state == CallState.ANSWERED.value and row.sent_at is not None:
            check.latencies_ms.append((row.settled_at - row.sent_at) / 1000)


def write_call_sheet(folder: RunFolder, blocks: Iterable[Sequence[Row[Any]]]) -> CallSheet:
    """Write `calls.parquet`, one row per call, and return the accounts of them."""
    sheet = CallSheet()
    folder.write_parquet("calls.parquet", CALLS, (sheet.take(rows) for rows in blocks))
    sheet.books.close()
    return sheet


def _booked(rows: Iterable[Row[Any]]) -> Iterable[BookedCall]:
    for row in rows:
        sent = row.sent_at if row.sent_at is not None else row.intent_at
        settled = row.settled_at if row.settled_at is not None else sent
        yield BookedCall(
            sent_at=sent,
            settled_at=settled,
            state=row.state,
            reserved_micro=row.reserved_micro,
            cost_micro=row.cost_micro,
            balance_micro=row.balance_micro,
        )


def calls_table(rows: Sequence[Row[Any]]) -> pa.Table:
    """Return calls as a table of the schema `CALLS`."""
    columns: dict[str, list[Any]] = {
        "call_id": [row.call_id for row in rows],
        "run_id": [row.run_id for row in rows],
        "pseudonym": [bytes(row.subject).hex() for row in rows],
        "check": [row.check for row in rows],
        "identity_kind": [row.kind for row in rows],
        "purpose": [row.purpose for row in rows],
        "consent_reference": [row.consent_reference for row in rows],
        "attempts": [row.attempt for row in rows],
        "state": [row.state for row in rows],
        "outcome": [row.outcome or row.state for row in rows],
        "trouble": [row.trouble for row in rows],
        "http_status": [row.status for row in rows],
        "cost": [None if row.cost_micro is None else from_micro(row.cost_micro) for row in rows],
        "worst_cost": [from_micro(row.reserved_micro) for row in rows],
        "balance": [
            None if row.balance_micro is None else from_micro(row.balance_micro) for row in rows
        ],
        "intent_at": [row.intent_at for row in rows],
        "sent_at": [row.sent_at for row in rows],
        "settled_at": [row.settled_at for row in rows],
        "latency_ms": [
            None
            if row.sent_at is None or row.settled_at is None
            else (row.settled_at - row.sent_at) / 1000
            for row in rows
        ],
    }
    arrays = []
    for each in CALLS:
        plain = (
            pa.string() if each.type == WORD else pa.int64() if each.type == INSTANT else each.type
        )
        array = pa.array(columns[each.name], plain)
        arrays.append(
            array.dictionary_encode().cast(WORD) if each.type == WORD else array.cast(each.type)
        )
    return pa.table(arrays, schema=CALLS)
