"""Offers and loans in a test: a screening run, links for its rows, and days that pass.

Everything runs in one process, the sandbox too; `tests.screening` does the screening.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from nightscreen.calling.run import Run
from nightscreen.operations.loans import LoanOffers, LoanTracking
from nightscreen.operations.person_run import PersonRun, run_people
from nightscreen.runs.runner import Runner
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from tests.screening import Night, World, customer

PRODUCT = "LP1001"


def borrower(number: int, **changes: str) -> dict[str, str]:
    """Return a fictional customer with a unique phone and email, who requests a loan."""
    fields = {
        "email": f"c{number}@mail.example.com",
        "phone": f"0803{number:07d}",
        "requested_amount": "100000",
    }
    return customer(number, **{**fields, **changes})


@dataclass(frozen=True)
class Offered:
    """The folder and the report of a run of offers or of loan tracking."""

    folder: Path
    report: dict[str, Any]

    def rows(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.folder / name).to_pylist()
        return rows

    @property
    def offers(self) -> dict[str, dict[str, Any]]:
        return {row["customer_id"]: row for row in self.rows("offers.parquet")}

    @property
    def loans(self) -> dict[str, dict[str, Any]]:
        return {row["reference"]: row for row in self.rows("loans.parquet")}

    @property
    def loans_offered(self) -> list[str]:
        """Return the references of `offers.parquet`."""
        return [row["reference"] for row in self.rows("offers.parquet") if row["reference"]]

    @property
    def changes(self) -> list[dict[str, Any]]:
        return self.rows("changes.parquet")


class Between(httpx.AsyncBaseTransport):
    """Answers some requests itself, for answers that the sandbox cannot give."""

    def __init__(
        self,
        sandbox: httpx.AsyncBaseTransport,
        instead: Callable[[httpx.Request], httpx.Response | None],
    ) -> None:
        self._sandbox = sandbox
        self._instead = instead

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self._instead(request) or await self._sandbox.handle_async_request(request)


class Died(BaseException):
    """Simulates the end of a process: the run does nothing more."""


class Dying(Runner):
    """Ends a run before one of its steps."""

    def __init__(self, at: str) -> None:
        self._at = at
        self.run_id = ""

    @asynccontextmanager
    async def watching(self, run: Run) -> AsyncIterator[None]:
        self.run_id = run.run_id
        yield

    async def step(self, name: str, station: Any, *given: Any, re_entered: bool = False) -> Any:  # noqa: ANN401 - as the station
        if name == self._at:
            raise Died
        return await super().step(name, station, *given, re_entered=re_entered)


@dataclass
class Lender(World):
    """A world whose lender offers loans and tracks them."""

    # answers some requests in the sandbox's place
    instead: Callable[[httpx.Request], httpx.Response | None] = lambda _request: None

    def transport(self) -> httpx.AsyncBaseTransport:
        return Between(super().transport(), self.instead)

    def asked(self, night: Night | None, options: dict[str, Any]) -> OfferLoans:
        """Return the parameters of a run of offers."""
        parameters = {"output": self.out, **options}
        if night is not None:
            parameters = {"run_dir": str(night.folder), "product": PRODUCT, **parameters}
        return OfferLoans(**parameters)

    def offer(self, night: Night | None = None, **options: Any) -> Offered:  # noqa: ANN401
        return asyncio.run(self.ran(LoanOffers, self.asked(night, options)))

    def quote(self, night: Night) -> dict[str, Any]:
        """Return the quote of a run of offers."""
        parameters = self.asked(night, {"quote_only": True})
        return asyncio.run(run_people(LoanOffers, parameters, self.read_settings()))

    def track(self, **options: Any) -> Offered:  # noqa: ANN401 - parameters of tracking
        parameters = TrackLoans(output=self.out, **options)
        return asyncio.run(self.ran(LoanTracking, parameters))

    async def ran(
        self,
        kind: type[PersonRun[Any, Any]],
        parameters: Any,  # noqa: ANN401 - the kind's own
        runner: Runner | None = None,
    ) -> Offered:
        """Run a flow against the sandbox."""
        report = await run_people(
            kind,
            parameters,
            self.read_settings(),
            transport=self.transport(),
            clock=self.clock,
            runner=runner,
        )
        return Offered(self.folder / "out" / report["run_id"], report)

    def dies(self, kind: type[PersonRun[Any, Any]], parameters: Any, at: str) -> str:  # noqa: ANN401
        """Let a run die before or inside the step `at`; return its id."""
        runner = Dying(at)
        with pytest.raises(Died):
            asyncio.run(self.ran(kind, parameters, runner))
        return runner.run_id

    def is_distributor(self, *, now: bool) -> None:
        """Let the service treat the lender's key as a distributor's, or end that."""
        manners = self.sandbox.manners.model_copy(update={"distributor": now})
        self.sandbox.manners = manners

    def on_day(self, day: int) -> None:
        self.sandbox.day = day
