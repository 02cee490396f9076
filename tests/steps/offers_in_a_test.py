"""Offers and loans in a test: a screening run, links for its rows, days that go by.

All of it in one process, against a sandbox in the same; the screening is `tests.screening`'s.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow.parquet as pq

from nightscreen.calling.caller import open_caller
from nightscreen.config.settings import read_settings
from nightscreen.operations.loans import offering, tracking
from nightscreen.operations.loans.offer_report import close_offering
from nightscreen.operations.loans.tracking_report import close_tracking
from nightscreen.sandbox.app import application
from nightscreen.schemas.offers import OfferLoans, TrackLoans
from tests.screening import Night, World, customer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from nightscreen.calling.caller import Caller
    from nightscreen.calling.run import Run
    from nightscreen.config.settings import Settings
    from nightscreen.schemas.clock import Clock

PRODUCT = "LP1001"
NOWHERE = "http://127.0.0.1:1"


def borrower(number: int, **changes: str) -> dict[str, str]:
    """Return a made-up customer with a phone and an email of their own, who asks for a loan."""
    given = {
        "email": f"c{number}@mail.example.com",
        "phone": f"0803{number:07d}",
        "requested_amount": "100000",
    }
    return customer(number, **{**given, **changes})


@dataclass(frozen=True)
class Offered:
    """What a run of offers or of following left behind."""

    folder: Path
    report: dict[str, Any]

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of one of its Parquet files."""
        found: list[dict[str, Any]] = pq.read_table(self.folder / name).to_pylist()
        return found

    @property
    def offers(self) -> dict[str, dict[str, Any]]:
        """Return the rows of `offers.parquet` by customer."""
        return {row["customer_id"]: row for row in self.rows("offers.parquet")}

    @property
    def loans(self) -> dict[str, dict[str, Any]]:
        """Return the rows of `loans.parquet` by reference."""
        return {row["reference"]: row for row in self.rows("loans.parquet")}

    @property
    def loans_offered(self) -> list[str]:
        """Return the references of `offers.parquet`."""
        return [row["reference"] for row in self.rows("offers.parquet") if row["reference"]]

    @property
    def changes(self) -> list[dict[str, Any]]:
        """Return the rows of `changes.parquet`."""
        return self.rows("changes.parquet")


class Between(httpx.AsyncBaseTransport):
    """Answers some requests itself, where the sandbox cannot be brought to say it."""

    def __init__(
        self,
        sandbox: httpx.AsyncBaseTransport,
        instead: Callable[[httpx.Request], httpx.Response | None],
    ) -> None:
        self._sandbox = sandbox
        self._instead = instead

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer, or let the sandbox answer."""
        await request.aread()
        return self._instead(request) or await self._sandbox.handle_async_request(request)


@dataclass
class Lender:
    """A lender with a sandbox, a HOME and an output folder.

    Attributes:
        instead: answers some requests in the sandbox's place.
        seen: calls the sandbox had seen of what is tried, before.
        url: address of a sandbox elsewhere that makes and shows loans, in place of the world's.
    """

    world: World
    settings: dict[str, Any] = field(default_factory=dict)
    instead: Callable[[httpx.Request], httpx.Response | None] = lambda _request: None
    seen: int = 0
    url: str = NOWHERE

    @classmethod
    def under(cls, folder: Path, *, url: str = NOWHERE, **options: Any) -> Lender:  # noqa: ANN401 - a world's fields
        """Return a lender who keeps everything under a folder."""
        return cls(World(folder, **options), url=url)

    @property
    def read(self) -> Settings:
        """Return the lender's settings."""
        return read_settings(
            base_url=self.url,
            api_key="sandbox-key",
            home=self.world.folder / "home",
            **self.settings,
        )

    @property
    def app(self) -> Any:  # noqa: ANN401 - an ASGI application
        """Return the service."""
        return application(self.world.sandbox)

    @property
    def clock(self) -> Clock:
        """Return the clock of this world."""
        return self.world.clock

    def screen(self, rows: Sequence[dict[str, str]], **options: Any) -> Night:  # noqa: ANN401
        """Screen customers."""
        return self.world.screen(rows, **options)

    def asked(self, night: Night | None, options: dict[str, Any]) -> OfferLoans:
        """Return parameters of offers."""
        given = {"output": str(self.world.folder / "out"), **options}
        if night is not None:
            given = {"run_dir": str(night.folder), "product": PRODUCT, **given}
        return OfferLoans(**given)

    def offer(self, night: Night | None = None, **options: Any) -> Offered:  # noqa: ANN401
        """Offer a product to the approved rows of a night."""
        asked = self.asked(night, options)
        run = offering.open_offering(asked, self.read, clock=self.clock)
        return self._done(run, lambda: self.make(run))

    async def make(self, run: Run) -> dict[str, Any]:
        """Make the links of an open run."""
        work = offering.take_rows(run)

        async def links(session: Caller) -> None:
            if await offering.check_product(work, session):
                await offering.make_links(work, session)

        await self.in_a_session(run, links)
        return close_offering(work)

    def track(self, **options: Any) -> Offered:  # noqa: ANN401 - parameters of following
        """Follow every open loan."""
        asked = TrackLoans(output=str(self.world.folder / "out"), **options)
        run = tracking.open_tracking(asked, self.read, clock=self.clock)
        return self._done(run, lambda: self.follow(run))

    async def follow(self, run: Run) -> dict[str, Any]:
        """Follow the loans of an open run."""
        work = tracking.take_loans(run)

        async def ask(session: Caller) -> None:
            await tracking.follow_loans(work, session)

        await self.in_a_session(run, ask)
        return close_tracking(work)

    async def in_a_session(self, run: Run, work: Callable[[Caller], Awaitable[None]]) -> None:
        """Do something at an open session, with the sandbox at the other end."""
        here = Between(httpx.ASGITransport(self.app), self.instead)
        session = open_caller(run, transport=here if self.url == NOWHERE else None)
        try:
            await work(session)
        finally:
            await session.close()

    def _done(self, run: Run, work: Callable[[], Awaitable[dict[str, Any]]]) -> Offered:
        async def whole() -> dict[str, Any]:
            return await work()

        try:
            return Offered(run.folder.path, asyncio.run(whole()))
        finally:
            run.close()

    def calls(self, operation: str) -> list[dict[str, Any]]:
        """Return the calls of one operation that the sandbox saw."""
        return self.world.calls(operation)

    def is_distributor(self, *, now: bool) -> None:
        """Let the service take the lender's key for a distributor's, or not any more."""
        sandbox = self.world.sandbox
        sandbox.manners = replace(sandbox.manners, distributor=now)

    def on_day(self, day: int) -> None:
        """Move the sandbox's world to a day."""
        self.world.sandbox.day = day
