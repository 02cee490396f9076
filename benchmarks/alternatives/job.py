"""What every alternative is given, and how it is measured. Standard library only."""

from __future__ import annotations

import argparse
import csv
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.measured import tree_cpu_s

if TYPE_CHECKING:
    from collections.abc import Callable

KARMA = "/v2/verification/karma/"


@dataclass(frozen=True, slots=True)
class Job:
    """One measurement.

    Attributes:
        url: the service.
        key: its key.
        file: CSV of customers.
        folder: where answers go.
        cap: calls in flight.
    """

    url: str
    key: str
    file: Path
    folder: Path
    cap: int

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of every call."""
        return {"Authorization": f"Bearer {self.key}"}

    def bvns(self) -> list[str]:
        """Return the numbers to ask about."""
        with self.file.open(encoding="utf-8", newline="") as file:
            return [row["bvn"] for row in csv.DictReader(file)]


def measure(work: Callable[[Job], int]) -> None:
    """Do the work that the command line names, and print what it took.

    The CPU is that of this process and of all it started, from here on; imports are not counted.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("key")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cap", type=int, default=50)
    job = Job(**vars(parser.parse_args()))
    job.folder.mkdir(parents=True, exist_ok=True)
    cpu, wall = tree_cpu_s(), time.perf_counter()
    calls = work(job)
    cpu, wall = tree_cpu_s() - cpu, time.perf_counter() - wall
    print(json.dumps({"calls": calls, "cpu_s": cpu, "wall_s": wall}))
