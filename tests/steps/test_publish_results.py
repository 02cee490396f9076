"""Telling: a run's files and the journal go together, whatever moment the process dies at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from nightscreen.policy.load import load_policy
from nightscreen.results.publish_results import RunOutputs, publish, withdraw
from nightscreen.results.tracked_state import evidence_digest
from nightscreen.schemas.contests import Review
from tests.steps.enriched_in_a_test import enriched_row, listed, write_part
from tests.steps.nights_in_a_test import BATCH, DAY, Nights

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WHOLE = {"karma": {"pending": 0, "failed": 0, "in_doubt": 0, "unreadable": 0, "spared": 0}}


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    """A journal without any night yet."""
    found = Nights(tmp_path)
    yield found
    found.journal.close()


def told(nights: Nights, run_id: str, *rows: Mapping[str, Any]) -> RunOutputs:
    """Write a night's rows and tell of them."""
    folder = nights.folder(run_id)
    write_part(folder.path, rows)
    return publish(
        folder,
        run_id=run_id,
        batch=BATCH,
        journal=nights.journal,
        workspace=nights.workspace(run_id),
        policy=load_policy(),
        purpose="portfolio",
        checks=WHOLE,
    )


DECLINED = enriched_row("A", decision="decline", reasons=["KARMA_DEFAULT"], **listed())


def test_a_night_tells_its_changes_and_its_list(nights: Nights) -> None:
    """Both files appear, with the policy's sentence, and the policy's text is kept."""
    told(nights, "run-1", DECLINED, enriched_row("B")).keep()
    folder = nights.folder("run-1").path
    assert {path.name for path in folder.iterdir() if path.is_file()} == {
        "changes.parquet",
        "decisions.csv",
        "decisions.xlsx",
    }
    assert "5,000 naira or more" in (folder / "decisions.csv").read_text("utf-8")
    assert nights.reviews.policy_text(load_policy().label) is not None


def test_a_run_that_dies_before_keeping_tells_the_same(nights: Nights) -> None:
    """The second attempt's files are those of the first."""
    told(nights, "run-1", enriched_row("A")).keep()
    nights.now += DAY
    first = told(nights, "run-2", DECLINED).compared.report()
    again = told(nights, "run-2", DECLINED)
    again.keep()
    last = told(nights, "run-2", DECLINED)
    assert first == again.compared.report() == last.compared.report()
    assert first["customers"] == 1


def test_a_review_takes_a_customer_off_the_list(nights: Nights) -> None:
    """What stands in the journal counts when the next list is made."""
    told(nights, "run-1", DECLINED).keep()
    customer = nights.pseudonym("A")
    known = nights.customers.known([customer])[customer]
    review = Review(
        customer=customer,
        run_id="run-1",
        listed="decline",
        decision="decline",
        reviewer="Ngozi",
        note="",
        reviewed_at=nights.now,
        until=nights.now + DAY,
        evidence=evidence_digest(known.state),
    )
    nights.reviews.add(BATCH, [review])
    listing = told(nights, "run-2", DECLINED).listed
    assert (listing.rows, listing.quiet) == (0, 1)
    nights.now += DAY
    assert told(nights, "run-3", DECLINED).listed.rows == 1


def test_test_mode_leaves_nothing_told(nights: Nights) -> None:
    """What an earlier attempt told is taken back, once and again."""
    told(nights, "run-1", DECLINED)
    folder = nights.folder("run-1")
    withdraw(folder)
    withdraw(folder)
    assert [path.name for path in folder.path.iterdir()] == ["enriched"]
