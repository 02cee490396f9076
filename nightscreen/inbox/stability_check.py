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
class Settling:
    """Remembers what was seen of each file."""

    settle_s: float  # how long a file must stay as it is
    # of each file: how it was, since when in seconds, and how often it was seen so
    _seen: dict[str, tuple[Stamp, float, int]] = field(default_factory=dict)

    def look(
        self,
        seen: Mapping[str, Stamp],
        now_s: float,
        *,
        is_whole: Callable[[str], bool],
        is_being_written: Callable[[str], bool],
    ) -> list[str]:
        """Return which of the files there have arrived, those that have waited longest first.

        Whether one seems to be complete, and whether somebody writes it at this moment, is asked.
        """
        before, self._seen, ready = self._seen, {}, []
        for name, stamp in seen.items():
            was, since_s, looks = before.get(name, (stamp, now_s, 0))
            if was != stamp:
                since_s, looks = now_s, 0
            self._seen[name] = stamp, since_s, looks + 1
            rested_s = now_s - since_s
            if looks + 1 < LOOKS or rested_s < self.settle_s or is_being_written(name):
                continue
            unfinished = stamp.size == 0 or not is_whole(name)
            if not unfinished or rested_s >= LONGER * self.settle_s:
                ready.append((since_s, name))
        return [name for _, name in sorted(ready)]

    @property
    def waits(self) -> bool:
        """Return whether any file is being waited for."""
        return bool(self._seen)
