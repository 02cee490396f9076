"""A run's calls: one row for each in `calls.parquet`, for the auditor; their figures; the balance.

The journal's rows are read in blocks. The figures are SQL (`calls.sql`) over numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from nightscreen.config.declarations import UNDECLARED, Declarations
from nightscreen.files.frame import Frame, read_queries
from nightscreen.files.memory_tuning import trim_memory
from nightscreen.files.outputs import CALLS_FILE
from nightscreen.journal.money import RESERVING
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import MICROS, instant_text
from nightscreen.schemas.enriched import COST, WORD, naira_of_micro
from nightscreen.schemas.money import naira_text
from nightscreen.schemas.rows import INSTANT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Row

    from nightscreen.files.run_folder import RunFolder
    from nightscreen.journal import Journal

# `attempts` counts the attempts of a lookup up to this call; `outcome` is the answer's outcome or,
# without an answer, how the call ended, which `state` has too.
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
WALLET_CALLS = pa.schema(
    [
        pa.field("check_number", pa.int32()),
        pa.field("attempt", pa.int32()),
        pa.field("trouble", pa.int32()),
        pa.field("latency_us", pa.int64()),
        pa.field("sent", pa.int64()),
        pa.field("settled", pa.int64()),
        pa.field("cost", pa.int64()),
        pa.field("doubt", pa.int64()),
        pa.field("balance", pa.int64()),
    ]
)
"""The table `calls` of the queries, with the calls that were sent; `settled` is after `sent`.
`cost` is the known cost or 0, `doubt` the most an unknown cost may be or 0, `balance` the answer's
balance or null."""

_JOURNAL_COLUMNS = {
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
QUERIES = Path(__file__).with_name("calls.sql")
_MEMORY = "150MB"  # ten million calls fit by spilling; with 120 MB they do not
_BLOCK_CALLS = 16_384  # calls read at once: bounds memory
_LATE_MICROS = 300 * MICROS  # four times the longest timeout by default
_NEAR_CALLS = 100_000  # first calls of a run, enough to show a lag: bounds what is sorted for it
_PERCENTILES = ("p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class CheckCalls:
    """The figures of one check's calls."""

    attempts: int = 0  # calls that were sent
    retries: int = 0  # those that repeated an earlier call of their lookup
    cost_micro: int = 0  # the known charges
    in_doubt_micro: int = 0  # the worst cost of calls whose answer or cost is unknown
    troubles: dict[str, int] = field(default_factory=dict)  # calls without an answer, by cause
    # percentiles of the time to an answer; None without answers
    latency_ms: dict[str, float | None] = field(default_factory=lambda: dict.fromkeys(_PERCENTILES))


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance over a run, in micro-naira: opening - cost - explained - drift = closing."""

    opening_micro: int | None = None  # like closing and lowest, None if no answer had a balance
    closing_micro: int | None = None
    lowest_micro: int | None = None
    explained_in_doubt_micro: int = 0
    drift_micro: int = 0
    exact: bool = False
    # instant of the first answer whose balance neither known costs nor calls in doubt explain
    drift_since: int | None = None

    def document(self, nightly_micro: int) -> dict[str, Any]:
        """Return the part `balance` of the report, given the cost of one night."""
        closing = self.closing_micro
        nights = closing // nightly_micro if closing is not None and nightly_micro > 0 else None
        return {
            "opening": naira_text(self.opening_micro),
            "closing": naira_text(closing),
            "lowest": naira_text(self.lowest_micro),
            "explained_in_doubt": naira_text(self.explained_in_doubt_micro),
            "drift": naira_text(self.drift_micro),
            "drift_since": instant_text(self.drift_since),
            "exact": self.exact,
            "nights_left": nights,
        }


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The figures of a run's calls, by check, and the balance."""

    checks: dict[str, CheckCalls]
    balance: Balance

    def of(self, check: str) -> CheckCalls:
        """Return the figures of a check or operation, zeros if it has no calls."""
        return self.checks.get(check, CheckCalls())

    @property
    def cost_micro(self) -> int:
        """Return the known charges."""
        return sum(calls.cost_micro for calls in self.checks.values())

    @property
    def in_doubt_micro(self) -> int:
        """Return the worst cost of every attempt whose answer was lost."""
        return sum(calls.in_doubt_micro for calls in self.checks.values())


_Names = tuple[list[str], list[str]]
"""The checks and the troubles of calls, in the order of their first appearance."""


def write_calls(
    folder: RunFolder,
    journal: Journal,
    run_id: str,
    declared: Declarations,
    *,
    spill: Path | None = None,
) -> CallFigures:
    """Write `calls.parquet`, one row per call of a run, and return the figures.

    The numbers of calls that do not fit the memory are written into `spill`.
    """
    names: _Names = [], []
    with Frame(read_queries(QUERIES), spill, memory=_MEMORY) as frame:
        frame.make("calls", WALLET_CALLS.empty_table())
        blocks = journal.runs.calls(run_id, list(_JOURNAL_COLUMNS), block=_BLOCK_CALLS)
        tables = _load(blocks, frame, names, declared)
        folder.write_parquet(CALLS_FILE, CALLS, tables)
        result = figures(frame, *names)
    trim_memory()
    return result


def _load(
    blocks: Iterable[Sequence[Row[Any]]], frame: Frame, names: _Names, declared: Declarations
) -> Iterator[pa.Table]:
    """Load the numbers of calls into a frame, and yield the rows of `calls.parquet`."""
    for rows in blocks:
        calls = _as_columns(rows)
        frame.add("calls", _wallet_calls(calls, *names))
        yield _table(calls, declared)


