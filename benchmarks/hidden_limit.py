"""A limit nobody told of: the adaptive cap beside every fixed one, on the real engine.

First table: the simulator refuses at once (503) what is over a hidden number of calls in flight,
and that number moves while the run goes on. `of the limit` is the mean of the calls it was working
on by the mean of the limit, `refused` the share of calls it turned away, `failed` the lookups that
came to nothing after their attempts; all after a warm-up. A fixed cap that is too low leaves the
limit unused, one that is too high is refused; the ones that do neither were told the secret.

Second table: a service that fails as often at any load. `of the cap` is how much of the configured
cap was in use after the warm-up. A limiter that takes any failure for overload crawls here.

The whole line runs below the engine: in virtual time (`benchmarks/virtual_time.py`), where it says
the same on any machine, or with `--view real` by the wall clock against a simulator in a process of
its own. Run it as `python -m benchmarks.hidden_limit`; `--long` for longer runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import tempfile
import time
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvloop

from benchmarks import virtual_time
from benchmarks.measured import load_words, run_words
from nightscreen.client.limiter import CallStart
from nightscreen.config.parameters import ScreenBatch
from nightscreen.sandbox.app import application
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.control import act
from nightscreen.sandbox.ledger import Entry, Ledger
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.sandbox.state import DEFAULT_KEY, Opening, Sandbox
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from nightscreen.calling.asking import Asking

LATENCY_S = 0.1
MAXIMUM = 80
LIMITS = (24, 48, 36, 60)
FIXED = (12, 24, 36, 42, 60, 80)
FAILING = (0.01, 0.12, 0.5)
ATTEMPTS = 12
WARM_UP = 0.2
BALANCE = "900000000"
LATENCY = {"kind": "fixed", "ms": LATENCY_S * 1000}


@dataclass(slots=True)
class FixedCap:
    """A cap that was set once; what the service does teaches it nothing."""

    cap: int
    paused_until: float = 0.0

    def begin(self, in_flight: int) -> CallStart:
        """Take no note of a call."""
        return CallStart(0, in_flight)

    def on_result(
        self, *, begun: CallStart, strain: bool, now: float, retry_after_s: float | None = None
    ) -> None:
        """Take no note of a result."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a run came to after its warm-up: shares, and answered lookups a second."""

    used: float
    refused: float
    failed: float
    answers_s: float


class TimedLedger(Ledger):
    """A ledger in the time of the loop that the simulator runs in."""

    def append(self, entry: Entry) -> None:
        """Write one request down."""
        super().append(entry._replace(at=asyncio.get_running_loop().time()))


@dataclass(frozen=True, slots=True)
class Service:
    """A simulator, in this process in virtual time or in another one by the wall clock.

    Attributes:
        post: sets a switch.
        entries: reads the ledger.
        now: the instant, on the ledger's clock.
        url: where it listens.
        transport: how to reach it where it does not.
        run_loop: runs the night.
    """

    post: Callable[[str, dict[str, Any]], Awaitable[object]]
    entries: Callable[[], list[dict[str, Any]]]
    now: Callable[[], float]
    url: str
    transport: httpx.AsyncBaseTransport | None
    run_loop: Callable[[Coroutine[Any, Any, dict[str, Any]]], dict[str, Any]]


@contextlib.contextmanager
def virtual() -> Iterator[Service]:
    """Run the simulator in this process, in virtual time."""
    sandbox = Sandbox(Opening(balance=BALANCE))
    sandbox.ledger = TimedLedger()

    async def post(name: str, body: dict[str, Any]) -> None:
        act(sandbox, name, body)

    yield Service(
        post,
        lambda: sandbox.ledger.read(0, None, 10**9)[0],
        lambda: asyncio.get_running_loop().time(),
        "http://127.0.0.1:1",
        httpx.ASGITransport(application(sandbox)),
        virtual_time.run,
    )


@contextlib.contextmanager
def real() -> Iterator[Service]:
    """Run the simulator in a process of its own, by the wall clock."""
    with SandboxProcess(balance=BALANCE) as sandbox:

        async def post(name: str, body: dict[str, Any]) -> None:
            await asyncio.to_thread(sandbox.post, f"/_sandbox/{name}", body)

        def entries() -> list[dict[str, Any]]:
            sandbox.wait_until_idle()
            found: list[dict[str, Any]] = sandbox.ledger()["entries"]
            return found

        yield Service(post, entries, time.time, sandbox.url, None, uvloop.run)


VIEWS = {"virtual": virtual, "real": real}


@dataclass
class Moves:
    """Moves the hidden limit, and remembers when."""

    service: Service
    every_s: float
    made: list[tuple[float, int]] = field(default_factory=list)

    async def go_on(self) -> None:
        """Take the next limit, again and again."""
        for limit in itertools.cycle(LIMITS):
            wanted = {"max_in_flight": limit, "refusal": "http_503"}
            await self.service.post("capacity", wanted)
            self.made.append((self.service.now(), limit))
            await asyncio.sleep(self.every_s)

    def mean(self, start: float, end: float) -> float:
        """Return the mean limit between two instants of the service."""
        marks = [at for at, _ in self.made]
        edges = sorted({start, end, *(at for at in marks if start < at < end)})
        held = [
            (after - at) * self.made[max(0, bisect_right(marks, at) - 1)][1]
            for at, after in itertools.pairwise(edges)
        ]
        return sum(held) / (end - start)


