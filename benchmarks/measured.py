"""Describe the machine, and measure the CPU time of a process and its descendants.

Standard library only: programs of other environments import it too.
"""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

_TICKS_S = os.sysconf("SC_CLK_TCK")
_CPU_FIELDS = slice(11, 15)
"""utime, stime, cutime, cstime, counted from the third field of /proc/PID/stat."""


def load_words() -> str:
    """Return the machine's load, without which a figure means little."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def run_words() -> str:
    """Return the machine, its load, the Python version and the time."""
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = model[1] if model else platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{processor}, {load_words()}, {platform.system()}, {python}, {when}"


def tree_cpu_s(root: int | None = None) -> float:
    """Return the CPU seconds of a process and its descendants, including those that have ended."""
    spent = _processes()[1]
    return sum(spent.get(pid, 0.0) for pid in process_tree(root or os.getpid()))


def process_tree(root: int) -> set[int]:
    """Return the ids of a process and its live descendants."""
    parents = _processes()[0]
    tree = {root}
    grows = True
    while grows:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= more
        grows = bool(more)
    return tree


def _processes() -> tuple[dict[int, int], dict[int, float]]:
    """Return the parent and the CPU seconds of every process."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(folder.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(int(each) for each in fields[_CPU_FIELDS]) / _TICKS_S
    return parents, spent
