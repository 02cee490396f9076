"""The warm night: a batch all of whose answers are fresh, beside a DuckDB join of the same data.

`python -m benchmarks.warm [ROWS ...]`; by default 20,000 rows. A first night is answered straight
into the journal; then the quote, the second night and the join are each a process of their own on
one core. CPU seconds count: rows a second are rows by CPU seconds of the process, all its threads
included. With `--asked` the first night asks the simulator, which answers at once. `--profile FILE`
writes where the second night's time went, and beside it, in FILE.first, where the first's did.

The join is the limit: one thread reads the same CSV, joins it with the checks' columns as they lie
typed and in clear in the first night's Parquet, and writes Parquet. It judges, seals, reports and
remembers nothing.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from benchmarks.filled import answer_needed
from benchmarks.line import Marked, Stations
from benchmarks.measured import run_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.screening import run_screening
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from nightscreen.config.settings import Settings
    from nightscreen.runs.screening_run import ScreeningRun

SIZES = (20_000,)
CAP = 200
NOBODY = ("http://127.0.0.1:9", "none")
"""Address and key of a service that is not asked."""
_KINDS = ("first", "second", "quote", "join")
_TOP = 45


def asked_for(
    folder: Path, *, quote_only: bool = False, service: tuple[str, str] = NOBODY
) -> tuple[ScreenBatch, Settings]:
    """Return parameters and settings of a run of the batch in a folder."""
    url, key = service
    in_flight = {"bank_account": CAP, "karma": CAP, "ecosystem": CAP}
    settings = read_settings(
        base_url=url, api_key=key, home=folder / "home", max_in_flight=in_flight
    )
    parameters = ScreenBatch(
        input=str(folder / "in.csv"),
        batch="benchmark",
        output=str(folder / "out"),
        quote_only=quote_only,
    )
    return parameters, settings


class Filled(Marked):
    """Has lookups answered straight into the journal, where no service is asked.

    Attributes:
        needed: lookups that had no fresh answer.
    """

    def __init__(self, stations: Stations, service: tuple[str, str]) -> None:
        super().__init__(stations)
        self.needed = 0
        self._service = service

    async def may_spend(self, run: ScreeningRun) -> bool:
        """Return whether the service is to be asked."""
        self.needed = len(run.needed)
        if self._service == NOBODY:
            answer_needed(run)
            self.stations.mark("answers")
        return self._service != NOBODY


def night(
    folder: Path, *, quote_only: bool = False, service: tuple[str, str] = NOBODY
) -> dict[str, Any]:
    """Carry the batch along the line; return its figures."""
    stations = Stations()
    parameters, settings = asked_for(folder, quote_only=quote_only, service=service)
    runner = Filled(stations, service)
    report = asyncio.run(run_screening(parameters, settings, runner=runner))
    stations.mark("close")
    return _figures(stations, report["rows"]["read"], runner.needed)


def _figures(stations: Stations, rows: int, needed: int) -> dict[str, Any]:
    return {
        "rows": rows,
        "needed": needed,
        "peaks": stations.peaks,
        "stations": stations.seconds,
    }


def join(folder: Path) -> dict[str, Any]:
    """Join the CSV with the checks' columns of the first night, and write Parquet."""
    stations = Stations()
    parts = str(next((folder / "out").glob("*/enriched")) / "part-*.parquet")
    target = folder / "joined.parquet"
    with duckdb.connect(config={"threads": 1}) as engine:
        names = [row[0] for row in engine.execute(f"DESCRIBE FROM '{parts}'").fetchall()]
        first = names.index("bank_account_status")
        taken = ", ".join(f'e."{name}"' for name in names[first:])
        engine.execute(
            f"COPY (SELECT i.*, {taken} FROM read_csv('{folder / 'in.csv'}', all_varchar=true, "  # noqa: S608 - our own paths and columns
            "null_padding=true, ignore_errors=true) i LEFT JOIN "
            f"'{parts}' e USING (customer_id)) TO '{target}' (FORMAT parquet, COMPRESSION zstd, "
            "COMPRESSION_LEVEL 1)"
        )
        rows = engine.read_parquet(str(target)).aggregate("count(*)").fetchall()
    stations.mark("join")
    return _figures(stations, rows[0][0], 0)


