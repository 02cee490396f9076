"""Backtest: what a policy, or two side by side, would have decided over past runs, and why.

Runs are decided again from their Parquet alone: counts, naira of exposure and a file of the
customers who would move. A policy that is tried beside the one in force is a backtest of tonight's
rows. Nothing is asked or spent.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import REPORT, SHADOW_FILE
from nightscreen.files.private_files import make_private_folder
from nightscreen.files.run_folder import RunFolder
from nightscreen.policy.engine import locked_connection
from nightscreen.policy.vocabulary import fitted
from nightscreen.results.customer_rows import read_customers
from nightscreen.results.decide import columns_of, decide
from nightscreen.results.decision_files import csv_bytes
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

PURPOSE_KEY = b"nightscreen.purpose"
"""Under which key an enriched Parquet file says the purpose of its run."""
RECORDED = "recorded"
PARQUET, CSV = "backtest.parquet", "backtest.csv"
SHADOW_COLUMNS = [
    *("customer_id", "exposure", "decision", "shadow_decision"),
    *("reasons", "shadow_reasons"),
]
_ALWAYS = ("customer_id", "exposure", "decision", "reasons", "policy")
_BLOCK_ROWS = 65_536
_MOVES = """
    INSERT INTO moves
    SELECT $way, was, now, CASE
            WHEN list_position(strengths, now) > list_position(strengths, was)
                AND now <> 'undecided' AND reason IS NOT NULL THEN reason
            WHEN earlier IS DISTINCT FROM reason AND earlier IS NOT NULL
                THEN 'no longer ' || earlier
            ELSE coalesce(reason, 'evidence missing') END,
        exposure, customer, $start + row_number() OVER (), $decided_at
    FROM (SELECT {old}_decision AS was, {new}_decision AS now, {old}_reasons[1] AS earlier,
            {new}_reasons[1] AS reason, exposure, customer,
            ['approve', 'undecided', 'review', 'decline'] AS strengths FROM portion)"""
"""Why a row moves is the code that now decides, or the one that no longer does."""
_WEIGHT = """count(*) AS rows, coalesce(sum(exposure), 0) AS exposure,
    count(*) - count(exposure) AS exposure_unknown_rows"""


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run's enriched rows on disk."""

    run_id: str  # the run, as its folder is named
    parts: tuple[Path, ...]  # its Parquet files, in order
    purpose: str | None  # what the run was for; None where nothing says it
    decided_at: int | None = None  # when it had decided, microseconds; None where nothing says it


def past_run(folder: Path) -> PastRun:
    """Find a run's enriched rows and purpose.

    Args:
        folder: `OUTPUT/RUN_ID`, its `enriched` folder, or one Parquet file.

    Raises:
        InputError: there are no enriched rows there.
    """
    inner = folder / "enriched"
    found = sorted((inner if inner.is_dir() else folder).glob("part-*.parquet"))
    parts = (folder,) if folder.is_file() else tuple(found)
    if not parts:
        raise InputError(
            f"{folder} holds no enriched rows; name the folder of a run, such as out/RUN_ID"
        )
    whole = parts[0].parent.name == "enriched"
    home = parts[0].parent.parent if whole else parts[0].parent
    try:
        report = json.loads((home / REPORT).read_text("utf-8"))
    except (OSError, ValueError):
        report = {}
    try:
        decided_at = to_micros(datetime.fromisoformat(report["finished_at"]))
    except (KeyError, TypeError, ValueError):
        decided_at = None
    said = (_schema(parts[0]).metadata or {}).get(PURPOSE_KEY)
    purpose = said.decode() if said is not None else report.get("purpose")
    known = purpose if said is not None or purpose in {each.value for each in Purpose} else None
    return PastRun(home.name if whole else parts[0].stem, parts, known, decided_at)


def _schema(part: Path) -> pa.Schema:
    try:
        return pq.read_schema(part)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{part} cannot be read as Parquet: {reason}") from None


def rows_of(run: PastRun, policies: Sequence[Policy]) -> Iterator[pa.Table]:
    """Return a run's customers in order, in portions, with the columns that policies look at.

    Raises:
        InputError: a part cannot be read, or is no part of an enriched table.
    """
    wanted = {*_ALWAYS, *(f"{check}_status" for check in CHECKS)}
    wanted = wanted.union(*(columns_of(policy) for policy in policies))
    for part in run.parts:
        if not {"customer_id", "decision"} <= set(_schema(part).names):
            raise InputError(f"{part} is no part of an enriched table")
    return read_customers(run.parts, wanted, _BLOCK_ROWS)


