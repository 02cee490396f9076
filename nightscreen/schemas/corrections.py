"""What the lender's people say of a row of a file: a cell is another, or the row is none."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from nightscreen.schemas.records import Ground, JournalRecord, RecordKind


class RowToCorrect(JournalRecord):
    """A customer's row that was screened with values that were not understood.

    Attributes:
        line: of the file.
        column: the first such column, with the code of what is wrong; `hint` says all of it.
        headings: of the file, and the row's cells under them as they came.
    """

    kind: ClassVar[RecordKind] = RecordKind.TO_CORRECT
    ground: ClassVar[Ground] = Ground.QUARANTINE
    section: ClassVar[str] = "to_correct"

    line: int
    column: str
    code: str
    hint: str
    headings: tuple[str, ...]
    cells: tuple[str, ...] = Field(repr=False)


class Correction(JournalRecord):
    """A cell of a customer's row that was corrected; it holds for later files of the batch.

    It holds while the file has the same text there: another text is news from the source.

    Attributes:
        customer_id: as the lender's file has it.
        heading: of the column, as the file has it.
        came: the cell as it came, and as it is to be read.
        reference: where the evidence is; empty where none was asked for.
        by: who corrected it.
    """

    kind: ClassVar[RecordKind] = RecordKind.CORRECTION
    ground: ClassVar[Ground] = Ground.DECISIONS
    section: ClassVar[str] = "corrections"

    customer_id: str = Field(repr=False)
    heading: str
    came: str = Field(repr=False)
    becomes: str = Field(repr=False)
    reference: str = ""
    by: str


class Dismissal(JournalRecord):
    """A refused row that is nobody's: a total, a signature, a row that came twice.

    It holds for later files of the batch while they have the same row, refused for the same reason.

    Attributes:
        row: digest of the row as it came and of why it was refused.
        by: who said so.
    """

    kind: ClassVar[RecordKind] = RecordKind.DISMISSAL
    ground: ClassVar[Ground] = Ground.DECISIONS
    section: ClassVar[str] = "dismissed_rows"
    unshown: ClassVar[frozenset[str]] = frozenset({"row"})

    row: str = Field(repr=False)
    by: str
