"""One run of the line below the flow, as a process of its own, measured from inside.

`python -m benchmarks.line URL KEY ROWS FOLDER` prints one JSON document: CPU and wall seconds and
peak memory by station. Other benchmarks start it; nothing is compared here.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.screening import Runner, run_screening
from nightscreen.sandbox.batch import make_batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from nightscreen.runs.screening_run import ScreeningRun

CAP = 50
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


class Marked(Runner):
    """Carries a run in this process and takes the figures of each station."""

    def __init__(self, stations: Stations) -> None:
        self.stations = stations

    async def step(self, name: str, station: Callable[..., Any], *given: Any) -> Any:  # noqa: ANN401 - as the station
        """Carry out one station and mark its end; those that ask are one."""
        done = await super().step(name, station, *given)
        if name not in {"open books", "close books"}:
            self.stations.mark(name)
        return done

    @asynccontextmanager
    async def asking(self, run: ScreeningRun) -> AsyncIterator[None]:
        """Mark the end of the asking."""
        async with super().asking(run):
            yield
        self.stations.mark("lookups")

    async def may_spend(self, run: ScreeningRun) -> bool:  # noqa: ARG002 - nobody is asked
        """Let it spend."""
        return True


async def run(url: str, key: str, file: Path, folder: Path) -> dict[str, object]:
    """Carry a file along the line and return its figures."""
    caps = {"bank_account": CAP, "karma": CAP, "ecosystem": CAP}
    settings = read_settings(base_url=url, api_key=key, home=folder / "home", max_in_flight=caps)
    stations = Stations()
    parameters = ScreenBatch(input=str(file), batch="benchmark", output=str(folder / "out"))
    report = await run_screening(parameters, settings, runner=Marked(stations))
    return {
        "rows": report["rows"]["read"],
        "lookups": sum(each["attempts"] for each in report["checks"].values()),
        "cost": report["cost"]["total"],
        "peaks": stations.peaks,
        "stations": stations.seconds,
    }


def main() -> None:
    """Make the batch where there is none yet, run it and print the figures."""
    url, key, rows, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    file = folder / f"customers-{rows}.csv"
    if not file.exists():
        make_batch(file, rows=rows, seed=1)
    print(json.dumps(asyncio.run(run(url, key, file, folder))))


if __name__ == "__main__":
    main()
