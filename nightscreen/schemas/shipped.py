"""The files that the package ships: word lists, tables, prices, policy, templates."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from nightscreen.schemas.errors import SettingsError

PACKAGE: Final = Path(__file__).resolve().parents[1]
DATA: Final = PACKAGE / "data"


def template(name: str) -> Path:
    """Return the path of `.env.example` or `prefect.yaml`.

    They are at the root of a checkout, where people look for them; the build copies them into the
    package.
    """
    built = PACKAGE / name
    return built if built.exists() else PACKAGE.parent / name


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table in CSV by its headings; lines that begin with `# ` are notes.

    Raises:
        SettingsError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(line for line in file if not line.startswith("# ")))
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"the table {path} cannot be read as text; restore it") from None
