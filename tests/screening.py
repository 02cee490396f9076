"""Runs in a test: the screening functions below the flow, against a sandbox in the same process.

There are no sockets and there is no Prefect: the client's requests reach the sandbox's application
through httpx's own transport. Faults that cut sockets need a sandbox process instead.
"""

from __future__ import annotations

import asyncio
import csv
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.calling.asking import Asking
from nightscreen.calling.run import Run
from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import PREFIX, Settings, read_settings
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.runs.approval import may_spend
from nightscreen.runs.runner import Runner
from nightscreen.runs.screening import run_screening
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.sandbox.app import application
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.sandbox.state import Sandbox
from nightscreen.schemas.approvals import Approval
from nightscreen.schemas.clock import LAGOS, MICROS, Clock, system_clock, to_instant
from tests.calling.virtual_time import VirtualLoop
from tests.client.fakes import FakeTransport
from tests.laws import Overseen, require_laws


def days_ago(number: int) -> str:
    """Return nine in the morning of a past day in Lagos, in a file's format."""
    day = datetime.now(LAGOS).date() - timedelta(days=number)
    return f"{day.isoformat()}T09:00:00"


def consented_on() -> tuple[date, date]:
    """Return two consent dates that are valid today in either order of day and month.

    The first is ambiguous, such as 03/04 or 11/12; the second, on the 13th, is not.
    """
    today = datetime.now(LAGOS).date()
    month, year = (3, today.year) if today.month > 10 else (11, today.year - 1)
    return date(year, month + 1, month), date(year, month + 1, 13)


def csv_rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


CONSENT = {"consent_reference": "CNS-1", "consented_at": days_ago(60)}


def customer(number: int, **changes: str) -> dict[str, str]:
    bvn = f"22{number:09d}"
    person = person_of_bvn(bvn)
    bank_code, account_number = person.account
    return {
        "customer_id": f"C{number}",
        "bvn": bvn,
        "account_number": account_number,
        "bank_code": bank_code,
        "first_name": person.first_name,
        "last_name": person.last_name,
        "exposure": str(1000 * (number % 97)),
        **changes,
    }


class Unasked(Runner):
    """Runs in this process, without approval.

    Args:
        meanwhile: called once the run is priced, before its first call.
    """

    folder: Path  # the run's folder

    def __init__(self, meanwhile: Callable[[Any], object] | None = None) -> None:
        self._meanwhile = meanwhile

    @asynccontextmanager
    async def watching(self, run: Run) -> AsyncIterator[None]:
        self.folder = run.folder.path
        async with super().watching(run):
            yield

    async def may_spend(self, run: Run, quote: dict[str, Any]) -> bool:
        if self._meanwhile is not None:
            await asyncio.to_thread(self._meanwhile, run)
        return True


class AskingApproval(Unasked):
    """Runs in this process, with approval as in the product."""

    async def may_spend(self, run: Run, quote: dict[str, Any]) -> bool:
        return await Runner.may_spend(self, run, quote)


Steer = Callable[[Asking], Awaitable[None]]


class Steered(Unasked):
    """Runs in this process, with approval and a function that may interfere during the calls.

    Args:
        steer: runs while calls are made.
        ask_here: answers in place of a person at the terminal.
    """

    run: ScreeningRun  # the run, once it is priced

    def __init__(
        self, steer: Steer | None = None, ask_here: Callable[[Approval], bool] | None = None
    ) -> None:
        super().__init__()
        self._steer, self._ask_here = steer, ask_here

    async def may_spend(self, run: Run, quote: dict[str, Any]) -> bool:
        """Ask for approval with `ask_here`."""
        assert isinstance(run, ScreeningRun)
        self.run = run
        return may_spend(run, quote, by="tester", ask_here=self._ask_here)

    @asynccontextmanager
    async def calling(self, asking: Asking) -> AsyncIterator[None]:
        steering = None if self._steer is None else asyncio.ensure_future(self._steer(asking))
        async with super().calling(asking):
            try:
                yield
            finally:
                if steering is not None:
                    steering.cancel()
                    await asyncio.wait([steering])


_settings: dict[str, Settings] = {}


