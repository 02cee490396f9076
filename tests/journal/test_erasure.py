"""Erasure in the journal, on both databases: tombstones, audit, holds, and no trace in the file."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from nightscreen.config.settings import GROUNDS
from nightscreen.journal import Journal
from nightscreen.journal.cases import Reviews
from nightscreen.journal.customers import Customers, StateWrite
from nightscreen.journal.erasure import (
    Erasures,
    Removed,
    scrub_database,
)
from nightscreen.journal.schema import TOMBSTONE, ErasedPseudonyms, calls
from nightscreen.schemas.calls import CallState
from nightscreen.schemas.clock import DAY_MICROS
from nightscreen.schemas.contests import Review
from nightscreen.schemas.decisions import CheckState
from nightscreen.schemas.errors import InputError
from tests.begun import begin_run
from tests.journal.conftest import PRICE, Place, ended, reserve, sealed_starts, subject

CUSTOMER = b"c" * 16
OTHER = b"o" * 16


def answered(journal: Journal, *numbers: int) -> None:
    for pair in reserve(journal, *numbers):
        body = f'{{"who": {pair[0].subject.hex()!r}}}'.encode()
        journal.calls.settle("run-1", [ended(pair, body=body)])


def state(journal: Journal, customer: bytes, times: int = 2) -> None:
    customers = Customers(journal)
    for number in range(times):
        at = customers.begin(f"run-{number}")
        sealed = customers.seal(customer, {"karma": CheckState(at, "run-1", {"n": str(number)})})
        write = StateWrite(customer, sealed, differs=number > 0)
        customers.replace(f"run-{number}", "borrowers", at, [write])
    review = Review(
        customer=customer,
        batch="borrowers",
        run_id="run-1",
        listed="review",
        decision="approve",
        reviewer="R. Viewer",
        note="",
        reviewed_at=1,
        until=2,
        evidence=b"e",
    )
    Reviews(journal).add([review])


def subjects_of_calls(journal: Journal) -> list[bytes]:
    with journal.database.reading() as connection:
        found = connection.execute(select(calls.c.subject).order_by(calls.c.call_id)).scalars()
        return [bytes(each) for each in found]


def test_a_call_stays_as_a_tombstone(journal: Journal) -> None:
    """Its answer and pseudonym go; cost, counters and outcomes stay, the journal is sound.

    What went is reported in numbers, by a purge as well; what is gone is not counted again.
    """
    answered(journal, 1, 2, 3)
    spent, seen = journal.money.of_run("run-1"), journal.runs.charges_of_late()
    erasures = Erasures(journal)
    held = erasures.held_of(ErasedPseudonyms([subject(2)]))
    assert erasures.erase(ErasedPseudonyms([subject(2)])) == held == Removed(1, 1, 0, PRICE)
    assert subjects_of_calls(journal) == [subject(1), TOMBSTONE, subject(3)]
    assert set(journal.answers.latest("karma", [subject(1), subject(2), subject(3)])) == {
        subject(1),
        subject(3),
    }
    assert (journal.money.of_run("run-1"), journal.runs.charges_of_late()) == (spent, seen)
    assert scrub_database(journal)
    assert erasures.purge(dict.fromkeys(GROUNDS, 1 << 60)) == Removed(2, 2, 0, 2 * PRICE)


def test_what_is_in_doubt_stays_reserved(journal: Journal) -> None:
    """A lost answer's worst cost is kept, under nobody's name."""
    pair = reserve(journal, 1)[0]
    journal.calls.settle("run-1", [ended(pair, CallState.IN_DOUBT)])
    reserved = journal.money.of_run("run-1")
    Erasures(journal).erase(ErasedPseudonyms([subject(1)]))
    assert journal.money.of_run("run-1") == reserved
    (row,) = journal.runs.in_doubt()
    assert bytes(row.subject) == TOMBSTONE


def test_a_person_being_asked_about_is_refused(place: Place) -> None:
    """While the process lives; once it is dead the call is a tombstone like any other."""
    journal, other = place.open(), place.open()
    reserve(other, 1)
    with pytest.raises(InputError, match="under way"):
        Erasures(journal).erase(ErasedPseudonyms([subject(1)]))
    assert subjects_of_calls(journal) == [subject(1)]
    other.close()
    journal.calls.recover()
    Erasures(journal).erase(ErasedPseudonyms([subject(1)]))
    assert subjects_of_calls(journal) == [TOMBSTONE]


def test_what_is_too_old_goes_and_the_rest_stays(place: Place) -> None:
    """By when it was answered and decided; calls under way never."""
    journal = place.open()
    answered(journal, 1)
    state(journal, CUSTOMER)
    place.clock.now += 10 * DAY_MICROS
    limit = place.clock()
    answered(journal, 2)
    state(journal, OTHER, times=1)
    reserve(journal, 3)
    erasures = Erasures(journal)
    assert erasures.held_before(dict.fromkeys(GROUNDS, limit)) == Removed(1, 1, 3, PRICE)
    erasures.purge(dict.fromkeys(GROUNDS, limit))
    assert subjects_of_calls(journal) == [TOMBSTONE, subject(2), subject(3)]
    assert set(Customers(journal).known([CUSTOMER, OTHER])) == {OTHER}
    assert erasures.held_before(dict.fromkeys(GROUNDS, limit)) == Removed()


def test_no_trace_is_left_in_a_full_file(sqlite_place: Place) -> None:
    """Of people spread over many pages that were split and moved meanwhile, in file and log."""
    journal = sqlite_place.open()
    keys = [journal.pseudonyms.subject("bvn", str(number)) for number in range(1200)]
    numbers = [int.from_bytes(key, "big") for key in keys]
    for start in range(0, len(numbers), 100):
        pairs = reserve(journal, *numbers[start : start + 100])
        sizes = [(10, 700, 9000)[number % 3] for number in range(len(pairs))]
        bodies = [b"x" * size for size in sizes]
        settled = [ended(pair, body=body) for pair, body in zip(pairs, bodies, strict=True)]
        journal.calls.settle("run-1", settled)
    gone = keys[::40]
    state(journal, CUSTOMER)
    erasures = Erasures(journal)
    sealed = sealed_starts(journal)
    erasures.erase(ErasedPseudonyms(gone, [CUSTOMER]))
    assert scrub_database(journal)
    traces = [*gone, CUSTOMER, *(sealed - sealed_starts(journal))]
    assert len(traces) == 2 * len(gone) + 1 + 3
    file = journal.database.file
    assert file is not None
    for path in file.parent.glob(f"{file.name}*"):
        held = path.read_bytes() if path.is_file() else b""
        assert not [trace for trace in traces if trace in held], path
    with journal.database.reading() as connection:
        left = connection.execute(select(func.count()).where(calls.c.subject.in_(keys))).scalar()
    assert left == len(keys) - len(gone)


def test_a_log_in_use_is_told_and_emptied_later(sqlite_place: Place) -> None:
    """A reader that keeps old pages in use does not make it fail, and is not passed over."""
    journal = sqlite_place.open(busy_timeout_s=0.2)
    first, second = (journal.pseudonyms.subject("bvn", each) for each in "12")
    answered(journal, *(int.from_bytes(each, "big") for each in (first, second)))
    erasures = Erasures(journal)
    traces = [first, second, *sealed_starts(journal)]
    with journal.database.engine.connect().execution_options(reads=True) as reader:
        reader.execute(select(func.count()).select_from(calls)).scalar()
        erasures.erase(ErasedPseudonyms([first]))
        assert not scrub_database(journal)
        erasures.erase(ErasedPseudonyms([second]))
        assert not scrub_database(journal)
    traces = [each for each in traces if each not in sealed_starts(journal)]
    assert scrub_database(journal)
    for path in sqlite_place.home.glob("journal.sqlite*"):
        held = path.read_bytes() if path.is_file() else b""
        assert not [trace for trace in traces if trace in held], path


def test_a_file_is_not_written_anew_under_a_living_run(sqlite_place: Place) -> None:
    """That could keep the run waiting for longer than it does; it is done after it."""
    journal, other = sqlite_place.open(), sqlite_place.open()
    begin_run(other, "run-live")
    answered(journal, 1)
    Erasures(journal).purge(dict.fromkeys(GROUNDS, 1 << 60))
    assert not scrub_database(journal)
    other.close()
    assert scrub_database(journal)
