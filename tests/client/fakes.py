"""A fake transport with the real signature: it replays canned exchanges and opens no socket.

Give one to `Client(transport=...)`. What does not belong here: behaviour of the service; the
sandbox has that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import httpx


@dataclass(frozen=True, slots=True)
class Canned:
    """One exchange to replay."""

    status: int = 200  # HTTP status
    body: bytes | Mapping[str, object] = b""  # raw bytes, or a document to be written as JSON
    headers: Mapping[str, str] = field(default_factory=dict)  # response headers
    error: Exception | None = None  # raised in place of a response, such as `httpx.ReadTimeout("")`
    delay_s: float = 0.0  # seconds before either


class FakeTransport(httpx.AsyncBaseTransport):
    """Replays exchanges in order, or as a function of the request; the last one repeats.

    Args:
        canned: what to replay.

    Attributes:
        requests: every request that came, in order.
    """

    def __init__(
        self, canned: Canned | Iterable[Canned] | Callable[[httpx.Request], Canned]
    ) -> None:
        self.requests: list[httpx.Request] = []
        self._choose = canned if callable(canned) else None
        given = () if callable(canned) else (canned,) if isinstance(canned, Canned) else canned
        self._queue = list(given)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        canned = self._choose(request) if self._choose else self._next()
        await asyncio.sleep(canned.delay_s)
        if canned.error is not None:
            raise canned.error
        body = canned.body if isinstance(canned.body, bytes) else json.dumps(canned.body).encode()
        return httpx.Response(
            canned.status, headers=dict(canned.headers), stream=httpx.ByteStream(body)
        )

    def _next(self) -> Canned:
        return self._queue.pop(0) if len(self._queue) > 1 else self._queue[0]
