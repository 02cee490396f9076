"""How a mistake in a data file is told: where it stands and what is wrong with it.

What does not belong here: which mistakes there are; the models of each file know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def first_mistake(error: ValidationError) -> str:
    """Return the place and the reason of the first mistake, in one line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the file"
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    return f"{place}: {first['msg'].removeprefix('Value error, ')}{tail}"
