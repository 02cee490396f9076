"""Which file a scheduled run reads: a pattern stands for the newest file that matches it.

Reading the file is intake's; on the command line the shell expands patterns.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.schemas.errors import InputError
from nightscreen.schemas.naming import contains_identifier

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch

_WILD = frozenset("*?[")


def newest_input(parameters: ScreenBatch) -> ScreenBatch:
    """Return the parameters with the newest file in the place of a pattern.

    Raises:
        InputError: no file matches the pattern, or the newest one's name holds an identifier.
    """
    pattern = Path(parameters.input)
    if pattern.exists() or not _WILD.intersection(parameters.input):
        return parameters
    below = pattern.relative_to(pattern.anchor) if pattern.anchor else pattern
    found = [path for path in Path(pattern.anchor).glob(str(below)) if path.is_file()]
    if not found:
        raise InputError(
            f"no file matches {parameters.input}, seen from {Path.cwd()}: has tonight's extract "
            "arrived, does the pattern fit its name, or did the watch of the inbox screen it "
            "already (nightscreen runs list)?"
        )
    newest = max(found, key=lambda path: (path.stat().st_mtime_ns, path.name))
    if contains_identifier(newest.name):
        raise InputError(
            f"the newest file that matches {parameters.input} has what looks like a customer's "
            "number or email address in its name, which is shown everywhere: rename it"
        )
    return parameters.model_copy(update={"input": str(newest)})
