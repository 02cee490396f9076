"""Which files in the inbox have arrived: those that no longer change, however they were copied.

Pure: it is given what was seen and when. `files.inbox` reads the folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nightscreen.files.inbox import Stamp

LOOKS = 3  # how often a file must have been seen unchanged
LONGER = 6  # how many times longer to wait for an empty file, or one that seems to lack its end


@dataclass(slots=True)
class _Waiting:
    stamp: Stamp
    since_s: float
    looks: int = 1


@dataclass(slots=True)
class Settling:
    """Remembers what was seen of each file."""

    settle_s: float  # how long a file must stay as it is
    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def look(
        self,
        seen: Mapping[str, Stamp],
        now_s: float,
        *,
        is_whole: Callable[[str], bool],
        is_being_written: Callable[[str], bool],
    ) -> list[str]:
        """Return the files that have arrived, those that have waited longest first.

        Args:
            seen: the files there.
            now_s: the present on a clock that never goes back.
            is_whole: returns whether a file seems to be complete.
            is_being_written: returns whether somebody writes a file at this moment.
        """
        self._waiting = {name: self._next(name, stamp, now_s) for name, stamp in seen.items()}
        ready = []
        for name, waiting in self._waiting.items():
            rested_s = now_s - waiting.since_s
            if waiting.looks < LOOKS or rested_s < self.settle_s or is_being_written(name):
                continue
            unfinished = waiting.stamp.size == 0 or not is_whole(name)
            if unfinished and rested_s < LONGER * self.settle_s:
                continue
            ready.append((waiting.since_s, name))
        return [name for _, name in sorted(ready)]

    @property
    def waits(self) -> bool:
        """Return whether any file is being waited for."""
        return bool(self._waiting)

    def _next(self, name: str, stamp: Stamp, now_s: float) -> _Waiting:
        known = self._waiting.get(name)
        if known is None or known.stamp != stamp:
            return _Waiting(stamp, now_s)
        known.looks += 1
        return known
