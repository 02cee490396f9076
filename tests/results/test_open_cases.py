"""Open cases: who gets one when a run is published, and when it ends."""

from __future__ import annotations

from nightscreen.config.declarations import Declarations
from nightscreen.config.settings import GROUNDS
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.actor import Actor
from nightscreen.journal.cases import Cases
from nightscreen.journal.erasure import Erasures
from nightscreen.journal.records import Records
from nightscreen.runs.open_cases import publish_cases, release
from nightscreen.schemas.cases import OpenCase
from tests.results.reviewing import filled, save
from tests.screening import World, customer

BATCH = "portfolio"


def rows(*listed: int, of: int = 6) -> list[dict[str, str]]:
    return [
        customer(number, **({"bvn": f"2299900000{number}"} if number in listed else {}))
        for number in range(1, of + 1)
    ]


def cases(journal: Journal) -> dict[str, str]:
    """Return the run of each open case, by customer."""
    return {each.customer_id: each.run_id for each in Records(journal, OpenCase).all()}


def test_cases_follow_nights_decisions_and_releases(world: World) -> None:
    """Whoever is not approved has one, of the newest run; whoever was taken has it still.

    A customer who is gone has none, nor has one who was decided on, until the evidence changes. A
    run that is released opens the cases that no newer run decided.
    """
    first = world.screen(rows(1, 2, 3), batch=BATCH, checks=["karma"])
    needing = {row["customer_id"] for row in first.rows if row["decision"] != "approve"}
    run_id = first.report["run_id"]
    with open_journal(world.folder / "home") as journal:
        assert set(cases(journal)) == needing >= {"C1", "C2", "C3"}
        save(journal, filled("C1", run_id, "decline"), filled("C2", run_id, "review"))
        assert {"C1", "C2"} & set(cases(journal)) == {"C2"}
        for who in ("C2", "C3"):
            Cases(journal).take(BATCH, who, "Ada")
    left = rows(1, 2)[:2] + rows()[3:]
    second = world.screen(left, batch=BATCH, checks=["karma"])
    with open_journal(world.folder / "home") as journal:
        found = cases(journal)
        assert {"C1", "C2", "C3"} & set(found) == {"C2"}
        assert set(found.values()) == {second.report["run_id"]}
        assert len(Records(journal, OpenCase).all(state="Ada")) == 1
        journal.runs.keep_report(run_id, {**first.report, "held": ["odd"], "publishable": False})
        release(journal, Actor("Ada"), run_id, "A new branch.", Declarations())
        released = cases(journal)
        assert released.pop("C3") == run_id
        assert released == found, "the newer run decided on these customers"
        Cases(journal).settle([each.customer for each in Records(journal, OpenCase).all()])
        newer = journal.runs.find(second.report["run_id"])
        assert newer is not None
        publish_cases(journal, newer, second.folder)
        assert cases(journal) == found
    world.screen(left, batch=BATCH, checks=["karma", "bank_account"])
    with open_journal(world.folder / "home") as journal:
        assert "C1" in cases(journal)
        Erasures(journal).purge(dict.fromkeys(GROUNDS, journal.clock() + 1))
        assert cases(journal) == {}
