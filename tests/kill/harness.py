"""Kill anywhere: a run as a process, killed with SIGKILL at random moments, resumed to the end.

What must be true afterwards is in `truth` and checked by `Night.faults`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightscreen.journal import open_journal
from nightscreen.journal.opening import MARKER
from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.kill import truth

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
IN_FLIGHT = {"bank_account": 6, "karma": 8, "ecosystem": 8}
LATENCY_MS = 30
FAULTS = {"http_502": 0.01, "cut_before_charge": 0.01, "cut_after_charge": 0.01, "http_429": 0.01}
PATIENCE_S = 180.0
POLL_S = 0.01


@dataclass(slots=True)
class Night:
    """One seed: what was killed and what came of it."""

    seed: int
    rows: int
    kills: int = 0
    while_resuming: int = 0
    report: dict[str, Any] = field(default_factory=dict)
    books: truth.Books = field(default_factory=lambda: truth.Books(0, 0))
    statuses_wrong: list[str] = field(default_factory=list)
    paid_again: int = 0
    most_at_risk: int = 0
    wallet_micro: int = 0

    @property
    def explained_micro(self) -> int:
        """Return what the report explains by calls in doubt."""
        return _micro(self.report["balance"]["explained_in_doubt"])

    @property
    def unseen_micro(self) -> int:
        """Return what was charged before the first answer said what the wallet held.

        A first call that dies with its process may be charged before any balance is known: it is
        named in doubt, but no balance can tell of it.
        """
        return self.wallet_micro - _micro(self.report["balance"]["opening"])

    def faults(self) -> list[str]:
        """Return a sentence for each promise that was broken."""
        books, cost = self.books, _micro(self.report["cost"]["total"])
        found = {
            f"the run ended {self.report['state']}": self.report["state"] != "completed",
            f"statuses are wrong: {self.statuses_wrong[:3]}": self.statuses_wrong,
            f"{self.paid_again} committed answers were asked for again": self.paid_again,
            f"{len(books.unnamed)} double charges are named nowhere": books.unnamed,
            "the report's cost is not the journal's": cost != books.journal_micro,
            "ledger, cost and doubt do not agree": books.ledger_micro - cost
            != self.explained_micro + self.unseen_micro,
            "money is unexplained": _micro(self.report["balance"]["drift"]),
            f"more crashed calls than could be under way: {books.crashed}": books.crashed
            > self.kills * self.most_at_risk,
            f"the journal is unsound: {books.wrong[:1]}": books.wrong,
        }
        return [sentence for sentence, broken in found.items() if broken]


def _micro(naira: str) -> int:
    return int(Decimal(naira) * 1_000_000)


@dataclass(slots=True)
class Killer:
    """Starts a run's process again and again, and ends it before its time."""

    below: Path  # folder with input, home and output
    sandbox: SandboxProcess  # the service
    rng: random.Random
    # environment of a command line; empty to run the line below the flow
    env: dict[str, str] = field(default_factory=dict)
    journal_url: str = ""  # where the journal lies; empty for SQLite under HOME
    run_id: str = ""
    known: set[truth.Key] = field(default_factory=set)
    seen: int = 0
    again: int = 0

    @property
    def home(self) -> Path:
        """Folder of the state."""
        return self.below / "home"

    def _command(self) -> list[str]:
        if self.env:
            given = ["--run", self.run_id] if self.run_id else [str(self.below / "in.csv")]
            folder = ["--output", str(self.below / "out")]
            command = str(Path(sys.executable).with_name("nightscreen"))
            return [command, "screen", *given, *folder, "--yes", "--json"]
        parameters = {
            "input": str(self.below / "in.csv"),
            "output": str(self.below / "out"),
            "run": self.run_id,
        }
        settings = {
            "home": str(self.home),
            "url": self.sandbox.url,
            "api_key": self.sandbox.api_key,
            "max_in_flight": IN_FLIGHT,
            "tolerated_failure_pct": 100,
            "journal_url": self.journal_url,
        }
        told = json.dumps({"parameters": parameters, "settings": settings})
        return [sys.executable, "-m", "tests.kill.drive", told]

    @contextlib.contextmanager
    def _child(self) -> Iterator[subprocess.Popen[bytes]]:
        env = {**(self.env or os.environ), "PYTHONPATH": str(ROOT)}
        log = (self.below / "child.log").open("ab")
        out = (self.below / "child.out").open("wb")
        child = subprocess.Popen(self._command(), env=env, cwd=self.below, stdout=out, stderr=log)
        try:
            yield child
        finally:
            child.kill()
            child.wait()
            log.close()
            out.close()

    def _requests(self) -> int:
        return int(self.sandbox.totals()["totals"]["requests"])

    def kill_one(self, after: int) -> bool:
        """Start the run, kill it after some requests and a moment; False where it was quicker."""
        goal = self._requests() + after
        end = time.monotonic() + PATIENCE_S
        with self._child() as child:
            while child.poll() is None and self._requests() < goal:
                if time.monotonic() > end:
                    raise TimeoutError("the run does not go on; child.log says why")
                time.sleep(POLL_S)
            time.sleep(self.rng.uniform(0, 0.05))
            if child.poll() is not None:
                return False
            child.kill()
            child.wait()
        self._look()
        return True

    def finish(self) -> dict[str, Any]:
        """Let the run go through; return its report."""
        with self._child() as child:
            child.wait(PATIENCE_S)
            if child.returncode:
                raise RuntimeError((self.below / "child.log").read_text()[-2000:])
        self._look()
        report: dict[str, Any] = json.loads((self.below / "child.out").read_bytes())
        return report

    def _look(self) -> None:
        """Compare what was asked since the last look with what was committed by then."""
        self.sandbox.wait_until_idle()
        if not (self.home / MARKER).exists():
            return
        page = self.sandbox.ledger(since=self.seen)
        self.seen = page["next"]
        with open_journal(self.home, url=self.journal_url) as journal:
            runs = journal.runs.newest(limit=1)
            if not runs:
                return
            self.run_id = runs[0].run_id
            self.again += len(truth.asked_again(journal, self.known, page["entries"]))
            self.known = truth.committed(journal, self.run_id)


