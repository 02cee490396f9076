"""Memory tuning: freed memory is returned to the system, so that a run's peak does not last.

glibc keeps freed memory for later allocations, the more the larger the arrays; Arrow's own
allocator keeps even more. A run works in stations, each with its own arrays, and the next station
cannot reuse freed memory without gaps.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

_LARGE_BYTES = 16 << 20
"""Allocations from this size on are separate mappings, returned once freed.

These are the arrays of a whole batch. Those of a chunk are allocated so often that mapping each
took a tenth of a run; they are returned when a station ends.
"""
_OPTIONS = (
    (-3, _LARGE_BYTES),  # M_MMAP_THRESHOLD of malloc.h
    (-1, 64 << 20),  # M_TRIM_THRESHOLD
    (-8, 2),  # M_ARENA_MAX
)
_COLLECT_AFTER = (50_000, 10, 10)
"""Thresholds of Python's garbage collector, by generation."""


def collect_seldom() -> None:
    """Make Python collect garbage seldom; call this before much is loaded.

    Loading a command makes some 200,000 objects that stay, and blocks of rows are lists of
    thousands. With Python's default of 700, scanning them repeatedly takes a tenth of the CPU time
    to the first lookup and of a run, and a third of a worker's.
    """
    gc.set_threshold(*_COLLECT_AFTER)


def choose_allocator() -> None:
    """Make Arrow use the common allocator; call this before anything imports pyarrow.

    Another allocator named in the environment wins. Child processes inherit it.
    """
    if _glibc() is not None:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def tune_allocator() -> None:
    """Make glibc return large freed memory at once."""
    if (glibc := _glibc()) is not None:
        for option in _OPTIONS:
            glibc.mallopt(*option)


def trim_memory() -> None:
    """Return free memory to the system between stations; takes some milliseconds."""
    if (glibc := _glibc()) is not None:
        glibc.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """Return glibc; None with another C library, where nothing is tuned."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") else None
