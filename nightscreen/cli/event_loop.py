"""The event loop of a command: uvloop where there is one, asyncio's own elsewhere.

Which costs less depends on the machine (docs/adr/0001); a worker's flows run in the engine's loop.
"""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

Returned = TypeVar("Returned")


def run(work: Coroutine[Any, Any, Returned]) -> Returned:
    """Run a coroutine to its end and return what it returns."""
    if importlib.util.find_spec("uvloop") is None:  # Windows
        return asyncio.run(work)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
