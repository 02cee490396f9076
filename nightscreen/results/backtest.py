"""Backtest: what a policy, or two side by side, would have decided over past runs, and why.

Counts, naira of exposure and a file of the customers who would move. Nothing is asked or spent.
"""

from __future__ import annotations

import csv
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightscreen.files.private_files import make_private_folder
from nightscreen.files.quarantine import escape_formula
from nightscreen.files.run_folder import RunFolder
from nightscreen.policy.vocabulary import fitted
from nightscreen.results.decide import decide
from nightscreen.results.replay import rows_of
from nightscreen.schemas.policy import Decision
from nightscreen.schemas.rows import NAIRA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nightscreen.results.outcomes import PaidAfterwards
    from nightscreen.results.replay import PastRun
    from nightscreen.schemas.policy import Policy

RECORDED = "recorded"
MISSING = "evidence missing"
PARQUET, CSV = "backtest.parquet", "backtest.csv"
_STRENGTH = {
    Decision.APPROVE.value: 0,
    Decision.UNDECIDED.value: 1,
    Decision.REVIEW.value: 2,
    Decision.DECLINE.value: 3,
}


@dataclass(slots=True)
class MovedExposure:
    """Rows and their exposure; a blank exposure is unknown, not zero."""

    rows: int = 0
    exposure: Decimal = Decimal(0)
    exposure_unknown_rows: int = 0

    def add(self, rows: int, exposure: Decimal | None, known: int) -> None:
        """Enter some rows of which `known` have an exposure."""
        self.rows += rows
        self.exposure += exposure or 0
        self.exposure_unknown_rows += rows - known

    def document(self) -> dict[str, Any]:
        """Return the weight as JSON has it; naira as decimal text."""
        return {
            "rows": self.rows,
            "exposure": f"{self.exposure:.2f}",
            "exposure_unknown_rows": self.exposure_unknown_rows,
        }


@dataclass(slots=True)
class Moves:
    """How decisions differ from one way of deciding to another."""

    weights: dict[tuple[str, str, str], MovedExposure] = field(default_factory=dict)

    def take(self, old: pa.Table, new: pa.Table, exposure: pa.ChunkedArray) -> None:
        """Enter a portion of rows decided both ways."""
        table = pa.table(
            {
                "old": old["decision"].cast(pa.string()),
                "new": new["decision"].cast(pa.string()),
                "was": _firsts(old["reasons"]),
                "now": _firsts(new["reasons"]),
                "exposure": exposure,
            }
        )
        grouped = table.group_by(["old", "new", "was", "now"]).aggregate(
            [("exposure", "sum"), ("exposure", "count"), ([], "count_all")]
        )
        for each in grouped.to_pylist():
            why = _why(each["old"], each["new"], each["was"], each["now"])
            weight = self.weights.setdefault((each["old"], each["new"], why), MovedExposure())
            weight.add(each["count_all"], each["exposure_sum"], each["exposure_count"])

    def _by(self, key: Callable[[str, str, str], Any], *, moved: bool) -> dict[Any, MovedExposure]:
        found: dict[Any, MovedExposure] = {}
        for (old, new, why), weight in self.weights.items():
            if moved and old == new:
                continue
            part = found.setdefault(key(old, new, why), MovedExposure())
            known = weight.rows - weight.exposure_unknown_rows
            part.add(weight.rows, weight.exposure, known)
        return found

    def decisions(self, *, old: bool = False) -> dict[str, Any]:
        """Return rows and exposure by decision, of the new way or the old one."""
        found = self._by(lambda was, now, _: was if old else now, moved=False)
        return {decision: found[decision].document() for decision in sorted(found)}

    def document(self) -> dict[str, Any]:
        """Return how many moved, the matrix of all, and why those who moved did."""
        total = self._by(lambda *_: "all", moved=True).get("all", MovedExposure())
        matrix = self._by(lambda old, new, _: (old, new), moved=False)
        why = self._by(lambda *key: key, moved=True)
        heaviest = sorted(why, key=lambda key: (-why[key].rows, key))
        return {
            "moved": total.document(),
            "matrix": [
                {"from": key[0], "to": key[1], **matrix[key].document()} for key in sorted(matrix)
            ],
            "why": [
                {"from": key[0], "to": key[1], "reason": key[2], **why[key].document()}
                for key in heaviest
            ],
        }


def _firsts(reasons: pa.ChunkedArray) -> pa.Array:
    """Return the first reason of each row, the decisive one; null where there is none."""
    lists = reasons.combine_chunks() if isinstance(reasons, pa.ChunkedArray) else reasons
    there = pc.greater(pc.fill_null(pc.list_value_length(lists), 0), 0)
    padded = pc.if_else(there, lists, pa.scalar([None], lists.type))
    return pc.list_element(padded, 0)


def _why(old: str, new: str, was: str | None, now: str | None) -> str:
    """Return why a row moves: the code that now decides, or the one that no longer does."""
    if _STRENGTH[new] > _STRENGTH[old] and now is not None and new != Decision.UNDECIDED.value:
        return now
    if was is not None and was != now:
        return f"no longer {was}"
    return now or MISSING


