"""Vital signs of a run under way: a small file under HOME that other processes read.

Numbers and ids only, one file a run, replaced whole every few seconds. It is beside the journal and
not in it, so that writing it costs the journal nothing and it can be read when the journal cannot.
`ops.vitals` makes its content.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FOLDER = "vitals"
KEPT = 20  # runs whose last signs are kept


def write_vitals(home: Path, run_id: str, signs: Mapping[str, Any]) -> bool:
    """Replace a run's heartbeat.

    Return whether that succeeded, because a full disk must stop no run.
    """
    folder = home / FOLDER
    partial = folder / f".{run_id}.{os.getpid()}.part"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(signs, file)
        partial.replace(folder / f"{run_id}.json")
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
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


def newest_signs(home: Path) -> dict[str, Any] | None:
    """Return the signs written last, for when the journal cannot say which run is the newest."""
    with suppress(OSError):
        files = sorted((home / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime_ns)
        if files:
            return read_vitals(home, files[-1].stem)
    return None
