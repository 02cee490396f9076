"""Reports a mistake in a data file: file, line, and what is wrong.

The models of each file decide what is a mistake.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_Model = TypeVar("_Model", bound=BaseModel)
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_ENTRY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def read_model(path: Path, model: type[_Model]) -> _Model:
    """Return a data file as its model.

    Raises:
        SettingsError: it cannot be read, is not TOML, or has a mistake; file and line are named.
    """
    try:
        text = path.read_text("utf-8")
        return model.model_validate(tomllib.loads(text))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    except ValidationError as error:
        place = _place_in(path, text, error.errors()[0]["loc"])
        raise SettingsError(f"{place}: {_first_mistake(error)}") from None


def _place_in(path: Path, text: str, where: Sequence[str | int]) -> str:
    """Return the file and the line of an entry, such as `manners.toml, line 12`.

    Args:
        path: the file.
        text: its content.
        where: names and numbers that lead to the entry, as pydantic gives them. If the entry is not
            in the file, the line is that of the innermost table that is.
    """
    table = next((part for part in where if isinstance(part, str)), None)
    number = next((part for part in where if isinstance(part, int)), 0)
    names = [part for part in where if isinstance(part, str)][1:]
    line, seen = 0, -1
    for at, content in enumerate(text.splitlines(), start=1):
        if found := _TABLE.match(content):
            seen += found[1] == table
            if found[1] == table and seen == number:
                line = at
            elif line:
                break
        elif line and names and (entry := _ENTRY.match(content)) and entry[1] == names[0]:
            line = at
            break
    return f"{path}, line {line}" if line else str(path)


def _first_mistake(error: ValidationError) -> str:
    """Return the place and the reason of the first mistake, in one line."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the file"
    more = error.error_count() - 1
    tail = f" (and {more} more)" if more else ""
    return f"{place}: {first['msg'].removeprefix('Value error, ')}{tail}"
