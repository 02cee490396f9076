"""The contestants of `benchmarks.compare`: one karma lookup per customer, answers saved.

`python -m benchmarks.contestants NAME URL KEY FILE FOLDER CAP` prints calls, CPU and wall seconds
as JSON. `benchmarks.compare` runs them, dlt in its own environment. So each imports what it needs
when it is called, and only nightscreen's own contestant imports nightscreen.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measured import tree_cpu_s

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    Ask = Callable[[str], Awaitable[object]]

KARMA = "/v2/verification/karma/"


@dataclass
class Job:
    """One measurement.

    Attributes:
        url: the service's address.
        key: the service's key.
        file: CSV of customers.
        folder: where answers are written.
        cap: calls in flight.
    """

    url: str
    key: str
    file: Path
    folder: Path
    cap: int
    _begun: tuple[float, float] = field(default=(0.0, 0.0))

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every call."""
        return {"Authorization": f"Bearer {self.key}"}

    def bvns(self) -> list[str]:
        """Return the numbers to ask about."""
        with self.file.open(encoding="utf-8", newline="") as file:
            return [row["bvn"] for row in csv.DictReader(file)]

    def begin(self) -> None:
        """Begin to measure: imports and processes started before are not counted."""
        self._begun = tree_cpu_s(), time.perf_counter()

    def figures(self, calls: int) -> dict[str, float]:
        """Return the calls, and CPU and wall seconds since `begin`, including child processes."""
        cpu, wall = self._begun
        return {"calls": calls, "cpu_s": tree_cpu_s() - cpu, "wall_s": time.perf_counter() - wall}

    async def gather(self, ask: Ask) -> int:
        """Ask about every customer, with at most `cap` calls in flight, and write the answers."""
        limit = asyncio.Semaphore(self.cap)

        async def limited(bvn: str) -> object:
            async with limit:
                return await ask(bvn)

        answers = await asyncio.gather(*(limited(bvn) for bvn in self.bvns()))
        (self.folder / "answers.json").write_text(json.dumps(answers), "utf-8")
        return len(answers)


async def over_httpx(job: Job) -> int:
    """`asyncio.gather` over one `httpx.AsyncClient`."""
    import httpx  # noqa: PLC0415 - see the module's docstring

    limits = httpx.Limits(max_connections=job.cap, max_keepalive_connections=job.cap)
    async with httpx.AsyncClient(
        base_url=job.url, headers=job.headers, limits=limits, timeout=30
    ) as client:

        async def ask(bvn: str) -> object:
            return (await client.get(KARMA + bvn)).json()

        job.begin()
        return await job.gather(ask)


async def over_aiohttp(job: Job) -> int:
    """`asyncio.gather` over one `aiohttp.ClientSession`, which repeats a lost GET."""
    import aiohttp  # noqa: PLC0415

    connector = aiohttp.TCPConnector(limit=job.cap)
    async with aiohttp.ClientSession(connector=connector, headers=job.headers) as session:

        async def ask(bvn: str) -> object:
            async with session.get(job.url + KARMA + bvn) as response:
                return await response.json()

        job.begin()
        return await job.gather(ask)


async def prefect_tasks(job: Job) -> int:
    """A flow with one task run per lookup; the engine's server is a child and counted."""
    import httpx  # noqa: PLC0415
    from prefect import flow, task  # noqa: PLC0415

    async with httpx.AsyncClient(base_url=job.url, headers=job.headers, timeout=30) as client:

        @task
        async def look_up(bvn: str) -> object:
            return (await client.get(KARMA + bvn)).json()

        @flow
        async def screen() -> int:
            await look_up("22999000000")  # the server has started by then
            job.begin()
            return await job.gather(look_up)

        return await screen()


async def dlt_pipeline(job: Job) -> int:
    """Rows as a resource, lookups as a parallel transformer in threads, Parquet files."""
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    os.environ["EXTRACT__WORKERS"] = os.environ["EXTRACT__MAX_PARALLEL_ITEMS"] = str(job.cap)
    import dlt  # type: ignore[import-not-found] # noqa: PLC0415 - in an environment of its own
    import requests  # noqa: PLC0415

    session = requests.Session()
    adapter = requests.adapters.HTTPAdapter(pool_connections=job.cap, pool_maxsize=job.cap)
    session.mount("http://", adapter)

    @dlt.resource  # type: ignore[untyped-decorator] # as above
    def customers() -> Iterator[dict[str, str]]:
        yield from ({"bvn": bvn} for bvn in job.bvns())

    @dlt.transformer(data_from=customers, parallelized=True)  # type: ignore[untyped-decorator] # as above
    def karma(customer: dict[str, str]) -> dict[str, Any]:
        answer = session.get(job.url + KARMA + customer["bvn"], headers=job.headers, timeout=30)
        return {**customer, **answer.json()}

    target = dlt.destinations.filesystem(f"file://{job.folder / 'dlt'}")
    options = {"pipelines_dir": str(job.folder / "state"), "dataset_name": "karma"}
    pipeline = dlt.pipeline("screen", destination=target, **options)
    job.begin()
    await asyncio.to_thread(pipeline.run, karma, loader_file_format="parquet")
    return len(job.bvns())


async def the_line(job: Job) -> int:
    """`run_screening`, with journal, caps, report and manifest."""
    from nightscreen.config.parameters import ScreenBatch  # noqa: PLC0415
    from nightscreen.config.settings import read_settings  # noqa: PLC0415
    from nightscreen.runs.screening import run_screening  # noqa: PLC0415

    cap, home = {"karma": job.cap}, job.folder / "home"
    settings = read_settings(base_url=job.url, api_key=job.key, home=home, max_in_flight=cap)
    given = ScreenBatch(input=str(job.file), output=str(job.folder / "out"), checks=["karma"])
    job.begin()
    report = await run_screening(given, settings)
    assert report["state"] == "completed", report["stop_reason"]
    return int(report["checks"]["karma"]["lookups"])


CONTESTANTS: dict[str, Callable[[Job], Awaitable[int]]] = {
    "asyncio over httpx": over_httpx,
    "asyncio over aiohttp": over_aiohttp,
    "a Prefect task a lookup": prefect_tasks,
    "dlt": dlt_pipeline,
    "nightscreen, the whole line": the_line,
}


async def measure(name: str, job: Job) -> dict[str, float]:
    """Run one contestant; return its figures."""
    job.folder.mkdir(parents=True, exist_ok=True)
    return job.figures(await CONTESTANTS[name](job))


def main() -> None:
    """Measure the contestant that the command line names."""
    name, url, key, file, folder, cap = sys.argv[1:]
    job = Job(url, key, Path(file), Path(folder), int(cap))
    print(json.dumps(asyncio.run(measure(name, job))))


if __name__ == "__main__":
    main()
