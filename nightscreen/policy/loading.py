"""A policy read and checked as a whole: a file, the default one, or a text kept elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nightscreen.policy.check import check_policy
from nightscreen.policy.file import DEFAULT_POLICY, read_text
from nightscreen.schemas.errors import PolicyError

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.schemas.policy import Policy


def load_policy(path: Path | None = None) -> Policy:
    """Return a policy without mistakes; the default one where no file is named.

    Raises:
        PolicyError: it cannot be read, or has mistakes; the first is reported, with its line.
    """
    path = path or DEFAULT_POLICY
    return sound_policy(read_text(path), path.name, f"nightscreen policy check {path}")


def sound_policy(text: str, name: str, see: str) -> Policy:
    """Return the policy of a text.

    Args:
        text: as a policy file has it.
        name: what a person knows it by.
        see: the command that shows all of its mistakes.

    Raises:
        PolicyError: it has mistakes; the first is reported, with its line.
    """
    checked = check_policy(text)
    if checked.policy is not None:
        return checked.policy
    first, more = checked.mistakes[0], len(checked.mistakes) - 1
    rule = f", {first.rule}" if first.rule else ""
    others = f" (and {more} more)" if more else ""
    raise PolicyError(
        f"{name}, line {first.line}{rule}: {first.message}{others}; see all with: {see}"
    )
