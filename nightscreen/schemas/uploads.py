"""Files that were uploaded to the desk, and what people say of their rows.

A cell is corrected, or a refused row is nobody's.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord

UPLOADS: Final = "desk"  # folder of HOME for files that were uploaded to the desk
HELD: Final = "held"
GONE: Final = "gone"
FIXES: Final = "fixes"
"""Choice of an upload: the run whose rows it fixes."""


class Upload(JournalRecord, kind="upload", ground=Ground.APPROVALS, waiting={HELD}):
    """One file that was uploaded `at`; `run_id` is the run that screens it, if there is one yet.

    Attributes:
        batch: that it is a part of from the start; empty where that is chosen later, or not at all.
        name: as the browser gave it, or a plain one where that names somebody.
        state: `HELD` while the file is there, sealed; else `GONE`.
        started_at: since when its run is started; None where it is not.
        choices: what was chosen for it: purpose, checks, cap, policy, what its headings mean (a
            mapping), the last quote; no personal data.
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
        """Return its id, as addresses and file names have it."""
        return self.key


class RowToCorrect(
    JournalRecord, kind="to_correct", ground=Ground.QUARANTINE, section="to_correct"
):
    """A customer's row that was screened with values that were not understood.

    Attributes:
        line: of the file.
        column: the first such column, with the code of what is wrong; `hint` says all of it.
        headings: of the file, and the row's cells under them as they came.
    """

    line: int
    column: str
    code: str
    hint: str
    headings: tuple[str, ...]
    cells: tuple[str, ...] = Field(repr=False)


class Correction(JournalRecord, kind="correction", ground=Ground.DECISIONS, section="corrections"):
    """A cell of a customer's row that was corrected; it holds for later files of the batch.

    It holds while the file has the same text there: another text is news from the source.

    Attributes:
        customer_id: as the lender's file has it.
        heading: of the column, as the file has it.
        came: the cell as it came, and as it is to be read.
        reference: where the evidence is; empty where none was asked for.
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
    """A refused row that is nobody's: a total, a signature, a row that came twice.

    It holds for later files of the batch while they have the same row, refused for the same reason.

    Attributes:
        row: digest of the row as it came and of why it was refused.
        by: who said so.
    """

    row: str = Field(repr=False)
    by: str
