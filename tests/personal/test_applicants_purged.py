"""Applicants: rows and answers of their runs go early, decisions stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nightscreen.config.settings import GROUNDS, ContestClocks, Retention
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.audit import Audit, AuditQuery
from nightscreen.journal.schema import KINDS, TOMBSTONE
from nightscreen.journal.verify import verify_journal
from nightscreen.privacy.contests import open_contest
from nightscreen.privacy.purging import due, purge
from nightscreen.schemas.clock import DAY_MICROS, system_clock
from nightscreen.schemas.records import Ground
from tests.screening import CONSENT, Night, Screened, World, customer

PHONE = "+2348031234567"
DECLINED = (13, 16, 21, 33, 36)
"""People of the simulator whom the default policy declines, as long as they apply."""


def _apply(world: World) -> list[Night]:
    """Screen a night of applications."""
    people = [customer(number, **CONSENT) for number in DECLINED[:-1]]
    people += [customer(number, phone=PHONE, **CONSENT) for number in (DECLINED[-1], 1)]
    night = world.screen(people, purpose="origination", batch="applications")
    assert {row["customer_id"] for row in night.rows if row["decision"] == "decline"} == {
        f"C{number}" for number in DECLINED
    }
    return [night]


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Screened:
    return Screened(tmp_path_factory.mktemp("screened"), _apply)


@pytest.fixture
def world(tmp_path: Path, screened: Screened) -> World:
    world = World(tmp_path)
    screened.put_back(world)
    return world


def at(world: World, days: float) -> Journal:
    instant = system_clock() + int(days * DAY_MICROS)
    return open_journal(world.folder / "home", clock=lambda: instant)


def purged(world: World, days: float) -> dict[str, Any]:
    with at(world, days) as journal:
        done = purge(journal, due(journal, Retention()))
        assert verify_journal(journal) == []
    return done


def in_clear(world: World) -> set[str]:
    parts = (world.folder / "out").glob("*/enriched/part-*.parquet")
    return {each for part in parts for each in pq.read_table(part)["customer_id"].to_pylist()}


def answered(journal: Journal, kind: str, value: str) -> int:
    """Return how many answers are kept about an identifier."""
    return len(journal.answers.about([journal.pseudonyms.subject(kind, value)]))


def test_runs_of_applicants_go_at_their_own_age(world: World) -> None:
    """Rows and answers go, of whomever; calls keep cost and consent; what was decided stays."""
    world.screen([customer(21, customer_id="L21", **CONSENT)], batch="loans")
    with at(world, 0) as journal:
        before = {number: answered(journal, "bvn", f"22{number:09d}") for number in (1, 13)}
        assert all(before.values())
    assert in_clear(world) >= {"C1", "C13", "L21"}
    purged(world, 182)
    assert in_clear(world) >= {"C1", "C13", "L21"}
    purged(world, 184)
    assert in_clear(world) == {"L21"}
    with at(world, 184) as journal:
        assert not answered(journal, "bvn", "22000000013")
        assert not answered(journal, "phone", PHONE)
        applied = [run for run in journal.runs.newest(limit=9) if run.batch == "applications"]
        calls = [
            call for run in applied for block in journal.runs.calls(run.run_id) for call in block
        ]
        assert {bytes(call.subject) for call in calls} == {TOMBSTONE}
        assert any(call.consent_reference for call in calls)
        assert sum(call.cost_micro or 0 for call in calls) > 0
    lists = [path.read_text("utf-8") for path in (world.folder / "out").glob("*/decisions.csv")]
    assert any("C13" in each for each in lists)
    assert purged(world, 185)["journal"]["answers"] == 0


def test_a_contest_keeps_the_runs_of_its_batch(world: World) -> None:
    """What a decision rests on stays until the contest is answered, at most as long as any row."""
    with at(world, 0) as journal:
        open_contest(
            journal, Actor("Ada"), ContestClocks(), "C16", said="It was paid.", batch="applications"
        )
    purged(world, 300)
    assert {"C13", "C16"} <= in_clear(world)
    with at(world, 300) as journal:
        assert answered(journal, "phone", PHONE)
    purged(world, 400)
    assert in_clear(world) == set()


def test_each_ground_has_its_own_period(tmp_path: Path) -> None:
    """Every kind of record is kept on a ground that the settings name, old audit entries go."""
    assert {each.value for each in Ground} <= {*GROUNDS}
    assert {model.ground for model in KINDS} <= {*Ground}
    days = {f"{ground}_days": place for place, ground in enumerate(GROUNDS, start=1)}
    cutoffs = Retention(**days).cutoffs(100 * DAY_MICROS)
    assert cutoffs == {
        name: (100 - place) * DAY_MICROS for place, name in enumerate(GROUNDS, start=1)
    }
    with open_journal(tmp_path / "home") as journal:
        Audit(journal).write("ada", "signed in")
    for later, kept in ((2191, 1), (2193, 0)):
        instant = system_clock() + later * DAY_MICROS
        with open_journal(tmp_path / "home", clock=lambda: instant) as journal:  # noqa: B023
            purge(journal, due(journal, Retention()))
            assert len(Audit(journal).find(AuditQuery(action="signed in"))) == kept
