"""Backtest: what a policy would have decided over past runs, and why.

Runs are decided again from their Parquet alone, at no cost. The result is compared with the
recorded decisions, or with another policy's decisions on the same rows: counts, exposure in naira
and a file of the customers whose decision changes. A shadow policy is a backtest of the current
run's rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import REPORT, SHADOW_FILE, enriched_parts
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.run_folder import RunFolder
from nightscreen.policy.engine import locked_connection
from nightscreen.policy.vocabulary import fitted
from nightscreen.results.decide import columns_of, decide
from nightscreen.results.decision_files import csv_bytes
from nightscreen.results.enriched import read_customers
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.errors import InputError
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from nightscreen.results.outcomes import LoanPerformance
    from nightscreen.schemas.policy import Policy

FILE = "backtest.csv"
SHADOW_COLUMNS = [
    *("customer_id", "exposure", "decision", "shadow_decision"),
    *("reasons", "shadow_reasons"),
]
MOVES = pa.schema(
    [
        pa.field("run_id", pa.string()),
        pa.field("customer_id", pa.string()),
        pa.field("exposure", NAIRA),
        pa.field("old_decision", pa.string()),
        pa.field("new_decision", pa.string()),
        pa.field("old_reasons", pa.list_(pa.string())),
        pa.field("new_reasons", pa.list_(pa.string())),
    ]
)
"""The columns of `backtest.csv`: one row for each changed decision."""
_ALWAYS = ("customer_id", "exposure", "decision", "reasons", "policy")
_BLOCK_ROWS = 65_536
_MOVES = """
    INSERT INTO moves
    SELECT old_decision AS was, new_decision AS now, CASE
            WHEN list_position(strengths, now) > list_position(strengths, was)
                AND now <> 'undecided' AND reason IS NOT NULL THEN reason
            WHEN earlier IS DISTINCT FROM reason AND earlier IS NOT NULL
                THEN 'no longer ' || earlier
            ELSE coalesce(reason, 'evidence missing') END,
        exposure, customer, $start + row_number() OVER (), $decided_at
    FROM (SELECT *, old_reasons[1] AS earlier, new_reasons[1] AS reason,
            ['approve', 'undecided', 'review', 'decline'] AS strengths FROM portion)"""
"""The reason for a move is the code that decides now, or the one that no longer does."""
_WEIGHT = """count(*) AS rows, coalesce(sum(exposure), 0) AS exposure,
    count(*) - count(exposure) AS exposure_unknown_rows"""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run's enriched rows on disk."""

    run_id: str  # the name of its folder
    parts: tuple[Path, ...]  # its Parquet files, in order
    purpose: str | None  # None if its report does not say
    decided_at: int | None = None  # microseconds; None if its report does not say


def past_run(folder: Path) -> PastRun:
    """Find a run's enriched rows and purpose in its folder, `OUTPUT/RUN_ID`.

    Raises:
        InputError: there are no enriched rows there.
    """
    parts = tuple(enriched_parts(folder))
    if not parts:
        raise InputError(
            f"{folder} holds no enriched rows; name the folder of a run, such as out/RUN_ID"
        )
    try:
        report = json.loads((folder / REPORT).read_text("utf-8"))
    except (OSError, ValueError):
        report = {}
    try:
        decided_at = to_micros(datetime.fromisoformat(report["finished_at"]))
    except (KeyError, TypeError, ValueError):
        decided_at = None
    purpose = report.get("purpose")
    known = purpose if purpose in {each.value for each in Purpose} else None
    return PastRun(folder.name, parts, known, decided_at)


def rows_of(run: PastRun, policies: Sequence[Policy]) -> Iterator[pa.Table]:
    """Yield a run's customers in order, in portions, with the columns that the policies read.

    Raises:
        InputError: a part cannot be read, or is not part of an enriched table.
    """
    wanted = {*_ALWAYS, *(f"{check}_status" for check in CHECKS)}
    wanted = wanted.union(*(columns_of(policy) for policy in policies))
    for part in run.parts:
        try:
            names = pq.read_schema(part).names
        except (OSError, pa.ArrowInvalid) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{part} cannot be read as Parquet: {reason}") from None
        if not {"customer_id", "decision"} <= set(names):
            raise InputError(f"{part} is no part of an enriched table")
    return read_customers(run.parts, wanted, _BLOCK_ROWS)


