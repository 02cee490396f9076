"""The policy of a run: the lender's own or the default one, read and checked as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.schemas.errors import PolicyError
from nightscreen.steps.policy.check import check_policy
from nightscreen.steps.policy.file import DEFAULT_POLICY, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.schemas.policy import Policy


def load_policy(path: Path | None = None) -> Policy:
    """Return a policy without mistakes; the default one where no file is named.

    Raises:
        PolicyError: it cannot be read, or has mistakes; the first is reported, with its line.
    """
    checked = check_policy(read_text(path))
    if checked.policy is not None:
        return checked.policy
    first, more = checked.mistakes[0], len(checked.mistakes) - 1
    name = (path or DEFAULT_POLICY).name
    rule = f", {first.rule}" if first.rule else ""
    others = f" (and {more} more)" if more else ""
    raise PolicyError(
        f"{name}, line {first.line}{rule}: {first.message}{others}; "
        f"see all with: nightscreen policy check {path or DEFAULT_POLICY}"
    )
