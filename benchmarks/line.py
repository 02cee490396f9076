"""One run of the line below the flow, as a process of its own, measured from inside.

`python -m benchmarks.line URL KEY ROWS FOLDER` prints one JSON document: peak memory, and CPU and
wall seconds by station. Other benchmarks start it; nothing is compared here.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from pathlib import Path

from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.schemas.settings import read_settings
from nightscreen.steps import finalize, screening_run
from nightscreen.steps.calling import funding_rounds as asking

CAP = 50


class Stations:
    """Takes CPU and wall seconds from one mark to the next."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def mark(self, name: str) -> None:
        """Put what passed since the last mark down to a station."""
        cpu, wall = time.process_time(), time.perf_counter()
        self.seconds[name] = (round(cpu - self._cpu, 3), round(wall - self._wall, 3))
        self._cpu, self._wall = cpu, wall


async def run(url: str, key: str, file: Path, folder: Path) -> dict[str, object]:
    """Carry a file along the line and return its figures."""
    caps = {"bank_account": CAP, "karma": CAP, "ecosystem": CAP}
    settings = read_settings(base_url=url, api_key=key, home=folder / "home", max_in_flight=caps)
    stations = Stations()
    parameters = ScreenBatch(input=str(file), batch="benchmark", output=str(folder / "out"))
    under_way = screening_run.open_screening(parameters, settings)
    screening_run.read_input(under_way)
    stations.mark("intake")
    screening_run.make_plan(under_way)
    stations.mark("plan")
    screening_run.make_price(under_way)
    stations.mark("price")
    open_ = asking.open_rounds(under_way)
    await asking.take_opening_balance(open_)
    while shards := asking.next_round(open_):
        async with asyncio.TaskGroup() as group:
            for names in shards.values():
                for name in names:
                    group.create_task(_ask(open_, name))
    await asking.take_closing_balance(open_)
    await open_.close()
    stations.mark("lookups")
    rows = finalize.write_rows(under_way)
    stations.mark("write")
    report = finalize.write_report(under_way, rows)
    stations.mark("report")
    under_way.close()
    return {
        "rows": report["rows"]["read"],
        "lookups": sum(each["attempts"] for each in report["checks"].values()),
        "cost": report["cost"]["total"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "stations": stations.seconds,
    }


async def _ask(open_: asking.FundingRounds, name: str) -> None:
    await asking.ask_shard(open_, name)


def main() -> None:
    """Make the batch where there is none yet, run it and print the figures."""
    url, key, rows, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    file = folder / f"customers-{rows}.csv"
    if not file.exists():
        make_batch(file, rows=rows, seed=1)
    print(json.dumps(asyncio.run(run(url, key, file, folder))))


if __name__ == "__main__":
    main()