@dataclass(slots=True)
class Backtest:
    """What came of a backtest."""

    policies: tuple[Policy, ...]  # the policies, one or two
    # each row's two decisions, why they differ and its exposure, by way of deciding: from what was
    # recorded to each policy, then from the first policy to the second
    moves: DuckDBPyConnection
    # rows of each run, in the order given, with its purpose
    runs: list[dict[str, Any]] = field(default_factory=list)
    # the policies that the runs' decisions were recorded under
    labels: set[str] = field(default_factory=set)
    listed: int = 0  # rows in the file of those who move
    # how the runs' customers paid the loans they got afterwards; None where nothing is known of any
    # loan
    paid: LoanPerformance | None = None

    def document(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "runs": self.runs,
            RECORDED: {"policies": sorted(self.labels), "decisions": self.decisions(0, "was")},
            "policies": [
                {
                    "policy": policy.label,
                    "version": policy.version,
                    "decisions": self.decisions(way, "now"),
                    **self.moved(way),
                }
                for way, policy in enumerate(self.policies)
            ],
            "between": self.moved(len(self.policies)) if len(self.policies) > 1 else None,
            "listed": self.listed,
            "bad": None if self.paid is None else self.paid.bad.model_dump(),
        }

    def decisions(self, way: int, side: str) -> dict[str, Any]:
        """Return rows and exposure by decision, as they were (`was`) or would be (`now`)."""
        found = self._weights(way, f"{side} AS decision", "true", "decision")
        return {each.pop("decision"): each for each in found}

    def moved(self, way: int) -> dict[str, Any]:
        """Return how many move, the matrix of all, why those who move do, and how they paid."""
        pair = 'was AS "from", now AS "to"'
        matrix = self._weights(way, pair, "true", '"from", "to"')
        why = self._weights(
            way,
            f"{pair}, why AS reason",
            "was <> now",
            'rows DESC, "from", "to", reason',
        )
        (total,) = self._weights(way, "", "was <> now", "rows")
        paid = None if self.paid is None else self.paid.document(self.moves, way)
        return {"moved": total, "matrix": matrix, "why": why, "outcomes": paid}

    def _weights(self, way: int, keys: str, where: str, order: str) -> list[dict[str, Any]]:
        """Return rows and naira of exposure by some keys; a blank exposure is unknown, not zero."""
        select = ", ".join(filter(None, (keys, _WEIGHT)))
        grouped = "GROUP BY ALL" if keys else ""
        query = (
            f"SELECT {select} FROM moves WHERE way = {way} AND {where} {grouped} ORDER BY {order}"  # noqa: S608 - constants
        )
        found: list[dict[str, Any]] = self.moves.sql(query).to_arrow_table().to_pylist()
        return [{**each, "exposure": f"{each['exposure']:.2f}"} for each in found]


def backtest(
    runs: Sequence[PastRun],
    policies: Sequence[Policy],
    output: Path | None = None,
    paid: LoanPerformance | None = None,
    moving: Callable[[pa.Table], object] | None = None,
) -> Backtest:
    """Replay a policy over past runs, or two that are compared with each other as well.

    A customer of several nights counts once a night. Every row that is decided differently by any
    of them is written to `backtest.parquet` and `backtest.csv` in the output's folder, named by
    customer id alone; `moving` takes the same, portion by portion, as `file_schema` has it.

    Raises:
        UsageError: rows, a policy or the folder cannot be used.
    """
    found = Backtest(tuple(policies), locked_connection(), paid=paid)
    found.moves.execute(
        "CREATE TEMP TABLE moves (way INT, was TEXT, now TEXT, why TEXT, exposure DECIMAL(38, 2), "
        "customer TEXT, number BIGINT, decided_at BIGINT)"
    )
    if paid is not None:
        found.moves.register("loans", paid.loans)
    with _files(output, len(policies)) as write:
        for run in runs:
            counted = {"run_id": run.run_id, "purpose": run.purpose, "rows": 0}
            found.runs.append(counted)
            for portion in rows_of(run, policies):
                moved = _take(found, run, portion)
                counted["rows"] += portion.num_rows
                found.listed += moved.num_rows
                for listener in (write, *([moving] if moving is not None else [])):
                    listener(moved)
    return found