@dataclass
class World:
    """A sandbox, a HOME and an output folder for several runs."""

    folder: Path
    sandbox: Sandbox = field(default_factory=Sandbox)
    settings: dict[str, Any] = field(default_factory=dict)
    clock: Clock = system_clock
    # skip the laws after runs: the test has damaged the journal or the outputs, or another machine
    # makes calls meanwhile
    is_damaged: bool = False

    def write(self, rows: Sequence[Mapping[str, str]], name: str = "customers.csv") -> Path:
        """Write customers as a CSV file."""
        path = self.folder / name
        columns = list(dict.fromkeys(key for row in rows for key in row))
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            writer.writeheader()
            writer.writerows(rows)
        return path

    def screen(self, rows: Sequence[Mapping[str, str]] | None = None, **options: Any) -> Night:  # noqa: ANN401
        return self.screen_by(Unasked(), rows, **options)

    def screen_by(
        self,
        runner: Unasked,
        rows: Sequence[Mapping[str, str]] | None = None,
        **options: Any,  # noqa: ANN401 - parameters of a run
    ) -> Night:
        """Screen customers with a runner chosen by the test."""
        if rows is not None:
            options["input"] = str(self.write(rows))
        settings, began, charged_before = self.read_settings(), self.clock(), Decimal(self.charged)
        wire = Overseen(self.transport(), settings.home)
        screening = run_screening(
            ScreenBatch(**{"output": self.out, **options}),
            settings,
            transport=wire,
            clock=self.clock,
            runner=runner,
        )
        report = self.carry(screening)
        if not self.is_damaged:
            charged = Decimal(self.charged) - charged_before
            require_laws(runner.folder, settings, began, wire, charged)
        return Night(runner.folder, report)

    def run_persons(self, kind: type[PersonRun[Any, Any]], parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - the kind's own
        return self.carry(
            run_people(
                kind,
                parameters,
                self.read_settings(),
                transport=self.transport(),
                clock=self.clock,
            )
        )

    def carry(self, screening: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        return asyncio.run(screening)

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.ASGITransport(application(self.sandbox))

    @property
    def out(self) -> str:
        return str(self.folder / "out")

    def read_settings(self) -> Settings:
        """Return the settings of a run; equal ones are read once in a process."""
        service = {"base_url": "http://127.0.0.1:1", "api_key": "sandbox-key"}
        given = {**service, "home": self.folder / "home", **self.settings}
        home = given.pop("home")
        own = {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
        known = repr((sorted(given.items()), sorted(own.items()), Path.cwd()))
        if known not in _settings:
            _settings[known] = read_settings(**given)
        return _settings[known].model_copy(update={"home": home})

    @property
    def charged(self) -> str:
        """Return the total that the sandbox charged, as decimal text."""
        return str(self.sandbox.ledger.totals_json()["charged"])

    def calls(self, operation: str | None = None) -> list[dict[str, Any]]:
        return self.sandbox.ledger.read(0, operation)


@dataclass
class VirtualWorld(World):
    """A world whose runs share one loop of virtual time and a service in memory."""

    loop: VirtualLoop = field(default_factory=VirtualLoop)
    service: Any = None  # answers each request

    def transport(self) -> httpx.AsyncBaseTransport:
        return FakeTransport(self.service)

    def in_hours(self, hours: float) -> str:
        """Return a deadline some hours from now."""
        return to_instant(self.clock() + int(hours * 3600 * MICROS)).isoformat()

    def carry(self, screening: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        report = self.loop.run_until_complete(screening)
        assert not self.loop.faults, self.loop.faults
        return report


class Screened:
    """Runs that are made once and restored for each test that changes them.

    They are restored in the same place, since the journal stores the paths of their folders.
    """

    def __init__(self, folder: Path, screen: Callable[[World], list[Night]]) -> None:
        self._folder = folder / "lender"
        self._saved = folder / "saved"
        self._folder.mkdir()
        self._world = World(self._folder)
        self._nights = screen(self._world)
        shutil.copytree(self._folder, self._saved)

    def put_back(self, world: World) -> list[Night]:
        """Set a world's folder and sandbox to the state after the runs; return the runs."""
        shutil.rmtree(self._folder)
        shutil.copytree(self._saved, self._folder)
        world.folder, world.sandbox = self._folder, deepcopy(self._world.sandbox)
        return self._nights


@dataclass(frozen=True)
class Night:
    """The folder and the report of a run."""

    folder: Path
    report: dict[str, Any]

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "manifest.json").read_text("utf-8")))

    @property
    def table(self) -> pa.Table:
        """Return the enriched rows in input order."""
        parts = sorted((self.folder / "enriched").glob("part-*.parquet"))
        return pa.concat_tables([pq.read_table(part) for part in parts])

    @property
    def rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self.table[name].to_pylist()
        return values