def run(
    service: Service, rows: int, maximum: int, steer: Callable[[Asking], Awaitable[None]]
) -> list[dict[str, Any]]:
    """Screen a batch for karma; return the calls as the service saw them."""
    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        make_batch(below / "in.csv", rows=rows, seed=1, damage_pct=0)
        settings = settings_for(
            below / "home",
            service.url,
            DEFAULT_KEY,
            max_in_flight={"karma": maximum},
            attempts=ATTEMPTS,
            tolerated_failure_pct=100,
        )
        given = ScreenBatch(
            input=str(below / "in.csv"), output=str(below / "out"), checks=["karma"]
        )
        screen(given, settings, steer=steer, run_loop=service.run_loop, transport=service.transport)
    return service.entries()


def after_warm_up(
    entries: Sequence[dict[str, Any]], end: float
) -> tuple[list[dict[str, Any]], float, float]:
    """Return the calls after the warm-up, and where that part begins and ends.

    The end is where too little is left to fill a window.
    """
    first = min(float(each["at"]) for each in entries)
    start = first + WARM_UP * (end - first)
    return [each for each in entries if start < float(each["at"]) <= end], start, end


def _nearly_all_taken(entries: Sequence[dict[str, Any]]) -> float:
    """Return the instant from which few calls are left that the service will take."""
    taken = sorted(float(each["at"]) for each in entries if each["outcome"] != "refused")
    return taken[-2 * MAXIMUM]


def _all_asked(entries: Sequence[dict[str, Any]]) -> float:
    """Return the instant from which only what failed is left, which waits and fills no window."""
    asked: dict[str, float] = {}
    for each in entries:
        asked.setdefault(each["identity"], float(each["at"]))
    return max(asked.values()) - 5 * LATENCY_S


def moving_limit(view: str, rows: int, every_s: float, cap: int | None) -> Seen:
    """Run against a limit that moves; a cap of None is the adaptive one."""
    with VIEWS[view]() as service:
        moves = Moves(service, every_s)

        async def steer(asking: Asking) -> None:
            if cap is not None:
                asking.caller.lanes["karma"]._cap = FixedCap(cap)  # noqa: SLF001 - in its place
            await service.post("latency", LATENCY)
            await moves.go_on()

        entries = run(service, rows, cap or MAXIMUM, steer)
    part, start, end = after_warm_up(entries, _nearly_all_taken(entries))
    refused = sum(each["outcome"] == "refused" for each in part)
    taken = len(part) - refused
    return Seen(
        taken * LATENCY_S / (end - start) / moves.mean(start, end),
        refused / len(part),
        _never_answered(entries) / rows,
        taken / (end - start),
    )


def any_load(view: str, rows: int, cap: int, failing: float) -> Seen:
    """Run against a service that fails as often at any load."""
    with VIEWS[view]() as service:

        async def steer(_: Asking) -> None:
            await service.post("latency", LATENCY)
            await service.post("faults", {"rates": {"http_503": failing}})

        entries = run(service, rows, cap, steer)
    part, start, end = after_warm_up(entries, _all_asked(entries))
    faults = sum(bool(each["fault"]) for each in part)
    calls_s = len(part) / (end - start)
    return Seen(
        calls_s * LATENCY_S / cap,
        faults / len(part),
        _never_answered(entries) / rows,
        (len(part) - faults) / (end - start),
    )


def _never_answered(entries: Sequence[dict[str, Any]]) -> int:
    asked = {each["identity"] for each in entries}
    answered = {each["identity"] for each in entries if not each["fault"]}
    return len(asked - answered)


def main() -> None:
    """Measure and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--view", default="virtual", choices=list(VIEWS))
    parser.add_argument("--seconds", type=float, default=40, help="length of a run, about")
    parser.add_argument("--long", action="store_true", help="four minutes a run")
    parser.add_argument("--fixed", type=int, nargs="*", default=list(FIXED))
    given = parser.parse_args()
    seconds = 240.0 if given.long else given.seconds
    rows = int(seconds * sum(LIMITS) / len(LIMITS) / LATENCY_S)
    every_s = seconds / len(LIMITS) / (2 if given.long else 1)
    print(run_words())
    print(f"a hidden limit of {LIMITS}, another every {every_s:.0f} s; maximum {MAXIMUM}")
    print("cap           of the limit  refused  failed  answers/s  machine")
    for cap in (None, *given.fixed):
        words = load_words()
        seen = moving_limit(given.view, rows, every_s, cap)
        _row(f"fixed {cap}" if cap else "adaptive", seen, words)
    print("\na service that fails at any load")
    print("cap, failing    of the cap   failing  failed  answers/s  machine")
    for cap in (20, 50):
        for failing in FAILING:
            words = load_words()
            rows = int(seconds * cap * (1 - failing) / LATENCY_S / 2)
            _row(f"{cap}, {failing:.0%}", any_load(given.view, rows, cap, failing), words)


def _row(name: str, seen: Seen, words: str) -> None:
    print(
        f"{name:14}{seen.used:12.3f}{seen.refused:9.2%}{seen.failed:8.2%}{seen.answers_s:11.0f}"
        f"  {words}",
        flush=True,
    )


if __name__ == "__main__":
    main()
