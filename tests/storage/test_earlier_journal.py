"""A journal of version 10, when each store had a table of its own: opened, restored, refused."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect, select, text

from nightscreen.schemas.bvn import BvnRequest, HeldCustomer
from nightscreen.schemas.contests import Contest
from nightscreen.schemas.errors import JournalError, JournalKeyError
from nightscreen.schemas.offers import LoanSnapshot
from nightscreen.storage.files import make_private_folder, write_private
from nightscreen.storage.journal.bvn_consents import BvnConsents
from nightscreen.storage.journal.copying import restore
from nightscreen.storage.journal.engine import make_engine, reading, writing
from nightscreen.storage.journal.erasure import ErasedPseudonyms, Erasures
from nightscreen.storage.journal.keyring import begin_rotation
from nightscreen.storage.journal.loan_offers import LoanOffers
from nightscreen.storage.journal.migrations import (
    MIGRATIONS,
    bring_up,
    copies_of,
    newest_version,
)
from nightscreen.storage.journal.opening import JOURNAL_FILE, journal_url, make_holders
from nightscreen.storage.journal.records import Records, records
from nightscreen.storage.journal.reviews import Reviews
from nightscreen.storage.journal.rotation import rotate_key
from nightscreen.storage.journal.tables import metadata
from nightscreen.storage.journal.verify import verify_journal
from nightscreen.storage.sealing import Sealer
from tests.storage.conftest import Place, subject

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from nightscreen.storage.journal import Journal

DUMP = Path(__file__).with_name("journal_v10")
KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def place(lone_place: Place) -> Place:
    """Give a place on each database; a bring-up asks who else is in the whole of it."""
    return lone_place


def load(engine: Engine) -> None:
    """Make the journal of version 10 as its program left it."""
    script = (DUMP / f"{engine.dialect.name}.sql").read_text().split("\n", 2)[2]
    with writing(engine) as connection:
        for statement in script.split(";\n"):
            if statement.strip():
                connection.exec_driver_sql(statement)
    engine.dispose()


def opened(place: Place) -> Journal:
    """Return the journal of version 10, brought up."""
    make_private_folder(place.home)
    load(make_engine(place.url or journal_url(place.home)))
    return place.open(data_key=KEY)


def names(journal: Journal, customer: str) -> tuple[bytes, bytes]:
    """Return a customer's pseudonyms: in the batch of the dump, and in all."""
    found = journal.pseudonyms
    return found.customer("people", customer), found.customers_anywhere([customer])


def held_as_before(journal: Journal) -> None:
    """Assert that everything of the dump is there."""
    ada, _ = names(journal, "C-1")
    reviews = Reviews.of(journal)
    assert [
        (each.decision, each.reviewer, each.note, each.reviewed_at, each.evidence)
        for each in reviews.of_customer(ada)
    ] == [
        ("approve", "Ngozi", "", 10, b"evidence"),
        ("decline", "Ngozi", "first", 20, b"evidence"),
    ]
    assert {each.decision for each in reviews.active("people", 10**12 + 15).values()} == {
        "decline",
        "approve",
    }
    assert reviews.active("people", 10**12 + 30) == {}
    _loans_as_before(journal)
    _bvn_requests_as_before(journal)
    (contest,) = Records.of(journal, Contest).all()
    assert (contest.key, contest.said) == ("K1", "I paid in May.")
    assert verify_journal(journal) == []


def _loans_as_before(journal: Journal) -> None:
    store = LoanOffers.of(journal)
    _, anywhere = names(journal, "C-1")
    (linked,) = store.linked()
    held = linked.held
    assert (linked.customer, linked.offer_id) == (anywhere, subject(41))
    assert (linked.batch, linked.run_id, linked.source_run_id) == ("people", "run-2", "run-1")
    assert (linked.at, linked.offered_at, linked.closed_at, linked.loan) == (
        *(101, 105, 120),
        subject(61),
    )
    assert (held.customer_id, held.email, held.reference) == ("C-1", "ada@mail.example", "LN-1")
    assert held.seen == LoanSnapshot("SETTLED", loan_amount="50000.00", paid="50000.00")
    assert [each.held.customer_id for each in store.starting()] == ["C-3"]
    assert store.newest([names(journal, "C-2")[1]], "LP1").popitem()[1].state == "in_doubt"
    first, second = store.history()[linked.offer_id]
    assert (first.run_id, first.at, first.before) == ("run-3", 110, None)
    assert (second.before, second.before_at, second.now) == (first.now, 110, held.seen)
    assert sorted(store.telling()) == ["run-3", "run-4"]


def _bvn_requests_as_before(journal: Journal) -> None:
    store = BvnConsents.of(journal)
    first, second, third = store.of_batches({"people"})
    assert first == store.find(subject(71))
    assert first.held == HeldCustomer(
        *("C-1", "22211111111", "+2348030000001"),
        phone="+2348030000001",
        first_name="Ada",
        last_name="Obi",
        date_of_birth=date(1990, 1, 2),
        masked_contact="0803***0001",
    )
    assert (first.customer, first.at, first.settled_at) == (names(journal, "C-1")[1], 201, 210)
    assert (first.state, first.doubt, first.trouble) == ("wrong_otp", "finish", "timeout")
    assert (first.attempts, first.cost_micro, first.finish_run_id) == (2, 5, "run-6")
    assert (first.consent_reference, first.consent_ends_at) == ("CNS-1", 10**15)
    assert (second.state, second.finishing) == ("awaiting_otp", "run-6")
    assert store.under_way() == [second, third]
    assert store.open_for([first.subject]) == [first]


