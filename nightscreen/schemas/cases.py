"""Open cases: customers whom the newest run of a batch leaves to somebody."""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - the model has it
from typing import ClassVar

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord, RecordKind


class OpenCase(JournalRecord):
    """A customer who needs somebody; `run_id` is the run that decided so, and `at` when.

    Attributes:
        customer_id: as the lender's file has it.
        decision: the policy's, and its reasons.
        policy: `name@digest`.
        purpose: of the run; rules may say other words to a borrower than to an applicant.
        branch: of the lender's file, as are officer and exposure, in naira; None for none.
        statuses: what each check found, by the column of `enriched`.
        place: of the row in the run.
    """

    kind: ClassVar[RecordKind] = RecordKind.OPEN_CASE
    ground: ClassVar[Ground] = Ground.DECISIONS
    section: ClassVar[str] = "open_cases"
    unshown: ClassVar[frozenset[str]] = frozenset({"place"})

    customer_id: str = Field(repr=False)
    decision: str
    reasons: tuple[str, ...]
    policy: str
    purpose: str
    branch: str | None = Field(None, repr=False)
    officer: str | None = Field(None, repr=False)
    exposure: Decimal | None = Field(None, repr=False)
    statuses: dict[str, str | None]
    place: int
