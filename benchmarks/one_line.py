"""The whole line as a contestant of `benchmarks/lookup_cost.py`: file in, report and manifest out.

`--asyncio` takes asyncio's own event loop in place of uvloop.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import uvloop

from benchmarks.alternatives.job import Job, measure
from nightscreen.config.parameters import ScreenBatch
from tests.kill.drive import screen, settings_for

if TYPE_CHECKING:
    from tests.kill.drive import RunLoop


def carry(job: Job, run_loop: RunLoop) -> int:
    """Screen the file for karma; return how many lookups were answered."""
    settings = settings_for(job.folder / "home", job.url, job.key, max_in_flight={"karma": job.cap})
    given = ScreenBatch(input=str(job.file), output=str(job.folder / "out"), checks=["karma"])
    report = screen(given, settings, run_loop=run_loop).report
    assert report["state"] == "completed", report["stop_reason"]
    return int(report["checks"]["karma"]["attempts"])


def main() -> None:
    """Measure."""
    plain = "--asyncio" in sys.argv
    if plain:
        sys.argv.remove("--asyncio")
    measure(lambda job: carry(job, asyncio.run if plain else uvloop.run))


if __name__ == "__main__":
    main()