def _take(found: Backtest, run: PastRun, rows: pa.Table) -> pa.Table:
    """Decide a portion by each policy and enter the moves; return the rows that move."""
    names = _ways(len(found.policies))
    decided = [decide(rows, policy, purpose=run.purpose) for policy in found.policies]
    columns: dict[str, Any] = {
        "run_id": pa.repeat(run.run_id, rows.num_rows),
        "customer_id": rows["customer_id"],
        "exposure": fitted(rows, "exposure", NAIRA),
    }
    for name, table in zip((RECORDED, *names), (rows, *decided), strict=True):
        columns[f"{name}_decision"] = table["decision"].cast(pa.string())
        columns[f"{name}_reasons"] = table["reasons"]
    portion = pa.table(columns, schema=file_schema(len(names)))
    customers = pa.nulls(rows.num_rows, pa.string())
    if found.paid is not None:
        customers = found.paid.customers(rows["customer_id"].to_pylist())
    engine, start = found.moves, sum(each["rows"] for each in found.runs)
    engine.register("portion", portion.append_column("customer", customers))
    between = [names] if len(names) > 1 else []
    for way, (old, new) in enumerate([*((RECORDED, name) for name in names), *between]):
        values = {"way": way, "start": start, "decided_at": run.decided_at}
        engine.execute(_MOVES.format(old=old, new=new), values)
    differs = " OR ".join(f"recorded_decision <> {name}_decision" for name in names)
    moved = engine.sql(f"SELECT * EXCLUDE customer FROM portion WHERE {differs}").to_arrow_table()  # noqa: S608 - names of ours
    engine.unregister("portion")
    found.labels.update(label for label in pc.unique(rows["policy"]).to_pylist() if label)
    return moved.cast(portion.schema)


def file_schema(policies: int) -> pa.Schema:
    """Return the columns of `backtest.parquet`: one row for each row decided differently.

    Columns: `run_id`, `customer_id` text, `exposure` decimal naira, `recorded_decision` text,
    `recorded_reasons` list of text, then decision and reasons under `new_` for one policy and
    under `first_` and `second_` for two.
    """
    fields = [("run_id", pa.string()), ("customer_id", pa.string()), ("exposure", NAIRA)]
    for way in (RECORDED, *_ways(policies)):
        fields += [(f"{way}_decision", pa.string()), (f"{way}_reasons", pa.list_(pa.string()))]
    return pa.schema(fields)


def _ways(policies: int) -> tuple[str, ...]:
    return ("new",) if policies == 1 else ("first", "second")


@contextmanager
def _files(output: Path | None, policies: int) -> Iterator[Callable[[pa.Table], None]]:
    """Give what writes moved rows into both files, which appear whole on a clean exit."""
    if output is None:
        yield lambda _: None
        return
    folder, schema = RunFolder(make_private_folder(output)), file_schema(policies)
    with (
        folder.file(PARQUET) as parquet,
        folder.file(CSV) as text,
        pq.ParquetWriter(parquet, schema, compression="zstd") as writer,
        text.open("wb") as file,
    ):
        file.write(csv_bytes(schema.empty_table(), headings=True))

        def write(table: pa.Table) -> None:
            writer.write_table(table)
            file.write(csv_bytes(table))

        yield write


def try_beside(folder: RunFolder, run: PastRun, policy: Policy) -> dict[str, Any]:
    """Return what a second policy decides of tonight's customers, and list who would move.

    `shadow.csv` has each customer whom it decides otherwise, in input order. Whom it alone would
    decline stands nowhere else that people read.

    Raises:
        OutputError: the folder cannot be written.
    """
    decisions = ["recorded_decision", "new_decision"]
    order = ["customer_id", "exposure", *decisions, "recorded_reasons", "new_reasons"]

    def lines(moved: pa.Table, *, headings: bool = False) -> bytes:
        return csv_bytes(moved.select(order).rename_columns(SHADOW_COLUMNS), headings=headings)

    with folder.file(SHADOW_FILE) as partial, partial.open("wb") as file:
        file.write(lines(file_schema(1).empty_table(), headings=True))
        found = backtest([run], [policy], moving=lambda moved: file.write(lines(moved)))
    folder.rows[SHADOW_FILE] = found.listed
    moved = found.moved(0)
    del moved["outcomes"]
    return {"policy": policy.label, "decisions": found.decisions(0, "now"), **moved}
