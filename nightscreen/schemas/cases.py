"""Cases: customers whom a batch's newest run leaves to a person, with comments and attachments."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - the model has it
from typing import Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord

FREE: Final = {"holder": None, "held_at": None, "waits_until": None, "waits_for": ""}
"""The fields of a case that nobody has taken."""


class OpenCase(
    JournalRecord,
    kind="open_case",
    ground=Ground.DECISIONS,
    section="open_cases",
    unshown={"place", *FREE},
):
    """A customer who needs a person; `run_id` is the newest run that said so, `at` the first time.

    Attributes:
        customer_id: from the lender's file.
        name: from the lender's file, if any.
        decision: the policy's decision; `reasons` are its codes.
        policy: `name@digest`.
        purpose: of the run; a rule's sentences may differ by purpose.
        branch: from the lender's file, as are `officer` and `exposure` (naira), if any.
        account_last4: the last four digits of the account.
        claimed: the highest amount of any listing in naira, if any.
        statuses: the status of each check, by the column of `enriched`.
        place: the row's position in the run.
        holder: the user who has taken it; None for nobody, empty if the user gave it back, so that
            it is nobody's even if it was assigned.
        held_at: since when, microseconds.
        waits_until: until when it waits, if it does.
        waits_for: what or whom it waits for.
    """

    customer_id: str = Field(repr=False)
    name: str | None = Field(None, repr=False)
    decision: str
    reasons: tuple[str, ...]
    policy: str
    purpose: str
    branch: str | None = Field(None, repr=False)
    officer: str | None = Field(None, repr=False)
    account_last4: str | None = Field(None, repr=False)
    exposure: Decimal | None = Field(None, repr=False)
    claimed: Decimal | None = Field(None, repr=False)
    statuses: dict[str, str | None]
    place: int
    holder: str | None = None
    held_at: int | None = None
    waits_until: int | None = None
    waits_for: str = ""

    @property
    def searched_state(self) -> str:
        """Return the user who has it."""
        return self.holder or ""

    def held_as(self, previous: OpenCase) -> OpenCase:
        """Return a newer run's case with the age and the holder of the previous case."""
        kept = {name: getattr(previous, name) for name in ("at", *FREE)}
        return self.model_copy(update=kept)


class Share(JournalRecord, kind="share", ground=Ground.DECISIONS, waiting={""}):
    """The assignment of free cases to users: by branch, officer or reason, or all in turn.

    It lasts until someone ends it.

    Attributes:
        key: facet and value; a new assignment of these replaces the users.
        by: who assigned them.
    """

    batch: str = ""
    facet: str
    value: str
    users: tuple[str, ...]
    by: str


class CaseComment(JournalRecord, kind="comment", ground=Ground.DECISIONS, section="comments"):
    """A user's comment on a customer's case, with a file if there is one."""

    text: str = Field(repr=False)
    by: str
    file_name: str = Field("", repr=False)  # empty without a file
    file_size: int = 0  # bytes


class CaseAttachment(
    JournalRecord, kind="attachment", ground=Ground.DECISIONS, section="attachments"
):
    """The file of a comment, under the comment's key; read only when a user opens it."""

    file_name: str = Field(repr=False)
    media_type: str  # detected from its first bytes
    content: str = Field(repr=False)  # in base64
