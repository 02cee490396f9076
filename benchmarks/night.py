"""Measure whole nights of a batch: CPU, wall time and peak memory by station.

`python -m benchmarks.night [ROWS ...]`; by default 20,000 rows. Each size has four
measurements, each in its own process on one core: the first night asks the simulator, which answers
at once; on the second every answer is fresh; the quote makes no calls; a DuckDB join of the same
CSV with the first night's columns, which decides, seals, reports and stores nothing, is the lower
limit. A million rows take a quarter of an hour.

How to read it: CPU seconds count, because they depend less on other load; they are those of all
threads. Memory must not grow with rows: its ratio to the first size stays near one. `--folder`
keeps the files; an existing first night there is reused. `--profile FILE` writes a profile of the
second night.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.measured import run_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


CAP = 200
LATER = ("second", "quote", "join")
_NOBODY = "http://127.0.0.1:9"
_KEPT_ENTRIES = 1000  # of the simulator's ledger, whose process would otherwise be the larger one
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_TOP = 45


class Stations:
    """Measures CPU and wall seconds, and peak resident memory, from one mark to the next.

    Attributes:
        figures: CPU seconds, wall seconds and megabytes, by station.
    """

    def __init__(self) -> None:
        self.figures: dict[str, tuple[float, float, int]] = {}
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def mark(self, name: str) -> None:
        """Record the figures since the last mark for a station."""
        cpu, wall = time.process_time(), time.perf_counter()
        lines = _STATUS.read_text("utf-8").splitlines()
        peak = next(each for each in lines if each.startswith("VmHWM"))
        self.figures[name] = (cpu - self._cpu, wall - self._wall, int(peak.split()[1]) // 1024)
        _CLEAR_REFS.write_text("5", "utf-8")  # resets the peak to the resident memory now
        self._cpu, self._wall = cpu, wall


class Marked(Runner):
    """Runs in this process and measures each station; all lookups are one station."""

    def __init__(self, stations: Stations) -> None:
        self.stations = stations

    async def step(
        self,
        name: str,
        station: Callable[..., Any],
        *given: Any,  # noqa: ANN401 - as the station
        re_entered: bool = False,
    ) -> Any:  # noqa: ANN401 - as the station
        """Run one station and mark its end."""
        done = await super().step(name, station, *given, re_entered=re_entered)
        if not name.endswith("books"):
            self.stations.mark(name)
        return done

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:
        """Mark the end of the lookups."""
        async with super().asking(write_all):
            yield
        self.stations.mark("lookups")


def night(folder: Path, url: str, key: str, *, quote_only: bool = False) -> dict[str, Any]:
    """Screen the batch of a folder; return the lookups and the figures of each station."""
    stations = Stations()
    caps = dict.fromkeys(("bank_account", "karma", "ecosystem"), CAP)
    settings = read_settings(base_url=url, api_key=key, home=folder / "home", max_in_flight=caps)
    parameters = ScreenBatch(
        input=str(folder / "in.csv"),
        batch="benchmark",
        output=str(folder / "out"),
        quote_only=quote_only,
    )
    report = asyncio.run(run_screening(parameters, settings, runner=Marked(stations)))
    stations.mark("close")
    checks = {} if quote_only else report["checks"]
    lookups = sum(each["attempts"] for each in checks.values())
    return {"lookups": lookups, "stations": stations.figures}


def join(folder: Path) -> dict[str, Any]:
    """Join the CSV with the checks' columns of the first night, and write Parquet."""
    stations = Stations()
    parts = str(next((folder / "out").glob("*/enriched")) / "part-*.parquet")
    with duckdb.connect(config={"threads": 1}) as engine:
        names = [row[0] for row in engine.execute(f"DESCRIBE FROM '{parts}'").fetchall()]
        first = names.index("bank_account_status")
        taken = ", ".join(f'e."{name}"' for name in names[first:])
        engine.execute(
            f"COPY (SELECT i.*, {taken} FROM read_csv('{folder / 'in.csv'}', all_varchar=true, "  # noqa: S608 - our own paths and columns
            f"null_padding=true, ignore_errors=true) i LEFT JOIN '{parts}' e USING (customer_id)) "
            f"TO '{folder / 'joined.parquet'}' (FORMAT parquet, COMPRESSION zstd, "
            "COMPRESSION_LEVEL 1)"
        )
    stations.mark("join")
    return {"lookups": 0, "stations": stations.figures}


