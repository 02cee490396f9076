"""The server: one process, one socket, one line on stdout when it listens.

Sockets, signals and the announcement live here; nothing about the service does.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nightscreen.sandbox.app import application
from nightscreen.sandbox.state import DEFAULT_KEY, Opening, Sandbox
from nightscreen.sandbox.wire import TRANSPORT

if TYPE_CHECKING:
    from types import FrameType

_BACKLOG = 4096
_STOPS = (signal.SIGINT, signal.SIGTERM)
_YOUNG_OBJECTS = 50_000
"""Collect garbage seldom: the ledger grows by objects that never die."""


class CuttableProtocol(HttpToolsProtocol):
    """Lets the application reach the socket, so that a cut connection is a real one."""

    def on_message_begin(self) -> None:
        """Put the transport into the scope of the request."""
        super().on_message_begin()
        self.scope[TRANSPORT] = self.transport  # type: ignore[typeddict-unknown-key]


class AnnouncingServer(uvicorn.Server):
    """Says on stdout where it listens, once it does."""

    announcement = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then say so."""
        await super().startup(sockets=sockets)
        if self.announcement and self.started:
            sys.stdout.write(f"{self.announcement}\n")
            sys.stdout.flush()


def make_server(sandbox: Sandbox) -> AnnouncingServer:
    """Build a server for a sandbox; `run(sockets=[...])` starts it."""
    config = uvicorn.Config(
        application(sandbox),
        http=CuttableProtocol,
        ws="none",
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_keep_alive=120,
        timeout_graceful_shutdown=1,
    )
    return AnnouncingServer(config)


def _stop_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _ignore(_signal: int, _frame: FrameType | None) -> None:
    """Take the signal that the server raises again after a clean stop."""


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    scenario: str = "calm",
    api_key: str = DEFAULT_KEY,
    balance: str | None = None,
    seed: int = 0,
    ledger_limit: int | None = None,
    stop_with_stdin: bool = False,
) -> None:
    """Serve a sandbox until SIGINT or SIGTERM.

    Prints exactly one line on stdout when it listens: `sandbox listening on http://HOST:PORT`.

    Args:
        host: address to listen on; the sandbox has no lock on its control surface, so keep it
            on a loopback address.
        port: 0 takes a free one.
        scenario: a name in `sandbox.state.SCENARIOS`.
        api_key: the only key that is right.
        balance: naira in the wallet, as decimal text.
        seed: chooses faults and latencies.
        ledger_limit: how many ledger entries are kept; None keeps all.
        stop_with_stdin: stop when stdin ends, so that it dies with its parent.

    Raises:
        KeyError: there is no such scenario.
        OSError: the port cannot be had.
        ValueError: the balance is not an amount.
    """
    sandbox = Sandbox(Opening(scenario, api_key, balance, seed, ledger_limit))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=_BACKLOG) as listener:
        if stop_with_stdin:
            threading.Thread(target=_stop_with_stdin, daemon=True).start()
        listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
        server = make_server(sandbox)
        shown = f"[{host}]" if ":" in host else host
        server.announcement = f"sandbox listening on http://{shown}:{listener.getsockname()[1]}"
        if threading.current_thread() is not threading.main_thread():
            server.run(sockets=[listener])
            return
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, 50, 1000)
        before = {number: signal.signal(number, _ignore) for number in _STOPS}
        try:
            server.run(sockets=[listener])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
