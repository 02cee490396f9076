"""What every benchmark says about the machine, and CPU of a process with all it started.

Standard library only: programs of other environments use it as well. Nothing is compared here.
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
    """Say how busy the machine is; a figure without it is worth little."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def run_words() -> str:
    """Say what a table was taken on, and when."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    processor = found[1] if found else platform.machine()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return f"{processor}, {load_words()}, {platform.system()}, {python}, {when}"


def tree_cpu_s(root: int | None = None) -> float:
    """Return the CPU seconds of a process, of what it started, and of what of that has ended."""
    spent = _processes()[1]
    return sum(spent.get(pid, 0.0) for pid in process_tree(root or os.getpid()))


def process_tree(root: int) -> set[int]:
    """Return a process and all it started that live."""
    parents = _processes()[0]
    mine = {root}
    grows = True
    while grows:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine |= more
        grows = bool(more)
    return mine


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