@dataclass(slots=True)
class Backtest:
    """What came of a backtest.

    Attributes:
        policies: the policies, one or two.
        runs: rows of each run, in the order given, with its purpose.
        moves: from what was recorded to each policy.
        between: from the first policy to the second; None where there is one.
        labels: the policies that the runs' decisions were recorded under.
        listed: rows in the file of those who move.
        paid: how the runs' customers paid the loans they got afterwards; None where nothing is
            known of any loan.
    """

    policies: tuple[Policy, ...]
    runs: list[dict[str, Any]] = field(default_factory=list)
    moves: list[Moves] = field(default_factory=list)
    between: Moves | None = None
    labels: set[str] = field(default_factory=set)
    listed: int = 0
    paid: PaidAfterwards | None = None

    def document(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "runs": self.runs,
            RECORDED: {
                "policies": sorted(self.labels),
                "decisions": self.moves[0].decisions(old=True),
            },
            "policies": [
                {
                    "policy": policy.label,
                    "version": policy.version,
                    "decisions": moves.decisions(),
                    **self._moved(moves, way),
                }
                for way, (policy, moves) in enumerate(zip(self.policies, self.moves, strict=True))
            ],
            "between": None
            if self.between is None
            else self._moved(self.between, len(self.policies)),
            "listed": self.listed,
            "bad": None if self.paid is None else self.paid.bad.model_dump(),
        }

    def _moved(self, moves: Moves, way: int) -> dict[str, Any]:
        """Return the moves of one way of deciding, and how those who move paid."""
        found = moves.document()
        paid = None if self.paid is None else self.paid.document(way, found["matrix"])
        return {**found, "outcomes": paid}


def backtest(
    runs: Sequence[PastRun],
    policies: Sequence[Policy],
    output: Path | None = None,
    paid: PaidAfterwards | None = None,
    moving: Callable[[pa.Table], None] | None = None,
) -> Backtest:
    """Replay one or two policies over past runs.

    Args:
        runs: the runs; a customer of several nights counts once a night.
        policies: one policy, or two that are compared with each other as well.
        output: folder for `backtest.parquet` and `backtest.csv`: every row that is decided
            differently by any of them, named by customer id alone.
        paid: what became of loans; None where nothing is known of any.
        moving: takes what the files would hold, portion by portion, as `file_schema` has it.

    Raises:
        UsageError: rows, a policy or the folder cannot be used.
    """
    found = Backtest(tuple(policies), moves=[Moves() for _ in policies], paid=paid)
    found.between = Moves() if len(policies) > 1 else None
    with _files(output, len(policies)) as write:
        listeners = [write, *([moving] if moving is not None else [])]
        for run in runs:
            rows = sum(_take(found, run, portion, listeners) for portion in rows_of(run, policies))
            found.runs.append({"run_id": run.run_id, "purpose": run.purpose, "rows": rows})
    return found


def _take(
    found: Backtest, run: PastRun, rows: pa.Table, listeners: Sequence[Callable[[pa.Table], None]]
) -> int:
    """Decide a portion by each policy, enter the moves, list those who move; return its rows."""
    exposure = fitted(rows, "exposure", NAIRA)
    new = [decide(rows, policy, purpose=run.purpose) for policy in found.policies]
    for moves, decided in zip(found.moves, new, strict=True):
        moves.take(rows, decided, exposure)
    if found.between is not None:
        found.between.take(new[0], new[1], exposure)
    if found.paid is not None and run.decided_at is not None:
        was = [rows["decision"]] * len(new)
        pairs = list(zip(was, [each["decision"] for each in new], strict=True))
        if found.between is not None:
            pairs.append((new[0]["decision"], new[1]["decision"]))
        found.paid.take(rows["customer_id"].to_pylist(), run.decided_at, pairs)
    found.labels.update(label for label in pc.unique(rows["policy"]).to_pylist() if label)
    moved = _moved(run.run_id, rows, new, exposure)
    found.listed += moved.num_rows
    for listener in listeners:
        listener(moved)
    return len(rows)


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


def _moved(run_id: str, rows: pa.Table, new: Sequence[pa.Table], exposure: Any) -> pa.Table:  # noqa: ANN401 - Arrow has no types
    """Return the rows that are decided differently by any way of deciding."""
    columns: dict[str, Any] = {
        "run_id": pa.array([run_id] * rows.num_rows, pa.string()),
        "customer_id": rows["customer_id"],
        "exposure": exposure,
    }
    decided = [rows, *new]
    for way, table in zip((RECORDED, *_ways(len(new))), decided, strict=True):
        columns[f"{way}_decision"] = table["decision"].cast(pa.string())
        columns[f"{way}_reasons"] = table["reasons"]
    recorded = columns[f"{RECORDED}_decision"]
    differs = pa.array([False] * rows.num_rows)
    for way in _ways(len(new)):
        differs = pc.or_(differs, pc.not_equal(recorded, columns[f"{way}_decision"]))
    return pa.table(columns, schema=file_schema(len(new))).filter(differs)


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
        text.open("w", encoding="utf-8", newline="") as file,
    ):
        lines = csv.writer(file)
        lines.writerow(schema.names)

        def write(table: pa.Table) -> None:
            writer.write_table(table)
            lines.writerows([_cell(value) for value in row.values()] for row in table.to_pylist())

        yield write


def _cell(value: object) -> str:
    """Return a value as CSV has it; text that a spreadsheet would run is guarded."""
    if value is None:
        return ""
    return " ".join(value) if isinstance(value, list) else escape_formula(str(value))
