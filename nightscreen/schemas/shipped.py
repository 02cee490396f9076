"""Paths of the files that the package ships: word lists, tables, prices, policy, templates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[1]
DATA: Final = PACKAGE / "data"


def template(name: str) -> Path:
    """Return the path of `.env.example` or `prefect.yaml`.

    They are at the root of a checkout, where people look for them; the build copies them into the
    package.
    """
    built = PACKAGE / name
    return built if built.exists() else PACKAGE.parent / name
