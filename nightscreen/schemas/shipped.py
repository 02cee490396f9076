"""Where the files lie that the package ships: word lists, tables, prices, the policy, templates."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[1]
DATA: Final = PACKAGE / "data"


def template(name: str) -> Path:
    """Return `.env.example` or `prefect.yaml`: at the root of a checkout, in the built package.

    The root is where a person looks for them, so that they stand there; the build copies them.
    """
    built = PACKAGE / name
    return built if built.exists() else PACKAGE.parent / name
