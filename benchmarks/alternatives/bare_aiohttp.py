"""Bare aiohttp: a window of workers, JSON read, no more. It sends a GET again by itself."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import uvloop

from benchmarks.alternatives.job import KARMA, Job, measure


async def ask_all(job: Job) -> int:
    """Keep as many workers busy as the cap allows."""
    numbers, answers = iter(job.bvns()), []
    connector = aiohttp.TCPConnector(limit=job.cap)
    async with aiohttp.ClientSession(job.url, headers=job.headers, connector=connector) as session:

        async def work() -> None:
            for number in numbers:
                async with session.get(KARMA + number) as response:
                    answers.append(json.loads(await response.read()))

        await asyncio.gather(*(work() for _ in range(job.cap)))
    return len(answers)


if __name__ == "__main__":
    measure(lambda job: uvloop.run(ask_all(job)))
