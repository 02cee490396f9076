"""Vital signs of a run under way: a small file under HOME that other processes read.

Numbers and ids only, one file a run, replaced whole every few seconds. It is beside the journal and
not in it, so that writing it costs the journal nothing.
`ops.vitals` makes its content.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from nightscreen.files.private_files import write_passing
from nightscreen.schemas.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "vitals"
KEPT = 20  # runs whose last signs are kept


def write_vitals(home: Path, run_id: str, signs: Mapping[str, Any]) -> bool:
    """Replace a run's heartbeat.

    Return whether that succeeded, because a full disk must stop no run.
    """
    try:
        (home / FOLDER).mkdir(mode=0o700, exist_ok=True)
        write_passing(home / FOLDER / f"{run_id}.json", json.dumps(signs).encode())
    except (OSError, OutputError):
        return False
    return True


def read_vitals(home: Path, run_id: str) -> dict[str, Any] | None:
    """Return a run's last signs, None where there are none or they cannot be read."""
    try:
        found = json.loads((home / FOLDER / f"{run_id}.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sweep_vitals(home: Path) -> None:
    """Remove the signs of all but the newest runs."""
    with suppress(OSError):
        files = sorted((home / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        for file in files[:-KEPT]:
            file.unlink(missing_ok=True)
