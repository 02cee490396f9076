"""The call log: a run's calls for the auditor (`calls.parquet`), and for the report.

One reading of the journal's rows, several accounts of it: table, latency, balance, doubt. Pure.
Rows are read into columns, a block at a time, and every account is of columns.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.config.declarations import UNDECLARED, Declarations
from nightscreen.files.memory_tuning import trim_memory
from nightscreen.files.outputs import CALLS_FILE
from nightscreen.journal.money import RESERVING
from nightscreen.report.reconciliation import BalanceReconciliation, WalletCalls
from nightscreen.report.timeline import NO_BALANCE
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.enriched import COST, WORD, naira_of_micro
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nightscreen.calling.run import Run

_CALLS_READ = 16_384

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
        pa.field("lawful_basis", WORD),
        pa.field("basis_reference", WORD),
        pa.field("basis_assessed_on", pa.date32()),
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


_COLUMNS = {
    "call_id": pa.int64(),
    "run_id": pa.string(),
    "check": pa.string(),
    "kind": pa.string(),
    "subject": pa.binary(),
    "purpose": pa.string(),
    "attempt": pa.int32(),
    "consent_reference": pa.string(),
    "intent_at": pa.int64(),
    "reserved_micro": pa.int64(),
    "state": pa.string(),
    "sent_at": pa.int64(),
    "settled_at": pa.int64(),
    "trouble": pa.string(),
    "status": pa.int32(),
    "outcome": pa.string(),
    "cost_micro": pa.int64(),
    "balance_micro": pa.int64(),
}
"""The columns read from the journal's calls."""


@dataclass(slots=True)
class CheckCalls:
    """One check's calls in numbers; `retries` repeated an earlier one of the same lookup."""

    attempts: int = 0
    cost_micro: int = 0
    in_doubt_micro: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    retries: int = 0
    _latencies_ms: array[float] = field(default_factory=lambda: array("f"))
    _latency: dict[str, float | None] | None = None

    def add(self, group: Mapping[str, Any]) -> None:
        """Enter calls that are alike (`_Calls.groups`)."""
        number = group["call_id_count"]
        self.attempts += number
        self.cost_micro += group["cost_sum"]
        self.in_doubt_micro += group["doubt_sum"]
        self.retries += number if group["attempt"] > 1 else 0
        if group["trouble"] is not None:
            self.troubles[group["trouble"]] += number

    def take_latencies(self, took_us: NDArray[np.int64]) -> None:
        """Enter how long some answers took."""
        self._latencies_ms.frombytes((took_us / 1000).astype(np.float32).tobytes())

    def close(self) -> None:
        """Reckon up what is known by all calls only, and keep nothing of each."""
        self._latency = self.latency()
        self._latencies_ms = array("f")

    def latency(self) -> dict[str, float | None]:
        """Return percentiles of the time answers took, in milliseconds."""
        if self._latency is not None:
            return self._latency
        if not self._latencies_ms:
            return {f"p{percentile}": None for percentile in _PERCENTILES}
        values = np.percentile(np.frombuffer(self._latencies_ms, np.float32), _PERCENTILES)
        return {f"p{p}": round(float(v), 1) for p, v in zip(_PERCENTILES, values, strict=True)}


