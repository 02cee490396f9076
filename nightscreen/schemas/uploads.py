"""Files uploaded to the desk, and corrections and dismissals of their rows."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord

UPLOADS: Final = "desk"  # folder under HOME of files uploaded to the desk
HELD: Final = "held"
GONE: Final = "gone"
FIXES: Final = "fixes"
"""Key in an upload's choices: the run whose rows it fixes."""


class Upload(JournalRecord, kind="upload", ground=Ground.APPROVALS, waiting={HELD}):
    """One file that was uploaded `at`; `run_id` is the run that screens it, if any yet.

    Attributes:
        batch: the batch name if it is known from the start; else empty.
        name: from the browser, or a plain one if that held an identifier.
        state: `HELD` while the sealed file is there; else `GONE`.
        started_at: when its run was started, if it was.
        choices: the user's choices: purpose, checks, cap, policy, mapping, and the last quote; no
            personal data.
    """

    batch: str = ""
    user: str
    name: str
    digest: str
    size: int
    state: str = HELD
    started_at: int | None = None
    choices: dict[str, Any] = Field(repr=False)

    @property
    def upload_id(self) -> str:
        """Return its id, used in addresses and file names."""
        return self.key


class RowToCorrect(
    JournalRecord, kind="to_correct", ground=Ground.QUARANTINE, section="to_correct"
):
    """A customer's row that was screened with values that could not be read.

    Attributes:
        line: in the file.
        column: the first such column; `code` is its problem, `hint` describes all of them.
        headings: of the file; `cells` are the row's values as received.
    """

    line: int
    column: str
    code: str
    hint: str
    headings: tuple[str, ...]
    cells: tuple[str, ...] = Field(repr=False)


class Correction(JournalRecord, kind="correction", ground=Ground.DECISIONS, section="corrections"):
    """A corrected cell of a customer's row; it also applies to later files of the batch.

    It applies as long as the file has the same text there: a different text is new data.

    Attributes:
        customer_id: from the lender's file.
        heading: of the column in the file.
        came: the cell as received; `becomes` is its corrected text.
        reference: where the evidence is; empty if none was required.
        by: who corrected it.
    """

    customer_id: str = Field(repr=False)
    heading: str
    came: str = Field(repr=False)
    becomes: str = Field(repr=False)
    reference: str = ""
    by: str


class Dismissal(
    JournalRecord,
    kind="dismissal",
    ground=Ground.DECISIONS,
    section="dismissed_rows",
    unshown={"row"},
):
    """A refused row that is no customer: a total, a signature, a duplicate row.

    It also applies to later files of the batch with the same row, refused for the same reason.

    Attributes:
        row: digest of the row as received and of the reason for its refusal.
        by: who dismissed it.
    """

    row: str = Field(repr=False)
    by: str
