"""Kill anywhere, resume, nothing paid twice that was answered."""

from __future__ import annotations

import json
import subprocess
import time
from decimal import Decimal
from pathlib import Path

import pytest

from nightscreen.config.settings import read_settings
from nightscreen.journal import open_journal
from nightscreen.journal.opening import journal_of
from nightscreen.journal.verify import verify_journal
from nightscreen.ops.status import condition_of
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.cli.command import COMMAND
from tests.kill import truth
from tests.killed import is_killed
from tests.screening import CONSENT, World, customer
from tests.services import EngineServer

AT_ONCE = {"bank_account": 3, "karma": 4, "ecosystem": 4}
AT_RISK = 3
"""Calls that a kill may leave without an outcome, for each that may be under way: those under way,
those reserved next, and those whose outcome waits for its group to be committed."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def journal_url(request: pytest.FixtureRequest) -> str:
    """Return where a journal lies: under HOME, or in a schema of its own."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("schema_url"))


@pytest.fixture
def world(tmp_path: Path, journal_url: str) -> World:
    settings = {"max_in_flight": AT_ONCE, "journal_url": journal_url, "tolerated_failure_pct": 100}
    return World(tmp_path, settings=settings)


def test_a_run_killed_in_mid_asking_and_again_while_resuming_keeps_every_promise(
    world: World,
) -> None:
    """Nothing answered is paid twice, every doubt is named, and the resumed run completes.

    The process dies at a call that the service carries out and charges, then at one that it never
    hears of.
    """
    rows = [customer(number, **CONSENT) for number in range(20)]
    assert is_killed(world, lambda: world.screen(rows), at_call=17)
    settings = world.read_settings()
    with journal_of(settings) as journal:
        (killed,) = journal.runs.newest()
        checks = condition_of(killed, settings, journal, world.clock)["checks"].values()
    assert [each["answered"] + each["left"] for each in checks] == [20, 20, 20]
    assert is_killed(world, lambda: world.screen(run=killed.run_id), at_call=9, heard=False)
    night = world.screen(run=killed.run_id)
    with journal_of(settings) as journal:
        books = truth.books_of(journal, truth.ledger_of(world), killed.run_id)
        assert verify_journal(journal) == []
    assert night.report["state"] == "completed"
    assert truth.wrong_statuses(night.folder) == []
    assert books.unnamed == []
    assert max(books.answered.values()) == 1
    assert 2 <= books.crashed <= 2 * AT_RISK * sum(AT_ONCE.values())
    lost = books.ledger_micro - books.journal_micro
    assert 0 <= lost <= sum(books.doubts.values()) * 25_000_000


@pytest.mark.long
@pytest.mark.sample
@pytest.mark.engine
def test_a_command_line_killed_keeps_every_promise(
    tmp_path: Path, engine_server: EngineServer
) -> None:
    """`nightscreen screen`, killed under a real server and resumed with `--run`."""
    make_batch(tmp_path / "in.csv", rows=150, seed=21, damage_pct=0)
    screen = [COMMAND, "screen", "--output", str(tmp_path / "out"), "--yes", "--json"]
    with SandboxProcess(seed=21) as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 30})
        env = {
            **engine_server.env,
            "NIGHTSCREEN_BASE_URL": sandbox.url,
            "NIGHTSCREEN_API_KEY": sandbox.api_key,
            "NIGHTSCREEN_HOME": str(tmp_path / "home"),
            "NIGHTSCREEN_MAX_IN_FLIGHT": json.dumps(AT_ONCE),
        }
        with subprocess.Popen([*screen, "in.csv"], env=env, cwd=tmp_path) as child:
            while sandbox.totals()["totals"]["requests"] < 120:
                assert child.poll() is None
                time.sleep(0.02)
            child.kill()
        sandbox.wait_until_idle()
        with open_journal(tmp_path / "home") as journal:
            (run,) = journal.runs.newest()
        again = [*screen, "--run", run.run_id]
        done = subprocess.run(again, env=env, cwd=tmp_path, capture_output=True, check=True)
        sandbox.wait_until_idle()
        with journal_of(read_settings(home=tmp_path / "home")) as journal:
            books = truth.books_of(journal, sandbox.ledger(), run.run_id)
            assert verify_journal(journal) == []
    report = json.loads(done.stdout)
    explained = Decimal(report["balance"]["explained_in_doubt"])
    assert report["state"] == "completed"
    assert truth.wrong_statuses(tmp_path / "out" / run.run_id) == []
    assert books.unnamed == []
    assert max(books.answered.values()) == 1
    assert books.crashed > 0
    assert Decimal(report["cost"]["total"]) * 1_000_000 == books.journal_micro
    assert books.ledger_micro - books.journal_micro == explained * 1_000_000
