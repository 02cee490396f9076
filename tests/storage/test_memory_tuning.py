"""Freed memory goes back to the system, and what nobody uses is not loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

_FREES_MANY = """
from nightscreen.files.memory_tuning import choose_allocator, trim_memory, tune_allocator
choose_allocator()
import numpy as np
import pyarrow as pa

def resident():
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])

heeds = tune_allocator()
pa.repeat(0, 1)  # so that all it takes is loaded
before = resident()
for _ in range(2):
    arrays = [np.ones(1 << 18) for _ in range(32)]
    kept = arrays[-1][:1].copy()
    del arrays
freed = resident()
columns = [pa.repeat(number, 1 << 18) for number in range(32)]
del columns
trim_memory()
print(int(heeds), freed - before, resident() - freed)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_what_was_freed_is_not_kept() -> None:
    """Of 64 MB used and freed twice hardly any stays, nor of Arrow's at a station's end."""
    command = [sys.executable, "-c", _FREES_MANY]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    heeds, kept_kb, of_arrow_kb = (int(word) for word in done.stdout.split())
    assert heeds in {0, 1}
    assert not heeds or (kept_kb < 8_000 and of_arrow_kb < 8_000)