@dataclass(slots=True)
class CallLog:
    """Takes a run's calls block by block and gives back each block as a table.

    Attributes:
        checks: numbers by check.
        reconciliation: balances and what they lost.
        declared: on what the lender declares that calls rest.
    """

    checks: dict[str, CheckCalls] = field(default_factory=lambda: defaultdict(CheckCalls))
    reconciliation: BalanceReconciliation = field(default_factory=BalanceReconciliation)
    declared: Declarations = field(default_factory=Declarations)

    @property
    def cost_micro(self) -> int:
        """Return what is known to have been charged."""
        return sum(calls.cost_micro for calls in self.checks.values())

    @property
    def in_doubt_micro(self) -> int:
        """Return the worst cost of every attempt whose answer was lost."""
        return sum(calls.in_doubt_micro for calls in self.checks.values())

    def take(self, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
        """Enter a block of calls, in the order of their intents, and return it as a table."""
        calls = _Calls.of(rows)
        for group in calls.groups():
            self.checks[group["check"]].add(group)
        timed = calls.is_in(CallState.ANSWERED) & calls.there("sent_at")
        checks = calls.rows["check"].dictionary_encode()
        for number, check in enumerate(checks.dictionary.to_pylist()):
            mine = checks.indices.to_numpy() == number
            self.checks[check].take_latencies(calls.took_us()[timed & mine])
        self.reconciliation.add(calls.of_wallet())
        return calls.table(self.declared)

    def close(self) -> None:
        """Reckon up what is known by all calls only, and keep nothing of each."""
        self.reconciliation.close()
        for calls in self.checks.values():
            calls.close()


def write_call_log(run: Run) -> CallLog:
    """Write `calls.parquet`, one row per call of a run, and return the accounts of them."""
    call_log = CallLog(declared=run.declared)
    blocks = run.journal.runs.call_columns(run.run_id, list(_COLUMNS), block=_CALLS_READ)
    run.folder.write_parquet(CALLS_FILE, CALLS, (call_log.take(rows) for rows in blocks))
    trim_memory()
    call_log.close()
    return call_log


@dataclass(frozen=True, slots=True)
class _Calls:
    """A block of the journal's calls as columns (`_COLUMNS`)."""

    rows: pa.RecordBatch

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> _Calls:
        """Return the columns of some of the journal's rows."""
        values = zip(zip(*rows, strict=True), _COLUMNS.values(), strict=True)
        columns = [pa.array(value, kind) for value, kind in values]
        return cls(pa.RecordBatch.from_arrays(columns, list(_COLUMNS)))

    def numbers(self, name: str, missing: int = 0) -> NDArray[np.int64]:
        """Return a column of whole numbers, another one where there is none."""
        found: NDArray[np.int64] = pc.fill_null(self.rows[name], missing).to_numpy()
        return found

    def there(self, name: str) -> NDArray[np.bool_]:
        """Return which calls have something in a column."""
        return _mask(pc.is_valid(self.rows[name]))

    def is_in(self, state: CallState) -> NDArray[np.bool_]:
        """Return which calls are in a state."""
        return _mask(pc.equal(self.rows["state"], state.value))

    def doubt(self) -> NDArray[np.int64]:
        """Return what is still reserved for each call: no answer is known, or not what it cost."""
        reserving = _mask(pc.is_in(self.rows["state"], value_set=pa.array(sorted(RESERVING))))
        unknown = reserving & ~self.there("cost_micro")
        found: NDArray[np.int64] = np.where(unknown, self.numbers("reserved_micro"), 0)
        return found

    def groups(self) -> list[dict[str, Any]]:
        """Return how many calls were sent that are alike, what they cost, and what is in doubt."""
        alike = ["check", "kind", "attempt", "trouble"]
        table = pa.Table.from_batches([self.rows.select(["call_id", *alike])])
        table = table.append_column("cost", pa.array(self.numbers("cost_micro")))
        table = table.append_column("doubt", pa.array(self.doubt()))
        sent = table.filter(pa.array(~self.is_in(CallState.NOT_SENT)))
        sums = [("call_id", "count"), ("cost", "sum"), ("doubt", "sum")]
        found: list[dict[str, Any]] = (
            sent.group_by(alike, use_threads=False).aggregate(sums).to_pylist()
        )
        return found

    def took_us(self) -> NDArray[np.int64]:
        """Return how long each call took; nothing that counts where it was not sent or settled."""
        return self.numbers("settled_at") - self.numbers("sent_at")

    def of_wallet(self) -> WalletCalls:
        """Return what the reconciliation needs of the calls that were sent."""
        attempted = ~self.is_in(CallState.NOT_SENT)
        sent = np.where(self.there("sent_at"), self.numbers("sent_at"), self.numbers("intent_at"))
        settled = np.where(self.there("settled_at"), self.numbers("settled_at"), sent)
        return WalletCalls(
            sent=sent[attempted],
            settled=settled[attempted],
            cost=self.numbers("cost_micro")[attempted],
            doubt=self.doubt()[attempted],
            balance=self.numbers("balance_micro", NO_BALANCE)[attempted],
        )

    def bases(self, declared: Declarations) -> dict[str, pa.Array]:
        """Return on what each call rests, as declared for its check and purpose."""
        between = "\x1f"
        keys = pc.binary_join_element_wise(self.rows["check"], self.rows["purpose"], between)
        keys = keys.dictionary_encode()
        found = [declared.basis_of(*key.split(between)) for key in keys.dictionary.to_pylist()]
        columns = {
            "lawful_basis": [UNDECLARED if basis is None else basis.basis for basis in found],
            "basis_reference": [None if basis is None else basis.reference for basis in found],
        }
        days = [None if basis is None else basis.assessed_on for basis in found]
        return {
            **{name: pa.array(v, pa.string()).take(keys.indices) for name, v in columns.items()},
            "basis_assessed_on": pa.array(days, pa.date32()).take(keys.indices),
        }

    def table(self, declared: Declarations) -> pa.Table:
        """Return the calls as a table of the schema `CALLS`."""
        rows = self.rows
        no_outcome = pc.equal(pc.fill_null(rows["outcome"], ""), "")
        timed = self.there("sent_at") & self.there("settled_at")
        found = {
            "call_id": rows["call_id"],
            "run_id": rows["run_id"],
            "pseudonym": pa.array([subject.hex() for subject in rows["subject"].to_pylist()]),
            "check": rows["check"],
            "identity_kind": rows["kind"],
            "purpose": rows["purpose"],
            "consent_reference": rows["consent_reference"],
            **self.bases(declared),
            "attempts": rows["attempt"],
            "state": rows["state"],
            "outcome": pc.if_else(no_outcome, rows["state"], rows["outcome"]),
            "trouble": rows["trouble"],
            "http_status": rows["status"],
            "cost": self._naira("cost_micro"),
            "worst_cost": self._naira("reserved_micro"),
            "balance": self._naira("balance_micro"),
            "intent_at": rows["intent_at"],
            "sent_at": rows["sent_at"],
            "settled_at": rows["settled_at"],
            "latency_ms": pa.array(self.took_us() / 1000, mask=~timed),
        }
        columns = [found[field.name] for field in CALLS]
        return pa.table(
            [
                column.dictionary_encode() if field.type == WORD else column.cast(field.type)
                for column, field in zip(columns, CALLS, strict=True)
            ],
            schema=CALLS,
        )

    def _naira(self, name: str) -> pa.Array:
        """Return a column of micro-naira as decimal naira."""
        amounts = naira_of_micro(self.numbers(name))
        return pc.if_else(pc.is_valid(self.rows[name]), amounts, pa.scalar(None, COST))


def _mask(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.to_numpy(zero_copy_only=False).astype(bool)
    return found