@dataclass(slots=True)
class Backtest:
    """The result of a backtest."""

    policy: Policy  # the policy under test
    than: Policy | None  # the policy it is compared with; None for the recorded decisions
    # holds the table `moves`: each row's two decisions, why they differ, and its exposure
    moves: DuckDBPyConnection
    # rows of each run, in the order given, with its purpose
    runs: list[dict[str, Any]] = field(default_factory=list)
    # the policies that the runs' decisions were recorded under
    labels: set[str] = field(default_factory=set)
    # how the runs' customers repaid the loans they got afterwards; None if no loan is known
    paid: LoanPerformance | None = None

    def document(self) -> dict[str, Any]:
        """Return the whole result as a JSON document."""
        return {
            "runs": self.runs,
            "recorded_by": sorted(self.labels),
            "than": None if self.than is None else self.than.label,
            "policy": self.policy.label,
            "version": self.policy.version,
            "was": self.decisions("was"),
            "decisions": self.decisions("now"),
            **self.moved(),
            "outcomes": None if self.paid is None else self.paid.document(self.moves),
            "bad": None if self.paid is None else self.paid.bad.model_dump(),
        }

    def decisions(self, side: str) -> dict[str, Any]:
        """Return rows and exposure by decision, before (`was`) or under the policy (`now`)."""
        found = self._weights(f"{side} AS decision", "true", "decision")
        return {each.pop("decision"): each for each in found}

    def moved(self) -> dict[str, Any]:
        """Return how many decisions change, the matrix of all of them, and the reasons."""
        pair = 'was AS "from", now AS "to"'
        (total,) = self._weights("", "was <> now", "rows")
        order = 'rows DESC, "from", "to", reason'
        return {
            "moved": total,
            "matrix": self._weights(pair, "true", '"from", "to"'),
            "why": self._weights(f"{pair}, why AS reason", "was <> now", order),
        }

    def _weights(self, keys: str, where: str, order: str) -> list[dict[str, Any]]:
        """Return rows and exposure in naira by keys; a blank exposure is unknown, not zero."""
        select = ", ".join(filter(None, (keys, _WEIGHT)))
        grouped = "GROUP BY ALL" if keys else ""
        query = f"SELECT {select} FROM moves WHERE {where} {grouped} ORDER BY {order}"  # noqa: S608 - constants
        found: list[dict[str, Any]] = self.moves.sql(query).to_arrow_table().to_pylist()
        return [{**each, "exposure": f"{each['exposure']:.2f}"} for each in found]


def backtest(
    runs: Sequence[PastRun],
    policy: Policy,
    *,
    than: Policy | None = None,
    paid: LoanPerformance | None = None,
    moving: Callable[[pa.Table], object] = lambda _: None,
) -> Backtest:
    """Replay a policy over past runs, and compare it with the recorded decisions or with `than`.

    A customer counts once in each run. `moving` is called with the rows whose decision changes,
    portion by portion, in the columns of `MOVES`.

    Raises:
        UsageError: rows or a policy cannot be used.
    """
    result = Backtest(policy, than, locked_connection(), paid=paid)
    result.moves.execute(
        "CREATE TEMP TABLE moves (was TEXT, now TEXT, why TEXT, exposure DECIMAL(38, 2), "
        "customer TEXT, number BIGINT, decided_at BIGINT)"
    )
    if paid is not None:
        result.moves.register("loans", paid.loans)
    for run in runs:
        counted = {"run_id": run.run_id, "purpose": run.purpose, "rows": 0}
        result.runs.append(counted)
        for rows in rows_of(run, [policy, *([] if than is None else [than])]):
            moving(_decide_portion(result, run, rows))
            counted["rows"] += rows.num_rows
    return result


def _decide_portion(result: Backtest, run: PastRun, rows: pa.Table) -> pa.Table:
    """Decide a portion and add it to `moves`; return the rows whose decision changes."""
    old = rows if result.than is None else decide(rows, result.than, purpose=run.purpose)
    new = decide(rows, result.policy, purpose=run.purpose)
    columns: dict[str, Any] = {
        "run_id": pa.repeat(run.run_id, rows.num_rows),
        "customer_id": rows["customer_id"],
        "exposure": fitted(rows, "exposure", NAIRA),
    }
    for name, table in (("old", old), ("new", new)):
        columns[f"{name}_decision"] = table["decision"].cast(pa.string())
        columns[f"{name}_reasons"] = table["reasons"]
    portion = pa.table([columns[name] for name in MOVES.names], schema=MOVES)
    customers = pa.nulls(rows.num_rows, pa.string())
    if result.paid is not None:
        customers = result.paid.customers(rows["customer_id"].to_pylist())
    engine, start = result.moves, sum(each["rows"] for each in result.runs)
    engine.register("portion", portion.append_column("customer", customers))
    engine.execute(_MOVES, {"start": start, "decided_at": run.decided_at})
    engine.unregister("portion")
    result.labels.update(label for label in pc.unique(rows["policy"]).to_pylist() if label)
    return portion.filter(pc.not_equal(portion["old_decision"], portion["new_decision"]))


def listed_backtest(
    folder: Path,
    runs: Sequence[PastRun],
    policy: Policy,
    *,
    than: Policy | None = None,
    paid: LoanPerformance | None = None,
) -> Backtest:
    """Replay a policy, and list the changed decisions in `backtest.csv` in a private folder.

    Raises:
        UsageError: rows, a policy or the folder cannot be used.
    """
    output = RunFolder(make_private_folder(folder))
    with output.file(FILE) as partial, partial.open("wb") as file:
        file.write(csv_bytes(MOVES.empty_table(), headings=True))
        return backtest(
            runs,
            policy,
            than=than,
            paid=paid,
            moving=lambda moved: file.write(csv_bytes(moved)),
        )


def write_shadow(folder: RunFolder, run: PastRun, policy: Policy) -> dict[str, Any]:
    """Return what a second policy decides on a run's customers; list those it decides differently.

    They are in `shadow.csv`, in input order. No other file for people shows its decisions.

    Raises:
        OutputError: the folder cannot be written.
    """

    def lines(moved: pa.Table, *, headings: bool = False) -> bytes:
        shown = moved.drop_columns(["run_id"]).rename_columns(SHADOW_COLUMNS)
        return csv_bytes(shown, headings=headings)

    with folder.file(SHADOW_FILE) as partial, partial.open("wb") as file:
        file.write(lines(MOVES.empty_table(), headings=True))
        result = backtest([run], policy, moving=lambda moved: file.write(lines(moved)))
    moved = result.moved()
    folder.rows[SHADOW_FILE] = moved["moved"]["rows"]
    return {"policy": policy.label, "decisions": result.decisions("now"), **moved}
