"""`nightscreen outcomes`: a loan book taken in, who paid, and a backtest that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Here
from tests.results.loan_book_in_a_test import HEADINGS, Book, loan, year
from tests.results.test_outcomes import BETTER


def test_a_book_is_taken_in_and_reported(
    here: Here, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import says what was tied and refused; the report, for people and programs, who paid.

    Nothing known is no table of zeros; where no row can be tied the quarantine is named.
    """
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    book = Book(folder)
    assert "nightscreen outcomes import" in here("outcomes", "report").out
    assert here("outcomes", "report", "--json").document == {"outcomes": None}
    nobody = here("outcomes", "import", str(book.write([loan("", book.today)], HEADINGS)))
    assert (nobody.status, "quarantine.csv" in nobody.err) == (2, True)
    folders = year(book, months=2, applicants=40)
    path = book.write(
        [loan("M00-001", book.today, loan_id=""), loan("M00-002", book.today)], HEADINGS
    )
    taken = here("outcomes", "import", str(path), "--json")
    assert taken.status == 0, taken.err
    assert taken.document["rows"] == {"read": 2, "screened": 1, "quarantined": 1}
    assert "1 in quarantine" in here("outcomes", "import", str(path)).out
    shown = here("runs", "show", taken.document["run_id"])
    assert "1 in quarantine" in shown.out
    assert taken.document["run_id"] in here("runs", "list").out
    report = here("outcomes", "report", "--json")
    total = report.document["outcomes"]["total"]
    told = here("outcomes", "report").out
    assert f"{total['loans']:,} loans: {total['good']:,} good, {total['bad']:,} bad" in told
    assert "PAST_DUE" in told
    better = book.folder / "better.toml"
    better.write_text(BETTER, encoding="utf-8")
    words = ("policy", "backtest", "--policy", str(better), *map(str, folders))
    found = here(*words, "--json").document
    assert found["outcomes"]["cells"]
    assert "were never lent to" in here(*words).out
