"""A night with a decision list for tests of commands, its journal closed again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import openpyxl

from nightscreen.files.run_folder import RunFolder
from nightscreen.results.decision_files import PEOPLE
from nightscreen.results.decision_list import write_decisions
from nightscreen.schemas.clock import system_clock
from tests.begun import begin_run
from tests.results.enriched_in_a_test import enriched_row, listed, write_part
from tests.results.nights_in_a_test import BATCH, Nights


def screened(tmp_path: Path) -> RunFolder:
    """Carry one night through and return its folder; HOME is `tmp_path / "home"`."""
    nights = Nights(tmp_path, now=system_clock())
    folder = nights.folder("run-1")
    begin_run(nights.journal, "run-1", batch=BATCH, folder=str(folder.path))
    rows = [
        enriched_row("0007", decision="decline", reasons=["KARMA_DEFAULT"], **listed()),
        enriched_row("=1+1", decision="review", reasons=["THIN_FILE"]),
        enriched_row("C", decision="approve"),
    ]
    nights.night("run-1", *rows)
    part = write_part(folder.path, rows)
    write_decisions(folder, [part], run_id="run-1", reasons={}, scratch=tmp_path)
    nights.journal.close()
    return folder


def fill(path: Path, words: Mapping[str, Mapping[str, Any]]) -> None:
    """Write reviewers' cells into a workbook, by customer, as a person would."""
    book = openpyxl.load_workbook(path)
    for sheet in (book["Decisions"], book["Approved"]):
        for row in sheet.iter_rows(min_row=2):
            for name, value in words.get(str(row[0].value), {}).items():
                sheet.cell(row[0].row or 0, PEOPLE.index(name) + 1, value)
    book.save(path)