def _inside(kind: str, folder: Path, service: tuple[str, str]) -> dict[str, Any]:
    """Take one of the four measurements in this process, on one core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if kind == "join":
        return join(folder)
    return night(folder, *service, quote_only=kind == "quote")


def _profiled(path: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    profile = cProfile.Profile()
    figures = profile.runcall(work)
    with path.open("w", encoding="utf-8") as file:
        stats = pstats.Stats(profile, stream=file).strip_dirs()
        stats.sort_stats("cumulative").print_stats(2 * _TOP)
        stats.sort_stats("tottime").print_stats(_TOP)
    return figures


def measured(
    kind: str, folder: Path, service: tuple[str, str] = (_NOBODY, "none"), profile: str = ""
) -> dict[str, Any]:
    """Take one of the four measurements in its own process."""
    command = [sys.executable, "-m", "benchmarks.night", "--inside", kind, "--folder", str(folder)]
    command += ["--service", *service, "--profile", profile]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def nights(rows: int, folder: Path, profile: str = "") -> dict[str, dict[str, Any]]:
    """Return the figures of all four measurements of one batch."""
    by_kind = {}
    if not (folder / "home").exists():
        make_batch(folder / "in.csv", rows=rows, seed=1)
        with SandboxProcess(balance="900000000", ledger_limit=_KEPT_ENTRIES) as sandbox:
            sandbox.post("/_sandbox/latency", {"kind": "none"})
            by_kind["first"] = measured("first", folder, (sandbox.url, sandbox.api_key))
    for kind in LATER:
        by_kind[kind] = measured(kind, folder, profile=profile if kind == "second" else "")
    return by_kind


def cpu_s(figures: dict[str, Any]) -> float:
    """Return the CPU seconds of all stations."""
    return float(sum(cpu for cpu, _, _ in figures["stations"].values()))


def _print(kind: str, rows: int, figures: dict[str, Any], limit_s: float, base: int) -> None:
    cpu, stations = cpu_s(figures), figures["stations"]
    wall, peak = sum(each[1] for each in stations.values()), _peak(figures)
    print(
        f"| {rows:,} | {kind} | {figures['lookups']:,} | {cpu:.1f} | {wall:.1f} | "
        f"{rows / cpu:,.0f} | {cpu / limit_s:.1f} | {peak} | {peak / base:.2f} | "
        + ", ".join(f"{name} {1e6 * figure[0] / rows:.1f}" for name, figure in stations.items())
        + " |",
        flush=True,
    )


def _peak(figures: dict[str, Any]) -> int:
    return int(max(each[2] for each in figures["stations"].values()))


def main() -> None:
    """Measure every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=[20_000])
    parser.add_argument("--folder", default="", help="folder for the files, which stay")
    parser.add_argument("--profile", default="", help="file for a profile of the second night")
    parser.add_argument("--inside", choices=("first", *LATER), help=argparse.SUPPRESS)
    parser.add_argument("--service", nargs=2, default=("", ""), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        url, key = given.service
        work = partial(_inside, given.inside, Path(given.folder), (url, key))
        figures = _profiled(Path(given.profile), work) if given.profile else work()
        print(json.dumps(figures))
        return
    print(f"{run_words()}\n")
    print(
        "| rows | night | lookups | CPU s | wall s | rows a CPU s | of the join | peak MB | to "
        "the first size | µs of CPU a row |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    bases: dict[str, int] = {}
    for rows in given.rows:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(given.folder) / str(rows) if given.folder else Path(made)
            folder.mkdir(parents=True, exist_ok=True)
            by_kind = nights(rows, folder, given.profile)
        for kind, figures in by_kind.items():
            base = bases.setdefault(kind, _peak(figures))
            _print(kind, rows, figures, cpu_s(by_kind["join"]), base)


if __name__ == "__main__":
    main()
