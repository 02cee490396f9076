"""Files that were uploaded to the desk, as the journal remembers them."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord, RecordKind

HELD: Final = "held"
GONE: Final = "gone"
FIXES, WAITS = "fixes", "waits"
"""Choices of an upload: the run whose rows it fixes, and whether a second person must confirm."""


class Upload(JournalRecord):
    """One file that was uploaded `at`; `run_id` is the run that screens it, if there is one yet.

    Attributes:
        batch: that it is a part of from the start; empty where that is chosen later, or not at all.
        name: as the browser gave it, or a plain one where that names somebody.
        state: `HELD` while the file is there, sealed; else `GONE`.
        started_at: since when its run is started; None where it is not.
        choices: what was chosen for it: purpose, checks, cap, policy, what its headings mean (a
            mapping), the last quote; no personal data.
    """

    kind: ClassVar[RecordKind] = RecordKind.UPLOAD
    ground: ClassVar[Ground] = Ground.APPROVALS
    section: ClassVar[str] = ""
    waiting: ClassVar[frozenset[str]] = frozenset({HELD})

    batch: str = ""
    user: str
    name: str
    digest: str
    size: int
    state: str = HELD
    started_at: int | None = None
    choices: dict[str, Any] = Field(repr=False)

    @property
    def upload_id(self) -> str:
        """Return its id, as addresses and file names have it."""
        return self.key

    @property
    def waits_for_second(self) -> bool:
        """Tell whether a second person must confirm it before it is screened."""
        is_held = self.state == HELD and self.started_at is None
        return is_held and bool(self.choices.get(WAITS))
