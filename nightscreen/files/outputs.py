"""Every file that a run writes or keeps, declared once, and how each is treated.

Erasure, retention, subject access, the record of processing and the desk's download rights are
loops over `OUTPUTS`. A file that matches no declaration fails the tests (`tests/laws.py`). Writing
and rewriting a run's folder is in `run_folder`; what the files say is decided in other rooms.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from nightscreen.schemas.pulls import PulledKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MANIFEST: Final = "manifest.json"
REPORT, REPORT_PAGE = "report.json", "report.html"
PROBLEMS, QUARANTINE = "problems.csv", "quarantine.csv"
DECISIONS_CSV, DECISIONS_WORKBOOK = "decisions.csv", "decisions.xlsx"
NOTICES_FILE, SHADOW_FILE = "notices.csv", "shadow.csv"
CALLS_FILE, CHANGES_FILE, RINGS_FILE = "calls.parquet", "changes.parquet", "rings.parquet"
CASHFLOW_FILE = "cashflow.parquet"
OFFERS_FILE, OFFERS_CSV, LOANS_FILE = "offers.parquet", "offers.csv", "loans.parquet"
INPUT: Final = "input"
"""Folder of the dropped file in a run's folder, where no output can have its name."""
INBOX_TEXTS: Final = (
    *("quote.txt", "result.txt", "what-is-wrong.txt"),
    *("already-screened.txt", "waits-for-approval.txt"),
)
"""What is written beside a file of the inbox for the person who dropped it."""


class Whose(StrEnum):
    """The column by which a file's rows name the person they are about.

    A file with a column `batch` too is of several batch names: a row is the person's where both
    agree.
    """

    NOBODY = ""
    IN_CLEAR = "customer_id, bvn"
    """Either of the two; the rows tell the person's other identifiers."""
    LISTED = "customer_id"
    BY_PSEUDONYM = "customer"
    BY_CALL = "pseudonym"
    AS_GIVEN = "as the lender names it"


class Erasing(StrEnum):
    """What an erasure does to a file that names the person."""

    KEEP = "keep"
    DROP_ROWS = "drop rows"
    BLANK = "blank"
    """Rows stay, without what they name the person by."""
    DELETE = "delete"
    """The whole file goes."""


@dataclass(frozen=True, slots=True)
class Output:
    """One kind of file.

    Attributes:
        pattern: its path in the run's folder; with `beside`, in the folder of all runs, where
            `RUN_ID` stands for the run's id.
        whose: by which column its rows name a person.
        erasing: what becomes of it when that person is erased.
        ground: on which ground it is kept: `RETENTION__<GROUND>_DAYS`; empty where it stays.
        right: what a user of the desk must have to download it.
        of_branches: it says something of customers, and so of every branch at once.
        section: under which name subject access shows a customer's rows of it; empty where what
            they hold is shown from the journal, or is shown in another file.
        holds: what it holds, in a line for a page.
        beside: it lies outside the run's folder.
    """

    pattern: str
    whose: Whose = Whose.NOBODY
    erasing: Erasing = Erasing.KEEP
    ground: str = ""
    right: str = "export"
    of_branches: bool = True
    section: str = ""
    holds: str = ""
    beside: bool = False

    def files(self, folder: Path) -> list[Path]:
        """Return the files of this kind that a run has, in the order of their rows."""
        root = folder.parent if self.beside else folder
        return sorted(root.glob(self.pattern.replace("RUN_ID", folder.name)))


