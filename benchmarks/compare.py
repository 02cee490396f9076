"""Compare nightscreen with what a user would write instead, against one simulator.

`python -m benchmarks.compare [--lookups N] [--cap N] [--rounds N]`. Every contestant asks karma
about the same customers, with the same number of calls in flight, at 20 ms per call. Rounds are
interleaved and the least CPU of each counts. Each then gets the same file again, as on the next
night: `paid twice` is the cost in naira of answers that were already paid for.

How to read it: CPU per lookup, and its ratio to plain httpx. dlt has its own environment under
`build/bench`, which is created if the package index can be reached; otherwise it is left out.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.contestants import CONTESTANTS
from benchmarks.measured import load_words, run_words
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.process import SandboxProcess

LATENCY_MS = 20
BASE = "asyncio over httpx"
_HERE = Path(__file__).parent
_VENV = _HERE.parent / "build" / "bench" / "venv"
_TIMEOUT_S = 900


def own_python() -> str | None:
    """Return a Python interpreter that has dlt, installed if needed; None if that fails."""
    python = _VENV / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", _VENV], check=True)
    requirements = str(_HERE / "requirements.txt")
    install = [str(python), "-m", "pip", "install", "--quiet", "-r", requirements]
    probe = subprocess.run([python, "-c", "import dlt, requests"], check=False, capture_output=True)
    if probe.returncode and subprocess.run(install, check=False, capture_output=True).returncode:
        return None
    return str(python)


def customers(file: Path, number: int) -> None:
    """Write a file of fictional people, some of whom are on the blacklist by BVN."""
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("customer_id", "bvn", "first_name", "last_name"))
        for each in range(number):
            person = person_of_bvn(f"22{each * 618_033_989 % 10**9:09d}")
            writer.writerow((f"C{each}", person.bvn, person.first_name, person.last_name))


def run(name: str, python: str, sandbox: SandboxProcess, folder: Path, cap: int) -> dict[str, Any]:
    """Run one contestant over the file in its own process; return its figures."""
    words = [name, sandbox.url, sandbox.api_key, str(folder.parent / "in.csv"), str(folder)]
    engine = tempfile.mkdtemp(dir=folder.parent)  # the engine's folder, new for each run
    settings = {"PREFECT_HOME": engine, "PREFECT_LOGGING_LEVEL": "CRITICAL", "DO_NOT_TRACK": "1"}
    settings |= {"PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true", "PREFECT_API_URL": ""}
    settings |= {"PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300"}
    settings |= {"PYTHONPATH": str(_HERE.parent)}
    done = subprocess.run(
        [python, "-m", "benchmarks.contestants", *words, str(cap)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
        timeout=_TIMEOUT_S,
    )
    if done.returncode:  # only then: the engine logs much when its server ends
        sys.stderr.write(done.stderr)
        done.check_returncode()
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def compare(lookups: int, cap: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return calls, CPU and wall seconds, and naira paid twice, by contestant."""
    results: dict[str, dict[str, float]] = {}
    pythons = dict.fromkeys(CONTESTANTS, sys.executable)
    dlt = own_python()
    if dlt is None:
        print("dlt is left out: the package index cannot be reached", file=sys.stderr)
        del pythons["dlt"]
    else:
        pythons["dlt"] = dlt
    with tempfile.TemporaryDirectory() as made, SandboxProcess(balance="900000000") as sandbox:
        customers(Path(made) / "in.csv", lookups)
        for round_ in range(rounds):
            for name, python in pythons.items():
                sandbox.reset()
                sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
                folder = Path(made) / f"{round_}-{name.split()[-1]}"
                figures = run(name, python, sandbox, folder, cap)
                assert figures["calls"] == lookups, (name, figures)
                best = results.setdefault(name, figures)
                if figures["cpu_s"] < best["cpu_s"]:
                    best |= figures
                if round_ == 0:
                    once = sandbox.totals()["totals"]["charged"]
                    run(name, python, sandbox, folder, cap)
                    twice = sandbox.totals()["totals"]["charged"]
                    best["paid_twice"] = float(twice) - float(once)
    return results


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lookups", type=int, default=2_000)
    parser.add_argument("--cap", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(run_words())
    results = compare(given.lookups, given.cap, given.rounds)
    base = results[BASE]["cpu_s"]
    print(
        f"{given.lookups:,} lookups, cap {given.cap}, {given.rounds} rounds; {load_words()} now\n"
    )
    print("| | CPU ms a lookup | to httpx | wall s | paid twice, ₦ |\n|---|---|---|---|---|")
    for name, figures in results.items():
        cpu = figures["cpu_s"]
        print(
            f"| {name} | {1000 * cpu / given.lookups:.2f} | {cpu / base:.2f} | "
            f"{figures['wall_s']:.1f} | {figures['paid_twice']:,.0f} |"
        )


if __name__ == "__main__":
    main()