def _one(kind: str, folder: Path, service: tuple[str, str]) -> dict[str, Any]:
    """Do one of the four, in this process."""
    if kind == "join":
        return join(folder)
    return night(folder, quote_only=kind == "quote", service=service)


def profiled(path: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run something and write where its time went, the widest first."""
    profile = cProfile.Profile()
    figures = profile.runcall(work)
    with path.open("w", encoding="utf-8") as file:
        stats = pstats.Stats(profile, stream=file).strip_dirs()
        stats.sort_stats("cumulative").print_stats(2 * _TOP)
        stats.sort_stats("tottime").print_stats(_TOP)
    return figures


def measure(
    kind: str, folder: Path, profile: str = "", service: tuple[str, str] = NOBODY
) -> dict[str, Any]:
    """Do one of the four in a process of its own, on one core."""
    command = [sys.executable, "-m", "benchmarks.warm", "--inside", kind, "--folder", str(folder)]
    command += ["--service", *service]
    if profile:
        command += ["--profile", profile]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def compare(rows: int, folder: Path, profile: str = "", *, asked: bool = False) -> None:
    """Measure all four at one size and print them."""
    if not (folder / "in.csv").exists():
        make_batch(folder / "in.csv", rows=rows, seed=1)
        profile_first = profile and f"{profile}.first"
        if asked:
            with SandboxProcess(balance="900000000") as sandbox:
                sandbox.post("/_sandbox/latency", {"kind": "none"})
                service = (sandbox.url, sandbox.api_key)
                _print("first", measure("first", folder, profile_first, service))
        else:
            _print("first", measure("first", folder, profile_first))
    found = {
        kind: measure(kind, folder, profile if kind == "second" else "") for kind in _KINDS[1:]
    }
    for kind, figures in found.items():
        _print(kind, figures)
    limit = _cpu(found["join"])
    for kind in ("second", "quote"):
        print(f"  {kind} takes {_cpu(found[kind]) / limit:.1f} times the CPU of the join")


def _cpu(figures: dict[str, Any]) -> float:
    return float(sum(cpu for cpu, _ in figures["stations"].values()))


def _print(kind: str, figures: dict[str, Any]) -> None:
    rows, cpu = figures["rows"], _cpu(figures)
    wall, peaks = sum(wall for _, wall in figures["stations"].values()), figures["peaks"]
    print(
        f"{kind:8}{rows:>10,} rows {cpu:8.1f} CPU s {wall:8.1f} s {rows / cpu:>10,.0f} rows a CPU "
        f"second {max(peaks.values()):>6} MB",
        flush=True,
    )
    for name, (cpu_s, wall_s) in figures["stations"].items():
        print(f"    {name:9}{1e6 * cpu_s / rows:8.1f} µs a row {wall_s:9.1f} s {peaks[name]:>6} MB")


def main() -> None:
    """Measure every size asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", type=int, default=list(SIZES))
    parser.add_argument("--inside", choices=_KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help="where to work, and to leave everything")
    parser.add_argument("--profile", default="", help="file for where the nights' time went")
    parser.add_argument("--asked", action="store_true", help="ask the simulator, the first night")
    parser.add_argument("--service", nargs=2, default=NOBODY, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        work = partial(_one, given.inside, Path(given.folder), tuple(given.service))
        print(json.dumps(profiled(Path(given.profile), work) if given.profile else work()))
        return
    print(run_words())
    for rows in given.rows:
        if given.folder:
            Path(given.folder).mkdir(parents=True, exist_ok=True)
            compare(rows, Path(given.folder), given.profile, asked=given.asked)
            continue
        with tempfile.TemporaryDirectory() as folder:
            compare(rows, Path(folder), given.profile, asked=given.asked)


if __name__ == "__main__":
    main()
