"""The number of Hypothesis examples of a property.

`make test` runs a fifth of the examples, `make test-all` and a test run by its name run all.
"""

from __future__ import annotations

from hypothesis import settings

_ALL = 100  # Hypothesis' default


def choose(*, quick: bool) -> None:
    """Make this process run all examples, or a fifth of them."""
    settings.register_profile("tests", deadline=None, max_examples=_ALL // 5 if quick else _ALL)
    settings.load_profile("tests")


def examples(in_full: int) -> int:
    """Return the number of examples of a property; `in_full` is the number for a full run."""
    return max(2, in_full * settings().max_examples // _ALL)
