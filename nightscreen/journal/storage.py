"""The storage of an open journal, and the base class of the parts that use it.

`opening` makes the storage, and adds the parts that runs use (`Journal`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nightscreen.files.sealing import Pseudonyms, Sealer
    from nightscreen.journal.database import Database
    from nightscreen.journal.holders import Holders
    from nightscreen.schemas.clock import Clock
    from nightscreen.schemas.errors import NightscreenError

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Part")


@dataclass(eq=False)
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


class Part:
    """A part of an open journal, which reads and writes some of its tables."""

    def __init__(self, journal: Storage) -> None:
        self.journal = journal
        self._database, self._sealer = journal.database, journal.sealer
        self._holders, self._clock = journal.holders, journal.clock


def with_retries(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorate a part's method to be repeated if the database interrupts it (`Database.retry`)."""

    @wraps(method)
    def again(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._database.retry(lambda: method(self, *args, **kwargs))

    return again
