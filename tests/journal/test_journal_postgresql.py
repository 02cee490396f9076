"""What PostgreSQL refuses, told as the journal tells everything."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest
from sqlalchemy import create_engine, text

from nightscreen.config.settings import GROUNDS
from nightscreen.journal import Journal
from nightscreen.journal.database import _WRITE_LOCK
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.holders import AdvisoryHolders
from nightscreen.journal.records import Records
from nightscreen.schemas.calls import Caps, ReservationStatus
from nightscreen.schemas.errors import JournalBusyError, JournalError
from nightscreen.schemas.uploads import GONE, Upload
from tests.journal.conftest import PRICE, Place, ended, reserve

pytestmark = pytest.mark.postgres


def test_a_database_that_may_only_be_read_is_told(server_place: Place) -> None:
    """A standby or a read-only role cannot reserve; what is there can be read."""
    server_place.open().close()
    journal = server_place.open(url=f"{server_place.url}%20-c%20default_transaction_read_only%3Don")
    with pytest.raises(JournalError, match="cannot be written"):
        reserve(journal, 1)


def test_commits_last_whatever_the_server_does(server_place: Place) -> None:
    """The journal's own connections wait for the disk, on a server that would not."""
    server = create_engine(server_place.url)
    with server.connect() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "off"
    server.dispose()
    with server_place.open().database.reading() as connection:
        assert connection.execute(text("SHOW synchronous_commit")).scalar() == "on"


def drop_lock(journal: Journal, url: str) -> None:
    """End the database's session that holds a process's lock."""
    number = int(journal.holders.name.removeprefix("pg-").partition(".")[0])
    other = create_engine(url)
    with other.begin() as connection:
        connection.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' "
                "AND objsubid = 1 AND objid = CAST(:low AS bigint)::oid"
            ),
            {"low": number & 0xFFFFFFFF},
        )
    other.dispose()


def test_a_mark_of_life_that_is_dropped_is_set_again(server_place: Place) -> None:
    """Where the database ends that connection, the process sets it again and nobody buries it."""
    journal, other = (server_place.open() for _ in range(2))
    reserve(journal, 1)
    drop_lock(journal, server_place.url)
    assert not other.holders.dead(journal.holders.name)
    assert reserve(other, 1)[0][1].kind is ReservationStatus.HELD
    assert other.calls.recover() == 0
    assert reserve(journal, 2)[0][1].kind is ReservationStatus.GRANTED
    assert not journal.holders.was_lost


def test_who_was_taken_for_dead_sends_nothing_more(server_place: Place) -> None:
    """A process that was away for too long stops, since others may make its calls by now.

    What it was answered meanwhile is settled all the same.
    """
    journal, other = (server_place.open() for _ in range(2))
    pairs = reserve(journal, 1, 2)
    held = cast("AdvisoryHolders", journal.holders)
    with held._guard:  # it cannot reach the database
        drop_lock(journal, server_place.url)
        assert other.calls.recover() == 2
    assert reserve(other, 1)[0][1].kind is ReservationStatus.GRANTED
    with pytest.raises(JournalError, match="resume the run"):
        reserve(journal, 3)
    with pytest.raises(JournalError, match="resume the run"):
        reserve(journal, 4)
    journal.calls.settle("run-1", [ended(pairs[0]), ended(pairs[1])])
    assert journal.money.today().spent_micro == 2 * PRICE


def test_a_servers_own_level_of_isolation_does_not_matter(server_place: Place) -> None:
    """What was committed while a lock was waited for is seen, whatever the server's default is."""
    url = f"{server_place.url}%20-c%20default_transaction_isolation%3Drepeatable%5C%20read"
    journal, other = (server_place.open(url=url) for _ in range(2))
    caps = Caps(run_micro=5 * PRICE)

    def grant(mine: Journal, first: int) -> int:
        pairs = [reserve(mine, number, caps=caps)[0] for number in range(first, first + 10)]
        granted = [pair for pair in pairs if pair[1].kind is ReservationStatus.GRANTED]
        mine.calls.settle("run-1", [ended(pair) for pair in granted])
        return len(granted)

    with ThreadPoolExecutor(2) as pool:
        numbers = list(pool.map(grant, (journal, other), (0, 100)))
    assert sum(numbers) == 5


def test_a_record_is_changed_while_a_run_writes(server_place: Place) -> None:
    """A page of the desk that keeps a choice does not wait for calls that are being saved."""
    desk, run = server_place.open(busy_timeout_s=1.0), server_place.open()
    uploads = Records(desk, Upload)
    upload = Upload(key="a", user="Ada", at=1, name="x.csv", digest="d", size=1, choices={})
    uploads.add([upload])
    with run.database.recording():
        after = uploads.change("a", lambda kept: kept.model_copy(update={"state": GONE}), 2)
    assert after == upload.model_copy(update={"state": GONE})


def test_a_journal_that_stays_locked_is_waited_for(server_place: Place) -> None:
    """A run is patient: it writes again once the lock is free, and gives up only in the end."""
    journal = server_place.open(busy_timeout_s=2.0)
    journal.database.give_up_s = 60
    other = create_engine(server_place.url)
    with ThreadPoolExecutor(1) as pool:
        with other.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _WRITE_LOCK})
            waiting = pool.submit(reserve, journal, 1)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=3.0)
        assert waiting.result(timeout=30)[0][1].kind is ReservationStatus.GRANTED
    journal.database.give_up_s = 0.5
    with other.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:n)"), {"n": _WRITE_LOCK})
        with pytest.raises(JournalBusyError):
            reserve(journal, 2)
    other.dispose()


def test_what_concerns_the_whole_journal_waits_for_all_who_record(server_place: Place) -> None:
    """An erasure or a rotation never meets a group of outcomes half written.

    Nor does a plan fall between two who write at once, of whom the lower number may appear last.
    """
    journal, other = (server_place.open(busy_timeout_s=0.3) for _ in range(2))
    with other.database.recording():
        with pytest.raises(JournalBusyError):
            Erasures(journal).purge(dict.fromkeys(GROUNDS, 0))
        with pytest.raises(JournalBusyError):
            journal.answers.position()
    assert journal.answers.position() == 0


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


def test_a_group_larger_than_a_socket_takes_is_committed(server_place: Place) -> None:
    """However many and long the answers are, the driver never waits for what it has not sent."""
    journal = server_place.open()
    pairs = reserve(journal, *range(1, 201))
    journal.calls.settle("run-1", [ended(pair, body=b"x" * 40_000) for pair in pairs])
    assert len(journal.answers.latest("karma", [pair[0].subject for pair in pairs])) == 200
