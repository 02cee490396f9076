"""The service in memory behind a real socket, which may say more than it should.

Server and client share one loop in virtual time. What a test expects does not belong here.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.client.fakes import Canned
from tests.kill.drive import Driven
from tests.money.service_in_memory import Bureau

Say = Callable[["Spoken"], Awaitable[None]]


def on_wire(canned: Canned) -> bytes:
    """Return a whole response."""
    body = canned.body if isinstance(canned.body, bytes) else json.dumps(canned.body).encode()
    lines = [f"HTTP/1.1 {canned.status} X", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (canned.headers or {}).items()]
    return "\r\n".join((*lines, "", "")).encode() + body


@dataclass(slots=True)
class Spoken:
    """One answer about to be sent."""

    operation: str  # what was asked
    identity: str  # about whom
    answer: bytes  # the right response, whole
    connection: int  # number of its connection, from 1
    nth: int  # which request of its connection it answers, from 1
    writer: asyncio.StreamWriter

    def say(self, data: bytes) -> None:
        """Write at once."""
        self.writer.write(data)


async def plainly(spoken: Spoken) -> None:
    """Send the right answer and nothing else."""
    spoken.say(spoken.answer)


@dataclass(slots=True)
class SocketService:
    """Serves a bureau's nights over sockets."""

    bureau: Bureau  # whose service, people and loop they are
    say: Say = plainly  # sends an answer
    # operation and identity of each request, as they came
    asked: list[tuple[str, str]] = field(default_factory=list)
    connections: int = 0  # how many were opened

    def night(self, **parameters: Any) -> Driven:  # noqa: ANN401 - as a bureau's night
        """Screen the batch over sockets."""
        with self._listening() as port:
            return self.bureau.night(base_url=f"http://127.0.0.1:{port}", **parameters)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[int]:
        loop = self.bureau.loop
        server = loop.run_until_complete(self._open())
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait([*left, loop.create_task(asyncio.sleep(0))]))

    async def _open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection, nth = self.connections, 0
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                request = await _read(reader)
                nth += 1
                canned = self.bureau.service(request)
                operation, identity, _ = self.bureau.service.ledger[-1]
                self.asked.append((operation, identity))
                await asyncio.sleep(canned.delay_s)
                await self.say(
                    Spoken(operation, identity, on_wire(canned), connection, nth, writer)
                )
        writer.close()


async def _read(reader: asyncio.StreamReader) -> httpx.Request:
    head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head.split()
    headers = dict(line.split(": ", 1) for line in lines if line)
    body = await reader.readexactly(int(headers.get("Content-Length", 0)))
    return httpx.Request(method, f"http://service{path}", content=body)
