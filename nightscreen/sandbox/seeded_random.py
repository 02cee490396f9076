"""Repeatable draws: the same words always give the same numbers.

This module only hashes. The modules that draw decide what is drawn, and how often.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

_BITS = 512
_SPARE = 1 << 64
_FINE = 1 << 30


class SeededRandom:
    """A stream of numbers that depends on nothing but the words it was made from."""

    __slots__ = ("_left", "_turn", "_words")

    def __init__(self, *words: str) -> None:
        self._words = "\x1f".join(words).encode("utf-8", "surrogatepass")
        self._turn = 0
        self._left = int.from_bytes(blake2b(self._words).digest(), "big")

    def below(self, bound: int) -> int:
        """Draw a whole number from 0 up to, not including, `bound`."""
        if self._left < bound * _SPARE:
            self._turn += 1
            more = blake2b(self._words, salt=self._turn.to_bytes(16, "big")).digest()
            self._left = (self._left << _BITS) | int.from_bytes(more, "big")
        self._left, number = divmod(self._left, bound)
        return number

    def between(self, low: int, high: int) -> int:
        """Draw a whole number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def share(self) -> float:
        """Draw a fraction from 0 up to, not including, 1."""
        return self.below(_FINE) / _FINE

    def pick(self, choices: Sequence[T]) -> T:
        """Draw one of `choices`, each as likely as the others."""
        return choices[self.below(len(choices))]
