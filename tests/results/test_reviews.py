"""Reviews: what comes back is checked row by row, taken in whole or not, and stays quiet after."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightscreen.results.decision_list import write_decisions
from nightscreen.results.reviews import Imported
from nightscreen.schemas.clock import LAGOS, to_micros
from nightscreen.schemas.decisions import ReviewRow
from nightscreen.values.dates import read_written_date
from tests.results.enriched_in_a_test import ASKED_AT, enriched_row, listed
from tests.results.nights_in_a_test import BATCH, BEGUN_AT, DAY, SECOND, Nights
from tests.results.reviewing import filled, save
from tests.screening import csv_rows

HOUR = 3600 * SECOND
NIGHT = [
    enriched_row("A", decision="decline", reasons=["KARMA_DEFAULT"], **listed()),
    enriched_row("B", decision="review", reasons=["THIN_FILE"]),
]


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    found = Nights(tmp_path)
    found.night("run-1", *NIGHT)
    yield found
    found.journal.close()


def row(
    customer_id: str = "A", decision: str = "approve", line: int = 2, **cells: str
) -> ReviewRow:
    return filled(customer_id, cells.pop("run_id", "run-1"), decision, line, **cells)


def import_rows(nights: Nights, *rows: ReviewRow, partial: bool = False) -> Imported:
    return save(nights.journal, *rows, partial=partial)


def codes(judged: Imported) -> list[str]:
    return [each.code for each in judged.mistakes]


def test_a_review_is_kept_with_reason_reviewer_and_end(nights: Nights) -> None:
    """An override stands for thirty days, under the reviewer's name."""
    assert codes(import_rows(nights, row("A"))) == []
    review = nights.reviews.active(BATCH, nights.now)[nights.pseudonym("A")]
    assert (review.listed, review.decision, review.overrides) == ("decline", "approve", True)
    assert (review.reviewer, review.note) == ("Ngozi Eze", "Letter seen.")
    assert review.until == review.reviewed_at + 30 * DAY
    assert review.customer_id == ""  # a saved review names its customer by pseudonym only
    assert nights.reviews.active(BATCH, review.until) == {}


MISTAKEN: list[tuple[dict[str, str], str]] = [
    ({"run_id": "run-9"}, "run_unknown"),
    ({"run_id": ""}, "run_unknown"),
    ({"customer_id": "Z"}, "customer_unknown"),
    ({"customer_id": ""}, "customer_missing"),
    ({"reviewer_decision": "maybe"}, "decision_invalid"),
    ({"reviewer_decision": ""}, "decision_invalid"),
    ({"reviewer_decision": "undecided"}, "decision_invalid"),
    ({"reviewer": "  "}, "reviewer_missing"),
    ({"review_note": ""}, "note_missing"),
    ({"review_note": "x" * 3000}, "note_long"),
    ({"reviewed_at": "soon"}, "reviewed_at_invalid"),
    ({"reviewed_at": "2020-01-01"}, "reviewed_at_invalid"),
]


def test_a_mistaken_row_is_told_with_its_line(nights: Nights) -> None:
    for cells, code in MISTAKEN:
        judged = import_rows(nights, row(line=17, **{"customer_id": "A", **cells}))
        assert [(each.code, each.line) for each in judged.mistakes] == [(code, 17)], cells
        assert nights.reviews.active(BATCH, nights.now) == {}, cells


def test_one_mistake_keeps_everything_out_unless_partial_is_wanted(nights: Nights) -> None:
    rows = (row("A"), row("B", "perhaps", line=3))
    import_rows(nights, *rows)
    assert nights.reviews.active(BATCH, nights.now) == {}
    import_rows(nights, *rows, partial=True)
    assert set(nights.reviews.active(BATCH, nights.now)) == {nights.pseudonym("A")}


@pytest.mark.parametrize(
    ("cell", "first", "later"),
    [("2026-03-04", 3, 12), ("2026-03-04 14:30:00", 11, 1), ("", 23, 20)],
)
def test_a_list_imported_twice_is_stored_once_at_any_hour(
    nights: Nights, cell: str, first: int, later: int
) -> None:
    """Whatever the hours of both imports, also where the cell's own time is still ahead."""
    nights.now = to_micros(datetime(2026, 3, 4, first, 7, tzinfo=LAGOS))
    assert codes(import_rows(nights, row("A", reviewed_at=cell))) == []
    nights.now += later * HOUR
    again = import_rows(nights, row("A", reviewed_at=cell))
    assert (again.known, again.sound, codes(again)) == (1, [], [])
    assert len(nights.reviews.of_customer(nights.pseudonym("A"))) == 1


def test_a_list_that_comes_back_after_its_reviews_ended_renews_none(nights: Nights) -> None:
    """Nobody has looked again: the old file is known, with a date or without."""
    for cell in ("", "2026-03-02"):
        import_rows(nights, row("A", reviewed_at=cell))
    held = nights.reviews.of_customer(nights.pseudonym("A"))
    nights.now += 60 * DAY
    for cell in ("", "2026-03-02"):
        again = import_rows(nights, row("A", reviewed_at=cell))
        assert (again.known, again.sound, codes(again)) == (1, [], [])
    assert nights.reviews.of_customer(nights.pseudonym("A")) == held


