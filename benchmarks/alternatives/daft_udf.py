"""Daft: a CSV read, an asynchronous function over the rows, Parquet written."""

from __future__ import annotations

import os

os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("DAFT_ANALYTICS_ENABLED", "0")

import daft  # type: ignore[import-not-found]  # in the alternatives' own environment
import httpx

from benchmarks.alternatives.job import KARMA, Job, measure


def ask_all(job: Job) -> int:
    """Carry the file through."""
    limits = httpx.Limits(max_connections=job.cap, max_keepalive_connections=job.cap)

    @daft.cls(max_concurrency=job.cap)
    class Asks:
        def __init__(self) -> None:
            self.client = httpx.AsyncClient(
                base_url=job.url, headers=job.headers, limits=limits, timeout=30
            )

        @daft.method(return_dtype=daft.DataType.string())  # type: ignore[untyped-decorator]  # as above
        async def ask(self, bvn: str) -> str:
            response = await self.client.get(f"{KARMA}{bvn}")
            return str(response.text)

    asks = Asks()
    rows = daft.read_csv(str(job.file))
    rows = rows.with_column("karma", asks.ask(rows["bvn"].cast(daft.DataType.string())))
    rows.write_parquet(str(job.folder / "daft"))
    return len(job.bvns())


if __name__ == "__main__":
    measure(ask_all)
