"""A bare server that answers ecosystem lookups after a fixed time, and counts calls under way.

It judges the line from outside, with nothing of ours in it: `GET /counted` tells the share of the
cap that was in use from the first call to the last answer, and how long connections lay idle
between an answer and the next call.

`python -m benchmarks.counting_server PORT LATENCY_MS`
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import cast

_BODY = b'{"status":"success","data":{"bvn":"%s","lenders":1},"meta":{"cost":25,"balance":%d}}'
_BALANCE, _COST = 900_000_000, 25


def _response(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


class Counter:
    """Calls under way over time."""

    def __init__(self) -> None:
        self.calls = self.under_way = 0
        self.idle_s: list[float] = []
        self._first = self._last = self._area = 0.0

    def change(self, by: int) -> float:
        """Count a call that came, or an answer that left; return the instant."""
        now = time.perf_counter()
        self._area += self.under_way * (now - self._last) if self.calls else 0.0
        self._first = self._first or now
        self._last = now
        self.under_way += by
        self.calls += by > 0
        return now

    def document(self) -> bytes:
        """Return what was counted."""
        idle_ms = sorted(1000 * each for each in self.idle_s) or [0.0]
        counted = {
            "calls": self.calls,
            "under_way": self._area / max(self._last - self._first, 1e-9),
            "span_s": self._last - self._first,
            "idle_ms": {
                str(part): idle_ms[min(len(idle_ms) - 1, len(idle_ms) * part // 100)]
                for part in (50, 90, 99)
            },
        }
        return json.dumps(counted).encode()


class Connection(asyncio.Protocol):
    """Answers requests that have no body, one after the other."""

    def __init__(self, counter: Counter, latency_s: float) -> None:
        self._counter = counter
        self._latency_s = latency_s
        self._received = b""
        self._answered_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what writes."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in requests that are whole."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            if b" /counted " in head:
                self._transport.write(_response(self._counter.document()))
                continue
            now = self._counter.change(1)
            if self._answered_at:
                self._counter.idle_s.append(now - self._answered_at)
            bvn = head.split(b" ", 2)[1].rpartition(b"/")[2]
            asyncio.get_running_loop().call_later(self._latency_s, self._answer, bvn)

    def _answer(self, bvn: bytes) -> None:
        left = _BALANCE - _COST * self._counter.calls
        self._transport.write(_response(_BODY % (bvn, left)))
        self._answered_at = self._counter.change(-1)


async def serve(port: int, latency_s: float) -> None:
    """Serve until the process is ended."""
    counter = Counter()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(counter, latency_s), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