def test_reviewers_who_disagree_are_told_and_the_same_may_think_again(nights: Nights) -> None:
    """Another's different word on the same list overwrites nothing; one's own later word does.

    Nobody changes a colleague's decision by writing their name as an account, and two decisions on
    one customer in one file are settled by nobody but the reviewers.
    """

    def kept() -> str:
        return nights.reviews.active(BATCH, nights.now)[nights.pseudonym("A")].decision

    judged = import_rows(nights, row("A"), row("A", "decline", line=3, reviewer="Ade Bello"))
    assert codes(judged) == ["rows_disagree", "rows_disagree"]
    import_rows(nights, row("A"))
    nights.now += DAY
    for other in ("Ade Bello", "Bola (account Ngozi Eze)"):
        judged = import_rows(nights, row("A", "decline", reviewer=other))
        assert (codes(judged), kept()) == (["two_reviewers"], "approve")
    assert codes(import_rows(nights, row("A", "decline", reviewer="NGOZI EZE"))) == []
    assert kept() == "decline"


def test_of_two_lists_in_one_file_the_later_row_counts(nights: Nights) -> None:
    """The rows are saved in the order of the file, whatever lists they come from."""
    nights.night("run-2", *NIGHT)
    tick = iter(range(1000))  # a clock that moves on within the import
    nights.journal.clock = lambda: nights.now + next(tick)
    judged = import_rows(
        nights,
        row("B", run_id="run-2"),
        row("A", "decline", line=3, review_note="old list"),
        row("A", line=4, run_id="run-2", review_note="new list"),
    )
    assert codes(judged) == []
    kept = nights.reviews.active(BATCH, nights.now)[nights.pseudonym("A")]
    assert (kept.decision, kept.note) == ("approve", "new list")


def test_an_older_list_is_taken_while_the_evidence_is_the_same(nights: Nights) -> None:
    """A list worked on while the world moved on does not decide about the new evidence."""
    nights.night("run-2", *NIGHT)
    assert codes(import_rows(nights, row("A"))) == []
    assert len(nights.reviews.active(BATCH, nights.now)) == 1
    more = listed("90000")
    later = {"karma_checked_at": ASKED_AT + timedelta(days=1)}
    nights.night("run-3", enriched_row("A", decision="decline", **more, **later), NIGHT[1])
    assert codes(import_rows(nights, row("A", "decline"))) == ["evidence_changed"]


def list_again(nights: Nights, run_id: str, rows: list[dict[str, object]]) -> set[str]:
    """Carry a night through, reviews in force, and return who is on its list."""
    reviews = nights.reviews.active(BATCH, nights.now)
    stands = {who: each for who, each in reviews.items() if each.decision != "review"}
    compared = nights.compare(run_id, rows, reviewed=stands)
    folder = nights.folder(run_id)
    part = folder.path / "enriched" / "part-00000.parquet"
    write_decisions(
        folder, [part], run_id=run_id, reasons={}, scratch=folder.path.parent, compared=compared
    )
    compared.save_states()
    nights.now += DAY
    return {each["customer_id"] for each in csv_rows(folder.path / "decisions.csv")}


def test_what_was_reviewed_stays_quiet_until_its_evidence_changes(nights: Nights) -> None:
    """Or thirty days are over; on a night on which nothing was answered the evidence is the same.

    B is off the list until its review ends; A is back the night that another listing is found.
    """
    import_rows(nights, row("A", "decline"), row("B", "decline", line=3))
    assert list_again(nights, "run-2", NIGHT) == set()
    pending = enriched_row("A", decision="undecided", karma_status="pending", karma_listings=None)
    assert list_again(nights, "run-3", [pending, NIGHT[1]]) == set()
    later = {"karma_checked_at": ASKED_AT + timedelta(days=3)}
    worse = enriched_row("A", decision="decline", **listed("90000"), **later)
    assert list_again(nights, "run-4", [worse, NIGHT[1]]) == {"A"}
    nights.now += 28 * DAY
    assert list_again(nights, "run-5", [worse, NIGHT[1]]) == {"A", "B"}


RUN_AT = BEGUN_AT
NOW = RUN_AT + 3 * DAY


@pytest.mark.parametrize(
    "text",
    ["2026-03-02", "2026-03-02 09:30:00", "2026-03-02T10:00:00+01:00", "2026-03-01T23:30:00Z"],
)
def test_dates_are_read_as_iso_writes_them(text: str) -> None:
    """With or without a time of day, which is Lagos time where it does not say."""
    found = read_written_date(text, RUN_AT, NOW)
    assert isinstance(found, int)
    assert datetime.fromtimestamp(found / 1e6, LAGOS).day == 2


@given(st.text(max_size=15) | st.sampled_from(["02/03/2026", "3/2/2026", "46083", "0001-01-01"]))
def test_any_other_text_is_told_and_no_order_is_guessed(text: str) -> None:
    """No cell of a returned list breaks the reading, and an instant lies within its bounds."""
    found = read_written_date(text, RUN_AT, NOW)
    assert found is None or isinstance(found, str) or RUN_AT <= found <= NOW
    assert found is None or "/" not in text or isinstance(found, str)
