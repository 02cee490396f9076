"""How full is the cap? The whole line beside the best that any scheduler could do.

Share of the cap in use from the first call's beginning to the last one's end, as the service saw
it, beside a simulated ideal (`benchmarks/ideal.py`) that is given the same latencies. The line's
figure holds everything: intents, outcomes and answers on disk, the cap that opens small, the call
that opens the books and the one that closes them. Two views:

* `schedule` runs in virtual time (`benchmarks/virtual_time.py`): what the engine's order of work
  loses, the same on any machine.
* `real` runs against a simulator in another process, by the wall clock: what the CPU cannot keep up
  with comes on top. A machine that does other work shows it here first.

Run it as `python -m benchmarks.occupancy`; `--long` for the whole table.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvloop

from benchmarks import virtual_time
from benchmarks.ideal import ideal_span_s, share_in_use
from benchmarks.measured import load_words, run_words
from nightscreen.sandbox.app import application
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.faults import Latency, Profile, fixed, lognormal
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.schemas.checks import Check
from nightscreen.schemas.parameters import ScreenBatch
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

PROFILES = {"fixed": fixed(100), "lognormal": lognormal(100, 1000)}
CONTROL = {
    "fixed": {"kind": "fixed", "ms": 100},
    "lognormal": {"kind": "lognormal", "median_ms": 100, "p99_ms": 1000},
}
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
    """What a run came to: shares of all caps in use, and this process's CPU for a call."""

    calls: int
    in_use: float
    ideal: float
    cpu_ms: float


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
    cpu = _screened(case, settings, virtual_time.run, transport)
    first = min(latency.ends) - next(iter(latency.drawn.values()))[0]
    return _filled(case, latency.drawn, max(latency.ends) - first, cpu)


def real(case: Case) -> Filled:
    """Run the line by the wall clock, the simulator in a process of its own."""
    with SandboxProcess(balance=BALANCE) as sandbox:
        sandbox.post("/_sandbox/latency", CONTROL[case.latency])
        settings = {"url": sandbox.url, "api_key": sandbox.api_key}
        cpu = _screened(case, settings, uvloop.run, None)
        sandbox.wait_until_idle()
        entries = sandbox.ledger()["entries"]
    replayed = Latency(PROFILES[case.latency], 0)
    drawn: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        drawn[entry["operation"]].append(replayed.seconds(entry["operation"]))
    first = Latency(PROFILES[case.latency], 0).seconds("")
    ends = [float(entry["at"]) for entry in entries]
    return _filled(case, drawn, max(ends) - min(ends) + first, cpu)


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
    run: Callable[[Coroutine[Any, Any, None]], None],
    transport: httpx.AsyncBaseTransport | None,
) -> float:
    """Carry a batch along the line; return the CPU seconds of asking."""
    spent: list[float] = []

    def timed(asking: Coroutine[Any, Any, None]) -> None:
        before = time.process_time()
        run(asking)
        spent.append(time.process_time() - before)

    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        make_batch(below / "in.csv", rows=case.rows, seed=1, damage_pct=0)
        caps = dict.fromkeys(case.checks, case.cap)
        settings = settings_for(below / "home", **service, max_in_flight=caps)
        checks = [Check(word) for word in case.checks]
        given = ScreenBatch(input=str(below / "in.csv"), output=str(below / "out"), checks=checks)
        report = screen(given, settings, runner=timed, transport=transport).report
    assert report["state"] == "completed", report["stop_reason"]
    return spent[0]


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
    parser.add_argument("--views", nargs="+", default=["schedule", "real"])
    parser.add_argument("--long", action="store_true", help="caps 20, 50, 200, half a minute each")
    given = parser.parse_args()
    caps, seconds = ([20, 50, 200], 30.0) if given.long else (given.caps, given.seconds)
    views = {"schedule": schedule, "real": real}
    print(run_words())
    print(
        "view      latency    checks  cap    calls  in use   ideal  of the ideal  CPU ms  machine"
    )
    for view in given.views:
        for case in cases(caps, seconds, given.latencies):
            words = load_words()
            found = views[view](case)
            print(
                f"{view:10}{case.latency:11}{len(case.checks):>6}{case.cap:>5}{found.calls:>9}"
                f"{found.in_use:8.3f}{found.ideal:8.3f}{found.in_use / found.ideal:14.3f}"
                f"{found.cpu_ms:8.3f}  {words}",
                flush=True,
            )


if __name__ == "__main__":
    main()
