"""PostgreSQL goes away in mid-run and comes back: the night goes on, nothing is paid twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from nightscreen.calling.asking import Asking
from nightscreen.journal import open_journal
from nightscreen.journal.opening import journal_of
from nightscreen.journal.verify import verify_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.calls import Caps, ReservationStatus, ReserveRequest
from nightscreen.schemas.errors import JournalUnreachableError
from tests.journal.conftest import by_name
from tests.kill import truth
from tests.kill.database import Database, database
from tests.screening import Night, Steered, World

pytestmark = pytest.mark.postgres

ROWS = 60


@pytest.fixture
def there() -> Iterator[Database]:
    with database() as found:
        yield found


@pytest.fixture
def service() -> Iterator[SandboxProcess]:
    """Give a service that answers slowly enough for many calls to be under way."""
    with SandboxProcess(seed=5) as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 60})
        yield sandbox


class Elsewhere(World):
    """A world whose service is a process of its own, and whose journal a database that may stop."""

    def __init__(
        self, folder: Path, there: Database, service: SandboxProcess, **settings: object
    ) -> None:
        given = {"base_url": service.url, "api_key": service.api_key, "journal_url": there.url}
        super().__init__(folder, settings={**given, **settings})
        self.there, self.service = there, service
        make_batch(folder / "in.csv", rows=ROWS, seed=31, damage_pct=0)

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport()

    @property
    def charged(self) -> str:
        return str(self.service.totals()["totals"]["charged"])

    def night(self, *, away_s: float | None) -> Night:
        """Screen a batch; the database goes away after some answers, for so long or for good."""

        async def steer(asking: Asking) -> None:
            while asking.run.stops.answered < ROWS:  # noqa: ASYNC110 - nobody tells of it
                await asyncio.sleep(0.01)
            await asyncio.to_thread(self.there.stop)
            if away_s is not None:
                await asyncio.sleep(away_s)
                await asyncio.to_thread(self.there.start)

        return self.screen_by(Steered(steer), input=str(self.folder / "in.csv"))

    def books(self, run_id: str) -> truth.Books:
        """Return the books of a run whose rows all have the status of the service's people."""
        with journal_of(self.read_settings()) as journal:
            assert verify_journal(journal) == []
            assert truth.wrong_statuses(self.folder / "out" / run_id) == []
            return truth.books_of(journal, self.service.ledger(), run_id)


def test_a_database_that_is_restarted_does_not_end_the_night(
    tmp_path: Path, there: Database, service: SandboxProcess
) -> None:
    """The run completes, no call is in doubt, and every lookup was charged once at most."""
    world = Elsewhere(tmp_path, there, service)
    report = world.night(away_s=0.0).report
    assert report["state"] == "completed"
    books = world.books(report["run_id"])
    assert books.ledger_micro == books.journal_micro
    assert (books.crashed, sum(books.doubts.values()), books.charged_twice) == (0, 0, [])


@pytest.mark.long  # half a minute passes until the lost process is surely dead
def test_a_database_that_stays_away_ends_the_run_and_a_resume_goes_on(
    tmp_path: Path, there: Database, service: SandboxProcess
) -> None:
    """The run gives up after the time it was set; what was on its way is then in doubt, and named.

    It waits once and not once for each thing it has to write.
    """
    began, world = time.monotonic(), Elsewhere(tmp_path, there, service, outage_give_up="PT3S")
    with pytest.raises(JournalUnreachableError) as raised:
        world.night(away_s=None)
    every = raised.value.__cause__
    assert isinstance(every, ExceptionGroup)
    assert every.split(JournalUnreachableError)[1] is None
    assert time.monotonic() - began < 60
    there.start()
    with open_journal(tmp_path / "home", url=there.url) as journal:
        (run,) = journal.runs.newest()
    assert world.screen(run=run.run_id).report["state"] == "completed"
    assert world.books(run.run_id).unnamed == []


def test_a_restart_buries_nobody(tmp_path: Path, there: Database) -> None:
    """Who comes first after a restart leaves the calls of the others alone: they may live."""
    mine, other = (open_journal(tmp_path / "home", url=there.url) for _ in range(2))
    ask = ReserveRequest("karma", "bvn", b"k" * 16, 10, None, 1)
    (grant,) = by_name(mine, "run", [ask], Caps(), since=0)
    with mine.holders._guard:  # type: ignore[attr-defined] # mine does not come back by itself yet
        there.stop()
        there.start()
        assert other.calls.recover() == 0
        (theirs,) = by_name(other, "other", [ask], Caps(), since=0)
    assert (grant.kind, theirs.kind) == (ReservationStatus.GRANTED, ReservationStatus.HELD)
    (again,) = by_name(mine, "run", [replace(ask, subject=b"l" * 16)], Caps(), since=0)
    assert again.kind is ReservationStatus.GRANTED
    mine.close()
    other.close()
