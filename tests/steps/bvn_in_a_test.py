"""Both stages of BVN consent in a test: the lines below the flows, against a sandbox in process.

No socket and no engine. Customers read their passwords where the sandbox shows them.
"""

from __future__ import annotations

import asyncio
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from nightscreen.calling.caller import open_caller
from nightscreen.config.settings import Settings, read_settings
from nightscreen.journal import open_journal
from nightscreen.operations.bvn import closing as bvn_closing
from nightscreen.operations.bvn import confirming as bvn_confirming
from nightscreen.operations.bvn import requesting as bvn_requesting
from nightscreen.operations.bvn.links import LinkView, accept_otp, look_at_link
from nightscreen.sandbox.app import application
from nightscreen.sandbox.people import person_of_bvn
from nightscreen.schemas.bvn import ConfirmBvns, RequestBvns
from nightscreen.schemas.stops import StopReason
from tests.screening import CONSENT, World, customer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.calling.run import Run


def asked(number: int, **changes: str) -> dict[str, str]:
    """Return a made-up customer who consented, with what a BVN record is compared with."""
    person = person_of_bvn(f"22{number:09d}")
    return {
        **customer(number),
        "phone": person.phone,
        "date_of_birth": person.date_of_birth.isoformat(),
        **CONSENT,
        **changes,
    }


@dataclass(frozen=True)
class Told:
    """What a run left behind."""

    folder: Path
    report: dict[str, Any]

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """Return the BVN rows by customer."""
        parts = sorted((self.folder / "bvn").glob("part-*.parquet"))
        table = pa.concat_tables([pq.read_table(part) for part in parts])
        return {row["customer_id"]: row for row in table.to_pylist()}

    @property
    def problems(self) -> list[tuple[str, str]]:
        """Return line and code of every finding."""
        with (self.folder / "problems.csv").open(encoding="utf-8", newline="") as file:
            return [(row["line"], row["code"]) for row in csv.DictReader(file)]

    @property
    def states(self) -> dict[str, int]:
        """Return how many customers are in each state."""
        found: dict[str, int] = self.report["states"]
        return found


class BvnWorld(World):
    """A world in which customers are asked for BVN consent."""

    def read(self) -> Settings:
        """Return the settings of this world."""
        return read_settings(
            base_url="http://127.0.0.1:1",
            api_key="sandbox-key",
            home=self.folder / "home",
            **{"max_in_flight": {"bvn": 16}, **self.settings},
        )

    def request(
        self,
        rows: Sequence[Mapping[str, str]] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> Told:
        """Ask customers."""
        if rows is not None:
            options["input"] = str(self.write(rows))
        parameters = RequestBvns(**{"output": str(self.folder / "out"), **options})
        run, work = bvn_requesting.open_request(parameters, self.read(), clock=self.clock)
        try:
            bvn_requesting.read_input(run, work)
            bvn_requesting.plan(run, work)
            asyncio.run(self._in_a_session(run, bvn_requesting.ask, work))
            return Told(run.folder.path, bvn_closing.close_request(run, work))
        finally:
            run.close()

    def confirm(self, otps: Mapping[str, str] | Path, **options: Any) -> Told:  # noqa: ANN401
        """Send passwords on, given by customer or as a file."""
        path = otps if isinstance(otps, Path) else self.write_otps(otps)
        parameters = ConfirmBvns(
            **{"output": str(self.folder / "out"), "input": str(path), **options}
        )
        run, work = bvn_confirming.open_confirm(parameters, self.read(), clock=self.clock)
        try:
            bvn_confirming.read_input(run, work)
            bvn_confirming.price(run, work)
            asyncio.run(self._in_a_session(run, bvn_confirming.send, work))
            return Told(run.folder.path, bvn_closing.close_confirm(run, work))
        finally:
            run.close()

    def transport(self) -> httpx.AsyncBaseTransport:
        """Return what carries the calls."""
        return httpx.ASGITransport(application(self.sandbox))

    async def _in_a_session(self, run: Run, ask: Any, work: Any) -> None:  # noqa: ANN401
        session = open_caller(run, transport=self.transport())
        try:
            await ask(session, work)
        finally:
            await session.close()

    def cancelled(self, otps: Mapping[str, str], *, after: int) -> Told:
        """Send passwords on and cancel the run once the sandbox has seen some calls."""
        options = {"output": str(self.folder / "out"), "input": str(self.write_otps(otps))}
        run, work = bvn_confirming.open_confirm(
            ConfirmBvns(**options), self.read(), clock=self.clock
        )

        async def cancel() -> None:
            sending = asyncio.create_task(self._in_a_session(run, bvn_confirming.send, work))
            while len(self.calls("bvn_finish")) < after:  # noqa: ASYNC110 - the sandbox tells nobody
                await asyncio.sleep(0.005)
            run.stops.stop(StopReason.CANCELLED)
            sending.cancel()
            await asyncio.wait([sending])

        try:
            bvn_confirming.read_input(run, work)
            bvn_confirming.price(run, work)
            asyncio.run(cancel())
            return Told(run.folder.path, bvn_closing.close_confirm(run, work))
        finally:
            run.close()

    def write_otps(self, otps: Mapping[str, str], name: str = "otps.csv") -> Path:
        """Write a file of passwords."""
        path = self.folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("customer_id", "otp"), *otps.items()])
        return path

    def otp(self, row: Mapping[str, str]) -> str | None:
        """Read a customer's password as the customer does."""
        return self.sandbox.otps.otp(row["bvn"], self.sandbox.now())

    def type_otp(self, link: str, otp: str) -> LinkView:
        """Type a password under a link."""
        transport = httpx.ASGITransport(application(self.sandbox))
        token = link.rpartition("/")[2]
        return asyncio.run(
            accept_otp(self.read(), token, otp, clock=self.clock, transport=transport)
        )

    def look(self, link: str) -> LinkView:
        """Open a link."""
        with open_journal(self.folder / "home", clock=self.clock) as journal:
            return look_at_link(journal, self.read(), link.rpartition("/")[2])