OUTPUTS: Final = (
    Output(
        DECISIONS_WORKBOOK,
        Whose.LISTED,
        Erasing.DELETE,
        ground="decisions",
        holds="the list to work on, as a workbook",
    ),
    Output(
        CALLS_FILE,
        Whose.BY_CALL,
        Erasing.BLANK,
        ground="decisions",
        right="money",
        holds="every call: check, outcome, attempts, cost, times",
    ),
    Output(
        CHANGES_FILE,
        Whose.BY_PSEUDONYM,
        Erasing.DROP_ROWS,
        ground="decisions",
        right="runs",
        section="changes",
        holds="what changed since the night before",
    ),
    Output(
        RINGS_FILE,
        Whose.BY_PSEUDONYM,
        Erasing.DROP_ROWS,
        ground="decisions",
        holds="customers tied to each other by what they share",
    ),
    Output(
        DECISIONS_CSV,
        Whose.LISTED,
        Erasing.DROP_ROWS,
        ground="decisions",
        section="lists",
        holds="the list to work on",
    ),
    Output(
        NOTICES_FILE,
        Whose.LISTED,
        Erasing.DROP_ROWS,
        ground="notices",
        section="notices",
        holds="what to tell customers",
    ),
    Output(
        SHADOW_FILE,
        Whose.LISTED,
        Erasing.DROP_ROWS,
        ground="decisions",
        section="lists",
        holds="whom the policy tried beside would decide otherwise",
    ),
    *(
        Output(name, Whose.LISTED, Erasing.DROP_ROWS, ground="enriched", holds=holds)
        for name, holds in {
            OFFERS_FILE: "loan offers, each with its link",
            OFFERS_CSV: "loan offers, to send",
            LOANS_FILE: "how the loans stand",
        }.items()
    ),
    Output(
        QUARANTINE,
        Whose.AS_GIVEN,
        Erasing.DROP_ROWS,
        ground="quarantine",
        section="quarantine",
        holds="rows to fix, each with its line and a hint",
    ),
    Output(
        f"{INPUT}/*",
        Whose.AS_GIVEN,
        Erasing.DROP_ROWS,
        ground="enriched",
        holds="the file as it was dropped into the inbox",
    ),
    *(
        Output(
            f"{kind.folder}/pulled_on=*/RUN_ID.parquet",
            Whose.LISTED,
            Erasing.DROP_ROWS,
            ground="enriched",
            beside=True,
        )
        for kind in PulledKind
    ),
    Output(
        CASHFLOW_FILE,
        Whose.LISTED,
        Erasing.DROP_ROWS,
        ground="enriched",
        holds="what customers can pay back, from their transactions",
    ),
    Output(
        "bvn/part-*.parquet",
        Whose.IN_CLEAR,
        Erasing.DROP_ROWS,
        ground="enriched",
        holds="customers asked for BVN consent, and what their BVNs hold",
    ),
    Output(
        "enriched/part-*.parquet",
        Whose.IN_CLEAR,
        Erasing.DROP_ROWS,
        ground="enriched",
        section="rows",
        holds="customers with all their answers",
    ),
    Output(REPORT, right="money", holds="the report, for programs"),
    Output("report-*.json", right="money", holds="the report of an earlier session"),
    Output(REPORT_PAGE, right="money", holds="the report below"),
    Output(
        PROBLEMS,
        right="runs",
        of_branches=False,
        holds="every finding about the file, without the values",
    ),
    Output(
        MANIFEST,
        right="runs",
        of_branches=False,
        holds="every file with its rows and digest",
    ),
    *(Output(name, holds="what the inbox says of the file") for name in INBOX_TEXTS),
)
"""In the order in which an erasure goes through them: rows in clear, by which the person is known,
come last, so that an erasure that was cut short finds them again."""


def declaration_of(name: str) -> Output | None:
    """Return the declaration of a file by its path in a run's folder; None where there is none."""
    found = (each for each in OUTPUTS if not each.beside and fnmatchcase(name, each.pattern))
    return next(found, None)


def declared_as(*whose: Whose) -> Sequence[Output]:
    """Return the declarations of files whose rows name people by some columns."""
    return [each for each in OUTPUTS if each.whose in whose]


def enriched_parts(folder: Path) -> list[Path]:
    """Return the parts of a run's enriched rows, in the order of the rows; none where all went."""
    return sorted((folder / "enriched").glob("part-*.parquet"))
