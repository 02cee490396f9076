"""The base class of records in the journal; each kind is a subclass.

Erasure, purge, subject access, rotation and verification use the declarations of a kind, never its
name. `journal/records.py` stores records and lists the kinds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Collection


class Ground(StrEnum):
    """The ground on which a record is retained; each has a period in the settings (`Retention`)."""

    DECISIONS = "decisions"
    NOTICES = "notices"
    APPROVALS = "approvals"
    CONSENTS = "consents"
    JOURNAL_ANSWERS = "journal_answers"
    QUARANTINE = "quarantine"


class JournalRecord(BaseModel):
    """The fields and declarations of every kind of record."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", ser_json_bytes="hex", val_json_bytes="hex"
    )

    kind: ClassVar[str]
    ground: ClassVar[Ground]
    section: ClassVar[str]
    period_from: ClassVar[tuple[str, ...]]
    waiting: ClassVar[frozenset[str]]
    everywhere: ClassVar[bool]
    always_in: ClassVar[str]
    unshown: ClassVar[frozenset[str]]

    def __init_subclass__(
        cls,
        *,
        kind: str,
        ground: Ground,
        section: str = "",
        period_from: tuple[str, ...] = (),
        waiting: Collection[str] = (),
        everywhere: bool = False,
        always_in: str = "",
        unshown: Collection[str] = (),
    ) -> None:
        """Declare a kind.

        Args:
            kind: the kind's name in the journal.
            ground: the ground on which records of the kind are retained.
            section: their section in a subject access; empty if they are about no customer.
            period_from: fields with the instant from which the retention period counts, the first
                that is not None; by default when the record was written.
            waiting: states in which a record is retained whatever its age.
            everywhere: `customer` is the pseudonym that is the same in every batch name.
            always_in: a batch name whose records are erased with a customer of any batch name.
            unshown: fields about the program's work, which subject access leaves out.
        """
        super().__init_subclass__()
        cls.kind, cls.ground, cls.section = kind, ground, section
        cls.waiting, cls.unshown = frozenset(waiting), frozenset(unshown)
        cls.everywhere, cls.always_in, cls.period_from = everywhere, always_in, period_from

    # pseudonym of the customer it is about, if any
    customer: bytes = Field(b"", repr=False)
    # pseudonym of the identifier it is about, if any
    subject: bytes = Field(b"", repr=False)
    key: str  # unique within its kind
    batch: str
    run_id: str = ""  # the run it is about, if any
    at: int  # when it was made, microseconds

    @property
    def searched_state(self) -> str:
        """Return the state by which the table is searched."""
        return str(getattr(self, "state", ""))

    @property
    def subjects(self) -> set[bytes]:
        """Return the subjects of the calls that belong to it."""
        return {self.subject} - {b""}

    def kept_from(self, written: int) -> int:
        """Return the instant from which its period counts; `written` is when it was written."""
        instants = (getattr(self, name) for name in self.period_from)
        return next((at for at in instants if at is not None), written)
