"""What PostgreSQL refuses, told as the journal tells everything."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, text

from nightscreen.schemas.errors import JournalBusyError, JournalError
from nightscreen.storage.journal.engine import _WRITE_LOCK, Turn, recording
from nightscreen.storage.journal.verify import verify_journal
from tests.storage.conftest import PRICE, Place, ended, reserve

if TYPE_CHECKING:
    from pathlib import Path

    from nightscreen.storage.journal import Journal

pytestmark = pytest.mark.postgres


@pytest.fixture
def server_place(schema_url: str, tmp_path: Path) -> Place:
    """Give a place for a journal on PostgreSQL."""
    return Place(tmp_path / "home", schema_url)


def test_a_writer_that_never_ends_is_told_and_harms_nothing(server_place: Place) -> None:
    """The wait ends within its time; afterwards everything goes on."""
    journal = server_place.open(busy_timeout_s=0.3)
    other = create_engine(server_place.url)
    with other.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _WRITE_LOCK})
        with pytest.raises(JournalBusyError, match=r"for 0\.3 s"):
            reserve(journal, 1)
        assert journal.money.today().calls == 0
    other.dispose()
    assert reserve(journal, 1)[0][1].call_id == 1
    server_place.close()


def test_a_database_that_may_only_be_read_is_told(server_place: Place) -> None:
    """A standby or a read-only role cannot reserve; what is there can be read."""
    server_place.open().close()
    journal = server_place.open(url=f"{server_place.url}%20-c%20default_transaction_read_only%3Don")
    with pytest.raises(JournalError, match="cannot be written"):
        reserve(journal, 1)
    assert verify_journal(journal) == []
    server_place.close()


def test_a_lost_mark_of_life_stops_the_process(server_place: Place) -> None:
    """Where the database ended that connection, nothing more may be sent."""
    journal = server_place.open()
    other = create_engine(server_place.url)
    reserve(journal, 1)
    number = journal.holders.name.removeprefix("pg-")
    with other.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' "
                "AND objsubid = 1 AND objid = CAST(:low AS bigint)::oid"
            ),
            {"low": int(number) & 0xFFFFFFFF},
        )
    other.dispose()
    with pytest.raises(JournalError, match="resume the run"):
        reserve(journal, 2)
    with server_place.open() as after:
        assert after.calls.recover() == 1
        assert verify_journal(after) == []
    server_place.close()


def test_outcomes_are_committed_while_another_process_has_its_turn(server_place: Place) -> None:
    """A process that is granting a block keeps nobody from handing in; grants wait their turn."""
    journal, other = (server_place.open(busy_timeout_s=0.3) for _ in range(2))
    pairs = reserve(journal, 1)
    with recording(other.engine, Turn.GRANTS):
        journal.calls.settle("run-1", [ended(pairs[0])])
        with pytest.raises(JournalBusyError):
            reserve(journal, 2)
    assert journal.money.today().calls == 1
    server_place.close()


def test_a_change_of_the_whole_journal_waits_for_all_who_record(server_place: Place) -> None:
    """An erasure or a rotation never meets a group of outcomes half written."""
    journal, other = (server_place.open(busy_timeout_s=0.3) for _ in range(2))
    with recording(other.engine), pytest.raises(JournalBusyError):
        journal.runs.withdraw("run-1")
    server_place.close()


def test_a_place_in_the_journal_waits_for_answers_half_written(server_place: Place) -> None:
    """Of two who write at once the lower number may appear last: no plan may fall in between."""
    journal, other = (server_place.open(busy_timeout_s=0.3) for _ in range(2))
    with recording(other.engine), pytest.raises(JournalBusyError):
        journal.answers.position()
    with recording(other.engine), pytest.raises(JournalBusyError):
        journal.answers.stamp()
    assert journal.answers.position() == 0
    server_place.close()


def test_a_group_that_cannot_be_written_leaves_nothing(server_place: Place) -> None:
    """What is sent in one stroke is committed whole or not at all, and said in our own words."""
    journal = server_place.open()
    pairs = reserve(journal, 1, 2)
    cost = 1 << 62  # three of them are more than a counter holds
    with pytest.raises(JournalError, match="out of range"):
        journal.calls.settle("run-1", [ended(pair, cost=cost) for pair in pairs])
    assert journal.money.today().spent_micro == 0
    journal.calls.settle("run-1", [ended(pair) for pair in pairs])
    assert journal.money.today().calls == 2
    assert verify_journal(journal) == []
    server_place.close()


def test_a_group_larger_than_a_socket_takes_is_committed(server_place: Place) -> None:
    """However many and long the answers are, the driver never waits for what it has not sent."""
    journal = server_place.open()
    pairs = reserve(journal, *range(200))
    journal.calls.settle("run-1", [ended(pair, body=b"x" * 40_000) for pair in pairs])
    assert len(journal.answers.latest("karma", [pair[0].subject for pair in pairs])) == 200
    server_place.close()


def test_outcomes_handed_in_by_two_at_once_count_once(server_place: Place) -> None:
    """A group whose first writing was not heard of may be written again while it goes on."""
    journal, other = (server_place.open() for _ in range(2))
    outcomes = [ended(pair) for pair in reserve(journal, *range(200))]
    both = Barrier(2)

    def settle(mine: Journal) -> None:
        both.wait()
        mine.calls.settle("run-1", outcomes)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(settle, (journal, other)))
    assert journal.money.today().spent_micro == 200 * PRICE
    assert journal.money.today().reserved_micro == 0
    assert verify_journal(journal) == []
    server_place.close()
