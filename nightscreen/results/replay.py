"""Replay: past runs decided again from their Parquet alone, at no cost and without the service.

How the decisions of several policies are compared is in `backtest`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.checks.registry import CHECKS
from nightscreen.files.outputs import REPORT
from nightscreen.results.customer_rows import customer_batches
from nightscreen.results.decide import columns_of
from nightscreen.schemas.checks import Purpose
from nightscreen.schemas.clock import to_micros
from nightscreen.schemas.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from nightscreen.schemas.policy import Policy

PURPOSE_KEY = b"nightscreen.purpose"
"""Under which key an enriched Parquet file says the purpose of its run."""
_BLOCK_ROWS = 65_536
_ALWAYS = ("customer_id", "exposure", "decision", "reasons", "policy")


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run's enriched rows on disk.

    Attributes:
        run_id: the run, as its folder is named.
        parts: its Parquet files, in order.
        purpose: what the run was for; None where nothing says it.
        decided_at: when it had decided, microseconds; None where nothing says it.
    """

    run_id: str
    parts: tuple[Path, ...]
    purpose: str | None
    decided_at: int | None = None


def past_run(folder: Path) -> PastRun:
    """Find a run's enriched rows and purpose.

    Args:
        folder: `OUTPUT/RUN_ID`, its `enriched` folder, or one Parquet file.

    Raises:
        InputError: there are no enriched rows there.
    """
    parts = tuple(_parts_of(folder))
    if not parts:
        raise InputError(
            f"{folder} holds no enriched rows; name the folder of a run, such as out/RUN_ID"
        )
    home = parts[0].parent.parent if parts[0].parent.name == "enriched" else parts[0].parent
    name = home.name if parts[0].parent.name == "enriched" else parts[0].stem
    report = _report(home / REPORT)
    return PastRun(name, parts, _purpose(parts[0], report), _decided_at(report))


def _parts_of(folder: Path) -> Sequence[Path]:
    if folder.is_file():
        return [folder]
    inner = folder / "enriched"
    return sorted((inner if inner.is_dir() else folder).glob("part-*.parquet"))


def _report(path: Path) -> dict[str, Any]:
    """Return the report of a run; empty where there is none."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _decided_at(report: Mapping[str, Any]) -> int | None:
    try:
        return to_micros(datetime.fromisoformat(report["finished_at"]))
    except (KeyError, TypeError, ValueError):
        return None


def _purpose(part: Path, report: Mapping[str, Any]) -> str | None:
    """Return the purpose that the Parquet itself says, or else the report beside it."""
    said = (_open(part).schema_arrow.metadata or {}).get(PURPOSE_KEY)
    if said is not None:
        return str(said.decode())
    found = report.get("purpose")
    return found if found in {each.value for each in Purpose} else None


def _open(part: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(part)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{part} cannot be read as Parquet: {reason}") from None


def rows_of(run: PastRun, policies: Sequence[Policy]) -> Iterator[pa.Table]:
    """Yield a run's rows in order, in portions, with the columns that some policies look at.

    Raises:
        InputError: a part cannot be read, or is no part of an enriched table.
    """
    wanted = {*_ALWAYS, *(f"{check}_status" for check in CHECKS)}
    wanted = wanted.union(*(columns_of(policy) for policy in policies))
    for part in run.parts:
        file = _open(part)
        there = file.schema_arrow.names
        if "customer_id" not in there or "decision" not in there:
            raise InputError(f"{part} is no part of an enriched table")
        yield from customer_batches(file, wanted, _BLOCK_ROWS)
