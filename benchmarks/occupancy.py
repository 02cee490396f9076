"""How full is the cap? The whole line beside a bare httpx window, on the same simulated service.

Reading: `in use` is the share of the cap that was busy from the first call to the last, as the
service saw it, where each call takes 100 ms; `ratio` is the line's to the bare window's. The line's
figure holds everything: intents, outcomes, the cap that opens small, the single calls that open and
close the books. Run it as `python -m benchmarks.occupancy`, best on a quiet machine.

What does not belong here: the choice of transport (`benchmarks/transports.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvloop

from sandbox.batch import make_batch
from sandbox.process import SandboxProcess
from schemas.parameters import ScreenBatch
from tests.kill.drive import screen, settings_for

LATENCY_S = 0.1
CAP = 50


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: share of the cap in use, and this process's CPU for a call."""

    in_use: float
    cpu_ms: float


def _share(sandbox: SandboxProcess, calls: int) -> float:
    """Return the share of the cap in use, from the instants the service noted."""
    sandbox.wait_until_idle()
    instants = [float(entry["at"]) for entry in sandbox.ledger()["entries"]]
    assert len(instants) == calls, f"{len(instants)} calls came, not {calls}"
    return calls * LATENCY_S / (CAP * (max(instants) - min(instants) + LATENCY_S))


def _calm(sandbox: SandboxProcess) -> None:
    sandbox.reset()
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_S * 1000})


def bare_window(sandbox: SandboxProcess, calls: int) -> Measured:
    """Keep plain workers busy with one httpx client, as large as the cap."""

    async def main() -> None:
        limits = httpx.Limits(max_connections=CAP, max_keepalive_connections=CAP)
        headers = {"Authorization": f"Bearer {sandbox.api_key}"}
        numbers = iter(range(calls))
        async with httpx.AsyncClient(
            base_url=sandbox.url, headers=headers, limits=limits, trust_env=False, timeout=30
        ) as client:

            async def work() -> None:
                for number in numbers:
                    await client.get(f"/v2/verification/karma/22{number:09d}")

            await asyncio.gather(*(work() for _ in range(CAP)))

    _calm(sandbox)
    cpu = time.process_time()
    uvloop.run(main())
    return Measured(_share(sandbox, calls), (time.process_time() - cpu) / calls * 1000)


def whole_line(sandbox: SandboxProcess, calls: int) -> Measured:
    """Screen a batch of so many people for karma, below the engine."""
    _calm(sandbox)
    with tempfile.TemporaryDirectory() as folder:
        below = Path(folder)
        facts = make_batch(below / "in.csv", rows=calls, seed=1, damage_pct=0)
        settings = settings_for(
            below / "home", sandbox.url, sandbox.api_key, max_in_flight={"karma": CAP}
        )
        given = ScreenBatch(
            input=str(below / "in.csv"), output=str(below / "out"), checks=["karma"]
        )
        spent: list[float] = []

        def timed(asking: object) -> None:
            before = time.process_time()
            uvloop.run(asking)  # type: ignore[arg-type]  # a coroutine, whatever it is called
            spent.append(time.process_time() - before)

        screen(given, settings, runner=timed)
    return Measured(_share(sandbox, facts.people), spent[0] / facts.people * 1000)


def main() -> None:
    """Measure both in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    bare: list[Measured] = []
    line: list[Measured] = []
    with SandboxProcess() as sandbox:
        for _ in range(given.rounds):
            bare.append(bare_window(sandbox, given.calls))
            line.append(whole_line(sandbox, given.calls))
    print(f"{'cap 50 at 100 ms':24}{'in use':>10}{'CPU ms':>10}")
    for name, found in (("bare httpx window", bare), ("whole line", line)):
        in_use = statistics.median(each.in_use for each in found)
        print(f"{name:24}{in_use:10.3f}{min(each.cpu_ms for each in found):10.3f}")
    ratio = statistics.median(
        ours.in_use / theirs.in_use for ours, theirs in zip(line, bare, strict=True)
    )
    print(f"{'ratio':24}{ratio:10.3f}")


if __name__ == "__main__":
    main()
