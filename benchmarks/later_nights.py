"""Later nights: which share of a portfolio comes newly onto the decision list, on made-up people.

`python -m benchmarks.later_nights [ROWS]`; by default 1,000 rows, as the demo makes them. The
simulator's world changes by the day (listings, histories, accounts), and so does the clock: the
first night asks about everybody, the next two reuse almost all, the last finds most of karma old.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.cli.demo import DAMAGE_PCT, SEED
from nightscreen.sandbox.batch import make_batch
from nightscreen.storage.clock import DAY_MICROS, system_clock
from tests.screening import World

if TYPE_CHECKING:
    from tests.screening import Night

ROWS = 1_000
DAYS = (0, 1, 2, 8)


def listed(night: Night) -> dict[str, str]:
    """Return decision by customer of a night's list."""
    with (night.folder / "decisions.csv").open(encoding="utf-8", newline="") as file:
        return {row["customer_id"]: row["decision"] for row in csv.DictReader(file)}


def _clock(day: int) -> int:
    """Return the present instant, so many days on."""
    return system_clock() + day * DAY_MICROS


def main(rows: int) -> None:
    """Screen the same people on several days and print who is new on the list."""
    print("| day | customers | asked | on the list | newly on it | newly, % |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        file = Path(folder) / "customers.csv"
        make_batch(file, rows=rows, seed=SEED, damage_pct=DAMAGE_PCT)
        before: dict[str, str] = {}
        for day in DAYS:
            world.clock = partial(_clock, day)
            world.sandbox.day = day
            night = world.screen(input=str(file), batch="customers")
            now = listed(night)
            screened = night.report["rows"]["screened"]
            asked = sum(check["attempts"] for check in night.report["checks"].values())
            new = len(now.keys() - before.keys())
            shown = f"{100 * new / screened:.2f}" if before else "first night"
            print(f"| {day} | {screened:,} | {asked:,} | {len(now):,} | {new:,} | {shown} |")
            before = now


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
