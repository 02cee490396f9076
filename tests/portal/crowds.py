"""Clients that hold connections to a server open and never send a whole request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def crowd(port: int, number: int, begins: bytes, drip: bytes = b"") -> Iterator[None]:
    """Hold connections open, each of which is reopened as soon as it is closed.

    Args:
        port: of the server on this machine.
        number: number of connections.
        begins: the bytes that each sends first.
        drip: the bytes that it then sends repeatedly; empty for none.
    """
    loop = asyncio.new_event_loop()
    opened: set[int] = set()
    full, over = threading.Event(), asyncio.Event()

    async def hold(index: int) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begins)
                await writer.drain()
                opened.add(index)
                if len(opened) == number:
                    full.set()
                while drip and not reader.at_eof() and not writer.is_closing():
                    writer.write(drip)
                    await asyncio.sleep(0.1)
                await reader.read()
                writer.close()
            except OSError:
                pass
            await asyncio.sleep(0.05)

    async def hold_all() -> None:
        tasks = [asyncio.ensure_future(hold(index)) for index in range(number)]
        await over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(hold_all(),), daemon=True)
    thread.start()
    assert full.wait(60), "the connections were not opened"
    try:
        yield
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(20)
        loop.close()


HALF = b"GET / HTTP/1.1\r\nho"
BODY = (
    b"POST /sign-in HTTP/1.1\r\nhost: 127.0.0.1\r\n"
    b"content-type: application/x-www-form-urlencoded\r\ncontent-length: 5000\r\n\r\n"
)
CROWDS = (
    ("half a head, opened again at once", 300, HALF, b""),
    ("a body a byte at a time", 220, BODY, b"x"),
)
"""A description, the number of connections, and the bytes that each sends first and repeatedly."""
