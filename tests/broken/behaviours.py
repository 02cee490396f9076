"""The broken behaviours of `behaviours.toml`: each a slip, and the tests that must notice it.

Names and promises speak of what a user gets, and stay as they are when a part is written anew. The
edits are of the code as it is, and are then written anew with it.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
"""The tree that the files of the edits are named in."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Text of one file that is replaced; it must be there exactly once."""

    file: str
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """Return the file's text with the edit made.

        Raises:
            ValueError: the text is not as expected.
        """
        number = text.count(self.old)
        if number != 1:
            raise ValueError(f"{self.file} has {self.old.strip()!r} {number} times")
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Broken:
    """One behaviour, broken."""

    name: str  # what goes wrong
    promise: str  # what a user loses by it
    edits: tuple[Edit, ...]  # what is changed in the code as it is
    tests: tuple[str, ...]  # tests that notice; all of them pass on the code as it is


def _listed() -> tuple[Broken, ...]:
    with Path(__file__).with_suffix(".toml").open("rb") as file:
        listed = tomllib.load(file)
    return tuple(
        Broken(name, each["promise"], tuple(Edit(*e) for e in each["edits"]), tuple(each["tests"]))
        for name, each in listed.items()
    )


BEHAVIOURS = _listed()
