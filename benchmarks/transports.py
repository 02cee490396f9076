"""Which transport under the client? Share of the cap in use and CPU per call, side by side.

Reading: `in use` is the share of the cap that was busy from the first call to the last, of a
server that takes 100 ms for each call; `CPU` is this process's own. Run it as
`python -m benchmarks.transports`, best on a quiet machine; it takes about a minute.

What does not belong here: the engine's own figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import socket
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.measured import run_words
from nightscreen.client.api import Client
from nightscreen.client.transport import PooledTransport
from nightscreen.client.wire import lookup_request
from nightscreen.schemas.checks import IdentityKind, Lookup

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request as Asked

    Send = Callable[[int], Awaitable[object]]

LATENCY_S = 0.1
SECONDS_A_CELL = 1.5
ANSWER = b'{"status":"success","data":{"lenders":1},"meta":{"cost":25,"balance":1000.5}}'


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell of the table."""

    in_use: float
    cpu_ms: float


async def answer_slowly(_: Asked) -> Response:
    """Answer after the fixed latency."""
    await asyncio.sleep(LATENCY_S)
    return Response(ANSWER, media_type="application/json")


def serve(port: int) -> None:
    """Run the server in a process of its own."""
    app = Starlette(
        routes=[Route("/v2/verification/ecosystem/{bvn}", answer_slowly, methods=["GET"])]
    )
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        log_level="error",
        access_log=False,
        timeout_keep_alive=60,
    )


async def window(send: Send, cap: int, calls: int) -> Measured:
    """Keep `cap` workers busy until the calls are used up."""
    numbers = iter(range(calls))

    async def work() -> None:
        for number in numbers:
            await send(number)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(work() for _ in range(cap)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(calls * LATENCY_S / (cap * wall), cpu / calls * 1000)


@contextlib.asynccontextmanager
async def bare_httpx(base: str, cap: int, pool: int | None) -> AsyncIterator[Send]:
    """Plain httpx clients: one with a pool as large as the cap, or several side by side."""
    count = 1 if pool is None else -(-cap // pool)
    size = -(-cap // count)
    limits = httpx.Limits(max_connections=size, max_keepalive_connections=size)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=base, limits=limits, trust_env=False, timeout=30)
            )
            for _ in range(count)
        ]

        async def send(number: int) -> None:
            path = f"/v2/verification/ecosystem/22{number:09d}"
            response = await clients[number % count].get(path)
            assert response.status_code == 200

        yield send


@contextlib.asynccontextmanager
async def ours(base: str, cap: int, _: int | None) -> AsyncIterator[Send]:
    """Our client over its own transport, judging every exchange."""
    transport = PooledTransport(connections=cap)
    async with Client(base, "key", connections=cap, transport=transport) as client:

        async def send(number: int) -> None:
            reading = await client.send(
                lookup_request(Lookup("ecosystem", IdentityKind.BVN, f"22{number:09d}"))
            )
            assert reading.outcome == "found", reading

        yield send


SUBJECTS = (
    ("httpx, one pool", bare_httpx, None),
    *((f"httpx, pools of {size}", bare_httpx, size) for size in (10,)),
    ("ours", ours, None),
)


async def measure(base: str, caps: tuple[int, ...], rounds: int) -> None:
    """Print the table: the median of the rounds, taken in turns so that noise is shared."""
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(f"{'transport':24}" + "".join(f"{f'cap {cap}: in use':>18}{'CPU ms':>9}" for cap in caps))
    cells: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(rounds):
        for name, subject, pool in SUBJECTS:
            for cap in caps:
                async with subject(base, cap, pool) as send:
                    await window(send, cap, cap)
                    calls = int(cap * SECONDS_A_CELL / LATENCY_S)
                    cells.setdefault((name, cap), []).append(await window(send, cap, calls))
    for name, _, _ in SUBJECTS:
        line = f"{name:24}"
        for cap in caps:
            found = cells[name, cap]
            in_use = statistics.median(cell.in_use for cell in found)
            cpu_ms = min(cell.cpu_ms for cell in found)
            line += f"{in_use:18.3f}{cpu_ms:9.3f}"
        print(line)


def main() -> None:
    """Start the server, measure, stop the server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caps", type=int, nargs="+", default=[50, 200])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print(run_words())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(port,), daemon=True)
    server.start()
    try:
        base = f"http://127.0.0.1:{port}"
        for _ in range(100):
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{base}/ready", trust_env=False)
                break
            time.sleep(0.1)
        uvloop.run(measure(base, tuple(options.caps), options.rounds))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