def figures(frame: Frame, checks: Sequence[str], troubles: Sequence[str]) -> CallFigures:
    """Return the figures of a frame's table `calls`, which refers to names by their index."""
    by_check = {}
    for each in frame.table("checks").to_pylist():
        check, took = checks[each.pop("check_number")], each.pop("latency_us") or ()
        each["troubles"] = {troubles[number]: lost for number, lost in each["troubles"] or ()}
        if took:
            named = zip(_PERCENTILES, took, strict=True)
            each["latency_ms"] = {name: round(micros / 1000, 1) for name, micros in named}
        by_check[check] = CheckCalls(**each)
    return CallFigures(by_check, balance_of(frame))


def balance_of(frame: Frame) -> Balance:
    """Return the balance of the calls in a frame.

    A call in doubt explains any amount up to its worst cost: that is the highest known price, and
    the service may have charged less.
    """
    frame.run("wallet")
    rows = frame.table("ends", late=_LATE_MICROS).to_pylist()
    if not rows:
        return Balance()
    (ends,) = rows
    lost = ends["opening"] - ends["closing"] - ends["cost"]
    explained = min(max(0, lost), ends["doubt"])
    since = None
    if lost != explained:
        since = frame.row("first_unexplained", opening=ends["opening"])["since"]
    exact = ends["opening_exact"] and ends["closing_exact"]
    if exact:
        confirmed = [each["confirmed"] for each in frame.table("confirmed").to_pylist()]
        exact = all(confirmed) and not frame.row("lag", near=_NEAR_CALLS)["lags"]
    return Balance(
        ends["opening"], ends["closing"], ends["lowest"], explained, lost - explained, exact, since
    )


def _wallet_calls(calls: pa.Table, checks: list[str], troubles: list[str]) -> pa.Table:
    """Return the calls that were sent as rows of `WALLET_CALLS`; names become their index."""
    calls = calls.filter(pc.not_equal(calls["state"], CallState.NOT_SENT.value))
    sent = pc.coalesce(calls["sent_at"], calls["intent_at"])
    answered = pc.equal(calls["state"], CallState.ANSWERED.value)
    reserving = pc.is_in(calls["state"], value_set=pa.array(sorted(RESERVING)))
    unknown = pc.and_(reserving, pc.is_null(calls["cost_micro"]))
    took = pc.subtract(calls["settled_at"], calls["sent_at"])
    columns = {
        "check_number": _number(calls["check"], checks),
        "attempt": calls["attempt"],
        "trouble": _number(calls["trouble"], troubles),
        "latency_us": pc.if_else(answered, took, pa.scalar(None, pa.int64())),
        "sent": sent,
        "settled": pc.max_element_wise(pc.add(sent, 1), pc.coalesce(calls["settled_at"], sent)),
        "cost": pc.fill_null(calls["cost_micro"], 0),
        "doubt": pc.if_else(unknown, calls["reserved_micro"], 0),
        "balance": calls["balance_micro"],
    }
    return pa.table(columns, WALLET_CALLS)


def _number(column: pa.ChunkedArray, words: list[str]) -> pa.Array:
    """Return each value's index in `words`, which is extended by new values."""
    words += [word for word in pc.unique(column).to_pylist() if word and word not in words]
    return pc.index_in(column, value_set=pa.array(words, pa.string()))


def _as_columns(rows: Sequence[Row[Any]]) -> pa.Table:
    """Return rows of the journal as columns."""
    values = zip(zip(*rows, strict=True), _JOURNAL_COLUMNS.values(), strict=True)
    return pa.table([pa.array(value, kind) for value, kind in values], list(_JOURNAL_COLUMNS))


def _table(calls: pa.Table, declared: Declarations) -> pa.Table:
    """Return the journal's calls in the schema of `calls.parquet`."""
    pairs = list(zip(calls["check"].to_pylist(), calls["purpose"].to_pylist(), strict=True))
    basis_of = {pair: declared.basis_of(*pair) for pair in set(pairs)}
    bases = [basis_of[pair] for pair in pairs]
    took = pc.subtract(calls["settled_at"], calls["sent_at"])
    no_outcome = pc.equal(pc.fill_null(calls["outcome"], ""), "")
    values = {
        **{name: calls[name] for name in calls.column_names},
        "pseudonym": pa.array([each.hex() for each in calls["subject"].to_pylist()], pa.string()),
        "identity_kind": calls["kind"],
        "lawful_basis": pa.array([each.basis if each else UNDECLARED for each in bases]),
        "basis_reference": pa.array([each and each.reference for each in bases], pa.string()),
        "basis_assessed_on": pa.array([each and each.assessed_on for each in bases], pa.date32()),
        "attempts": calls["attempt"],
        "outcome": pc.if_else(no_outcome, calls["state"], calls["outcome"]),
        "http_status": calls["status"],
        "cost": _naira(calls["cost_micro"]),
        "worst_cost": _naira(calls["reserved_micro"]),
        "balance": _naira(calls["balance_micro"]),
        "latency_ms": pc.divide(took.cast(pa.float64()), 1000.0),
    }
    columns = [
        values[each.name].dictionary_encode()
        if each.type == WORD
        else values[each.name].cast(each.type)
        for each in CALLS
    ]
    return pa.table(columns, schema=CALLS)


def _naira(micro: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return micro-naira as decimal naira; null stays null."""
    amounts = naira_of_micro(pc.fill_null(micro, 0).to_numpy())
    return pc.if_else(pc.is_valid(micro), amounts, pa.scalar(None, COST))
