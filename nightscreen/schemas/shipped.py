"""The files that the package ships, or a lender in their place: where they are, and reading them.

They are word lists, tables, prices, policy and templates. A mistake in one is reported with file,
line, and what is wrong; the models of each file decide what is a mistake.
"""

from __future__ import annotations

import csv
import re
import tomllib
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ValidationError

from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

_Model = TypeVar("_Model", bound=BaseModel)
_TABLE = re.compile(r"\s*\[+\s*([\w.-]+)\s*\]+")
_ENTRY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")

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
    """Return the rows of a table in CSV by its headings.

    Blank lines, and lines that begin with `# `, are left out; before the headings also those that
    begin with `#`.

    Raises:
        SettingsError: the file cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = (line for line in file if line.strip() and not line.startswith("# "))
            return list(csv.DictReader(dropwhile(lambda line: line.startswith("#"), lines)))
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"the table {path} cannot be read as text; restore it") from None


def read_model(path: Path, model: type[_Model]) -> _Model:
    """Return a data file as its model.

    Raises:
        SettingsError: it cannot be read, is not TOML, or has a mistake; file and line are named.
    """
    try:
        text = path.read_text("utf-8-sig")
        tree = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:  # also of other text than UTF-8, or a number too long for tomllib
        raise SettingsError(f"{path} is no TOML: {str(error)[:200]}") from None
    try:
        return model.model_validate(tree)
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
