"""What the customer and the lender say to each other about a decision, as records of the journal.

A contest is a customer's objection; a told notice says that a notice reached the customer; an
action is what somebody did against a customer; a confirmation is a person's word for all proposals
of a run; a policy version is a policy that somebody proposed, and who decided about it. Each is a
kind of `storage/journal/records.py`, sealed as a whole.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from nightscreen.schemas.policy import Decision, PolicyApproval


class RecordKind(StrEnum):
    """Which kind of record a row holds."""

    CONTEST = "contest"
    TOLD = "told"
    ACTION = "action"
    CONFIRMATION = "confirmation"
    OUTCOME = "outcome"
    POLICY = "policy"


class ContestAbout(StrEnum):
    """What is contested; each has its own clock."""

    DECISION = "decision"
    DATA_PROTECTION = "data_protection"


class ContestState(StrEnum):
    """Whether a contest still waits for an answer."""

    OPEN = "open"
    ANSWERED = "answered"


class ContestOutcome(StrEnum):
    """How a contest was answered."""

    STANDS = "stands"
    CHANGED = "changed"
    WITHDRAWN = "withdrawn"


class Ground(StrEnum):
    """On what ground a record is kept; each has its own period in the settings."""

    DECISIONS = "decisions"
    NOTICES = "notices"
    APPROVALS = "approvals"


class JournalRecord(BaseModel):
    """What every kind of record has.

    Attributes:
        ground: on which ground records of the kind are kept.
        key: names the record within its kind.
        customer: pseudonym of the customer in the batch; empty where it is about no customer.
        batch: the batch name.
        run_id: the run it is about; empty where there is none.
        at: when it was made, microseconds.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", ser_json_bytes="hex", val_json_bytes="hex"
    )

    kind: ClassVar[RecordKind]
    ground: ClassVar[Ground] = Ground.DECISIONS
    key: str
    customer: bytes = Field(b"", repr=False)
    batch: str
    run_id: str = ""
    at: int

    @property
    def state(self) -> str:
        """Return how the record stands, as its table is searched for it."""
        return ""


class AskedAgain(BaseModel):
    """One lookup that was repeated for a contest."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    check: str
    by: str
    at: int
    cap: str
    run_id: str = ""


class Contest(JournalRecord):
    """A customer's objection; `key` is the id that people use.

    Attributes:
        about: the decision, or how the customer's data are handled.
        is_complex: the longer clock counts.
        decision: what was decided where it was contested.
        said: what the customer says, as it was taken down.
        opened_by: who took it down.
        due_at: when the answer is due, microseconds.
        asked_again: lookups that were repeated for it.
    """

    kind: ClassVar[RecordKind] = RecordKind.CONTEST
    ground: ClassVar[Ground] = Ground.NOTICES

    customer_id: str = Field(repr=False)
    about: ContestAbout = ContestAbout.DECISION
    is_complex: bool = False
    decision: Decision | None = None
    said: str = Field(repr=False)
    opened_by: str
    due_at: int
    asked_again: tuple[AskedAgain, ...] = ()
    answered_at: int | None = None
    answered_by: str = ""
    outcome: ContestOutcome | None = None
    answer: str = Field("", repr=False)
    new_decision: Decision | None = None

    @property
    def state(self) -> str:
        """Return whether it still waits for an answer."""
        return ContestState.OPEN if self.answered_at is None else ContestState.ANSWERED


class ToldNotice(JournalRecord):
    """A notice that reached the customer, when and how."""

    kind: ClassVar[RecordKind] = RecordKind.TOLD
    ground: ClassVar[Ground] = Ground.NOTICES

    customer_id: str = Field(repr=False)
    reason_code: str
    sentence_digest: str
    told_at: int
    told_how: str
    told_by: str = ""


class CustomerAction(JournalRecord):
    """Something that was done against a customer, which they must be told of."""

    kind: ClassVar[RecordKind] = RecordKind.ACTION
    ground: ClassVar[Ground] = Ground.NOTICES

    customer_id: str = Field(repr=False)
    action: str
    by: str


class Confirmation(JournalRecord):
    """A person's word that the proposals of a run are decided so."""

    kind: ClassVar[RecordKind] = RecordKind.CONFIRMATION
    ground: ClassVar[Ground] = Ground.APPROVALS

    by: str
    note: str = ""


class PolicyState(StrEnum):
    """How a policy stands that was proposed."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REFUSED = "refused"


class PolicyVersion(JournalRecord):
    """A policy that was proposed, with its whole text; `at` is when.

    Attributes:
        policy: `name@digest` of the text.
        text: as a policy file has it, comments and all.
        replaces: the policy that was in force when it was proposed.
        note: why it was proposed.
        reason: why it was approved or refused.
    """

    kind: ClassVar[RecordKind] = RecordKind.POLICY
    ground: ClassVar[Ground] = Ground.APPROVALS

    batch: str = ""
    policy: str
    version: str
    text: str
    replaces: str
    proposed_by: str
    note: str
    decision: Literal[PolicyState.APPROVED, PolicyState.REFUSED] | None = None
    decided_by: str = ""
    decided_at: int = 0
    reason: str = ""

    @property
    def state(self) -> str:
        """Return whether it waits, or what was decided about it."""
        return self.decision or PolicyState.PROPOSED

    @property
    def approval(self) -> PolicyApproval | None:
        """Return who signed it off; None where nobody has."""
        if self.decision is not PolicyState.APPROVED:
            return None
        return PolicyApproval(
            policy=self.policy,
            version=self.version,
            written_by=self.proposed_by,
            approved_by=self.decided_by,
            approved_at=self.decided_at,
            in_force_from=self.decided_at,
            note=self.reason or self.note,
        )


RECORDS: tuple[type[JournalRecord], ...] = (
    *(Contest, ToldNotice, CustomerAction, Confirmation),
    PolicyVersion,
)
