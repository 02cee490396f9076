"""Browsers that hold connections to a server and never send a whole request."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def crowd(port: int, number: int, begins: bytes, drip: bytes = b"") -> Iterator[None]:
    """Hold so many connections, each of which is opened anew as soon as it is closed.

    Args:
        port: of the server on this machine.
        number: how many.
        begins: what each sends first.
        drip: what it sends again and again; nothing where it is empty.
    """
    loop = asyncio.new_event_loop()
    open_ones: set[int] = set()
    full, over = threading.Event(), asyncio.Event()

    async def hold(own: int) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(begins)
                await writer.drain()
                open_ones.add(own)
                if len(open_ones) == number:
                    full.set()
                while drip and not reader.at_eof() and not writer.is_closing():
                    writer.write(drip)
                    await asyncio.sleep(0.1)
                await reader.read()
                writer.close()
            except OSError:
                pass
            await asyncio.sleep(0.05)

    async def all_of_them() -> None:
        tasks = [asyncio.ensure_future(hold(own)) for own in range(number)]
        await over.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(all_of_them(),), daemon=True)
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
"""What it is, how many, and what each sends first and then."""
