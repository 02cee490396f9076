"""The quick half of the tests under another clock: `python -m tests.clocks [today | all | NAME]`.

Debian's `faketime` shifts the clock of every process of the tests. `today` takes one of the clocks
in turn by date, so that in a week all have been seen. What follows the name goes to pytest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import NamedTuple

LAGOS = "WAT-1"
QUICK = "not engine and not postgres and not browser and not long"
"""What depends on the clock is found without servers, whose own times would be shifted too."""


class Shifted(NamedTuple):
    """A day and hour of a zone, written as POSIX has it, which needs no table of zones."""

    day: str
    hour: str
    zone: str = LAGOS

    def begins(self, today: date) -> str:
        """Return the instant as `faketime` takes it."""
        return f"@{self.day or today.isoformat()} {self.hour}"


def clocks(today: date) -> dict[str, Shifted]:
    """Return every clock by its name."""
    return {
        "night": Shifted("", "03:00:00"),
        "noon": Shifted("", "12:59:00"),
        "midnight": Shifted("", "23:55:00"),
        "leap-day": Shifted("2028-02-29", "10:00:00"),
        "year-end": Shifted(f"{today.year}-12-31", "23:57:00"),
        "west": Shifted("", "16:30:00", "PST8PDT,M3.2.0,M11.1.0"),
        "east": Shifted("", "04:30:00", "NPT-5:45"),
    }


def run_under(clock: Shifted, today: date, arguments: list[str]) -> int:
    """Run the quick tests under a clock; return pytest's exit status."""
    faketime = shutil.which("faketime")
    if faketime is None:
        sys.stderr.write("faketime is missing: apt-get install faketime\n")
        return 2
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", QUICK, "-p", "no:cacheprovider"]
    spread = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", "--durations=5"]
    env = {**os.environ, "TZ": clock.zone, "DONT_FAKE_MONOTONIC": "1"}
    command = [faketime, "-f", clock.begins(today), *pytest, *spread, *arguments]
    return subprocess.run(command, env=env, check=False).returncode


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
        if run_under(known[name], today, arguments):
            broken.append(name)
    if broken:
        sys.exit(f"tests fail under these clocks: {', '.join(broken)}")


if __name__ == "__main__":
    main()
