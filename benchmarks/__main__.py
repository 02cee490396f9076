"""Run the short form of every benchmark, one after the other (`make bench`): a few minutes.

`python -m benchmarks --long` measures the full tables. It takes two hours or more; use an idle
machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

SHORT_FORMS = (
    "night 2000",
    "occupancy --caps 50 --seconds 3 --latencies fixed",
    "workers 600 --latency 20",
    "sizes journal --rows 2000",
    "sizes hostile --only marks",
    "quality --pairs 1000 --lives 160",
    "compare --lookups 500 --rounds 1",
)
LONG_FORMS = (
    "night 100000 1000000",
    "occupancy --caps 20 50 200 --seconds 30",
    "workers 3000",
    "workers 4000 --cap 400 --latency 100",
    "sizes journal --rows 100000",
    "sizes hostile",
    "quality",
    "compare --lookups 4000",
)


def main() -> None:
    """Run each benchmark in its own process, so that none warms up the next."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--long", action="store_true", help="measure the full tables")
    for words in LONG_FORMS if parser.parse_args().long else SHORT_FORMS:
        module, *options = words.split()
        print(f"\n== python -m benchmarks.{words}\n", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *options], check=True)


if __name__ == "__main__":
    main()
