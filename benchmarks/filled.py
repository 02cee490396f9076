"""Nights without a network: what a plan needs is answered straight into the journal, in bulk.

Through the journal's own way in (a block of intents, then a group of outcomes), with bodies as the
sandbox would send them, from a wallet that falls by what they cost. For benchmarks of everything
but asking; nothing is measured here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from nightscreen.sandbox.people import account_of, ecosystem_of, karma_of
from nightscreen.sandbox.wire import ABSENT, envelope, meta_text
from nightscreen.schemas.calls import CallResult, CallState, Caps, LookupStatus, ReserveRequest
from nightscreen.schemas.checks import Outcome

if TYPE_CHECKING:
    import pyarrow as pa

    from nightscreen.runs.screening_run import ScreeningRun

_BLOCK = 5000
_MICRO = 1_000_000
_WALLET_MICRO = 10**9 * _MICRO
_PRICES = {"bank_account": 10, "karma": 10, "ecosystem": 25}
_HITS = {
    "bank_account": (Outcome.FOUND, Outcome.NOT_FOUND),
    "karma": (Outcome.LISTED, Outcome.CLEAR),
    "ecosystem": (Outcome.FOUND, Outcome.NOT_FOUND),
}


@dataclass(slots=True)
class _Wallet:
    """What is left of the money, in micro-naira."""

    left_micro: int = _WALLET_MICRO

    def pay(self, cost_micro: int) -> int:
        """Take a cost and return what is left."""
        self.left_micro -= cost_micro
        return self.left_micro


def answer_needed(run: ScreeningRun) -> int:
    """Answer every lookup that a planned run needs; return how many there were."""
    wallet = _Wallet()
    for _, piece in run.needed.pieces():
        for check in _HITS:
            mine = piece.filter(pc.equal(piece["check"], check))
            for start in range(0, mine.num_rows, _BLOCK):
                _answer_block(run, check, mine.slice(start, _BLOCK), wallet)
    if run.lookups is not None:
        numbers = range(run.lookups.first_id, run.lookups.end_id)
        run.journal.lookups.put_back(numbers, LookupStatus.PAID)
    return len(run.needed)


def _answer_block(run: ScreeningRun, check: str, block: pa.Table, wallet: _Wallet) -> None:
    calls, run_id = run.journal.calls, run.run_id
    columns = (block[name].to_pylist() for name in ("kind", "subject", "identity"))
    rows = list(zip(*columns, strict=True))
    price = _PRICES[check] * _MICRO
    asks = [ReserveRequest(check, kind, subject, price, None, 1) for kind, subject, _ in rows]
    purpose = run.wanted.purpose.value
    grants = calls.reserve(run_id, purpose, asks, Caps(), since=run.freshness.since)
    settled = []
    for ask, grant, (_, _, identity) in zip(asks, grants, rows, strict=True):
        outcome, cost_micro, body = _answer(check, identity)
        settled.append(
            CallResult(
                grant.call_id,
                ask,
                grant.intent_at,
                CallState.ANSWERED,
                run.clock(),
                status=200,
                outcome=outcome.value,
                cost_micro=cost_micro,
                balance_micro=wallet.pay(cost_micro),
                sent_at=grant.intent_at,
                final=True,
                body=body,
            )
        )
    calls.settle(run_id, settled)


def _answer(check: str, identity: str) -> tuple[Outcome, int, bytes]:
    """Return outcome, cost in micro-naira and body of what the sandbox knows of an identity."""
    record: dict[str, object] | None
    if check == "bank_account":
        bank_code, _, number = identity.partition("-")
        record = account_of(bank_code, number)
    else:
        record = karma_of(identity) if check == "karma" else ecosystem_of(identity)
    hit, miss = _HITS[check]
    if record is None:
        return miss, 0, envelope("success", "Nothing was found", ABSENT)
    cost_micro = _PRICES[check] * _MICRO
    return hit, cost_micro, envelope("success", "Successful", record, meta_text(cost_micro, _MICRO))
