"""Contests: an objection has a clock, somebody else answers it, and asking again costs one call."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nightscreen.cli.preflight import check_before_engine
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import GROUNDS, ContestClocks, read_settings
from nightscreen.files.sealed_file import SUFFIX, seal_file
from nightscreen.journal import open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.records import Records
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.contests import answer_contest, list_contests, open_contest
from nightscreen.runs.run import stored_parameters
from nightscreen.schemas.contests import Contest, ContestAbout, ContestOutcome
from nightscreen.schemas.errors import InputError, NotAllowedError
from nightscreen.schemas.policy import Decision
from tests.begun import begin_run
from tests.personal.test_explaining import begin
from tests.results.enriched_in_a_test import enriched_row, listed
from tests.results.nights_in_a_test import BATCH, DAY, SECOND, Nights
from tests.results.reviewing import filled, save

HOUR = 3600 * SECOND
CLOCKS = ContestClocks(hours=24, complex_hours=48, data_protection_hours=100)
APPROVED = {"outcome": ContestOutcome.CHANGED, "decision": Decision.APPROVE}


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    """A journal after a night on which 0007 was declined."""
    found = Nights(tmp_path)
    begin(found, "run-1")
    declined = enriched_row("0007", decision="decline", reasons=["KARMA_DEFAULT"], **listed())
    found.night("run-1", declined, enriched_row("B"))
    yield found
    found.journal.close()


def contested(nights: Nights, **changes: Any) -> Contest:  # noqa: ANN401 - as `open_contest` takes them
    given = {"said": "I paid in May.", **changes}
    return open_contest(nights.journal, Actor("Ada Eze"), CLOCKS, "0007", **given)


def answered(nights: Nights, contest: Contest, by: str = "Tunde", **changes: Any) -> Contest:  # noqa: ANN401
    """Answer a contest: it stands, unless another outcome is given."""
    given = {"answer": "It stands.", "outcome": ContestOutcome.STANDS, **changes}
    return answer_contest(nights.journal, Actor(by), contest.key, **given)


def reviewed(nights: Nights, reviewer: str) -> None:
    assert save(nights.journal, filled("0007", "run-1", "decline", reviewer=reviewer)).saved == 1


def test_each_contest_has_the_clock_of_its_kind(nights: Nights) -> None:
    """A plain one, a complex one and one of data protection are due by their own settings."""
    plain = contested(nights)
    assert (plain.batch, plain.run_id, plain.decision) == (BATCH, "run-1", "decline")
    assert plain.due_at - plain.at == 24 * HOUR
    data = contested(nights, about=ContestAbout.DATA_PROTECTION)
    assert data.due_at - data.at == 100 * HOUR
    answered(nights, plain)
    hard = contested(nights, is_complex=True)
    assert hard.due_at - hard.at == 48 * HOUR
    nights.now += 60 * HOUR
    shown = list_contests(nights.journal)
    assert [(each.key, each.overdue(nights.now)) for each in shown] == [
        (hard.key, True),
        (data.key, False),
    ]
    assert list_contests(nights.journal, answered=True)[-1].state == "answered"


def test_who_decided_does_not_answer(nights: Nights) -> None:
    """The reviewer who declined is refused under any spelling of the name; another is not.

    A changed decision counts as a review of who answered; without the new one it is refused.
    """
    reviewed(nights, "Ngozi  Bello")
    contest = contested(nights)
    for name in ("ngozi bello", "NGOZI BELLO "):
        with pytest.raises(NotAllowedError):
            answered(nights, contest, name)
    with pytest.raises(InputError, match="new one"):
        answered(nights, contest, outcome=ContestOutcome.CHANGED)
    nights.now += HOUR
    answered(nights, contest, **APPROVED)
    review = nights.reviews.active(BATCH, nights.now)[nights.pseudonym("0007")]
    assert (review.decision, review.listed, review.reviewer) == ("approve", "decline", "Tunde")
    with pytest.raises(InputError, match="answered already"):
        answered(nights, contest)


def test_a_contest_stays_open_where_its_new_decision_could_not_be_saved(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer and the decision are saved together: neither is ever there alone."""
    contest = contested(nights)
    write = Records.insert

    def full_disk(records: Records[Any], *arguments: Any) -> None:  # noqa: ANN401 - any record
        write(records, *arguments)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Records, "insert", full_disk)
    with pytest.raises(OSError, match="No space"):
        answered(nights, contest, **APPROVED)
    monkeypatch.undo()
    assert not nights.reviews.active(BATCH, nights.now)
    assert answered(nights, contest, **APPROVED).new_decision == Decision.APPROVE
    assert nights.reviews.active(BATCH, nights.now)


def test_an_open_contest_is_never_purged_and_an_answered_one_is(nights: Nights) -> None:
    """Whoever waits for an answer does not lose it to retention.

    There is no last day to contest: years later, when nothing is held of the customer any more, it
    is taken down all the same.
    """
    contest = contested(nights)
    nights.now += 4000 * DAY
    Erasures(nights.journal).purge(dict.fromkeys(GROUNDS, nights.now))
    store = Records(nights.journal, Contest)
    assert store.find(contest.key) == contest
    answered(nights, contest)
    nights.now += 4000 * DAY
    Erasures(nights.journal).purge(dict.fromkeys(GROUNDS, nights.now))
    assert store.find(contest.key) is None
    assert verify_journal(nights.journal) == []
    made = contested(nights, batch=BATCH)
    assert (made.run_id, made.decision) == ("", None)
    with pytest.raises(InputError, match="no batch"):
        contested(nights, batch="borowers")


def test_run_of_a_sealed_row_is_looked_at_before_it_is_resumed(tmp_path: Path) -> None:
    """What lies sealed is read and compared in clear, also by who resumes the run by its id."""
    run_id, clear = "20260301-220000-a1b2c3", b"customer_id,score\nC2,2\n"
    home, sealed = tmp_path / "home", tmp_path / f"row{SUFFIX}"
    settings = read_settings(home=home, base_url="http://127.0.0.1:1", api_key="sandbox-key")
    with open_journal(home) as journal:
        seal_file(sealed, [clear], journal.sealer)
        begin_run(
            journal,
            run_id,
            batch=BATCH,
            input_digest=f"sha256:{hashlib.sha256(clear).hexdigest()}",
            folder=str(tmp_path / "out" / run_id),
            parameters=stored_parameters(ScreenBatch(input=str(sealed))),
        )
        journal.runs.finish(run_id, state="stopped", stop_reason="cap", report={})
    resumed = ScreenBatch(run=run_id, output=str(tmp_path / "out"))
    check_before_engine(resumed, settings)
    with open_journal(home) as journal:
        seal_file(sealed, [clear + b"C3,3\n"], journal.sealer)
    with pytest.raises(InputError, match="is not the input of run"):
        check_before_engine(resumed, settings)
