"""Peak memory of a run by the number of its rows, cold and warm.

`python -m benchmarks.memory [ROWS ...]`; by default 2,000 and 20,000 rows. Each run is a process of
its own. The ratio between two sizes is what counts: it must stay near one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from sandbox.process import SandboxProcess

SIZES = (2_000, 20_000)


def measure(rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the figures of a first and a second night of one batch."""
    with tempfile.TemporaryDirectory() as folder, SandboxProcess(balance="900000000") as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "none"})
        command = [sys.executable, "-m", "benchmarks.line", sandbox.url, sandbox.api_key]
        nights = []
        for _ in range(2):
            done = subprocess.run(
                [*command, str(rows), folder], check=True, capture_output=True, text=True
            )
            nights.append(json.loads(done.stdout))
        return nights[0], nights[1]


def main() -> None:
    """Print a table of sizes."""
    sizes = [int(word) for word in sys.argv[1:]] or list(SIZES)
    print(f"{'rows':>9} {'lookups':>9} {'cold MB':>8} {'warm MB':>8} {'to first':>8}  CPU us a row")
    first = 0.0
    for rows in sizes:
        cold, warm = measure(rows)
        first = first or cold["peak_mb"]
        cpu = {name: round(1e6 * each[0] / rows, 1) for name, each in warm["stations"].items()}
        print(
            f"{rows:>9,} {cold['lookups']:>9,} {cold['peak_mb']:>8.0f} {warm['peak_mb']:>8.0f} "
            f"{cold['peak_mb'] / first:>8.2f}  warm: {cpu}"
        )


if __name__ == "__main__":
    main()
