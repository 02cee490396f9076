"""The declaration of every file that a run writes or keeps.

Erasure, retention, subject access, the record of processing and the desk's download rights are
loops over `OUTPUTS`. A file without a declaration fails the tests (`tests/laws.py`). `run_folder`
writes and rewrites a run's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Final

from nightscreen.schemas.consented import PulledKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MANIFEST: Final = "manifest.json"
REPORT, REPORT_PAGE = "report.json", "report.html"
PROBLEMS, QUARANTINE = "problems.csv", "quarantine.csv"
DECISIONS_CSV, DECISIONS_WORKBOOK = "decisions.csv", "decisions.xlsx"
NOTICES_FILE, SHADOW_FILE = "notices.csv", "shadow.csv"
CALLS_FILE, CHANGES_FILE = "calls.parquet", "changes.parquet"
CASHFLOW_FILE = "cashflow.parquet"
ENRICHED_PARTS: Final = "enriched/part-*.parquet"
OFFERS_FILE, OFFERS_CSV, LOANS_FILE = "offers.parquet", "offers.csv", "loans.parquet"
INPUT: Final = "input"
"""Subfolder of the dropped file in a run's folder, where no output can have its name."""
INBOX_TEXTS: Final = (
    *("quote.txt", "result.txt", "what-is-wrong.txt"),
    *("already-screened.txt", "waits-for-approval.txt"),
)
"""Texts put with a file of the inbox for the person who dropped it."""


class Whose(StrEnum):
    """The column by which a file's rows name the person they are about.

    An erasure removes the person's rows; those of calls stay, without what names the person.
    A file that also has a column `batch` holds several batch names: a row is the person's if both
    agree.
    """

    NOBODY = ""
    IN_CLEAR = "customer_id, bvn"  # either of the two; rows hold the person's other identifiers too
    LISTED = "customer_id"
    BY_PSEUDONYM = "customer"
    BY_CALL = "pseudonym"
    AS_GIVEN = "as the lender names it"


@dataclass(frozen=True, slots=True)
class Output:
    """One kind of file."""

    # its path in the run's folder; with `beside`, in the folder of all runs, with `RUN_ID` for the
    # run's id
    pattern: str
    holds: str = ""  # its content, as one line for pages
    whose: Whose = Whose.NOBODY  # the column by which its rows name a person
    ground: str = ""  # its retention period, `RETENTION__<GROUND>_DAYS`; empty if it stays
    # a file that names an erased person is removed whole: it is not ours, or others make it again
    erased_whole: bool = False
    right: str = "export"  # the right that a user of the desk needs to download it
    of_branches: bool = True  # it is about customers, and so about all branches
    # its section in a subject access; empty if its content is shown from the journal, or from
    # another file
    section: str = ""
    beside: bool = False  # it is outside the run's folder

    def files(self, folder: Path) -> list[Path]:
        """Return a run's files of this kind, in the order of their rows."""
        root = folder.parent if self.beside else folder
        return sorted(root.glob(self.pattern.replace("RUN_ID", folder.name)))


_listed = partial(Output, whose=Whose.LISTED, ground="enriched")
_given = partial(Output, whose=Whose.AS_GIVEN, ground="enriched", erased_whole=True)

OUTPUTS: Final = (
    # retained as the rows that tell which approved customers are on it
    _listed(DECISIONS_WORKBOOK, "the list to work on, as a workbook", erased_whole=True),
    Output(
        CALLS_FILE,
        "every call: check, outcome, attempts, cost, times",
        Whose.BY_CALL,
        "decisions",
        right="money",
    ),
    Output(
        CHANGES_FILE,
        "what changed since the night before",
        Whose.BY_PSEUDONYM,
        "decisions",
        right="runs",
        section="changes",
    ),
    _listed(DECISIONS_CSV, "the list to work on", ground="decisions", section="lists"),
    _listed(NOTICES_FILE, "what to tell customers", ground="notices", section="notices"),
    _listed(
        SHADOW_FILE,
        "whom the policy tried beside would decide otherwise",
        ground="decisions",
        section="lists",
    ),
    _listed(OFFERS_FILE, "loan offers, each with its link"),
    _listed(OFFERS_CSV, "loan offers, to send"),
    _listed(LOANS_FILE, "how the loans stand"),
    *(
        _listed(
            f"{kind.folder}/pulled_on=*/RUN_ID.parquet",
            f"the {kind.folder} of a pull",
            beside=True,
        )
        for kind in PulledKind
    ),
    _listed(CASHFLOW_FILE, "what customers can pay back"),
    _given(
        QUARANTINE,
        "rows to fix, each with its line and a hint",
        ground="quarantine",
        section="quarantine",
    ),
    _given(f"{INPUT}/*", "the file as it was dropped"),
    Output(
        "bvn/part-*.parquet",
        "customers asked for BVN consent, and what their BVNs hold",
        Whose.IN_CLEAR,
        "enriched",
    ),
    Output(
        ENRICHED_PARTS,
        "customers with all their answers",
        Whose.IN_CLEAR,
        "enriched",
        section="rows",
    ),
    Output(REPORT, "the report, for programs", right="money"),
    Output("report-*.json", "the report of an earlier session", right="money"),
    Output(REPORT_PAGE, "the report, for people", right="money"),
    Output(
        PROBLEMS,
        "every finding about the file, without the values",
        right="runs",
        of_branches=False,
    ),
    Output(MANIFEST, "every file with its rows and digest", right="runs", of_branches=False),
    *(_given(name, "what the inbox says of the file") for name in INBOX_TEXTS),
)
"""In the order in which an erasure processes them: files with the person's identifiers last, so
that an interrupted erasure can be resumed."""


def declaration_of(name: str) -> Output | None:
    """Return the declaration of a file by its path in a run's folder; None if there is none."""
    matches = (each for each in OUTPUTS if not each.beside and fnmatchcase(name, each.pattern))
    return next(matches, None)


def declared_as(*whose: Whose) -> Sequence[Output]:
    """Return the declarations of files whose rows name people by these columns."""
    return [each for each in OUTPUTS if each.whose in whose]


def enriched_parts(folder: Path) -> list[Path]:
    """Return the parts of a run's enriched rows, in the order of the rows."""
    return sorted(folder.glob(ENRICHED_PARTS))
