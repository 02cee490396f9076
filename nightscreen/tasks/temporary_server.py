"""Logins of the Prefect servers we start, and a temporary server if none is configured.

Anyone who may use a Prefect server may run programs as its workers, so ours require a login. It is
new at each start, passed only in the environment, and sent only to that server's own address.
Prefect is not loaded here.

A command's server loads while the command checks its input: `begin` starts this module as a process
that loads Prefect's server and waits, `let_serve` lets it serve, `wait` waits until it answers.
Until `let_serve` it writes nothing, so a command that refuses its input leaves nothing behind. The
server ends with the process that began it. `ensure_server` does all this for a flow that is called
from Python; the server that Prefect itself would start has no login.
"""

from __future__ import annotations

import atexit
import gzip
import http.client
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nightscreen.files.memory_tuning import collect_seldom
from nightscreen.files.private_files import make_private_folder, write_private_once
from nightscreen.schemas.errors import NightscreenError, OutputError
from nightscreen.schemas.shipped import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping

    import uvicorn

LOGIN = "PREFECT_API_AUTH_STRING"
SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
DATABASE = "prefect.db"
EMPTY_DATABASE = DATA / "prefect.db.gz"
"""A database of the oldest Prefect we allow; a later one migrates it.

A server without a database runs all of Prefect's migrations, which takes half of a first start.
`python -m tests.prefect_database` makes this file.
"""
UMASK = 0o077
"""Of every server we start: Prefect makes its database readable to all users of the machine."""

_GO, _HERE, _ELSEWHERE = "go", "here", "elsewhere"  # what command and server tell each other
_ANSWERS_WITHIN_S = 1.0
_STOP_S = 5.0  # as long as Prefect gives its own
_CALLED = {
    "PREFECT_API_URL": "",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
"""Prefect's settings for a server that no command begins: ephemeral, without analytics."""


# --- login and folder ---


def new_login() -> str:
    """Return a login that nobody can guess."""
    return f"nightscreen:{secrets.token_urlsafe(32)}"


def server_environment(folder: Path, port: int, login: str, pages: str = "") -> dict[str, str]:
    """Return the variables that a server is started with, added to the present environment.

    Args:
        folder: its PREFECT_HOME, with its database.
        port: its port on loopback.
        login: the login it requires.
        pages: allowed origins of its pages, separated by commas; empty for this machine only.
    """
    here = f"http://127.0.0.1:{port}"
    origins = pages or f"{here},http://localhost:{port}"
    return {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder}/{DATABASE}",
        SERVER_LOGIN: login,
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": origins,
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origins,  # its other name, read first
        "PREFECT_SERVER_UI_API_URL": f"{origins.split(',')[0]}/api",
    }


def client_environment(url: str, login: str) -> dict[str, str]:
    """Return the variables for a client of such a server; no proxy gets the login."""
    return {"PREFECT_API_URL": url, LOGIN: login, **_past_proxies(url)}


def _past_proxies(url: str) -> dict[str, str]:
    current = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    own = url.removeprefix("http://").removesuffix("/api")
    has_own = current == "*" or own in current.split(",")
    direct = current if has_own else f"{current},{own}".lstrip(",")
    return {"NO_PROXY": direct, "no_proxy": direct}


def make_server_folder(folder: Path) -> Path:
    """Make a server's PREFECT_HOME with an empty database; one that is there stays as it is.

    Where it cannot be written so, such as on a disk without hard links, Prefect makes its own.
    """
    make_private_folder(folder)
    if not (folder / DATABASE).exists():
        with suppress(OutputError):
            write_private_once(folder / DATABASE, gzip.decompress(EMPTY_DATABASE.read_bytes()))
    return folder


