"""How full is the cap? The whole line beside the best that any scheduler could do.

Share of the cap in use from the first call's beginning to the last one's end, as the service saw
it, beside a simulated ideal (`benchmarks/ideal.py`) that is given the same latencies. The line's
figure holds everything: intents, outcomes and answers on disk, the cap that opens small, the call
that opens the books and the one that closes them. Three views:

* `schedule` runs in virtual time (`benchmarks/virtual_time.py`): what the engine's order of work
  loses, the same on any machine.
* `real` runs against a simulator in another process, by the wall clock: what the CPU cannot keep up
  with comes on top. A machine that does other work shows it here first.

* `served` asks one check of a bare server (`benchmarks/counting_server.py`), which counts calls
  under way itself and takes 100 ms for each.

Below the rows of the last two stands how late the line's event loop came to what was due, looked at
every 5 ms while it asked.

Run it as `python -m benchmarks.occupancy`; `--long` for the whole table.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import socket
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import uvloop

from benchmarks import virtual_time
from benchmarks.ideal import ideal_span_s, share_in_use
from benchmarks.measured import load_words, run_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.app import application
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.faults import Latency, Profile, fixed, lognormal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import Opening, Sandbox
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from tests.kill.drive import RunLoop

PROFILES = {"fixed": fixed(100), "lognormal": lognormal(100, 1000)}
CONTROL = {
    "fixed": {"kind": "fixed", "ms": 100},
    "lognormal": {"kind": "lognormal", "median_ms": 100, "p99_ms": 1000},
}
THREE = ("bank_account", "karma", "ecosystem")
BALANCE = "900000000"
_MEDIAN_S = 0.1
_PROBE_S = 0.005
_HAVE_BVN = 0.7
"""The share of made-up customers who have what an ecosystem lookup asks about."""
_LAGS_MS = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        latency: `fixed` or `lognormal`.
        cap: of each check.
        checks: what is asked.
        seconds: how long the ideal takes if every call takes 100 ms.
    """

    latency: str
    cap: int
    checks: tuple[str, ...]
    seconds: float

    @property
    def rows(self) -> int:
        """Return how many customers there are."""
        return int(self.cap * self.seconds / _MEDIAN_S)


@dataclass(frozen=True, slots=True)
class Filled:
    """What a run came to: shares of all caps in use, and this process's CPU for a call.

    Attributes:
        lags_s: how late the event loop came to what was due.
        idle_ms: how long a connection lay idle before its next call, by percentile.
    """

    calls: int
    in_use: float
    ideal: float
    cpu_ms: float
    lags_s: Sequence[float] = ()
    idle_ms: Mapping[str, float] = field(default_factory=dict)

    def words(self) -> Iterator[str]:
        """Return what is to be said below the row."""
        if self.lags_s:
            size, longest_ms = len(self.lags_s), 1000 * max(self.lags_s)
            parts = [
                f"under {limit} ms {sum(1000 * lag < limit for lag in self.lags_s) / size:.1%}"
                for limit in _LAGS_MS
            ]
            yield f"loop's lag: {', '.join(parts)}, longest {longest_ms:.0f} ms"
        if self.idle_ms:
            parts = [f"{part} % within {ms:.1f} ms" for part, ms in self.idle_ms.items()]
            yield f"next call on a connection: {', '.join(parts)}"


class Recorded(Latency):
    """Latencies that remember what was drawn for whom, and when the call came."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile, 0)
        self.drawn: dict[str, list[float]] = defaultdict(list)
        self.ends: list[float] = []

    def seconds(self, operation: str) -> float:
        """Draw how long the next answer takes."""
        took = super().seconds(operation)
        self.drawn[operation].append(took)
        self.ends.append(asyncio.get_running_loop().time() + took)
        return took


def schedule(case: Case) -> Filled:
    """Run the line in virtual time, the simulator in the same process."""
    sandbox = Sandbox(Opening(balance=BALANCE))
    latency = Recorded(PROFILES[case.latency])
    sandbox.latency = latency
    transport = httpx.ASGITransport(application(sandbox))
    settings = {"url": "http://127.0.0.1:1", "api_key": sandbox.opening.api_key}
    cpu, _ = _screened(case, settings, virtual_time.run, transport)
    first = min(latency.ends) - next(iter(latency.drawn.values()))[0]
    return _filled(case, latency.drawn, max(latency.ends) - first, cpu)


def real(case: Case) -> Filled:
    """Run the line by the wall clock, the simulator in a process of its own."""
    with SandboxProcess(balance=BALANCE) as sandbox:
        sandbox.post("/_sandbox/latency", CONTROL[case.latency])
        settings = {"url": sandbox.url, "api_key": sandbox.api_key}
        cpu, lags_s = _screened(case, settings, uvloop.run, None)
        sandbox.wait_until_idle()
        entries = sandbox.ledger()["entries"]
    replayed = Latency(PROFILES[case.latency], 0)
    drawn: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        drawn[entry["operation"]].append(replayed.seconds(entry["operation"]))
    first = Latency(PROFILES[case.latency], 0).seconds("")
    ends = [float(entry["at"]) for entry in entries]
    found = _filled(case, drawn, max(ends) - min(ends) + first, cpu)
    return replace(found, lags_s=lags_s)


def served(case: Case) -> Filled:
    """Run the line by the wall clock, and let a bare server in a process of its own judge it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("-m", "benchmarks.counting_server", str(port), str(1000 * _MEDIAN_S))
    server = subprocess.Popen([sys.executable, *words])
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/counted")
                break
            time.sleep(0.05)
        cpu_s, lags_s = _screened(case, {"url": url, "api_key": "sk_test"}, uvloop.run, None)
        counted = httpx.get(f"{url}/counted").json()
    finally:
        server.terminate()
        server.wait()
    calls, in_use = counted["calls"], counted["under_way"] / case.cap
    return Filled(calls, in_use, 1.0, cpu_s / calls * 1000, lags_s, counted["idle_ms"])


