"""Journals for tests: on SQLite and on a real PostgreSQL, each test with one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import select

from nightscreen.config.settings import Settings
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.calls import ClaimRequest
from nightscreen.journal.schema import metadata
from nightscreen.journal.verify import verify_journal
from nightscreen.schemas.calls import (
    KEPT_STATES,
    CallResult,
    CallState,
    Caps,
    Reservation,
    ReservationStatus,
    ReserveRequest,
)
from nightscreen.schemas.clock import MICROS

NOON = 1_772_276_400 * MICROS  # 2026-02-28, noon in Lagos: the first instant of a spending day
PRICE = 20 * MICROS


@dataclass(slots=True)
class TestClock:
    """A clock that goes on by a second whenever it is read."""

    __test__ = False
    now: int = NOON + 3600 * MICROS

    def __call__(self) -> int:
        self.now += MICROS
        return self.now


@dataclass(slots=True)
class Place:
    """Where a journal lies, and everything opened there by the test."""

    home: Path
    url: str
    clock: TestClock = field(default_factory=TestClock)
    opened: list[Journal] = field(default_factory=list)
    is_damaged: bool = False  # by the test: it need not be sound at the end

    def open(self, **changes: object) -> Journal:
        """Open the journal as another process would, with a lock of its own."""
        given: dict[str, object] = {"url": self.url, "clock": self.clock, "busy_timeout_s": 10.0}
        given |= changes
        home = given.pop("home", self.home)
        journal = open_journal(home, **given)  # type: ignore[arg-type]  # names and types are open_journal's
        self.opened.append(journal)
        return journal

    def settings(self, key: str = "") -> Settings:
        """Return the settings that name the journal, with a data key where one is given."""
        return Settings(home=self.home, journal_url=self.url, data_key=SecretStr(key))

    def close(self) -> None:
        for journal in self.opened:
            journal.close()


def _used(tmp_path: Path, url: str) -> Iterator[Place]:
    """Give a place for a journal that is sound after the test, and close what was opened."""
    found = Place(tmp_path / "home", url)
    try:
        yield found
        if found.opened and not found.is_damaged:
            assert verify_journal(found.opened[-1]) == []
    finally:
        found.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = "" if request.param == "sqlite" else str(request.getfixturevalue("schema_url"))
    yield from _used(tmp_path, url)


@pytest.fixture
def sqlite_place(tmp_path: Path) -> Iterator[Place]:
    yield from _used(tmp_path, "")


@pytest.fixture
def server_place(database_url: str, tmp_path: Path) -> Iterator[Place]:
    """Give a place on PostgreSQL, whose locks are those of the whole database."""
    yield from _used(tmp_path, database_url)


@pytest.fixture
def journal(place: Place) -> Journal:
    return place.open()


def sealed_starts(journal: Journal) -> set[bytes]:
    """Return key id and nonce of every sealed value: unlike in any two of them."""
    sealed = [c for table in metadata.sorted_tables for c in table.c if "seal" in c.info]
    with journal.database.reading() as connection:
        found = [connection.execute(select(each)).scalars().all() for each in sealed]
    return {bytes(value)[:16] for values in found for value in values if value is not None}


def subject(number: int) -> bytes:
    """Return a pseudonym."""
    return number.to_bytes(16, "big")


def asks(*numbers: int, check: str = "karma") -> list[ReserveRequest]:
    return [ReserveRequest(check, "bvn", subject(number), PRICE, None, 1) for number in numbers]


def reserve(
    journal: Journal, *numbers: int, caps: Caps | None = None, run: str = "run-1", since: int = 0
) -> list[tuple[ReserveRequest, Reservation]]:
    wanted = asks(*numbers)
    bound = caps if caps is not None else Caps()
    grants = by_name(journal, run, wanted, bound, since=since or 1 << 60)
    return list(zip(wanted, grants, strict=True))


def by_name(
    journal: Journal, run: str, wanted: list[ReserveRequest], caps: Caps, *, since: int = 1 << 60
) -> list[Reservation]:
    """Claim calls by name, check after check; return one grant for each."""
    grants: list[Reservation] = []
    for check, block in groupby(wanted, key=attrgetter("check")):
        wish = ClaimRequest(check, list(block))
        grants += journal.calls.claim(run, "portfolio", wish, caps, since=since).granted
    return grants


def kinds(pairs: list[tuple[ReserveRequest, Reservation]]) -> list[ReservationStatus]:
    return [grant.kind for _, grant in pairs]


def ended(
    pair: tuple[ReserveRequest, Reservation],
    state: CallState = CallState.ANSWERED,
    *,
    cost: int | None = PRICE,
    body: bytes = b"{}",
) -> CallResult:
    ask, grant = pair
    answered = state in KEPT_STATES
    unreadable = state is CallState.UNREADABLE
    return CallResult(
        call_id=grant.call_id,
        ask=ask,
        state=state,
        settled_at=grant.intent_at + MICROS,
        trouble=None if answered else "timeout",
        status=200 if answered else None,
        outcome=("unreadable" if unreadable else "clear") if answered else None,
        cost_micro=((cost or 0) if unreadable else cost) if answered else None,
        balance_micro=1_000 * MICROS if answered else None,
        sent_at=None if state is CallState.NOT_SENT else grant.intent_at,
        body=body if answered else b"",
    )
