"""Bare httpx clients side by side, ten connections each: a window of workers, JSON read, no more.

`--fork` takes httpx2, the maintained fork with the same interface.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import sys

import uvloop

from benchmarks.alternatives.job import KARMA, Job, measure

POOL = 10


async def ask_all(job: Job, library: str) -> int:
    """Keep as many workers busy as the cap allows."""
    httpx = importlib.import_module(library)
    limits = httpx.Limits(max_connections=POOL, max_keepalive_connections=POOL)
    numbers, answers = iter(job.bvns()), []
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(
                    base_url=job.url,
                    headers=job.headers,
                    limits=limits,
                    trust_env=False,
                    timeout=30,
                )
            )
            for _ in range(-(-job.cap // POOL))
        ]

        async def work(client: object) -> None:
            for number in numbers:
                response = await client.get(KARMA + number)  # type: ignore[attr-defined]  # either library's
                answers.append(json.loads(response.content))

        await asyncio.gather(*(work(clients[n % len(clients)]) for n in range(job.cap)))
    return len(answers)


def main() -> None:
    """Measure either library."""
    fork = "--fork" in sys.argv
    if fork:
        sys.argv.remove("--fork")
    measure(lambda job: uvloop.run(ask_all(job, "httpx2" if fork else "httpx")))


if __name__ == "__main__":
    main()
