"""Rows that say the same are not compared, and nothing that is told or kept hangs on that."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.screening import Night, World
from tests.steps.nights_that_change import ROWS, Clock, changed, person

if TYPE_CHECKING:
    from pathlib import Path


class Still(Clock):
    """A clock that stands still between the days it is put forward."""

    def __init__(self) -> None:
        super().__init__()
        self._at = super().__call__()

    def __call__(self) -> int:
        """Return the instant; each reading is a microsecond later."""
        self._at += 1
        return self._at + self.days * 86_400_000_000


def journal_of(world: World) -> Path:
    """Return the journal's file."""
    return world.folder / "home" / "journal.sqlite"


def marks(world: World) -> dict[bytes, bytes | None]:
    """Return each customer's mark."""
    with closing(sqlite3.connect(journal_of(world))) as connection:
        return dict(connection.execute("SELECT customer, mark FROM customer_states"))


def without_marks(world: World, folder: Path) -> World:
    """Return a copy of a world in which every row has to be compared."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world.folder / "home", folder / "home")
    copy = World(folder, sandbox=world.sandbox, settings=world.settings, clock=world.clock)
    with closing(sqlite3.connect(journal_of(copy))) as connection, connection:
        connection.execute("UPDATE customer_states SET mark = NULL")
    return copy


def told(night: Night) -> dict[str, Any]:
    """Return all that a night told, but for which run it was."""
    changes = pq.read_table(night.folder / "changes.parquet").drop_columns(["run_id"])
    listed = (night.folder / "decisions.csv").read_text("utf-8").replace(night.folder.name, "run")
    return {
        "changes": changes.to_pylist(),
        "listed": listed,
        "counts": night.report["changes"],
        "news": night.report["news"],
    }


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_nights_are_told_alike_with_and_without_marks(tmp_path: Path, seed: int) -> None:
    """Whatever changes between nights, each is reported as if every row had been compared."""
    rng = random.Random(seed)
    world = World(tmp_path / "marked", clock=Still())
    world.folder.mkdir()
    rows = [person(number) for number in range(1, ROWS + 1)]
    for _ in range(4):
        options = {"batch": "b"}
        if rng.random() < 0.3:
            options["max_spend"] = str(rng.randrange(1, 900))
        night = None
        if journal_of(world).exists():
            night = without_marks(world, tmp_path / "plain").screen(rows, **options)
        marked = world.screen(rows, **options)
        if night is not None:
            assert told(marked) == told(night)
        if rng.random() < 0.7:
            rows = changed(rows, rng)
        assert isinstance(world.clock, Still)
        world.clock.days += rng.choice((0, 1, 6, 20, 35, 90))


def test_the_second_of_two_equal_nights_opens_and_writes_no_state(tmp_path: Path) -> None:
    """Marks stand after the first; the second leaves journal rows as they are."""
    world = World(tmp_path)
    rows = [person(number) for number in range(1, 20)]
    world.screen(rows, batch="b")
    before = marks(world)
    assert None not in before.values()
    with closing(sqlite3.connect(journal_of(world))) as connection, connection:
        spoilt = connection.execute("UPDATE customer_states SET state = x'00'").rowcount
    assert spoilt == len(rows)
    world.is_damaged = True
    night = world.screen(rows, batch="b")
    assert night.report["changes"]["customers"] == 0
    assert marks(world) == before


def test_a_mark_tells_nothing_to_who_lacks_the_key(tmp_path: Path) -> None:
    """The same customer with the same answers has another mark in another journal."""
    found = []
    for name in ("one", "two"):
        world = World(tmp_path / name, clock=Still())
        world.folder.mkdir()
        world.screen([person(1)], batch="b")
        found.append(set(marks(world).values()))
    assert not found[0] & found[1]
