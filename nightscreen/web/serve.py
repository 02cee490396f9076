"""Serve an application over http: one socket, time limits, an orderly end; a proxy adds https."""

from __future__ import annotations

import signal
import socket
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator
    from types import FrameType

    from starlette.types import ASGIApp

_STOPS = (signal.SIGINT, signal.SIGTERM)
_AT_ONCE = 400
_MOST_WAITING = 100
"""Connections without a complete request, beside those newer than `_NEW_S`."""
_NEW_S = 0.25
"""A request follows its connection within a round trip; a connection that was accepted together
with hundreds of others was dropped before anybody had read what it sent."""
_LEAST_BYTES_A_S = 4096
"""A connection with this rate counts as new; even slow mobile lines reach it."""
_END_WITHIN_S = 45  # a page of the desk takes seconds; a large export half a minute
HEAD_WITHIN_S = 10.0  # the head of a request, or a form without a file, is a few hundred bytes
FILE_WITHIN_S = 300.0  # a hundred megabytes over a line of five megabits


class TimeoutProtocol(H11Protocol):
    """Closes a connection whose request does not arrive completely in time.

    Without a limit, a client that opens connections and waits could occupy all of `_AT_ONCE` for
    ever. If many such connections are open, a new one replaces those that have waited longest and
    sent least, so that new clients always get through.

    Attributes:
        made_at: when it was opened, on the loop's clock.
        head_within_s: limit for the head of a request, from the connection or the last response.
        body_within_s: limit for the body, from the end of the head.
        waits_since: when it began to wait, on the loop's clock, moved forward by the data it sent.
    """

    head_within_s = HEAD_WITHIN_S
    body_within_s = HEAD_WITHIN_S
    made_at = 0.0
    waits_since = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _in_body = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit; drop other connections if too many wait."""
        super().connection_made(transport)
        self.made_at = self.waits_since = self.loop.time()
        self._wait(self.head_within_s)
        waiting = [
            each
            for each in self.connections
            if isinstance(each, TimeoutProtocol)
            and each.is_waiting
            and not each.transport.is_closing()
            and self.made_at - each.made_at >= _NEW_S
        ]
        waiting.sort(key=lambda each: each.waits_since)
        for each in waiting[:-_MOST_WAITING]:
            each.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Adjust the time limit to the state of the request."""
        super().data_received(data)
        self.waits_since += len(data) / _LEAST_BYTES_A_S
        was_in_body, self._in_body = self._in_body, self.conn.their_state is h11.SEND_BODY
        if self._in_body and not was_in_body:
            self._wait(self.body_within_s)
        elif self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._wait(None)
        elif self._deadline is None:
            self._wait(self.head_within_s)

    def on_response_complete(self) -> None:
        """Start to wait for the next request."""
        self.waits_since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the time limit."""
        self._wait(None)
        super().connection_lost(exc)

    def _wait(self, within_s: float | None) -> None:
        """Set the time limit, in seconds from now; None for no limit."""
        if self._deadline is not None:
            self._deadline.cancel()
        give_up = self._give_up
        self._deadline = None if within_s is None else self.loop.call_later(within_s, give_up)

    def _give_up(self) -> None:
        self._deadline = None
        if self.is_waiting:
            self.transport.close()

    @property
    def is_waiting(self) -> bool:
        """Return whether no complete request is being answered."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered or self.conn.their_state is h11.SEND_BODY


@contextmanager
def listening(host: str, port: int) -> Iterator[tuple[socket.socket, str]]:
    """Listen on an address (port 0 for a free one); yield the socket and its URL.

    Raises:
        UsageError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UsageError(
            f"--port: cannot listen on {host}:{port} ({error.strerror}); choose another with "
            "--port, or --host"
        ) from None
    with listener:
        listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
        shown = f"[{host}]" if ":" in host else host
        yield listener, f"http://{shown}:{listener.getsockname()[1]}"


def serve_app(
    app: ASGIApp,
    listener: socket.socket,
    announcement: str,
    *,
    proxies: str = "",
    takes_files: bool = False,
    end_within_s: int = _END_WITHIN_S,
) -> None:
    """Serve an application until SIGINT or SIGTERM; requests under way are completed first.

    Args:
        app: the application.
        listener: the socket.
        announcement: lines to print when it is ready.
        proxies: proxies whose X-Forwarded-For is trusted.
        takes_files: bodies may take as long as a large file.
        end_within_s: seconds until requests still under way are cancelled. Until then a request is
            completed even if the client goes away.
    """

    class Protocol(TimeoutProtocol):
        body_within_s = FILE_WITHIN_S if takes_files else HEAD_WITHIN_S

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=proxies,
        limit_concurrency=_AT_ONCE,
        timeout_graceful_shutdown=end_within_s,
    )
    previous = {number: signal.signal(number, _ignore) for number in _STOPS}
    sys.stdout.write(f"{announcement}\n")
    sys.stdout.flush()
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """Ignore the signal that the server raises again after a clean stop."""
