"""The order of a column's dates: shown by a date with one reading, answered, or open."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nightscreen.desk.new_file import row_as_part
from nightscreen.journal import open_journal
from nightscreen.reading.date_orders import DateOrders
from nightscreen.reading.mapping_file import read_mapping
from nightscreen.reading.open_file import open_source
from nightscreen.report.page import verdict
from nightscreen.runs.intake import Intake
from nightscreen.schemas.columns import Flaw
from tests.screening import World, consented_on, csv_rows, customer

BVN = "22212345678"
LATELY, AFTER_12TH = consented_on()


def file(folder: Path, *dates: str, column: str = "consented_at", more: str = "") -> Path:
    path = folder / "book.csv"
    lines = [f"C{n},{BVN[:-2]}{n:02d},R-{n},{cell}" for n, cell in enumerate(dates, 1)]
    text = "\n".join([f"customer_id,bvn,consent_reference,{column}", *lines])
    path.write_text(text + "\n", encoding="utf-8")
    (folder / "m.toml").write_text(more, encoding="utf-8")
    return path


def orders(path: Path, answered: str = "") -> DateOrders:
    """Return what is known of a file's dates."""
    mapping = read_mapping(path.parent / "m.toml")
    return DateOrders(open_source(path, mapping=mapping), answered)


def taken(path: Path, answered: str = "", rows: int = 1000) -> tuple[list[Any], list[Any]]:
    """Return days of consent (None: refused) and the problems of a file."""
    source = open_source(path)
    intake = Intake(source.header, orders=DateOrders(source, answered))
    days, problems = [], []
    for batch in source.batches(rows):
        result = intake.take(batch)
        instants = result.rows["consented_at"].to_pylist()
        flaws = result.rows["flaws"].to_pylist()
        days += [None if f & Flaw.CONSENT else i for i, f in zip(instants, flaws, strict=True)]
        problems += [(p.line, p.column, p.code) for p in result.problems]
    return days, problems


def lagos(day: int, month: int) -> datetime:
    """Return when a day of 2026 begins in Lagos."""
    midnight = datetime(2026, month, day, tzinfo=UTC)
    return datetime.fromtimestamp(midnight.timestamp() - 3600, UTC)


@pytest.mark.parametrize(
    ("dates", "order"),
    [
        (["03/04/2026", "13/03/2026"], "dmy"),
        (["13/03/2026", "03/04/2026", "2026-05-01", ""], "dmy"),
        (["03/04/2026", "03/13/2026"], "mdy"),
        (["03.04.2026 10:15", "31.01.2026 23:59"], "dmy"),
        (["2026/04/03", "2026/12/31"], "ymd"),
        (["03/04/2026"], None),
        (["03/04/2026", "13/13/2026", "31/12/26", "soon"], None),
        (["13/03/2026", "03/13/2026", "03/04/2026"], None),
        (["2026/03/04", "13/03/2026"], None),
        (["05/05/2026"], "dmy"),
        (["2026-04-03"], None),
    ],
)
def test_a_date_with_one_reading_shows_the_order(
    tmp_path: Path, dates: list[str], order: str | None
) -> None:
    """None that contradicts; what is no date in any order says nothing."""
    assert orders(file(tmp_path, *dates)).of("consented_at") == order


def test_dates_far_below_show_the_order_of_those_above(tmp_path: Path) -> None:
    """The column is looked at as a whole, and the date that shows its order is named, once."""
    days, problems = taken(file(tmp_path, *["03/04/2026"] * 20, "13/03/2026"), rows=4)
    assert days == [lagos(3, 4)] * 20 + [lagos(13, 3)]
    assert problems == [(22, "consented_at", "date_order_shown")]


