"""What every kind of record in the journal declares: its model, its period, whose it is.

A kind is a subclass of `JournalRecord`. Erasure, purge, subject access, rotation and verification
go by what is declared here and know no kind by name. How records are kept is in
`journal/records.py`, which lists the kinds.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class RecordKind(StrEnum):
    """Which kind of record a row holds."""

    CONTEST = "contest"
    TOLD = "told"
    ACTION = "action"
    CONFIRMATION = "confirmation"
    OUTCOME = "outcome"
    POLICY = "policy"
    REVIEW = "review"
    OPEN_CASE = "open_case"
    OFFER = "offer"
    LOAN_NEWS = "loan_news"
    BVN_REQUEST = "bvn_request"
    GRANT = "grant"
    CONSENT_LINK = "consent_link"
    PULL = "pull"
    CASH_FLOW = "cash_flow"
    WALLET_GAP = "wallet_gap"
    SIGNATURE = "signature"


class Ground(StrEnum):
    """On what ground a record is kept; each has its own period in the settings (`Cutoffs`)."""

    DECISIONS = "decisions"
    NOTICES = "notices"
    APPROVALS = "approvals"
    CONSENTS = "consents"
    JOURNAL_ANSWERS = "journal_answers"


class JournalRecord(BaseModel):
    """What every kind of record has.

    Attributes:
        kind: names the kind in the journal.
        ground: on which ground records of the kind are kept.
        waiting: states in which a record is kept whatever its age.
        everywhere: `customer` is the pseudonym that is the same in every batch name.
        section: under which name subject access shows records; empty where they are parts of
            others, or about no customer.
        part_of: the kind of the records that these are parts of, by `subject`: they go with them.
        always_in: a batch name in which records go with the customer of any batch name.
        key: names the record within its kind.
        customer: pseudonym of the customer; empty where it is about no customer.
        subject: pseudonym of the identifier it is about; empty where there is none.
        batch: the batch name.
        run_id: the run it is about; empty where there is none.
        at: when it was made, microseconds.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", ser_json_bytes="hex", val_json_bytes="hex"
    )

    kind: ClassVar[RecordKind]
    ground: ClassVar[Ground]
    waiting: ClassVar[frozenset[str]] = frozenset()
    everywhere: ClassVar[bool] = False
    always_in: ClassVar[str] = ""
    section: ClassVar[str]
    part_of: ClassVar[RecordKind | None] = None
    customer: bytes = Field(b"", repr=False)
    subject: bytes = Field(b"", repr=False)
    key: str
    batch: str
    run_id: str = ""
    at: int

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
        return written
