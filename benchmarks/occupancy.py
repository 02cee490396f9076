"""How full is the cap? The whole line beside a bare httpx window, on the same simulated service.

Reading: `in use` is the share of the cap that was busy from the first call to the last, as the
service saw it, where each call takes 100 ms; `once open` is the same from the second second on. The
ratios are to the better bare window. The line's figure holds everything: intents, outcomes, the cap
that opens small (some 0.4 s), the single call that opens the books. Run it as
`python -m benchmarks.occupancy`, best on a quiet machine.

What does not belong here: the choice of transport (`benchmarks/transports.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
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
OPEN_AFTER_S = 1.0
POOL = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: share of the cap in use, also once it is open, and this process's CPU for a call."""

    in_use: float
    once_open: float
    cpu_ms: float


def _measured(sandbox: SandboxProcess, calls: int, cpu_s: float) -> Measured:
    """Return the shares of the cap in use, from the instants the service noted."""
    sandbox.wait_until_idle()
    instants = sorted(float(entry["at"]) for entry in sandbox.ledger()["entries"])
    assert len(instants) == calls, f"{len(instants)} calls came, not {calls}"
    first, last = instants[0] - LATENCY_S, instants[-1]
    late = sum(at > first + OPEN_AFTER_S for at in instants)
    return Measured(
        calls * LATENCY_S / (CAP * (last - first)),
        late * LATENCY_S / (CAP * (last - first - OPEN_AFTER_S)),
        cpu_s / calls * 1000,
    )


def _calm(sandbox: SandboxProcess) -> None:
    sandbox.reset()
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_S * 1000})


def bare_window(sandbox: SandboxProcess, calls: int, *, pool: int) -> Measured:
    """Keep plain workers busy with httpx clients side by side, as large as the cap together."""

    async def main() -> None:
        limits = httpx.Limits(max_connections=pool, max_keepalive_connections=pool)
        headers = {"Authorization": f"Bearer {sandbox.api_key}"}
        numbers = iter(range(calls))
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    httpx.AsyncClient(
                        base_url=sandbox.url,
                        headers=headers,
                        limits=limits,
                        trust_env=False,
                        timeout=30,
                    )
                )
                for _ in range(CAP // pool)
            ]

            async def work(client: httpx.AsyncClient) -> None:
                for number in numbers:
                    await client.get(f"/v2/verification/karma/22{number:09d}")

            await asyncio.gather(*(work(clients[n % len(clients)]) for n in range(CAP)))

    _calm(sandbox)
    cpu = time.process_time()
    uvloop.run(main())
    return _measured(sandbox, calls, time.process_time() - cpu)


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
    return _measured(sandbox, facts.people, spent[0])


def main() -> None:
    """Measure both in turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    given = parser.parse_args()
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'cap 50 at 100 ms':28}{'in use':>10}{'once open':>11}{'CPU ms':>9}")
    with SandboxProcess() as sandbox:
        one = bare_window(sandbox, given.calls, pool=CAP)
        _row("bare httpx, one pool", one)
        striped = bare_window(sandbox, given.calls, pool=POOL)
        _row(f"bare httpx, pools of {POOL}", striped)
        line = whole_line(sandbox, given.calls)
        _row("whole line", line)
    best = max(one, striped, key=lambda each: each.in_use)
    shares = (line.in_use / best.in_use, line.once_open / best.once_open)
    print(f"{'ratio':28}{shares[0]:10.3f}{shares[1]:11.3f}{line.cpu_ms / best.cpu_ms:9.3f}")


def _row(name: str, found: Measured) -> None:
    print(f"{name:28}{found.in_use:10.3f}{found.once_open:11.3f}{found.cpu_ms:9.3f}", flush=True)


if __name__ == "__main__":
    main()
