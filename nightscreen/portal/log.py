"""The portal's log: one line for each answer, without address, query, cookie or person.

A line names the page, the status, and where there is one the reference of the link and what came
of it. What a customer sent is never written.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from nightscreen.schemas.clock import instant_text, system_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

_NOTES = "portal.notes"


def note(scope: Scope, **words: str) -> None:
    """Add words to the line of the present answer; never what a customer sent."""
    scope.setdefault(_NOTES, {}).update(words)


def notes(scope: Scope) -> dict[str, str]:
    """Return what was noted of the present answer."""
    found: dict[str, str] = scope.get(_NOTES, {})
    return found


class Log:
    """Writes lines on stderr.

    Args:
        name: whose log it is.
        in_json: one JSON object a line.
    """

    def __init__(self, name: str, *, in_json: bool = False) -> None:
        self._name = name
        self._in_json = in_json

    def answered(self, method: str, status: int, began_s: float, words: Mapping[str, str]) -> None:
        """Write the line of one answer."""
        took_ms = round((time.perf_counter() - began_s) * 1000)
        self._write({"method": method, "status": str(status), "ms": str(took_ms), **words})

    def failed(self, fault: str) -> None:
        """Write a line about a fault, named by its class or in our own sentence."""
        self._write({"fault": fault})

    def _write(self, words: Mapping[str, str]) -> None:
        at = instant_text(system_clock()) or ""
        if self._in_json:
            line = json.dumps({"at": at, "event": self._name, **words})
        else:
            line = " ".join((at, self._name, *(f"{name}={word}" for name, word in words.items())))
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
