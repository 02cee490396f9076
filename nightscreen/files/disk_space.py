"""Disk space: how much is free where a folder is or would be. Nothing is written here."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LEAST_FREE_BYTES = 500_000_000
"""Free bytes below which a disk counts as nearly full: a large night writes about as much."""


def free_bytes(folder: Path) -> int | None:
    """Return the free bytes of the disk a folder is on or would be made on; None if unknown."""
    absolute = folder.absolute()
    for existing in (absolute, *absolute.parents):
        try:
            return shutil.disk_usage(existing).free
        except OSError:
            continue
    return None
