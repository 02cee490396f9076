"""How many examples of a property a run of the tests tries.

`make test` tries a fifth of what `make test-all` does, and a test called by its name tries all.
"""

from __future__ import annotations

from hypothesis import settings

_ALL = 100  # what Hypothesis tries by itself


def choose(*, quick: bool) -> None:
    """Have this process try all examples, or a fifth of them."""
    settings.register_profile("tests", deadline=None, max_examples=_ALL // 5 if quick else _ALL)
    settings.load_profile("tests")


def examples(in_full: int) -> int:
    """Return how many examples to try of a property that has `in_full` of them in full."""
    return max(2, in_full * settings().max_examples // _ALL)
