"""The short form of every benchmark, one after the other: `make bench`, about five minutes."""

from __future__ import annotations

import subprocess
import sys

SHORT_FORMS = (
    ("transports: pools under the httpx interface", ["benchmarks.transports"]),
    ("occupancy: a cap of 50 at 100 ms, beside bare httpx", ["benchmarks.occupancy"]),
    ("journal: its share of CPU and time a lookup", ["benchmarks.journal"]),
    ("memory: peak by rows, cold and warm", ["benchmarks.memory", "2000", "10000"]),
)


def main() -> None:
    """Run each in a process of its own, so that none warms the next."""
    for title, words in SHORT_FORMS:
        print(f"\n== {title}\n", flush=True)
        subprocess.run([sys.executable, "-m", *words], check=True)


if __name__ == "__main__":
    main()
