"""What most teams write: pandas, one httpx client, `asyncio.gather` over chunks, `to_parquet`."""

from __future__ import annotations

import asyncio

import httpx
import pandas as pd

from benchmarks.alternatives.job import KARMA, Job, measure


async def ask_all(job: Job) -> int:
    """Ask chunk by chunk, each as large as the cap."""
    customers = pd.read_csv(job.file, dtype=str)
    answers: list[dict[str, object]] = []
    limits = httpx.Limits(max_connections=job.cap, max_keepalive_connections=job.cap)
    async with httpx.AsyncClient(
        base_url=job.url, headers=job.headers, limits=limits, timeout=30
    ) as client:

        async def ask(row: pd.Series) -> dict[str, object]:
            response = await client.get(KARMA + row["bvn"])
            body = response.json()
            return {"status": response.status_code, "listed": response.status_code == 200, **body}

        for start in range(0, len(customers), job.cap):
            chunk = customers.iloc[start : start + job.cap]
            answers += await asyncio.gather(*(ask(row) for _, row in chunk.iterrows()))
    found = pd.json_normalize(answers).astype(str)
    customers.join(found, rsuffix="_karma").to_parquet(job.folder / "answers.parquet")
    return len(answers)


if __name__ == "__main__":
    measure(lambda job: asyncio.run(ask_all(job)))
