"""The short form of every benchmark, one after the other: `make bench`, about five minutes.

`python -m benchmarks --long` takes the whole tables, which is an hour or more; best on a quiet
machine.
"""

from __future__ import annotations

import subprocess
import sys

SHORT_FORMS = (
    ("transports: pools under the httpx interface", ["benchmarks.transports"]),
    (
        "occupancy: share of the cap, beside the ideal",
        ["benchmarks.occupancy", "--caps", "50", "--latencies", "fixed"],
    ),
    (
        "cost: CPU a lookup, beside bare clients",
        ["benchmarks.lookup_cost", "--calls", "2000", "--only", "httpx", "line", "line-asyncio"],
    ),
    ("start: from typing to the first lookup", ["benchmarks.start", "--rounds", "2"]),
    ("names: precision and recall beside rapidfuzz", ["benchmarks.name_pairs"]),
    ("cash flow: beside the truth and a naive rule", ["benchmarks.cash_flow", "--lives", "160"]),
    ("a large journal", ["benchmarks.journal_size", "50000"]),
    ("journal: its share of CPU and time a lookup", ["benchmarks.journal"]),
    ("memory: peak by rows, cold and warm", ["benchmarks.memory", "2000", "10000"]),
    ("intake: dirty rows, beside a bare read and pydantic", ["benchmarks.intake", "50000"]),
    ("the warm night, beside a DuckDB join", ["benchmarks.warm", "20000"]),
)

LONG_FORMS = (
    ("transports", ["benchmarks.transports", "--rounds", "5"]),
    ("occupancy", ["benchmarks.occupancy", "--long"]),
    ("cost of a lookup", ["benchmarks.lookup_cost"]),
    ("start: from typing to the first lookup", ["benchmarks.start", "--rounds", "5"]),
    ("journal", ["benchmarks.journal"]),
    ("a journal of ten million answers", ["benchmarks.journal_size", "10000000"]),
    ("memory", ["benchmarks.memory", "10000", "100000", "1000000"]),
    ("intake", ["benchmarks.intake", "1000000"]),
    ("the warm night", ["benchmarks.warm", "100000", "1000000"]),
    ("cash flow", ["benchmarks.cash_flow", "--lives", "1000"]),
    ("cash flow of a thousand lives, pulled", ["benchmarks.cash_flow", "--pulled", "1000"]),
    ("a million transactions", ["benchmarks.cash_flow", "--speed", "1000000"]),
)


def main() -> None:
    """Run each in a process of its own, so that none warms the next."""
    forms = LONG_FORMS if "--long" in sys.argv[1:] else SHORT_FORMS
    for title, words in forms:
        print(f"\n== {title}\n", flush=True)
        subprocess.run([sys.executable, "-m", *words], check=True)


if __name__ == "__main__":
    main()
