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
    COMMENT = "comment"
    ATTACHMENT = "attachment"
    OFFER = "offer"
    LOAN_NEWS = "loan_news"
    BVN_REQUEST = "bvn_request"
    GRANT = "grant"
    CONSENT_LINK = "consent_link"
    PULL = "pull"
    CASH_FLOW = "cash_flow"
    WALLET_GAP = "wallet_gap"
    SIGNATURE = "signature"
    USER = "user"
    APPROVAL = "approval"
    UPLOAD = "upload"
    SHARE = "share"
    CORRECTION = "correction"
    DISMISSAL = "dismissal"
    TO_CORRECT = "to_correct"


class Ground(StrEnum):
    """On what ground a record is kept; each has its own period in the settings (`Cutoffs`)."""

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

    kind: ClassVar[RecordKind]  # names the kind in the journal
    ground: ClassVar[Ground]  # on which ground records of the kind are kept
    # states in which a record is kept whatever its age
    waiting: ClassVar[frozenset[str]] = frozenset()
    # `customer` is the pseudonym that is the same in every batch name
    everywhere: ClassVar[bool] = False
    # a batch name in which records go with the customer of any batch name
    always_in: ClassVar[str] = ""
    # under which name subject access shows records; empty where they are parts of others, or about
    # no customer
    section: ClassVar[str]
    # fields that subject access leaves out: what tells only of the program's own work
    unshown: ClassVar[frozenset[str]] = frozenset()
    # the kind of the records that these are parts of, by `subject`: they go with them
    part_of: ClassVar[RecordKind | None] = None
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
        return written
