"""One run of the line below the flow, as a process of its own, measured from inside.

`python -m benchmarks.line URL KEY ROWS FOLDER` prints one JSON document: CPU and wall seconds and
peak memory by station. Other benchmarks start it; nothing is compared here.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from nightscreen.sandbox.batch import make_batch
from nightscreen.schemas.parameters import ScreenBatch
from nightscreen.schemas.settings import read_settings
from nightscreen.steps import finalize, screening_run
from nightscreen.steps.calling import funding_rounds as asking

CAP = 50
_SHARDS_AT_ONCE = 3
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")


class Stations:
    """Takes CPU and wall seconds, and the peak of resident memory, from one mark to the next.

    Attributes:
        seconds: CPU and wall seconds, by station.
        peaks: megabytes, by station.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self.peaks: dict[str, int] = {}
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def mark(self, name: str) -> None:
        """Put what passed since the last mark down to a station."""
        cpu, wall = time.process_time(), time.perf_counter()
        self.seconds[name] = (round(cpu - self._cpu, 3), round(wall - self._wall, 3))
        lines = _STATUS.read_text("utf-8").splitlines()
        peak = next(each for each in lines if each.startswith("VmHWM"))
        self.peaks[name] = int(peak.split()[1]) // 1024
        _CLEAR_REFS.write_text("5", "utf-8")  # begins the peak anew at what is resident now
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
    await ask(under_way)
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
        "peaks": stations.peaks,
        "stations": stations.seconds,
    }


async def ask(run: screening_run.ScreeningRun) -> None:
    """Ask all that a priced run needs, from the opening call to the closing one."""
    open_ = asking.open_rounds(run)
    await asking.take_opening_balance(open_)
    while shards := asking.next_round(open_):
        async with asyncio.TaskGroup() as group:
            for names in shards.values():
                slots = asyncio.Semaphore(_SHARDS_AT_ONCE)
                for name in names:
                    group.create_task(_ask_one(open_, name, slots))
    await asking.take_closing_balance(open_)
    await open_.close()


async def _ask_one(open_: asking.FundingRounds, name: str, slots: asyncio.Semaphore) -> None:
    async with slots:
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
