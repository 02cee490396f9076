"""What does the journal cost? A lane with the journal on disk beside the same lane without one.

Reading: CPU is this process's own, for a lookup, while it asks; `time` is the wall time of asking
for a lookup. The first row is the whole line against the simulator. The last two leave the network
out: a service that answers at once, so that only the lane and its store are measured. Run it as
`python -m benchmarks.journal`, best on a quiet machine.

What does not belong here: how full the cap is (`benchmarks/occupancy.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from benchmarks.measured import run_words
from nightscreen.calling.lane import Lane
from nightscreen.calling.lookup_task import LookupTask
from nightscreen.calling.progress import CheckProgress
from nightscreen.calling.stops import Stops
from nightscreen.calling.wallet import Wallet
from nightscreen.calling.writer import CallStore, Change, Writer
from nightscreen.client.classify import CallOutcome, ChargeStatus
from nightscreen.client.limiter import AdaptiveCap
from nightscreen.config.parameters import ScreenBatch
from nightscreen.journal import open_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.calls import (
    CallResult,
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.checks import IdentityKind, Lookup, Outcome
from nightscreen.schemas.clock import system_clock
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from nightscreen.journal.calls import Claim, Wish

CAP = 50
LATENCY_MS = 100
ANSWER = CallOutcome(
    ChargeStatus.ANSWERED,
    outcome=Outcome.FOUND,
    cost_micro=10_000_000,
    balance_micro=1,
    body=b'{"status":"success","data":{"lenders":1},"meta":{"cost":25,"balance":1000.5}}' * 4,
)


@dataclass(slots=True)
class MemoryStore:
    """Grants everything and remembers nothing but numbers."""

    next_id: int = 0
    settled: list[int] = field(default_factory=list)

    def claim(  # the journal's signature
        self,
        run_id: str,  # noqa: ARG002
        purpose: str,  # noqa: ARG002
        asks: Sequence[ReserveRequest],
        caps: Caps,  # noqa: ARG002
        *,
        since: int,  # noqa: ARG002
        wishes: Mapping[str, Wish],  # noqa: ARG002
    ) -> tuple[list[Reservation], dict[str, Claim]]:
        """Grant a block."""
        start, self.next_id = self.next_id, self.next_id + len(asks)
        now = system_clock()
        grants = [
            Reservation(ReservationStatus.GRANTED, number, now)
            for number in range(start, self.next_id)
        ]
        return grants, {}

    def settle(
        self,
        run_id: str,  # noqa: ARG002
        outcomes: Sequence[CallResult],
        changes: Sequence[Change] = (),  # noqa: ARG002
    ) -> None:
        """Take a group."""
        self.settled.extend(each.call_id for each in outcomes)


@dataclass(frozen=True, slots=True)
class Measured:
    """Microseconds a lookup, of CPU and of wall time."""

    cpu_us: float
    wall_us: float


def _measured(asking: Coroutine[object, object, None], calls: int) -> Measured:
    cpu, wall = time.process_time(), time.perf_counter()
    uvloop.run(asking)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(cpu / calls * 1e6, wall / calls * 1e6)


def line(sandbox: SandboxProcess, calls: int) -> Measured:
    """Screen a batch below the engine."""
    sandbox.reset()
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    found: list[Measured] = []

    @asynccontextmanager
    async def measured() -> AsyncIterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        yield
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        found.append(Measured(cpu / calls * 1e6, wall / calls * 1e6))

    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        make_batch(below / "in.csv", rows=calls, seed=1, damage_pct=0)
        settings = settings_for(
            below / "home", sandbox.url, sandbox.api_key, max_in_flight={"karma": CAP}
        )
        screen(
            ScreenBatch(input=str(below / "in.csv"), output=str(below / "out"), checks=["karma"]),
            settings,
            run_loop=uvloop.run,
            around=measured,
        )
    return found[0]


def lane(store: CallStore, calls: int) -> Measured:
    """Ask a service that answers at once."""

    async def send(lookup: Lookup) -> CallOutcome:  # noqa: ARG001 - a sender's signature
        await asyncio.sleep(0)
        return ANSWER

    async def main() -> None:
        stops = Stops({"karma": CheckProgress()})
        writer = Writer(store, run_id="run", purpose="portfolio", caps=Caps(), since=2**62)
        asked = Lane(
            "karma",
            send=send,
            writer=writer,
            cap=AdaptiveCap(CAP, start=CAP),
            stops=stops,
            wallet=Wallet(stops),
            attempts=5,
            random=random.Random(),
            clock=system_clock,
        )
        lookup = Lookup("karma", IdentityKind.BVN, "22000000000")
        await asked.make([LookupTask(lookup, n.to_bytes(16, "big"), 10**7) for n in range(calls)])
        await asked.drain()
        writer.close()

    return _measured(main(), calls)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=4000)
    given = parser.parse_args()
    print(run_words())
    print(f"{'':34}{'CPU µs':>10}{'time µs':>10}")
    with SandboxProcess() as sandbox:
        _row("line, with service and journal", line(sandbox, given.calls))
    _row("lane alone, store in memory", lane(MemoryStore(), 5 * given.calls))
    with tempfile.TemporaryDirectory() as folder, open_journal(Path(folder)) as journal:
        _row("lane alone, journal on disk", lane(journal.calls, 5 * given.calls))


def _row(name: str, measured: Measured) -> None:
    print(f"{name:34}{measured.cpu_us:10.0f}{measured.wall_us:10.0f}")


if __name__ == "__main__":
    main()
