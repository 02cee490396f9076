"""A raw socket server whose every answer is chosen by the test, and records what arrived.

What does not belong here: behaviour of the service; this is about bytes and broken connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Behaviour = Callable[["Wire"], Awaitable[None]]


@dataclass
class Wire:
    """One connection as the server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes = b""

    async def say(self, data: bytes) -> None:
        """Write and flush."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, status: str = "200 OK", *headers: str) -> None:
        """Write a whole response."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        await self.say("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def cut(self) -> None:
        """Lose the connection."""
        self.writer.close()


@dataclass
class RawService:
    """The server and what it saw."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    behave: Behaviour | None = None

    @property
    def base(self) -> str:
        """Return the base address."""
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read heads and behave, until the connection ends."""
        self.connections += 1
        wire = Wire(reader, writer)
        try:
            while not writer.is_closing():
                wire.head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(wire.head)
                assert self.behave is not None
                await self.behave(wire)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def raw_service(behave: Behaviour) -> AsyncIterator[RawService]:
    """Run a server that behaves so for each request."""
    service = RawService(behave=behave)
    running: set[asyncio.Task[None]] = set()

    def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(service.serve(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for task in tuple(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await server.wait_closed()