def _filled(
    case: Case, drawn: Mapping[str, Sequence[float]], span_s: float, cpu_s: float
) -> Filled:
    every = [each for draws in drawn.values() for each in draws]
    caps = case.cap * len(case.checks)
    ideal_s = max(ideal_span_s(draws, case.cap) for draws in drawn.values())
    return Filled(
        len(every),
        share_in_use(every, caps, span_s),
        share_in_use(every, caps, ideal_s),
        cpu_s / len(every) * 1000,
    )


def _screened(
    case: Case,
    service: Mapping[str, str],
    run: RunLoop,
    transport: httpx.AsyncBaseTransport | None,
) -> tuple[float, list[float]]:
    """Carry a batch along the line; return the CPU seconds of asking, and the loop's lags."""
    spent: list[float] = []
    lags_s: list[float] = []

    @contextlib.asynccontextmanager
    async def timed() -> AsyncIterator[None]:
        probe = None if transport is not None else asyncio.create_task(_probe(lags_s))
        before = time.process_time()
        yield
        spent.append(time.process_time() - before)
        if probe is not None:
            probe.cancel()

    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        make_batch(below / "in.csv", rows=case.rows, seed=1, damage_pct=0)
        caps = dict.fromkeys(case.checks, case.cap)
        settings = settings_for(below / "home", **service, max_in_flight=caps)
        checks = list(case.checks)
        given = ScreenBatch(input=str(below / "in.csv"), output=str(below / "out"), checks=checks)
        report = screen(given, settings, run_loop=run, around=timed, transport=transport).report
    assert report["state"] == "completed", report["stop_reason"]
    return spent[0], lags_s


async def _probe(lags_s: list[float]) -> None:
    """Note again and again how late the loop comes to what was due."""
    while True:
        due = time.perf_counter() + _PROBE_S
        await asyncio.sleep(_PROBE_S)
        lags_s.append(max(0.0, time.perf_counter() - due))


def cases(caps: Sequence[int], seconds: float, latencies: Sequence[str]) -> list[Case]:
    """Return one check and all three for each latency and cap."""
    return [
        Case(latency, cap, checks, seconds)
        for latency in latencies
        for checks in (("karma",), THREE)
        for cap in caps
    ]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caps", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--seconds", type=float, default=5, help="length of a run, about")
    parser.add_argument("--latencies", nargs="+", default=list(PROFILES), choices=list(PROFILES))
    parser.add_argument("--views", nargs="+", default=["schedule", "real", "served"])
    parser.add_argument("--long", action="store_true", help="caps 20, 50, 200, half a minute each")
    given = parser.parse_args()
    caps, seconds = ([20, 50, 200], 30.0) if given.long else (given.caps, given.seconds)
    views = {"schedule": schedule, "real": real, "served": served}
    print(run_words())
    print(
        "view      latency    checks  cap    calls  in use   ideal  of the ideal  CPU ms  machine"
    )
    for view in given.views:
        for case in cases(caps, seconds, given.latencies):
            if view == "served":
                if case.latency != "fixed" or len(case.checks) > 1:
                    continue
                asked = case.seconds / _HAVE_BVN
                case = replace(case, checks=("ecosystem",), seconds=asked)  # noqa: PLW2901
            words = load_words()
            found = views[view](case)
            print(
                f"{view:10}{case.latency:11}{len(case.checks):>6}{case.cap:>5}{found.calls:>9}"
                f"{found.in_use:8.3f}{found.ideal:8.3f}{found.in_use / found.ideal:14.3f}"
                f"{found.cpu_ms:8.3f}  {words}",
                *found.words(),
                sep="\n    ",
                flush=True,
            )


if __name__ == "__main__":
    main()
