"""Prefect with a task run for each lookup, as many at a time as the cap: the obvious flow.

The Prefect server is a process that is there already (`PREFECT_API_URL`); its CPU is not counted.
"""

from __future__ import annotations

import asyncio

import httpx
from prefect import flow, task

from benchmarks.alternatives.job import KARMA, Job, measure


def main() -> None:
    """Measure a flow."""
    measure(lambda job: asyncio.run(ask_all(job)))


async def ask_all(job: Job) -> int:
    """Run the flow."""
    async with httpx.AsyncClient(base_url=job.url, headers=job.headers, timeout=30) as client:

        @task
        async def look_up(bvn: str) -> dict[str, object]:
            response = await client.get(KARMA + bvn)
            found: dict[str, object] = response.json()
            return found

        @flow
        async def screen() -> int:
            numbers, answers = iter(job.bvns()), []

            async def work() -> None:
                for number in numbers:
                    answers.append(await look_up(number))  # noqa: PERF401 - one at a time

            await asyncio.gather(*(work() for _ in range(job.cap)))
            return len(answers)

        return await screen()


if __name__ == "__main__":
    main()
