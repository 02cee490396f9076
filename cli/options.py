"""What was typed, made into the parameters of a run; a mistake is told by the option's name.

What parameters there are is in `schemas.parameters`.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.parameters import ScreenBatch, WatchInbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

Parameters = TypeVar("Parameters", bound=BaseModel)
_WRITE = {
    "max_spend": "write naira such as 250000 or 99.50, without sign or commas",
    "deadline": "write a time of day in Lagos such as 06:00, or an instant such as "
    "2026-03-01T06:00",
    "run": "an id holds letters, digits and hyphens; see the ids with: nightscreen runs list",
    "batch": "write at most 80 characters",
    "checks": "name at least one of bank_account, karma, ecosystem, selfie",
}
_NEVER_EMPTY = ("checks", "prefill")
"""Options of which an empty list means something, not a wish for the default."""


def read_parameters(options: Mapping[str, Any]) -> ScreenBatch:
    """Return the parameters of a run.

    Raises:
        UsageError: an option is wrong; told by its name on the command line.
    """
    return read_options(ScreenBatch, options)


def read_watch(options: Mapping[str, Any]) -> WatchInbox:
    """Return how files of the inbox are screened.

    Raises:
        UsageError: an option is wrong; told by its name on the command line.
    """
    return read_options(WatchInbox, options)


def read_options(
    model: type[Parameters],
    options: Mapping[str, Any],
    *,
    typed: Mapping[str, str] | None = None,
) -> Parameters:
    """Return the parameters of any flow; what was left empty keeps its default.

    Args:
        model: the flow's parameters.
        options: what was typed, by the parameter's name.
        typed: names of options that differ from their parameter's.

    Raises:
        UsageError: an option is wrong; told by its name on the command line.
    """
    given = {
        name: value
        for name, value in options.items()
        if value is not None and (value not in ("", []) or name in _NEVER_EMPTY)
    }
    try:
        return model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "options"
        option = (typed or {}).get(name, name.replace("_", "-"))
        raise UsageError(f"--{option}: {_advice(name, first)}") from None


def _advice(name: str, mistake: ErrorDetails) -> str:
    if mistake["type"] == "literal_error":
        return _none_of(str(mistake["input"]), str(mistake["ctx"]["expected"]))
    return _WRITE.get(name, str(mistake["msg"]).removeprefix("Value error, "))


def _none_of(given: str, expected: str) -> str:
    """Say what may be given, from the validator's list of quoted words, and the nearest of them."""
    words = [word for word in expected.replace(" or ", ", ").replace("'", "").split(", ") if word]
    near = difflib.get_close_matches(given.casefold(), words, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{given} is none of {', '.join(words)}{hint}"
