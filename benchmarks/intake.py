"""Intake: dirty rows judged and quarantined, beside a bare read and beside pydantic row by row.

`python -m benchmarks.intake [ROWS]`; by default 50,000 rows of 18 columns, one in ten spoilt. Each
is a process of its own; CPU seconds count, and ratios. `pyarrow` reads every column as text and
judges nothing: it is the limit. `pandas + pydantic` is what many teams write: `read_csv`, then one
model a row with the plainest checks, errors in a list. It knows no banks, no check digits, no
repeated customers, no headings of other systems, and keeps no reasons a person could act on.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measured import run_words
from nightscreen.sandbox.batch import make_batch

if TYPE_CHECKING:
    from collections.abc import Callable

_NEEDS = {
    "pyarrow": ("pyarrow.csv",),
    "nightscreen": ("nightscreen.runs.screening_run",),
    "pandas + pydantic": ("pandas", "pydantic"),
}
ROWS = 50_000
DAMAGE_PCT = 10.0


def bare(file: Path, folder: Path) -> tuple[int, int]:  # noqa: ARG001 - all three have one shape
    """Read the file with pyarrow, every column as text; rows it cannot split are dropped."""
    import pyarrow as pa  # noqa: PLC0415 - only what is measured is imported
    import pyarrow.csv as pv  # noqa: PLC0415 - only what is measured is imported

    names = file.open(encoding="utf-8").readline().strip().split(",")
    table = pv.read_csv(
        file,
        convert_options=pv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        parse_options=pv.ParseOptions(invalid_row_handler=lambda _: "skip"),
    )
    return table.num_rows, 0


def ours(file: Path, folder: Path) -> tuple[int, int]:
    """Take the file in as a run does, sealed chunks, quarantine and problems included."""
    from nightscreen.config.parameters import ScreenBatch  # noqa: PLC0415 - only the measured
    from nightscreen.config.settings import read_settings  # noqa: PLC0415 - only the measured
    from nightscreen.runs import screening_run  # noqa: PLC0415 - only the measured

    settings = read_settings(base_url="http://127.0.0.1:9", api_key="none", home=folder / "home")
    run = screening_run.open_screening(
        ScreenBatch(input=str(file), output=str(folder / "out")), settings
    )
    try:
        screening_run.read_input(run)
        return run.rows_read, run.rows_quarantined
    finally:
        run.close()


def row_by_row(file: Path, folder: Path) -> tuple[int, int]:  # noqa: ARG001 - all three have one shape
    """Read with pandas and validate each row with a pydantic model."""
    import pandas as pd  # noqa: PLC0415 - only what is measured is imported
    from pydantic import BaseModel, Field, ValidationError  # noqa: PLC0415 - only what is measured is imported

    class Row(BaseModel):
        customer_id: str = Field(min_length=1)
        bvn: str = Field(pattern=r"^\d{11}$")
        account_number: str = Field(pattern=r"^\d{10}$")
        bank_code: str | None = None
        phone: str | None = Field(None, pattern=r"^(\+?234|0)?[ -]?[789][\d -]{9,12}$")
        email: str | None = Field(None, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$")
        date_of_birth: str | None = Field(None, pattern=r"^\d{4}-\d\d-\d\d$")
        exposure: Decimal | None = None
        consented_at: datetime | None = None

    frame = pd.read_csv(file, dtype=str, on_bad_lines="skip").astype(object)
    frame = frame.where(frame.notna(), None)
    refused = 0
    for row in frame.to_dict("records"):
        try:
            Row.model_validate(row)
        except ValidationError:
            refused += 1
    return len(frame), refused


WAYS: dict[str, Callable[[Path, Path], tuple[int, int]]] = {
    "pyarrow": bare,
    "nightscreen": ours,
    "pandas + pydantic": row_by_row,
}


def measure(way: str, file: Path) -> dict[str, Any]:
    """Take the file in one way, in a process of its own; return its figures."""
    command = [sys.executable, "-m", "benchmarks.intake", "--inside", way, "--file", str(file)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def inside(way: str, file: Path) -> dict[str, Any]:
    """Take the file in here, imports left out of the time."""
    with tempfile.TemporaryDirectory() as folder:
        _import_all(way)
        started = time.process_time()
        rows, refused = WAYS[way](file, Path(folder))
        cpu = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": rows, "refused": refused, "cpu": cpu, "peak_mb": peak}


def _import_all(way: str) -> None:
    """Import what a way needs before its time begins."""
    for name in _NEEDS[way]:
        import_module(name)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=ROWS)
    parser.add_argument("--inside", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        print(json.dumps(inside(given.inside, Path(given.file))))
        return
    print(run_words())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "dirty.csv"
        make_batch(file, rows=given.rows, seed=1, damage_pct=DAMAGE_PCT)
        found = {way: measure(way, file) for way in WAYS}
    limit = found["pyarrow"]["cpu"]
    print(f"{'':20}{'rows':>10}{'refused':>10}{'CPU s':>9}{'µs a row':>10}{'ratio':>8}{'MB':>7}")
    for way, each in found.items():
        print(
            f"{way:20}{each['rows']:>10,}{each['refused']:>10,}{each['cpu']:>9.2f}"
            f"{1e6 * each['cpu'] / given.rows:>10.1f}{each['cpu'] / limit:>8.1f}"
            f"{each['peak_mb']:>7.0f}"
        )


if __name__ == "__main__":
    main()
