"""Run the quick tests under a shifted clock: `python -m tests.clocks [today | all | NAME]`.

`today` chooses a clock by the date, so that eight days cover all of them. Further arguments go to
pytest. `tests/shifted/sitecustomize.py` shifts the clock of every Python process of the tests.
Debian's `faketime` is not used: it also shifts the times of files, and some tests hang under it.
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
"""Without tests that need servers or browsers: these use the machine's clock."""


class Shifted(NamedTuple):
    """The local time at which the tests begin, and the zone's offset from UTC."""

    day: str
    hour: str
    offset: str = LAGOS

    def instant(self) -> datetime:
        return datetime.fromisoformat(f"{self.day}T{self.hour}:00{self.offset}")

    def zone(self) -> str:
        """Return the zone in POSIX format, which needs no zone files and counts westward."""
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
    choice, *arguments = sys.argv[1:] or ["today"]
    today = datetime.now(UTC).date()
    known = clocks(today)
    of_today = list(known)[today.toordinal() % len(known)]
    names = list(known) if choice == "all" else [of_today if choice == "today" else choice]
    failed = []
    for name in names:
        sys.stdout.write(f"clock {name}: {' '.join(known[name])}\n")
        sys.stdout.flush()
        if run_under(known[name], arguments):
            failed.append(name)
    if failed:
        sys.exit(f"tests fail under these clocks: {', '.join(failed)}")


if __name__ == "__main__":
    main()
