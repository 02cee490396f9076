"""The edge between the engine and the line: what a task lets out when something breaks.

The engine stores exception texts in clear. Errors of ours hold no personal data and pass; anything
else is replaced by its kind and place.
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
    """Return an error that may be stored in clear; of several at once, ours before any other."""
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
    """Let nothing out of the body but errors that may be stored in clear."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the edge: nothing unsanitised passes
        raise sanitized(error) from None
