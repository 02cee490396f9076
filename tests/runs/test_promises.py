"""What a lender is promised of a night, seen from outside: in ledger, journal and files."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.sandbox.people import account_of
from nightscreen.schemas.clock import LAGOS, MICROS, to_instant, to_micros
from nightscreen.schemas.errors import InputError, SettingsError
from tests.client.fakes import Canned
from tests.laws import all_calls
from tests.money.service_in_memory import LOST, Bureau
from tests.screening import Unasked, World, customer

HAVE_ACCOUNTS = [
    row
    for row in map(customer, range(1, 20))
    if account_of(row["bank_code"], row["account_number"]) is not None
]
"""Customers each of whose accounts costs a lookup."""


def test_each_call_finds_its_intent_committed(tmp_path: Path) -> None:
    """Whoever opens the journal as a call reaches the service finds it there, with its cost."""
    desk, seen = Bureau(tmp_path, rows=4), list[bool]()

    def arrives(operation: str, identity: str, _: int) -> Canned | None:
        with open_journal(tmp_path / "home", clock=desk.loop.micros) as journal:
            kind = "nuban" if operation == "bank_account" else "bvn"
            subject = journal.pseudonyms.subject(kind, identity)
            rows = all_calls(journal)
        mine = [row for row in rows if (row.check, row.subject) == (operation, subject)]
        seen.append([(row.state, row.reserved_micro > 0) for row in mine] == [("intent", True)])
        return None

    desk.service.before = arrives
    assert desk.night().report["state"] == "completed"
    assert len(seen) == len(desk.service.ledger) > 4
    assert all(seen)


def lagos(hour: int, *, days: int = 0) -> int:
    tenth = datetime.now(LAGOS).replace(day=10, hour=hour, minute=0, second=0, microsecond=0)
    return to_micros(tenth + timedelta(days=days))


def test_runs_share_the_cap_of_their_time(tmp_path: Path) -> None:
    """What an evening's run spent counts against the next one's cap, until it begins anew.

    One night is one day, whatever the date; then comes the cap of the month.
    """
    clock = {"now": lagos(22)}
    world = World(tmp_path, settings={"daily_spend_cap": "45"}, clock=lambda: clock["now"])
    world.screen(HAVE_ACCOUNTS[:3], checks=["bank_account"])
    assert Decimal(world.charged) == 30
    for cap, hour, days, charged in (
        ({"daily_spend_cap": "45"}, 2, 1, 40),
        ({"monthly_spend_cap": "55"}, 20, 3, 50),
    ):
        clock["now"], world.settings = lagos(hour, days=days), cap
        night = world.screen(HAVE_ACCOUNTS[3:7], checks=["bank_account"])
        assert (night.report["state"], night.report["stop_reason"]) == ("stopped", "budget")
        assert Decimal(world.charged) == charged, cap


def test_a_price_with_kobo_is_counted_to_the_kobo(world: World) -> None:
    """Report, rows and journal say what the service charged, at a price no float can hold."""
    world.sandbox.prices["bank_account"] = 8_290_000
    night = world.screen(HAVE_ACCOUNTS[:3], checks=["bank_account"])
    assert night.report["cost"]["total"] == world.charged == "24.87"
    with open_journal(world.folder / "home") as journal:
        assert journal.money.of_run(night.report["run_id"]).spent_micro == 24_870_000


def test_lost_answers_and_what_sending_again_cost_stand_in_the_report(tmp_path: Path) -> None:
    """What is known to be spent and what may be, apart, and together all that was charged."""
    desk, lost = Bureau(tmp_path, rows=6), set[str]()

    def lose(operation: str, identity: str, _: int) -> Canned | None:
        cost = desk.service.ledger[-1][-1]
        if operation != "bank_account" or not cost or len(lost) == 2 or identity in lost:
            return None
        lost.add(identity)
        return LOST

    desk.service.after = lose
    report = desk.night().report
    part = report["checks"]["bank_account"]
    charged = sum(cost for operation, _, cost in desk.service.ledger if operation == "bank_account")
    assert (part["retries"], part["in_doubt_exposure"]) == (2, "20.00")
    assert Decimal(part["cost"]) == charged - 20
    assert Decimal(report["cost"]["total"]) == desk.service.charged - 20
    assert report["cost"]["in_doubt_exposure"] == "20.00"


def test_nothing_is_sent_after_the_deadline(tmp_path: Path) -> None:
    """Not even what was taken up before it and waits for its turn."""
    desk, sent_at = Bureau(tmp_path, rows=60), list[int]()
    ends = desk.loop.micros() + 10 * MICROS

    def note(*_: object) -> None:
        sent_at.append(desk.loop.micros())

    desk.service.before = note
    report = desk.night(deadline=to_instant(ends).isoformat()).report
    assert (report["state"], report["stop_reason"]) == ("stopped", "deadline")
    assert sent_at
    assert max(sent_at) < ends


def test_a_run_under_way_is_resumed_by_nobody_else(world: World) -> None:
    """Whoever tries is told so, and the run goes on as if nothing had been.

    A run is stopped by its cap and resumed under another; somebody else tries so both times. No
    manifest stands while files are replaced: who takes files by it takes those of one session.
    """
    manifests = list[bool]()

    def look(run: ScreeningRun) -> None:
        manifests.append((run.folder.path / "manifest.json").exists())
        with pytest.raises(InputError, match=run.run_id):
            world.screen(run=run.run_id)

    given = {"checks": ["bank_account"], "max_spend": "20"}
    first = world.screen_by(Unasked(look), HAVE_ACCOUNTS[:4], **given)
    manifests.append((first.folder / "manifest.json").exists())
    night = world.screen_by(Unasked(look), run=first.report["run_id"], max_spend="1000")
    assert manifests == [False, True, False]
    assert (night.folder / "manifest.json").exists()
    assert night.report["state"] == "completed"
    assert Decimal(night.report["cost"]["total"]) == Decimal(world.charged) == 40


@pytest.mark.parametrize("text", ["Cannot GET /nowhere", "Identity route not found in karma API"])
def test_a_wrong_address_is_no_book_without_listings(tmp_path: Path, text: str) -> None:
    """A 404 that names a route says of nobody that he is clear, though it may sound so."""
    desk = Bureau(tmp_path, rows=6)
    desk.service.before = lambda *_: Canned(404, {"status": "error", "message": text})
    with pytest.raises(SettingsError):
        desk.night()
    assert len(desk.service.ledger) <= 4
