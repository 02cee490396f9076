"""A world in which a run has the same outputs whenever and wherever it takes place.

Time is virtual and starts at a fixed instant, the journal's keys are fixed, jitter is seeded, and
each check has one call in flight at a time. Only the ids of runs and sealed data differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx
from starlette.types import ASGIApp, Receive, Scope, Send

from nightscreen.calling.asking import Asking
from nightscreen.checks.registry import CHECKS
from nightscreen.journal import Journal, open_journal
from nightscreen.journal.keyset import PSEUDONYM_KEY
from nightscreen.journal.schema import put_meta, sealed_text
from nightscreen.sandbox.app import application
from nightscreen.sandbox.faults import Profile
from nightscreen.sandbox.wire import TRANSPORT
from nightscreen.schemas.clock import DAY_MICROS, LAGOS, MICROS, to_instant, to_micros
from tests.calling.virtual_time import VirtualLoop
from tests.calling.virtual_time import run as run_virtually
from tests.screening import Night, Unasked, World

EVENING = datetime(2026, 9, 1, 22, 0, tzinfo=LAGOS)
"""The start of the first run: a Tuesday, at ten in the evening."""
DATA_KEY = "bWFkZSB1cCBmb3IgdGhlIHN0YW5kYXJkIG5pZ2h0cyE="
_PSEUDONYM_KEY = b"pseudonyms of the standard night"
_JITTER = 7
LATENCIES_MS = {"bank_account": 7, "karma": 5, "ecosystem": 11, "selfie": 13}
"""None is a multiple of another, so that answers seldom arrive at the same instant."""


class Seeded(Unasked):
    """Runs in this process, with seeded waits between attempts."""

    @asynccontextmanager
    async def calling(self, asking: Asking) -> AsyncIterator[None]:
        for lane in asking.lanes.values():
            lane.random.seed(_JITTER)
        async with super().calling(asking):
            yield


@dataclass
class FixedWorld(World):
    """A world whose clock, keys and jitter are fixed."""

    # the current instant between runs, microseconds
    now: int = field(default_factory=lambda: to_micros(EVENING))
    # first and last instant of each run, microseconds
    evenings: list[tuple[int, int]] = field(default_factory=list)
    # total number of calls to the service at the end of each run
    ends: list[int] = field(default_factory=list)
    _loop: VirtualLoop | None = None

    def __post_init__(self) -> None:
        self.clock = self.instant
        in_flight = dict.fromkeys((check for check in CHECKS), 1)
        self.settings = {"max_in_flight": in_flight, "data_key": DATA_KEY, **self.settings}
        for operation, milliseconds in LATENCIES_MS.items():
            self.sandbox.latency.by_operation[operation] = Profile(kind="fixed", ms=milliseconds)
        with self.journal() as journal, journal.database.writing() as connection:
            sealed = sealed_text(journal.sealer, _PSEUDONYM_KEY, PSEUDONYM_KEY)
            put_meta(connection, PSEUDONYM_KEY, sealed)

    def instant(self) -> int:
        """Return the current instant in microseconds, during or between runs."""
        return self.now + (0 if self._loop is None else int(self._loop.now_s * MICROS))

    def day(self, ago: int = 0, *, hour: int = 9) -> str:
        """Return an hour of an earlier day in a file's format: Lagos time without a zone."""
        day = to_instant(self.now - ago * DAY_MICROS).astimezone(LAGOS)
        return f"{day.date().isoformat()}T{hour:02d}:00:00"

    def pass_time(self, *, days: int = 0, minutes: int = 0) -> None:
        """Let time pass after a run, counted from the minute in which it ended."""
        self.now -= self.now % (60 * MICROS)
        self.now += days * DAY_MICROS + minutes * 60 * MICROS

    @contextmanager
    def journal(self) -> Iterator[Journal]:
        home = self.folder / "home"
        with open_journal(home, data_key=DATA_KEY, clock=self.clock) as journal:
            yield journal

    def screen(self, rows: Sequence[Mapping[str, str]] | None = None, **options: Any) -> Night:  # noqa: ANN401 - parameters of a run
        """Screen customers and return the run's results."""
        return self.screen_by(Seeded(), rows, **options)

    def carry(self, screening: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
        """Screen in virtual time, which the clock follows."""

        async def main(loop: VirtualLoop) -> dict[str, Any]:
            self._loop = loop
            return await screening

        started_at = self.now
        try:
            return run_virtually(main)
        finally:
            self.now, self._loop = self.instant(), None
            self.evenings.append((started_at, self.now))
            self.ends.append(len(self.calls()))

    def transport(self) -> httpx.AsyncBaseTransport:
        """Return the transport from a run to the sandbox, which may cut connections."""
        return _Wire(application(self.sandbox))


class _Wire(httpx.AsyncBaseTransport):
    """Sends calls to an application in this process; a cut looks as on a socket."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        socket = _Socket()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await self._app({**scope, TRANSPORT: socket}, receive, send)

        try:
            return await httpx.ASGITransport(app).handle_async_request(request)
        except _CutInBodyError:
            head, _, body = socket.written.partition(b"\r\n\r\n")
            status = int(head.split()[1])
            headers = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
            return httpx.Response(status, headers=headers, stream=_CutBody(body))


class _CutInBodyError(Exception):
    """The service closed its connection in mid-body."""


class _Socket:
    """Replaces the service's end of a socket."""

    def __init__(self) -> None:
        self.written = b""

    def is_closing(self) -> bool:
        """Return that the connection is open."""
        return False

    def write(self, data: bytes) -> None:
        self.written += data

    def abort(self) -> None:
        raise httpx.ReadError("the connection was cut")

    def close(self) -> None:
        """Close the connection after the data written so far."""
        raise _CutInBodyError


class _CutBody(httpx.AsyncByteStream):
    """A body that ends early with an error."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
        raise httpx.RemoteProtocolError("the body was cut")
