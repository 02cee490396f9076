"""A Prefect server for one command, where none is configured.

It loads while the command checks its input. Prefect starts one too, but only once a flow needs it,
and loads the whole server into the flow's process as well. `begin` starts this module as a process
that loads Prefect's server and then waits; `let_serve` has it serve, and `wait` waits until it
answers. Before that it has written nothing, so that a command that refuses its input leaves nothing
behind. It is stopped with the process that began it. What a server is, and which parts a temporary
one has, is Prefect's own `create_app`.
"""

from __future__ import annotations

import atexit
import http.client
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from nightscreen.schemas.errors import NightscreenError
from nightscreen.storage.memory_tuning import collect_less_often

_GO = "go"
_HERE, _ELSEWHERE = "here", "elsewhere"
_STOP_S = 5.0
"""As long as Prefect gives its own."""


_NOT_STARTED, _BEGINNINGS = 3, 3
"""What the process exits with where the application could not start, and how often it is begun.

Another command may make the same database just now: one of the two then fails at a migration.
"""


@dataclass
class _Server:
    """A server that was begun: its process, the socket it serves, and whether it was told to."""

    process: subprocess.Popen[str]
    listening: socket.socket
    port: int
    group: int
    serves: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"


_servers: list[_Server] = []


def begin(group: int) -> None:
    """Start the process that may become the server.

    Args:
        group: process group to put it in, so that a Ctrl-C at the terminal does not reach it.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    port = int(listening.getsockname()[1])
    _servers.append(_Server(_started(listening, group), listening, port, group))
    atexit.register(_stop)


def _started(listening: socket.socket, group: int) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-P", "-m", __name__, str(listening.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[listening.fileno()],
        process_group=group,
    )


def is_begun() -> bool:
    """Return whether this process began one."""
    return bool(_servers)


def let_serve() -> str:
    """Have the server serve, and return its address.

    "" where none was begun, or Prefect's settings name another server or want none.
    """
    if not _servers:
        return ""
    server = _servers[-1]
    if server.serves:
        return server.url
    orders, answer = server.process.stdin, server.process.stdout
    if orders is None or answer is None or answer.readline().strip() != _HERE:
        _stop()
        return ""
    with suppress(OSError):  # it is gone: whoever waits for it hears so
        orders.write(f"{_GO}\n")
        orders.flush()
    server.serves = True
    return server.url


def wait(timeout_s: float) -> None:
    """Wait until the server answers.

    Raises:
        NightscreenError: it ended, or does not answer.
    """
    server, until, left = _servers[-1], time.monotonic() + timeout_s, _BEGINNINGS
    while time.monotonic() < until:
        if _answers(server.port):
            server.listening.close()  # from now on a server that dies is one that refuses
            return
        ended = server.process.poll()
        if ended is not None:
            left -= 1
            if ended != _NOT_STARTED or not left:
                break
            server.process, server.serves = _started(server.listening, server.group), False
            let_serve()
    raise NightscreenError(
        "the temporary Prefect server did not start; nothing was asked. prefect server start in "
        "another terminal shows why"
    )


def _answers(port: int) -> bool:
    """Return whether the server answers within a second; its socket takes requests before."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1.0)
    with suppress(OSError, http.client.HTTPException):
        connection.request("GET", "/api/health")
        is_well = connection.getresponse().status == http.client.OK
        connection.close()
        return is_well
    return False


def is_temporary(url: str | None) -> bool:
    """Return whether an address is that of the server that this process began."""
    return any(server.url == url for server in _servers)


def _stop() -> None:
    while _servers:
        server = _servers.pop()
        server.listening.close()
        process = server.process
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _serve(listening: socket.socket) -> None:
    """Load Prefect's server, and serve once the command says so."""
    collect_less_often()
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED  # noqa: PLC0415

    if PREFECT_API_URL.value() or not PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        print(_ELSEWHERE, flush=True)  # noqa: T201 - what the command reads
        return
    print(_HERE, flush=True)  # noqa: T201 - what the command reads
    os.dup2(2, 1)  # nobody reads on: what the server may write there must not stop it
    import uvicorn  # noqa: PLC0415 - after the answer, for which the command may wait
    from prefect.server.api.server import create_app  # noqa: PLC0415 - the same

    app = create_app(ephemeral=True, final=True)
    if sys.stdin.readline().strip() == _GO:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        server.run([listening])
        sys.exit(0 if server.started else _NOT_STARTED)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
