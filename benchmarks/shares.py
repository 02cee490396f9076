"""Which station takes the CPU of a lookup? The line below the flow, sampled by CPU time.

The service answers at once, from a process whose CPU is not counted. Every four milliseconds of the
process's CPU the stacks of all threads are looked at; what a thread has used since goes to the
innermost frame that belongs to a station. So a seal that the journal makes is sealing, and what a
station does through the standard library is the station's. What comes before the first call and
after the last one stands by the row.

CPU counts, of the least of several runs; bare httpx over small pools runs beside each. The engine
has no line of its own: a task run of some thousand lookups costs it milliseconds. Run it as
`python -m benchmarks.shares`.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import uvloop

from benchmarks.lookup_cost import CONTESTANTS, cost_of
from benchmarks.measured import load_words, run_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import FrameType

EVERY_S = 0.004
CAP = 50
STATIONS = (
    ("sealing", ("files/sealing", "files/pseudonyms", "site-packages/cryptography")),
    ("journal", ("journal", "calling/writer", "site-packages/sqlalchemy")),
    ("parsing and classification", ("client/classify", "client/response", "client/validation")),
    ("transport", ("client/api", "client/transport", "client/http", "httptools")),
    ("writing requests", ("client/wire", "client/identities", "site-packages/httpx")),
    ("lane", ("calling", "client/limiter")),
)
"""Stations and the files that are theirs."""
REST = "loop and the rest"


def station_of(frame: FrameType | None) -> str:
    """Return the station of the innermost frame that has one."""
    while frame is not None:
        name = frame.f_code.co_filename
        for station, files in STATIONS:
            if any(file in name for file in files):
                return station
        frame = frame.f_back
    return REST


class ThreadSampler:
    """Puts the CPU of every thread down to stations while its block runs."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._used: dict[int, float] = {}

    def __enter__(self) -> Self:
        signal.signal(signal.SIGPROF, self._sample)
        self._sample(0, None)
        self.seconds.clear()
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        return self

    def __exit__(self, *_exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _number: int, here: FrameType | None) -> None:
        frames = sys._current_frames()  # noqa: SLF001 - the only way to other threads' stacks
        for thread in threading.enumerate():
            ident = thread.ident
            if ident is None or ident not in frames:
                continue
            used = time.clock_gettime(time.pthread_getcpuclockid(ident))
            spent = used - self._used.get(ident, used)
            self._used[ident] = used
            mine = here if thread is threading.main_thread() else frames[ident]
            self.seconds[station_of(mine)] += spent


def shares(url: str, key: str, calls: int) -> dict[str, Any]:
    """Screen a batch for karma; return the asking's CPU seconds by station and its lookups."""
    found: dict[str, Any] = {}

    @asynccontextmanager
    async def sampled() -> AsyncIterator[None]:
        began = time.process_time()
        with ThreadSampler() as sampler:
            yield
        found["cpu_s"] = time.process_time() - began
        found["stations"] = dict(sampler.seconds)

    with tempfile.TemporaryDirectory() as below:
        file = Path(below) / "in.csv"
        make_batch(file, rows=calls, seed=1, damage_pct=0)
        settings = settings_for(Path(below) / "home", url, key, max_in_flight={"karma": CAP})
        given = ScreenBatch(input=str(file), output=f"{below}/out", checks=["karma"])
        whole = time.process_time()
        report = screen(given, settings, run_loop=uvloop.run, around=sampled).report
        found["beside_s"] = time.process_time() - whole - found["cpu_s"]
        found["lookups"] = int(report["checks"]["karma"]["attempts"])
    return found


def main() -> None:
    """Measure each run in a process of its own, and print the table of the least."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("URL", "KEY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        url, key = given.one
        print(json.dumps(shares(url, key, given.calls)))
        return
    print(run_words())
    runs, bare = [], []
    with (
        tempfile.TemporaryDirectory() as below,
        SandboxProcess(balance="900000000", ledger_limit=100) as sandbox,
    ):
        words = [sys.executable, "-m", "benchmarks.shares", "--calls", str(given.calls), "--one"]
        for _ in range(given.rounds):
            bare.append(cost_of(CONTESTANTS["httpx"], given.calls, Path(below), sandbox).more_ms)
            sandbox.reset()
            sandbox.post("/_sandbox/latency", {"kind": "none"})
            done = subprocess.run(
                [*words, sandbox.url, sandbox.api_key], check=True, capture_output=True, text=True
            )
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    least = min(runs, key=lambda run: run["cpu_s"] / run["lookups"])
    lookups, httpx_ms = least["lookups"], min(bare)
    print(f"{lookups} lookups, {load_words()}")
    print(f"{'CPU of a lookup':30}{'µs':>8}{'share':>8}{'of bare httpx':>15}")
    for station, seconds in sorted(least["stations"].items(), key=lambda each: -each[1]):
        share = seconds / sum(least["stations"].values())
        _row(station, least["cpu_s"] * share / lookups, share, httpx_ms)
    _row("asking", least["cpu_s"] / lookups, 1.0, httpx_ms)
    _row("before and after, a row", least["beside_s"] / lookups, None, httpx_ms)
    _row("bare httpx, pools of 10", httpx_ms / 1000, None, httpx_ms)


def _row(name: str, seconds: float, share: float | None, httpx_ms: float) -> None:
    shown = "" if share is None else f"{share:.1%}"
    print(f"{name:30}{seconds * 1e6:>8.0f}{shown:>8}{1000 * seconds / httpx_ms:>15.2f}")


if __name__ == "__main__":
    main()