def without_login(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the logins, for processes that do not use the engine."""
    return {name: value for name, value in environment.items() if name not in (LOGIN, SERVER_LOGIN)}


# --- server, for the process that needs it ---


@dataclass
class _Server:
    """The server that this process began."""

    listening: socket.socket
    process: subprocess.Popen[str]
    folder: Path  # its PREFECT_HOME
    port: int
    login: str
    serves: bool = False

    @property
    def url(self) -> str:
        """Return the address of its API."""
        return f"http://127.0.0.1:{self.port}/api"


_servers: list[_Server] = []  # one at most
_one_at_a_time = threading.Lock()


def begin(home: Path, **settings: str) -> None:
    """Start the process that may become the server, unless one runs.

    It is in a group of its own: no Ctrl-C at the terminal reaches it.

    Args:
        home: HOME; the server writes only there.
        settings: Prefect's settings, which replace those of the environment.
    """
    if _servers and _servers[-1].process.poll() is None:
        return
    _stop()
    listening, login = socket.create_server(("127.0.0.1", 0)), new_login()
    port, folder = int(listening.getsockname()[1]), home.absolute() / "prefect" / "temporary"
    own = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or str(own / "profiles.toml")
    # `let_serve` makes the folder that Prefect misses
    quiet = ("-W", "ignore:Failed to create the Prefect home")
    process = subprocess.Popen(  # noqa: S603 - this very module
        [sys.executable, "-P", *quiet, "-m", __name__, str(listening.fileno())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=[listening.fileno()],
        process_group=0,
        env={
            **os.environ,
            "PREFECT_PROFILES_PATH": profiles,  # they apply although the server has its own folder
            **settings,
            "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # saves two seconds; none is used
            **server_environment(folder, port, login),
        },
        umask=UMASK,
    )
    _servers.append(_Server(listening, process, folder, port, login))
    atexit.register(_stop)


def is_begun() -> bool:
    """Return whether this process began a server, which may have ended since."""
    return bool(_servers)


def let_serve() -> tuple[str, str] | None:
    """Let the server serve; return its address and its login.

    None if none was begun, or if Prefect's settings name another server or allow none.
    """
    if not _servers:
        return None
    server = _servers[-1]
    if not server.serves:
        orders, answer = server.process.stdin, server.process.stdout
        if orders is None or answer is None or answer.readline().strip() != _HERE:
            _stop()
            return None
        make_server_folder(server.folder)
        with suppress(OSError):  # it has ended, which `wait` reports
            orders.write(f"{_GO}\n")
            orders.flush()
        server.serves = True
    return server.url, server.login


def wait(timeout_s: float) -> None:
    """Wait until the server answers.

    Raises:
        NightscreenError: it ended, or does not answer in time.
    """
    server, until = _servers[-1], time.monotonic() + timeout_s
    while time.monotonic() < until and server.process.poll() is None:
        if answers(server.port, _ANSWERS_WITHIN_S):
            server.listening.close()  # so that connections are refused once the server has died
            return
    raise NightscreenError(
        "the temporary Prefect server did not start; nothing was asked. prefect server start in "
        "another terminal shows why"
    )


def answers(port: int, timeout_s: float) -> bool:
    """Return whether a server answers in time; its socket accepts connections earlier."""
    with (
        suppress(OSError, http.client.HTTPException),
        closing(http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)) as connection,
    ):
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.client.OK
    return False


def ensure_server(home: Path, timeout_s: float) -> tuple[str, str]:
    """Return address and login of this process's server; begin one if none is running.

    The caller has checked that Prefect's settings name no other.

    Raises:
        NightscreenError: it did not load, ended, or does not answer.
    """
    with _one_at_a_time:
        begin(home, **_CALLED)
        served = let_serve()
        if served is None:
            raise NightscreenError("the temporary Prefect server did not start; nothing was asked")
        os.environ.update(_past_proxies(served[0]))  # the caller keeps the login elsewhere
        wait(timeout_s)
        return served


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


# --- in the server's own process ---


def _serve(listening: socket.socket) -> None:
    """Load Prefect's server, and serve once stdin says so."""
    collect_seldom()
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED  # noqa: PLC0415

    if PREFECT_API_URL.value() or not PREFECT_SERVER_EPHEMERAL_ENABLED.value():
        print(_ELSEWHERE, flush=True)  # noqa: T201 - what the command reads
        return
    print(_HERE, flush=True)  # noqa: T201 - what the command reads
    os.dup2(2, 1)  # nobody reads stdout any more: a full pipe must not block the server
    import uvicorn  # noqa: PLC0415 - slow, so after the line that the command waits for
    from prefect.server.api.server import create_app  # noqa: PLC0415 - the same

    app = create_app(ephemeral=True, final=True)
    if sys.stdin.readline().strip() == _GO:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
        server.run([listening])


def _end_with_stdin(server: uvicorn.Server) -> None:
    """End the server once the process that began it is gone, however it ended."""
    sys.stdin.read()
    server.should_exit = True
    time.sleep(_STOP_S)
    os._exit(0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
