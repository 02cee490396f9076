"""Ray Data: a CSV read, batches mapped by an actor that asks them concurrently, Parquet written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import httpx
import ray  # type: ignore[import-not-found]  # in the alternatives' own environment

from benchmarks.alternatives.job import KARMA, Job, measure


class Asks:
    """Asks a batch of rows at a time, as many in flight as the batch is long."""

    def __init__(self, job: Job) -> None:
        self.job = job

    def __call__(self, batch: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the batch with the answers' bodies."""
        batch["karma"] = asyncio.run(self._ask(batch["bvn"]))
        return batch

    async def _ask(self, numbers: list[str]) -> list[str]:
        limits = httpx.Limits(max_connections=self.job.cap, max_keepalive_connections=self.job.cap)
        async with httpx.AsyncClient(
            base_url=self.job.url, headers=self.job.headers, limits=limits, timeout=30
        ) as client:
            found = await asyncio.gather(*(client.get(f"{KARMA}{each}") for each in numbers))
        return [each.text for each in found]


def ask_all(job: Job) -> int:
    """Carry the file through."""
    rows = ray.data.read_csv(str(job.file))
    done = rows.map_batches(
        Asks, fn_constructor_args=(job,), batch_size=job.cap, concurrency=1, num_cpus=1
    )
    done.write_parquet(str(job.folder / "ray"))
    return int(rows.count())


def main() -> None:
    """Measure; the engine's own start is not counted."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": {"PYTHONPATH": str(Path.cwd())}},
    )
    measure(ask_all)


if __name__ == "__main__":
    main()