def test_every_store_of_version_10_is_one_table_of_records(place: Place) -> None:
    """Nothing is lost or left behind; a new key opens all of it."""
    journal = opened(place)
    held_as_before(journal)
    with reading(journal.engine) as connection:
        there = set(inspect(connection).get_table_names())
        number = len(connection.execute(select(records)).all())
    assert there - {"sqlite_sequence"} == set(metadata.tables)
    assert rotate_key(journal, configured=KEY).resealed >= number
    held_as_before(journal)
    if not place.url:
        assert [each.name for each in copies_of(place.home / JOURNAL_FILE)] == [
            f"{JOURNAL_FILE}.v10"
        ]


def test_a_journal_without_its_key_is_left_as_it_was(sqlite_place: Place) -> None:
    """The key is needed to bring it up, and is asked for before anything is changed."""
    place = sqlite_place
    make_private_folder(place.home)
    load(make_engine(journal_url(place.home)))
    for key, told in (("", "missing"), (base64.b64encode(b"x" * 32).decode(), "not this")):
        with pytest.raises(JournalKeyError, match=told):
            place.open(data_key=key)
    assert copies_of(place.home / JOURNAL_FILE) == []
    held_as_before(place.open(data_key=KEY))


def test_an_earlier_program_is_not_pulled_the_tables_from_under(place: Place) -> None:
    """While one has the journal open nothing is brought up, be it without a run, as the desk is."""
    make_private_folder(place.home)
    engine = make_engine(place.url or journal_url(place.home))
    load(engine)
    living = make_holders(engine)
    with pytest.raises(JournalError, match=f"an earlier one has it open .process {os.getpid()} on"):
        place.open(data_key=KEY)
    with reading(engine) as connection:
        assert inspect(connection).has_table("reviews")
    living.release()
    held_as_before(place.open(data_key=KEY))
    engine.dispose()


def test_a_step_that_fails_late_leaves_the_journal_to_the_earlier_program(
    sqlite_place: Place,
) -> None:
    """All steps are one; the copy of what was there stays the only one."""
    place = sqlite_place
    make_private_folder(place.home)
    engine = make_engine(journal_url(place.home))
    load(engine)

    def fail(_: Connection) -> None:
        raise MemoryError

    steps = (*MIGRATIONS, (newest_version() + 1, fail))
    for _ in range(2):
        with pytest.raises(MemoryError):
            bring_up(engine, steps, sealer=lambda: Sealer(b"k" * 32))
    engine.dispose()
    assert [each.name for each in copies_of(place.home / JOURNAL_FILE)] == [f"{JOURNAL_FILE}.v10"]
    held_as_before(place.open(data_key=KEY))


def test_a_damaged_row_holds_up_nothing_else(place: Place) -> None:
    """It becomes a record that does not open; verifying names it, as it named the row."""
    make_private_folder(place.home)
    engine = make_engine(place.url or journal_url(place.home))
    load(engine)
    with writing(engine) as connection:
        connection.execute(text("UPDATE bvn_requests SET customer = :other"), {"other": b"?" * 16})
    engine.dispose()
    journal = place.open(data_key=KEY)
    assert LoanOffers.of(journal).linked()
    assert any("open" in line for line in verify_journal(journal))


def test_what_an_unfinished_rotation_left_under_the_old_key_is_brought_up(place: Place) -> None:
    """Either key opens the journal; its records are sealed under the new one."""
    make_private_folder(place.home)
    engine = make_engine(place.url or journal_url(place.home))
    load(engine)
    with writing(engine) as connection:
        begin_rotation(connection, b"k" * 32, b"n" * 32, 1)
    engine.dispose()
    journal = place.open(data_key=KEY)
    held_as_before(journal)
    alone = replace(journal, sealer=Sealer(b"n" * 32))
    assert len(Records.of(alone, BvnRequest).all()) == 3


def test_a_backup_of_version_10_is_restored_whole(place: Place, tmp_path: Path) -> None:
    """What lay in tables that are no more is brought along, also to another database."""
    folder = make_private_folder(tmp_path / "backup")
    load(make_engine(journal_url(folder)))
    write_private(folder / "journal.json", b"{}")
    restore(folder, place.home, url=place.url, configured=KEY)
    held_as_before(place.open(data_key=KEY))


def test_a_person_of_an_older_journal_is_erased(place: Place) -> None:
    """Who came with the older stores goes from the one table, and nobody else."""
    journal = opened(place)
    ada, anywhere = names(journal, "C-1")
    person = ErasedPseudonyms(customers=[ada], anywhere={anywhere: ["people", "transactions"]})
    Erasures.of(journal).erase(person)
    with reading(journal.engine) as connection:
        left = connection.execute(select(records.c.customer)).scalars().all()
    assert left
    assert not {bytes(each) for each in left} & {ada, anywhere}
    assert verify_journal(journal) == []
