"""Records of people's decisions: reviews, contests, notices, confirmations, policy versions, holds.

Each is a kind of `journal/records.py`, sealed as a whole.
"""

from __future__ import annotations

import secrets
from enum import StrEnum
from functools import partial
from typing import Literal

from pydantic import Field

from nightscreen.schemas.policy import Decision  # noqa: TC001 - pydantic reads it
from nightscreen.schemas.records import Ground, JournalRecord


class ContestAbout(StrEnum):
    """The subject of a contest; each has its own deadline."""

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


class Contest(
    JournalRecord,
    kind="contest",
    ground=Ground.NOTICES,
    section="contests",
    waiting={ContestState.OPEN},
):
    """A customer's objection; `key` is the id that people use."""

    customer_id: str = Field(repr=False)
    # the decision, or how the customer's data are handled
    about: ContestAbout = ContestAbout.DECISION
    is_complex: bool = False  # the longer deadline applies
    decision: Decision | None = None  # the contested decision
    said: str = Field(repr=False)  # the customer's objection, as recorded
    opened_by: str  # who recorded it
    due_at: int  # when the answer is due, microseconds
    answered_at: int | None = None
    answered_by: str = ""
    outcome: ContestOutcome | None = None
    answer: str = Field("", repr=False)
    new_decision: Decision | None = None

    @property
    def state(self) -> ContestState:
        """Return whether it waits for an answer."""
        return ContestState.OPEN if self.answered_at is None else ContestState.ANSWERED

    def overdue(self, now: int) -> bool:
        """Return whether it was answered, or still waits, after its due date."""
        return (self.answered_at or now) > self.due_at

    def answered(
        self, by: str, outcome: ContestOutcome, answer: str, decision: Decision | None, now: int
    ) -> Contest:
        """Return it as a person answered it."""
        values = {"answered_at": now, "answered_by": by, "outcome": outcome, "answer": answer}
        return self.model_copy(update=values | {"new_decision": decision})


class SentNotice(
    JournalRecord,
    kind="told",
    ground=Ground.NOTICES,
    section="notices_told",
    unshown={"sentence_digest"},
):
    """A notice that was sent to the customer, when and how."""

    customer_id: str = Field(repr=False)
    reason_code: str
    sentence_digest: str
    told_at: int
    told_how: str
    told_by: str = ""


class CustomerAction(JournalRecord, kind="action", ground=Ground.NOTICES, section="actions"):
    """An action against a customer, of which the customer must get a notice."""

    customer_id: str = Field(repr=False)
    action: str
    by: str


class Confirmation(JournalRecord, kind="confirmation", ground=Ground.APPROVALS):
    """A person's confirmation of all proposals of a run."""

    by: str
    note: str = ""


class Signature(JournalRecord, kind="signature", ground=Ground.APPROVALS):
    """A person's signature under the report of a run."""

    by: str
    note: str = ""
    report: str  # SHA-256 of the report that was signed


class Hold(JournalRecord, kind="hold", ground=Ground.APPROVALS, waiting={""}):
    """A legal hold on a run: its data are not erased or purged until it is released."""

    key: str = Field(default_factory=partial(secrets.token_hex, 8))
    batch: str = ""
    reason: str
    state: Literal["", "released"] = ""


class PolicyState(StrEnum):
    """The state of a proposed policy."""

    PROPOSED = "proposed"
    APPROVED = "approved"
    REFUSED = "refused"


class PolicyVersion(
    JournalRecord,
    kind="policy",
    ground=Ground.APPROVALS,
    waiting={PolicyState.PROPOSED, PolicyState.APPROVED},
):
    """A policy that was proposed `at`, with its whole text, and the decision about it."""

    batch: str = ""
    policy: str  # `name@digest` of the text
    version: str
    text: str  # of the policy file, comments included
    replaces: str  # the policy that was in force when it was proposed
    proposed_by: str
    note: str  # why it was proposed
    decision: Literal[PolicyState.APPROVED, PolicyState.REFUSED] | None = None
    decided_by: str = ""
    decided_at: int = 0
    reason: str = ""  # why it was approved or refused

    @property
    def state(self) -> PolicyState:
        """Return the decision about it, or `PROPOSED`."""
        return self.decision or PolicyState.PROPOSED


WAITS = "waits"
ENDED = "ended"


class Review(
    JournalRecord,
    kind="review",
    ground=Ground.DECISIONS,
    section="reviews",
    unshown={"evidence"},
):
    """A reviewer's decision on one customer, saved `at`.

    Attributes:
        run_id: the run whose list was reviewed.
    """

    key: str = Field(default_factory=partial(secrets.token_hex, 12))
    batch: str = ""
    at: int = 0
    listed: str  # the policy's decision on the list
    decision: str  # the reviewer's
    reviewer: str = Field(repr=False)
    note: str = Field(repr=False)  # the reason; required for an override
    reviewed_at: int  # microseconds
    until: int  # when it ends, microseconds
    evidence: bytes  # digest of the evidence it is based on
    # the second person, if the override needed one
    confirmed_by: str = Field(default="", repr=False)
    # the machine's account that imported it; empty if it was made at the desk
    imported_by: str = Field(default="", repr=False)
    # the contest that it answers, with the note as the answer; empty if there is none
    contest: str = ""
    # the lender's id, while it waits for a second person
    customer_id: str = Field(default="", repr=False)
    state: str = ""  # empty for a review in force; `WAITS` for a second person; `ENDED` after that

    def kept_from(self, written: int) -> int:
        """Return the later of when it was written and when it ends."""
        return max(written, self.until)

    @property
    def decided_at(self) -> int:
        """Return since when it settles the case: an override by two since it was confirmed."""
        return self.at if self.confirmed_by else self.reviewed_at

    @property
    def overrides(self) -> bool:
        """Return whether the reviewer's decision differs from the policy's."""
        return self.decision != self.listed
