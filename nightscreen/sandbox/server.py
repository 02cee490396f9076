"""The server: one process, one socket, one line on stdout when it listens.

Options, sockets, signals and the announcement are here; nothing about the service is.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
from typing import Annotated

import typer
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from nightscreen.sandbox.app import application
from nightscreen.sandbox.state import DEFAULT_BALANCE, DEFAULT_KEY, SCENARIOS, Sandbox
from nightscreen.sandbox.wire import TRANSPORT

_BACKLOG = 4096
_YOUNG_OBJECTS = 50_000  # collect garbage seldom: the ledger grows by objects that never die


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
        if self.started:
            sys.stdout.write(f"{self.announcement}\n")
            sys.stdout.flush()


def _stop_with_stdin() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8800,
    scenario: Annotated[str, typer.Option(help=f"{', '.join(SCENARIOS)}.")] = "calm",
    host: Annotated[
        str, typer.Option(help="Address to listen on; its controls have no key: stay on loopback.")
    ] = "127.0.0.1",
    api_key: Annotated[str, typer.Option(help="The only key that is right.")] = DEFAULT_KEY,
    balance: Annotated[
        str, typer.Option(metavar="NAIRA", help="The wallet's opening balance.")
    ] = DEFAULT_BALANCE,
    seed: Annotated[int, typer.Option(help="Chooses faults and latencies.")] = 0,
    ledger_limit: Annotated[
        int | None, typer.Option(min=1, help="Keep the newest N entries of the ledger.")
    ] = None,
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when stdin ends: die with the parent.")
    ] = False,
) -> None:
    """Run the simulator of the service on this machine.

    It ends at SIGINT or SIGTERM. Exactly one line is printed on stdout when it listens.
    """
    if scenario not in SCENARIOS:
        hint = f"{scenario} is none of {', '.join(SCENARIOS)}"
        raise typer.BadParameter(hint, param_hint="--scenario")
    try:
        sandbox = Sandbox(
            scenario, api_key=api_key, balance=balance, seed=seed, ledger_limit=ledger_limit
        )
    except ValueError:
        hint = "it is an amount in naira, no finer than a millionth"
        raise typer.BadParameter(hint, param_hint="--balance") from None
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        hint = f"cannot listen on {host}:{port} ({error.strerror}); "
        hint += "choose another port, or 0 for a free one"
        raise typer.BadParameter(hint, param_hint="--port") from None
    shown = f"[{host}]" if ":" in host else host
    with listener:
        if stop_with_stdin:
            threading.Thread(target=_stop_with_stdin, daemon=True).start()
        listener.setblocking(False)  # noqa: FBT003 - the name of the method says it
        server = AnnouncingServer(
            uvicorn.Config(
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
        )
        server.announcement = f"sandbox listening on http://{shown}:{listener.getsockname()[1]}"
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, 50, 1000)
        for number in (signal.SIGINT, signal.SIGTERM):
            # the server raises the signal again after a clean stop
            signal.signal(number, lambda *_: None)
        server.run(sockets=[listener])
