"""Cases: customers whom the newest run of a batch leaves to somebody, and what is kept on them."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - the model has it
from typing import Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord

FREE: Final = {"holder": None, "held_at": None, "waits_until": None, "waits_for": ""}
"""What a case has that nobody has taken."""


class OpenCase(
    JournalRecord,
    kind="open_case",
    ground=Ground.DECISIONS,
    section="open_cases",
    unshown={"place", *FREE},
):
    """A customer who needs somebody; `run_id` is the newest run that decided so, `at` since when.

    Attributes:
        customer_id: as the lender's file has it.
        name: as the lender's file has it; None for none.
        decision: the policy's, and its reasons.
        policy: `name@digest`.
        purpose: of the run; rules may say other words to a borrower than to an applicant.
        branch: of the lender's file, as are officer and exposure, in naira; None for none.
        account_last4: the last four digits of the account.
        claimed: the highest amount of any listing, naira; None for none.
        statuses: what each check found, by the column of `enriched`.
        place: of the row in the run.
        holder: who has taken it; None for nobody, empty where somebody gave it back, so that it is
            nobody's although it was shared out.
        held_at: since when, microseconds.
        waits_until: until when it waits; None where it does not.
        waits_for: for whom it waits.
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
        """Return who has it."""
        return self.holder or ""

    def held_as(self, before: OpenCase) -> OpenCase:
        """Return the case of a newer run: as old as that of the run before, and whose that was."""
        held = {name: getattr(before, name) for name in ("at", *FREE)}
        return self.model_copy(update=held)


class Share(JournalRecord, kind="share", ground=Ground.DECISIONS, waiting={""}):
    """Which free cases are whose: those of a branch, an officer or a reason, or all in turn.

    It is kept until somebody ends it.

    Attributes:
        key: facet and value; where they are shared out anew, the users are others.
        by: who shared them out.
    """

    batch: str = ""
    facet: str
    value: str
    users: tuple[str, ...]
    by: str


class CaseComment(JournalRecord, kind="comment", ground=Ground.DECISIONS, section="comments"):
    """What somebody wrote down on a customer's case, with a file beside it where there is one."""

    text: str = Field(repr=False)
    by: str
    file_name: str = Field("", repr=False)  # empty where there is no file
    file_size: int = 0  # bytes


class CaseAttachment(
    JournalRecord, kind="attachment", ground=Ground.DECISIONS, section="attachments"
):
    """The file beside a comment, under its key; read only where somebody asks for it."""

    file_name: str = Field(repr=False)
    media_type: str  # by its first bytes
    content: str = Field(repr=False)  # in base64
