"""The storage that every part of an open journal uses: database, keys, holders and clock.

`opening` makes it, and adds the parts that runs use (`Journal`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.files.sealing import Pseudonyms, Sealer
    from nightscreen.journal.database import Database
    from nightscreen.journal.holders import Holders
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.errors import NightscreenError


@dataclass(frozen=True, slots=True)
class Storage:
    """An open journal without the parts that runs use.

    Attributes:
        key_trouble: why no sealed value opens, if the journal is read without its key.
        fingerprint: the fingerprint of the lender's current key.
    """

    database: Database = field(repr=False)
    home: Path
    journal_id: str
    lender_key: bytes = field(repr=False)
    sealer: Sealer = field(repr=False)
    pseudonyms: Pseudonyms = field(repr=False)
    holders: Holders = field(repr=False)
    clock: Clock = field(repr=False)
    key_trouble: NightscreenError | None
    fingerprint: str

    def close(self) -> None:
        """Release the lock and all connections."""
        self.holders.release()
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()
