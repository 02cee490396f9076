"""Batch risk screening for lenders: rows in, enriched rows and an account of every naira out.

`docs/architecture.md` describes the folders. For notebooks: `nightscreen.open_run("out/RUN_ID")`
returns a finished run as data frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightscreen.run_result import RunResult, open_run

__all__ = ["RunResult", "open_run"]


def __getattr__(name: str) -> object:
    """Load pandas only when a run is opened; commands do not need it."""
    if name in __all__:
        from nightscreen import run_result  # noqa: PLC0415 - the reason is above

        return getattr(run_result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
