"""dlt: rows as a resource, lookups as a parallelised transformer, Parquet files as destination."""

from __future__ import annotations

import csv
import os
from typing import TYPE_CHECKING

os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"

import dlt  # type: ignore[import-not-found]  # in the alternatives' own environment
import requests
from requests.adapters import HTTPAdapter

from benchmarks.alternatives.job import KARMA, Job, measure

if TYPE_CHECKING:
    from collections.abc import Iterator

RESPONSE = dict[str, object]


def ask_all(job: Job) -> int:
    """Extract, normalise and load."""
    os.environ["EXTRACT__WORKERS"] = str(job.cap)
    os.environ["EXTRACT__MAX_PARALLEL_ITEMS"] = str(job.cap)
    session = requests.Session()
    session.mount("http://", HTTPAdapter(pool_connections=job.cap, pool_maxsize=job.cap))

    @dlt.resource  # type: ignore[untyped-decorator]  # as above
    def customers() -> Iterator[dict[str, str]]:
        with job.file.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)

    @dlt.transformer(data_from=customers, parallelized=True)  # type: ignore[untyped-decorator]  # as above
    def karma(customer: dict[str, str]) -> RESPONSE:
        response = session.get(job.url + KARMA + customer["bvn"], headers=job.headers, timeout=30)
        return {"customer_id": customer["customer_id"], **response.json()}

    target = dlt.destinations.filesystem(f"file://{job.folder / 'dlt'}")
    pipeline = dlt.pipeline(
        "screen", destination=target, dataset_name="karma", pipelines_dir=str(job.folder / "state")
    )
    pipeline.run(karma, loader_file_format="parquet")
    return len(job.bvns())


if __name__ == "__main__":
    measure(ask_all)
