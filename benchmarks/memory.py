"""Peak memory of a night by the number of its rows, station by station.

`python -m benchmarks.memory [ROWS ...]`; by default 2,000 and 20,000 rows. Each night is a process
of its own. Up to 20,000 rows the simulator is really asked. Above, the table of lookups of a first
night is filled, and then answered straight into the journal, since asking holds a few hundred
lookups at a time whatever the number of rows; the second night and the quote of the same batch
follow. The ratio to the peak at 100,000 rows (else at the first size) is what counts: it must stay
near one.

`--folder` keeps what was made; a batch and a first night that lie there already are not made again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.line import Stations
from benchmarks.measured import run_words
from benchmarks.warm import NOBODY, Filled, asked_for
from nightscreen.runs.screening import run_screening
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (2_000, 20_000)
MOST_ASKED = 20_000
"""Rows up to which the simulator is asked."""
BASE_ROWS = 100_000
_NIGHTS = ("first", "second", "quote")


def night(folder: Path, kind: str) -> dict[str, Any]:
    """Carry a batch along the line, answered straight into the journal; return its peaks."""
    stations = Stations()
    parameters, settings = asked_for(folder, quote_only=kind == "quote")
    runner = Filled(stations, NOBODY)
    report = asyncio.run(run_screening(parameters, settings, runner=runner))
    return {"rows": report["rows"]["read"], "lookups": runner.needed, "peaks": stations.peaks}


def measure(rows: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of the nights of one batch, answered straight into the journal."""
    wanted: Sequence[str] = _NIGHTS
    if not (folder / "in.csv").exists():
        make_batch(folder / "in.csv", rows=rows, seed=1)
    elif (folder / "home").exists():
        wanted = _NIGHTS[1:]
    return {kind: _inside("benchmarks.memory", "--inside", kind, str(folder)) for kind in wanted}


def measure_asked(rows: int, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of a first and a second night that ask the simulator."""
    found = {}
    with SandboxProcess(balance="900000000") as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "none"})
        for kind in _NIGHTS[:2]:
            command = ("benchmarks.line", sandbox.url, sandbox.api_key, str(rows), str(folder))
            found[kind] = _inside(*command)
    return found


def _inside(*command: str) -> dict[str, Any]:
    """Run a module as a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", *command], check=True, stdout=subprocess.PIPE, text=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def _table(sizes: list[int], folder: Path | None) -> None:
    """Measure each size and print it beside the base."""
    bases: dict[str, float] = {}
    print(f"{'rows':>9} {'night':>7} {'lookups':>9} {'peak MB':>8} {'to base':>8}  by station, MB")
    for rows in sizes:
        with tempfile.TemporaryDirectory() as made:
            here = Path(made) if folder is None else folder / str(rows)
            here.mkdir(parents=True, exist_ok=True)
            nights = (measure_asked if rows <= MOST_ASKED else measure)(rows, here)
        for kind, figures in nights.items():
            peak = max(figures["peaks"].values())
            if rows == BASE_ROWS or kind not in bases:
                bases[kind] = peak
            print(
                f"{rows:>9,} {kind:>7} {figures['lookups']:>9,} {peak:>8} "
                f"{peak / bases[kind]:>8.2f}  {figures['peaks']}",
                flush=True,
            )


def main() -> None:
    """Print a table of sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--folder", type=Path, help="where to work, and to leave everything")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        kind, folder = given.inside
        print(json.dumps(night(Path(folder), kind)))
        return
    print(run_words())
    _table(given.rows, given.folder)


if __name__ == "__main__":
    main()