def spend_night(
    seed: int,
    *,
    rows: int,
    kills: int,
    below: Path,
    env: dict[str, str] | None = None,
    journal_url: str = "",
) -> Night:
    """Kill a run so many times, at moments spread over its work, and resume it to the end.

    Args:
        seed: of the batch and the moments.
        rows: of the batch.
        kills: how many.
        below: a folder for it all.
        env: environment of the command line, which is then killed instead.
        journal_url: where the journal lies; SQLite under HOME by default.
    """
    rng = random.Random(seed)
    make_batch(below / "in.csv", rows=rows, seed=seed, damage_pct=0)
    night = Night(seed, rows, most_at_risk=3 * sum(IN_FLIGHT.values()))
    with SandboxProcess(seed=seed) as sandbox:
        sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": LATENCY_MS})
        sandbox.post("/_sandbox/faults", {"rates": FAULTS, "retry_after_s": 0.1})
        killer = Killer(
            below, sandbox, rng, _service(sandbox, below, env) if env else {}, journal_url
        )
        share = max(2, int(2.2 * rows / (kills + 1)))
        while night.kills < kills:
            resuming = bool(killer.run_id)
            early = rng.random() < 0.25
            if not killer.kill_one(rng.randrange(1, 5) if early else rng.randrange(1, 2 * share)):
                break
            night.kills += 1
            night.while_resuming += resuming
        night.report = killer.finish()
        night.wallet_micro = _micro(sandbox.totals()["wallet"]["opening"])
        night.books = truth.books_of(killer.home, killer.run_id, sandbox.ledger(), journal_url)
        night.statuses_wrong = truth.wrong_statuses(below / "out" / killer.run_id)
        night.paid_again = killer.again
    return night


def _service(sandbox: SandboxProcess, below: Path, env: dict[str, str]) -> dict[str, str]:
    """Return the environment of the command line."""
    caps = {f"NIGHTSCREEN_MAX_IN_FLIGHT__{n.upper()}": str(v) for n, v in IN_FLIGHT.items()}
    return {
        **env,
        **caps,
        "NIGHTSCREEN_BASE_URL": sandbox.url,
        "NIGHTSCREEN_API_KEY": sandbox.api_key,
        "NIGHTSCREEN_HOME": str(below / "home"),
        "NIGHTSCREEN_TOLERATED_FAILURE_PCT": "100",
    }
