"""The file of what the lender declares, read and checked as a whole; without a file: nothing."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from nightscreen.config.declarations import Declarations
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from nightscreen.config.settings import Settings


def read_declarations(settings: Settings) -> Declarations:
    """Return what the lender declares.

    Raises:
        SettingsError: the file that is named is not there, or holds what means nothing.
    """
    path = settings.own_table("declarations")
    if path is None:
        return Declarations()
    try:
        tree = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise SettingsError(
            f"{path}: the declarations cannot be read ({error.strerror}); correct "
            "NIGHTSCREEN_DECLARATIONS_FILE"
        ) from None
    except ValueError as error:
        raise SettingsError(f"{path}: not valid TOML: {str(error)[:200]}") from None
    try:
        return Declarations.model_validate(tree)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "declarations"
        words = first["msg"].removeprefix("Value error, ")
        raise SettingsError(f"{path}: {place}: {words}; see docs/notices.md") from None
