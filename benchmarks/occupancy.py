"""Measure how much of the cap a run uses, compared with the best possible schedule.

The share of the cap in use from the first call's start to the last one's end, as the service saw
it, is compared with a simulated ideal for the same latencies: as many calls in flight as the cap
allows from the start, each next call at the instant in which one ends. A run's figure includes
everything: intents, outcomes and answers on disk, the cap that starts small, and the first and last
call, which are made alone. Two views:

* `schedule` runs in virtual time: the loss from the order of work, the same on any machine;
* `real` runs against a simulator in another process, in real time: adds what the CPU cannot keep up
  with. Other load on the machine shows here first.

`python -m benchmarks.occupancy [--caps N ...] [--seconds S] [--views ...]`
"""

from __future__ import annotations

import argparse
import asyncio
import heapq
import tempfile
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvloop

from benchmarks.measured import load_words, run_words
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.sandbox.app import application
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.faults import Latency, Profile
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import DEFAULT_KEY, Sandbox
from tests.calling.virtual_time import run as run_virtually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence


PROFILES = {
    "fixed": Profile(kind="fixed", ms=100),
    "lognormal": Profile(kind="lognormal", median_ms=100, p99_ms=1000),
}
THREE = ("bank_account", "karma", "ecosystem")
BALANCE = "900000000"
_MEDIAN_S = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        latency: `fixed` or `lognormal`.
        cap: calls in flight, per check.
        checks: the checks of the run.
        rows: number of customers.
    """

    latency: str
    cap: int
    checks: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Use:
    """A run's result: the share of all caps in use, the ideal share, and CPU per call."""

    calls: int
    in_use: float
    ideal: float
    cpu_ms: float


class Recorded(Latency):
    """Latencies that record each draw by operation, and the end of each call."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile, 0)
        self.drawn: dict[str, list[float]] = defaultdict(list)
        self.ends: list[float] = []

    def seconds(self, operation: str) -> float:
        """Draw the seconds of the next answer."""
        took = super().seconds(operation)
        self.drawn[operation].append(took)
        self.ends.append(asyncio.get_running_loop().time() + took)
        return took


class Timed(Runner):
    """Measures the CPU seconds of the lookups."""

    cpu_s = 0.0

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:
        """Measure the body."""
        before = time.process_time()
        async with super().asking(write_all):
            yield
        self.cpu_s = time.process_time() - before


def schedule(case: Case) -> Use:
    """Run in virtual time, with the simulator in the same process."""
    sandbox = Sandbox(balance=BALANCE)
    sandbox.latency = latency = Recorded(PROFILES[case.latency])
    transport = httpx.ASGITransport(application(sandbox))
    service = ("http://127.0.0.1:1", DEFAULT_KEY)
    cpu_s = _screened(case, service, lambda work: run_virtually(lambda _: work), transport)
    first = min(latency.ends) - next(iter(latency.drawn.values()))[0]
    return _use(case, latency.drawn, max(latency.ends) - first, cpu_s)


def real(case: Case) -> Use:
    """Run in real time, with the simulator in its own process."""
    profile = PROFILES[case.latency]
    with SandboxProcess(balance=BALANCE) as sandbox:
        sandbox.post("/_sandbox/latency", profile.as_json())
        cpu_s = _screened(case, (sandbox.url, sandbox.api_key), uvloop.run, None)
        sandbox.wait_until_idle()
        entries = sandbox.ledger()["entries"]
    replayed = Latency(profile, 0)
    drawn: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        drawn[entry["operation"]].append(replayed.seconds(entry["operation"]))
    ends = [float(entry["at"]) for entry in entries]
    first = Latency(profile, 0).seconds("")
    return _use(case, drawn, max(ends) - min(ends) + first, cpu_s)


def _use(case: Case, drawn: Mapping[str, Sequence[float]], span_s: float, cpu_s: float) -> Use:
    every = [each for draws in drawn.values() for each in draws]
    slots = case.cap * len(case.checks)
    ideal_s = max(ideal_span_s(draws, case.cap) for draws in drawn.values())
    busy_s, calls = sum(every), len(every)
    return Use(calls, busy_s / slots / span_s, busy_s / slots / ideal_s, cpu_s / calls * 1000)


def ideal_span_s(latencies_s: Sequence[float], cap: int) -> float:
    """Return the least seconds from the first call's start to the last one's end."""
    ends: list[float] = []
    for latency_s in latencies_s:
        begun = heapq.heappop(ends) if len(ends) == cap else 0.0
        heapq.heappush(ends, begun + latency_s)
    return max(ends, default=0.0)


def _screened(
    case: Case,
    service: tuple[str, str],
    run: Callable[[Coroutine[Any, Any, dict[str, Any]]], dict[str, Any]],
    transport: httpx.AsyncBaseTransport | None,
) -> float:
    """Screen a batch; return the CPU seconds of its lookups."""
    runner, (url, key) = Timed(), service
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_batch(root / "in.csv", rows=case.rows, seed=1, damage_pct=0)
        caps = dict.fromkeys(case.checks, case.cap)
        settings = read_settings(base_url=url, api_key=key, home=root / "home", max_in_flight=caps)
        checks = list(case.checks)
        given = ScreenBatch(input=str(root / "in.csv"), output=str(root / "out"), checks=checks)
        report = run(run_screening(given, settings, runner=runner, transport=transport))
    assert report["state"] == "completed", report["stop_reason"]
    return runner.cpu_s


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caps", type=int, nargs="+", default=[20, 50])
    parser.add_argument("--seconds", type=float, default=5, help="length of a run, about")
    parser.add_argument("--latencies", nargs="+", default=list(PROFILES), choices=list(PROFILES))
    parser.add_argument("--views", nargs="+", default=["schedule", "real"])
    given = parser.parse_args()
    views = {"schedule": schedule, "real": real}
    print(f"{run_words()}\n")
    print(
        "| view | latency | checks | cap | calls | in use | ideal | of the ideal | CPU ms a call "
        "| machine |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for view in given.views:
        for latency in given.latencies:
            for checks in (("karma",), THREE):
                for cap in given.caps:
                    case = Case(latency, cap, checks, int(cap * given.seconds / _MEDIAN_S))
                    words, use = load_words(), views[view](case)
                    print(
                        f"| {view} | {latency} | {len(checks)} | {cap} | {use.calls:,} | "
                        f"{use.in_use:.3f} | {use.ideal:.3f} | {use.in_use / use.ideal:.3f} | "
                        f"{use.cpu_ms:.2f} | {words} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
