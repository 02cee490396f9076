"""Replace exceptions before they reach the engine, which stores their texts in plain text.

Errors of ours hold no personal data and pass; any other is replaced by its type and place.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import NightscreenError, UnexpectedFault, foremost

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).resolve().parents[1]


def sanitized(error: BaseException) -> NightscreenError:
    """Return an error without personal data; of an exception group, ours before any other."""
    if isinstance(error, BaseExceptionGroup):
        return foremost(error) or sanitized(error.exceptions[0])
    if isinstance(error, NightscreenError):
        return error
    place = "an unknown place"
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(_ROOT) and ".venv" not in path.parts:
            place = f"{path.relative_to(_ROOT)}:{frame.lineno} in {frame.name}"
    return UnexpectedFault(
        f"unexpected {type(error).__name__} at {place}; what was answered is safe in the journal: "
        "resume the run with --run, and report this line if it happens again"
    )


@contextmanager
def sanitize_errors() -> Iterator[None]:
    """Raise only errors without personal data out of the body."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the edge: nothing unsanitised passes
        raise sanitized(error) from None
