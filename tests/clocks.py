"""The quick half of the tests under another clock: `python -m tests.clocks [today | all | NAME]`.

`today` takes one of the clocks in turn by date, so that in eight days all have been seen. What
follows the name goes to pytest. The clock is shifted in every Python process of the tests, by
`tests/shifted/sitecustomize.py`; Debian's `faketime` shifts the times of files too, and some tests
hang under it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple

from tests.shifted.sitecustomize import SHIFT

LAGOS = "+01:00"
FOLDER = Path(__file__).parent / "shifted"
QUICK = "not engine and not postgres and not browser and not long"
"""Servers and browsers keep the machine's clock, and would be told another."""


class Shifted(NamedTuple):
    """When the tests begin, as a zone's clocks show it, and how far that zone is from UTC."""

    day: str
    hour: str
    offset: str = LAGOS

    def instant(self) -> datetime:
        return datetime.fromisoformat(f"{self.day}T{self.hour}:00{self.offset}")

    def zone(self) -> str:
        """Return the zone as POSIX has it, which needs no table of zones and counts westward."""
        westward = "-" if self.offset.startswith("+") else "+"
        return f"XYZ{westward}{self.offset[1:]}"


def clocks(today: date) -> dict[str, Shifted]:
    day = today.isoformat()
    return {
        "night": Shifted(day, "03:00"),
        "noon": Shifted(day, "11:59"),
        "afternoon": Shifted(day, "12:59"),
        "midnight": Shifted(day, "23:55"),
        "leap-day": Shifted("2028-02-29", "10:00"),
        "year-end": Shifted(f"{today.year}-12-31", "23:57"),
        "west": Shifted(day, "16:30", "-08:00"),
        "east": Shifted(day, "04:30", "+05:45"),
    }


def run_under(clock: Shifted, arguments: list[str]) -> int:
    """Run the quick tests under a clock; return pytest's exit status."""
    shift_s = (clock.instant() - datetime.now(UTC)).total_seconds()
    path = os.pathsep.join(filter(None, [str(FOLDER), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "TZ": clock.zone(), "PYTHONPATH": path, SHIFT: str(shift_s)}
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", QUICK, "-p", "no:cacheprovider"]
    spread = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=5"]
    return subprocess.run([*pytest, *spread, *arguments], env=env, check=False).returncode


def main() -> None:
    """Run the tests under the clocks that are asked for."""
    wanted, *arguments = sys.argv[1:] or ["today"]
    today = datetime.now(UTC).date()
    known = clocks(today)
    turn = list(known)[today.toordinal() % len(known)]
    names = list(known) if wanted == "all" else [turn if wanted == "today" else wanted]
    broken = []
    for name in names:
        sys.stdout.write(f"clock {name}: {' '.join(known[name])}\n")
        sys.stdout.flush()
        if run_under(known[name], arguments):
            broken.append(name)
    if broken:
        sys.exit(f"tests fail under these clocks: {', '.join(broken)}")


if __name__ == "__main__":
    main()
