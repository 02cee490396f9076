"""What every kind of record in the journal declares: its model, its period, whose it is.

A kind is a subclass of `JournalRecord`. Erasure, purge, subject access, rotation and verification
go by what is declared here and know no kind by name. How records are kept is in
`journal/records.py`, which lists the kinds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Collection


class Ground(StrEnum):
    """On what ground a record is kept; each has its own period in the settings (`Retention`)."""

    DECISIONS = "decisions"
    NOTICES = "notices"
    APPROVALS = "approvals"
    CONSENTS = "consents"
    JOURNAL_ANSWERS = "journal_answers"
    QUARANTINE = "quarantine"


class JournalRecord(BaseModel):
    """What every kind of record has."""

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
            kind: names the kind in the journal.
            ground: on which ground records of the kind are kept.
            section: under which name subject access shows them; empty where they are about no
                customer.
            period_from: fields of the instant from which its period counts, the first that is not
                None; without any it is when the record was written.
            waiting: states in which a record is kept whatever its age.
            everywhere: `customer` is the pseudonym that is the same in every batch name.
            always_in: a batch name in which they go with the customer of any batch name.
            unshown: fields that subject access leaves out: what tells only of the program's work.
        """
        super().__init_subclass__()
        cls.kind, cls.ground, cls.section = kind, ground, section
        cls.waiting, cls.unshown = frozenset(waiting), frozenset(unshown)
        cls.everywhere, cls.always_in, cls.period_from = everywhere, always_in, period_from

    # pseudonym of the customer; empty where it is about no customer
    customer: bytes = Field(b"", repr=False)
    # pseudonym of the identifier it is about; empty where there is none
    subject: bytes = Field(b"", repr=False)
    key: str  # names the record within its kind
    batch: str
    run_id: str = ""  # the run it is about; empty where there is none
    at: int  # when it was made, microseconds

    @property
    def searched_state(self) -> str:
        """Return how the record stands, as its table is searched for it."""
        return str(getattr(self, "state", ""))

    @property
    def subjects(self) -> set[bytes]:
        """Return what calls that belong to it are found by."""
        return {self.subject} - {b""}

    def kept_from(self, written: int) -> int:
        """Return the instant from which its period counts; it was written at `written`."""
        instants = (getattr(self, name) for name in self.period_from)
        return next((at for at in instants if at is not None), written)