def test_an_answer_fills_what_is_open_and_no_more(tmp_path: Path) -> None:
    """The dates' own order stands against it; a declared one stands against both."""
    assert orders(file(tmp_path, "03/04/2026"), "mdy").of("consented_at") == "mdy"
    assert orders(file(tmp_path, "03/04/2026", "13/03/2026"), "mdy").of("consented_at") == "dmy"
    declared = file(tmp_path, "03/04/2026", "13/03/2026", more='date_order = "mdy"')
    assert orders(declared, "dmy").of("consented_at") == "mdy"
    days, problems = taken(file(tmp_path, "03/04/2026"), "mdy")
    assert days == [lagos(4, 3)]
    assert problems == [(2, "consented_at", "date_order_answered")]


def test_open_consent_dates_are_refused_and_the_rest_is_read(tmp_path: Path) -> None:
    """The rows go on; only the consents that nobody can read do not count."""
    days, problems = taken(file(tmp_path, "03/04/2026", "2026-04-03"))
    assert days == [None, lagos(3, 4)]
    assert problems == [(2, "consented_at", "consent_unreadable")]


@pytest.mark.parametrize("cell", ["withdrawn", "45999", "03/04/2026", "2026-02-30", "31/12/26"])
def test_a_withdrawal_that_cannot_be_read_counts(tmp_path: Path, cell: str) -> None:
    """Whoever wrote something there withdrew, whenever it was."""
    days, problems = taken(
        file(tmp_path, f"2026-01-05,{cell}", column="consented_at,consent_withdrawn_at")
    )
    assert days == [None]
    assert problems == [(2, "consent_withdrawn_at", "consent_unreadable")]


def approved(report: dict[str, Any]) -> dict[str, Any]:
    approval = {"policy_approval": {"written_by": "Ada", "approved_by": "Bem"}}
    return {**report, "provenance": {**report["provenance"], **approval}}


def book(dates: list[str], **more: str) -> list[dict[str, str]]:
    """Return customers with a consent each, whose dates are written as given."""
    return [
        customer(n, consent_reference=f"R-{n}", consented_at=cell, **more)
        for n, cell in enumerate(dates, 1)
    ]


def test_open_consents_are_refused_until_the_batch_has_an_answer(tmp_path: Path) -> None:
    """Unattended the rest is screened, and the report is not green.

    Consent that cannot be read is not said to be missing. The last answer of the batch's own name
    is used; a run that is resumed keeps the order it began with.
    """
    world = World(tmp_path)
    rows = book([f"{LATELY:%d/%m/%Y}", LATELY.isoformat(), ""])
    rows[2]["consent_reference"] = ""
    options = {"batch": "book", "checks": ["karma", "ecosystem"], "yes": True}
    with open_journal(tmp_path / "home") as journal:
        journal.runs.keep_date_order("other", "dmy")
    night = world.screen(rows, **options)
    assert night.column("ecosystem_status")[0] == night.column("ecosystem_status")[2] == "refused"
    assert night.column("ecosystem_status")[1] in {"found", "not_found"}
    assert night.column("karma_status") == ["clear"] * 3
    assert night.column("consent_unreadable") == [True, False, False]
    problems = csv_rows(night.folder / "problems.csv")
    assert [row["code"] for row in problems] == ["consent_unreadable"]
    said = verdict(approved(night.report))
    assert said.tone == "warn"
    assert any("consent_unreadable" in each for each in said.more)
    page = (night.folder / "report.html").read_text("utf-8")
    assert "consent_unreadable" in page.partition("<table")[0]
    assert 'class="verdict good' not in page
    with open_journal(tmp_path / "home") as journal:
        journal.runs.keep_date_order("book", "mdy")
        journal.runs.keep_date_order("book", "dmy")
    answered = world.screen(rows, **options)
    assert answered.column("ecosystem_status")[0] in {"found", "not_found"}
    resumed = world.screen(run=night.report["run_id"])
    assert resumed.column("ecosystem_status")[0] == "refused"


def test_rows_that_are_asked_again_keep_a_consent_unreadable() -> None:
    """What the enriched rows cannot hold is not lost on the way into another run."""
    row = {"customer_id": "C1", "bvn": BVN, "consented_at": "2026-01-05"}
    for unreadable in (True, False):
        part = row_as_part({**row, "consent_unreadable": unreadable}).decode()
        assert ("consent_withdrawn_at" in part) is unreadable
