"""`nightscreen runs`: past runs of every kind, told as their own commands told them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.journal import open_journal
from nightscreen.ops.status import COMMANDS
from nightscreen.ops.vitals import write_vitals
from nightscreen.sandbox.state import Sandbox
from tests.begun import begin_run
from tests.cli.conftest import Here
from tests.ops.signs import signs_in_a_test
from tests.screening import CONSENT, World, customer


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME as the nights of the tests have it."""
    monkeypatch.setenv("NIGHTSCREEN_HOME", str(folder / "home"))
    return folder / "home"


def test_a_killed_run_of_any_kind_names_its_own_command(home: Path, here: Here) -> None:
    for flow, command in COMMANDS.items():
        folder = str(home.parent / "out" / flow)
        with open_journal(home) as journal:
            begin_run(journal, f"run-{flow}", flow=flow, batch="b", folder=folder)
        said = here("runs", "show", f"run-{flow}").out
        assert "nothing is lost" in said
        assert f"{command} --run run-{flow}\n" in said


def test_list_show_and_doctor_name_one_state_and_cost(folder: Path, home: Path, here: Here) -> None:
    """Of a run that completed, of one that hangs, and of one that was killed.

    A quote names what the money is short of: the wallet as the last answer left it, or the cap
    where that is less.
    """
    world = World(folder, sandbox=Sandbox(balance="1000"))
    night = world.screen([customer(number, **CONSENT) for number in range(1, 4)])
    left = f"₦{Decimal(night.report['balance']['closing']):,.2f}"
    world.write([customer(number, **CONSENT) for number in range(10, 60)], "many.csv")
    assert f"the wallet holds {left}: " in here("quote", "many.csv").out
    assert "the cap is ₦100.00: " in here("quote", "many.csv", "--max-spend", "100").out

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
