"""How full is the cap? The whole line beside the best that any scheduler could do.

Share of the cap in use from the first call's beginning to the last one's end, as the service saw
it, beside a simulated ideal that is given the same latencies: as many calls in flight as the cap
allows from the first instant on, the next begun in the instant in which one ends. The line's figure
holds everything: intents, outcomes and answers on disk, the cap that opens small, the call that
opens the books and the one that closes them. Two views:

* `schedule` runs in virtual time: what the engine's order of work loses, the same on any machine;
* `real` runs against a simulator in another process, by the wall clock: what the CPU cannot keep up
  with comes on top. A machine that does other work shows it here first.

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
from nightscreen.sandbox.faults import Latency, Profile, fixed, lognormal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import DEFAULT_KEY, Sandbox
from tests.calling.virtual_time import run as run_virtually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence


PROFILES = {"fixed": fixed(100), "lognormal": lognormal(100, 1000)}
THREE = ("bank_account", "karma", "ecosystem")
BALANCE = "900000000"
_MEDIAN_S = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Attributes:
        latency: `fixed` or `lognormal`.
        cap: of each check.
        checks: what is asked.
        rows: how many customers there are.
    """

    latency: str
    cap: int
    checks: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Use:
    """What a run came to: shares of all caps in use, and this process's CPU for a call."""

    calls: int
    in_use: float
    ideal: float
    cpu_ms: float


class Recorded(Latency):
    """Latencies that remember what was drawn for whom, and when the call is to end."""

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


class Timed(Runner):
    """Takes the CPU seconds of asking."""

    cpu_s = 0.0

    @asynccontextmanager
    async def asking(self, write_all: Callable[[], object]) -> AsyncIterator[None]:
        """Time the body."""
        before = time.process_time()
        async with super().asking(write_all):
            yield
        self.cpu_s = time.process_time() - before


def schedule(case: Case) -> Use:
    """Run the line in virtual time, the simulator in the same process."""
    sandbox = Sandbox(balance=BALANCE)
    sandbox.latency = latency = Recorded(PROFILES[case.latency])
    transport = httpx.ASGITransport(application(sandbox))
    service = ("http://127.0.0.1:1", DEFAULT_KEY)
    cpu_s = _screened(case, service, lambda work: run_virtually(lambda _: work), transport)
    first = min(latency.ends) - next(iter(latency.drawn.values()))[0]
    return _use(case, latency.drawn, max(latency.ends) - first, cpu_s)


def real(case: Case) -> Use:
    """Run the line by the wall clock, the simulator in a process of its own."""
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
    """Return the seconds from the first call's beginning to the last one's end, at best."""
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
    """Carry a batch along the line; return the CPU seconds of asking."""
    runner, (url, key) = Timed(), service
    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        make_batch(below / "in.csv", rows=case.rows, seed=1, damage_pct=0)
        caps = dict.fromkeys(case.checks, case.cap)
        settings = read_settings(base_url=url, api_key=key, home=below / "home", max_in_flight=caps)
        checks = list(case.checks)
        given = ScreenBatch(input=str(below / "in.csv"), output=str(below / "out"), checks=checks)
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
