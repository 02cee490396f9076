"""Several workers, one wallet: process workers with a HOME each, one journal on PostgreSQL."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from nightscreen.journal import Journal, open_journal
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from nightscreen.schemas.money import to_micro
from tests.flows.conftest import API_KEY
from tests.flows.engine_in_a_test import POOL, Engine, until
from tests.laws import all_calls

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

CAPS = {"bank_account": 6, "karma": 8, "ecosystem": 8}
ROWS = 250
LATENCY_MS, WAITING_MS = 40, 3000
MACHINES, PART = "machines", "screen-part/part"


@dataclass
class Site:
    """A pool of two workers, as if on two machines: they share journal, key and a folder."""

    engine: Engine
    homes: tuple[Path, Path]  # what each machine keeps for itself
    settings: dict[str, str]  # what all machines are given
    _stack: ExitStack
    second: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start("first", self.homes[0])
        self.start_second()

    def start(self, name: str, home: Path) -> subprocess.Popen[bytes]:
        env = {**self.settings, "NIGHTSCREEN_HOME": str(home)}
        machine = Engine(self.engine.server, env)
        self._stack.enter_context(suppress(ProcessLookupError))  # a test may have ended it
        return self._stack.enter_context(machine.worker(name, MACHINES, limit=1))

    def start_second(self) -> None:
        """Start the worker of the second machine, at the beginning or after its end."""
        self.second = self.start("second", self.homes[1])

    def parts_on_second(self) -> set[int]:
        """Return the parts there; a worker that a busy engine turned away is started again."""
        if self.second.poll() is not None:
            self.start_second()
        return processes_at(self.homes[1])

    def kill_second(self) -> None:
        """End the second machine by SIGKILL: its worker, and all parts that are on it."""
        victims = processes_at(self.homes[1])
        os.killpg(self.second.pid, signal.SIGKILL)
        for victim in victims | processes_at(self.homes[1]):
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        self.second.wait(60)

    def screen(self, home: Path, *words: str) -> subprocess.Popen[str]:
        """Start `nightscreen screen` on one of the machines."""
        env = {**self.settings, "NIGHTSCREEN_HOME": str(home), "NIGHTSCREEN_API_KEY": API_KEY}
        return self.engine.command("screen", *words, **env)

    def report(self, running: subprocess.Popen[str], status: int = 0) -> dict[str, Any]:
        """Wait for a command and return the report it prints."""
        said, complaint = running.communicate(timeout=240)
        assert running.returncode == status, complaint + self.engine.logs()
        return dict(json.loads(said))

    def journal(self) -> Journal:
        return open_journal(
            self.homes[0],
            url=self.settings["NIGHTSCREEN_JOURNAL_URL"],
            data_key=self.settings["NIGHTSCREEN_DATA_KEY"],
        )


@pytest.fixture
def site(
    engine: Engine, running_sandbox: SandboxProcess, schema_url: str, tmp_path: Path
) -> Iterator[Site]:
    """Two workers of a pool of their own, which helps the runs begun here."""
    homes = (tmp_path / "one", tmp_path / "two")
    settings = {
        "NIGHTSCREEN_BASE_URL": running_sandbox.url,
        "NIGHTSCREEN_JOURNAL_URL": schema_url,
        "NIGHTSCREEN_DATA_KEY": base64.b64encode(os.urandom(32)).decode(),
        "NIGHTSCREEN_TOLERATED_FAILURE_PCT": "100",
        "NIGHTSCREEN_SHARE_CAPS": "true",
    }
    engine.make_pool(MACHINES)
    engine.change_deployment(PART, {"work_pool_name": MACHINES})
    with ExitStack() as stack:
        yield Site(engine, homes, settings, stack)
    engine.change_deployment(PART, {"work_pool_name": POOL})


@pytest.fixture
def calm(running_sandbox: SandboxProcess) -> SandboxProcess:
    """The sandbox at its beginning, slow enough for caps to be used to the full."""
    running_sandbox.reset("calm")
    running_sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    return running_sandbox


def assert_within_caps(sandbox: SandboxProcess, *, times: int) -> None:
    """The service saw no more calls of a check at once than so many caps of all processes."""
    peaks = sandbox.totals()["peak_in_flight"]
    assert all(1 < peaks[check] <= times * cap for check, cap in CAPS.items()), peaks


def askers(site: Site) -> set[str]:
    """Return the processes that have asked for the run; none while there is none."""
    with site.journal() as journal:
        return {call.holder for call in all_calls(journal)}


def test_a_lost_machine_costs_nothing_answered(
    site: Site, calm: SandboxProcess, tmp_path: Path
) -> None:
    """Of two parts the one on one machine dies by SIGKILL: others take up what it had in hand.

    Every lookup has its answer, each was paid for once, and the caps held.
    """
    people = tmp_path / "people.csv"
    make_batch(people, rows=ROWS, seed=12)
    calm.post("/_sandbox/latency", {"kind": "fixed", "ms": WAITING_MS})
    words = (str(people), "--output", str(tmp_path / "out"), "--json", "--workers", "2")
    running = site.screen(site.homes[0], *words)
    until(site.parts_on_second, "a part on the second machine")
    until(lambda: len(askers(site)) > 2, "calls of the run itself and of both parts")
    site.kill_second()
    calm.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
    report = site.report(running)
    calm.wait_until_idle()
    assert report["state"] == "completed"
    assert sum(each["pending"] + each["reused"] for each in report["checks"].values()) == 0
    assert_no_answer_was_paid_twice(site, report, calm)
    assert_within_caps(calm, times=2)  # it may still be busy with calls of who was killed


def processes_at(home: Path) -> set[int]:
    found = set()
    wanted = {f"NIGHTSCREEN_HOME={home}".encode(), b"PREFECT__FLOW_RUN_ID"}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            number = int(folder.name)
            words = (folder / "environ").read_bytes().split(b"\0")
            names = {*words, *(word.partition(b"=")[0] for word in words)}
            if wanted <= names:
                found.add(number)
    return found


def assert_no_answer_was_paid_twice(
    site: Site, report: dict[str, Any], sandbox: SandboxProcess
) -> None:
    """The journal has one answer for each lookup; the ledger holds that, and what is in doubt."""
    with site.journal() as journal:
        calls = all_calls(journal)
    answered = [(row.check, row.subject) for row in calls if row.state == "answered"]
    assert len(answered) == len(set(answered))
    cost = to_micro(Decimal(report["cost"]["total"]))
    assert sum(row.cost_micro or 0 for row in calls) == cost
    balance = {name: Decimal(report["balance"][name]) for name in ("explained_in_doubt", "drift")}
    charged = Decimal(sandbox.totals()["totals"]["charged"])
    assert charged == Decimal(report["cost"]["total"]) + balance["explained_in_doubt"]
    assert balance["drift"] == 0
