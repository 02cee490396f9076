"""`nightscreen runs`: past runs of every kind, told as their own commands told them."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from nightscreen.files.heartbeat import write_vitals
from nightscreen.journal import open_journal
from nightscreen.ops.status import COMMANDS
from nightscreen.sandbox.state import Opening, Sandbox
from nightscreen.schemas.clock import LAGOS
from tests.begun import begin_run
from tests.ops.signs import signs_in_a_test
from tests.screening import CONSENT, World, customer
from tests.steps.bvn_in_a_test import BvnWorld, asked
from tests.steps.offers_in_a_test import Lender, borrower
from tests.steps.pulls_in_a_test import Lender as Puller

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Here


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME as the nights of the tests have it."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    return folder / "home"


def test_people_read_the_clock_of_lagos_and_programs_utc(folder: Path, here: Here) -> None:
    """The zone is named, and is that of the run's own id."""
    night = World(folder).screen([customer(1, **CONSENT)])
    heading, line = here("runs", "list").out.splitlines()
    assert "in Lagos" in heading
    told = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", line)
    (run,) = here("runs", "list", "--json").document["runs"]
    assert told is not None
    assert run["started_at"].endswith("Z")
    started = datetime.fromisoformat(run["started_at"]).astimezone(LAGOS)
    assert told[0] == f"{started:%Y-%m-%d %H:%M}"
    assert night.folder.name.startswith(f"{started:%Y%m%d-%H%M}")


@pytest.mark.parametrize("flow", COMMANDS)
def test_a_killed_run_of_any_kind_names_its_own_command(flow: str, home: Path, here: Here) -> None:
    """Not that of screening for all."""
    with open_journal(home) as journal:
        begin_run(journal, "run-1", flow=flow, batch="b", folder=str(home.parent / "out" / "run-1"))
    said = here("runs", "show", "run-1").out
    assert "nothing is lost" in said
    assert f"{COMMANDS[flow]} --run run-1\n" in said


def test_every_kind_of_run_is_shown_as_it_ended(folder: Path, here: Here) -> None:
    """Requests for consent, offers, loans and pulls have reports of their own kinds."""
    lender = Lender(folder)
    night = lender.screen([borrower(number) for number in range(1, 9)])
    lender.offer(night)
    lender.track()
    puller = Puller(folder)
    puller.consent(("C1",))
    puller.pull()
    BvnWorld(folder).request([asked(1)])
    for run in here("runs", "list", "--json").document["runs"]:
        ended = here("runs", "show", run["run_id"])
        assert ended.status == 0, ended.err
        assert run["run_id"] in ended.out


def test_list_show_and_doctor_name_one_state_and_cost(folder: Path, home: Path, here: Here) -> None:
    """Of a run that completed, of one that hangs, and of one that was killed."""
    World(folder).screen([customer(1, **CONSENT), customer(2, **CONSENT)])

    def compared() -> list[str]:
        states = []
        for run in here("runs", "list", "--json").document["runs"]:
            shown = here("runs", "show", run["run_id"], "--json").document
            known = here("doctor", run["run_id"], "--json").document["run"]
            assert run["state"] == shown["state"] == known["state"]
            assert run["cost"] == shown["cost"] == known["spent_naira"]
            states.append(run["state"])
        return states

    with open_journal(home) as journal:
        begin_run(journal, "run-2", batch="b", folder=str(folder / "out" / "run-2"))
        write_vitals(home, "run-2", signs_in_a_test(run_id="run-2", flow="screen_batch", at=0))
        assert sorted(compared()) == ["completed", "hung"]
    assert sorted(compared()) == ["completed", "killed"]


def test_a_quote_names_what_the_money_is_short_of(folder: Path, here: Here) -> None:
    """The wallet as the last answer left it, or the cap where that is less."""
    world = World(folder, sandbox=Sandbox(Opening(balance="1000")))
    night = world.screen([customer(number, **CONSENT) for number in range(1, 4)])
    left = f"₦{Decimal(night.report['balance']['closing']):,.2f}"
    world.write([customer(number, **CONSENT) for number in range(10, 60)], "many.csv")
    assert f"the wallet holds {left}: " in here("quote", "many.csv").out
    assert "the cap is ₦100.00: " in here("quote", "many.csv", "--max-spend", "100").out
