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
import http.client
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nightscreen.files.memory_tuning import collect_seldom
from nightscreen.files.private_files import make_private_folder, write_private_once
from nightscreen.schemas.errors import NightscreenError, OutputError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection

    import uvicorn

LOGIN = "PREFECT_API_AUTH_STRING"
SERVER_LOGIN = "PREFECT_SERVER_API_AUTH_STRING"
DATABASE = "prefect.db"
UMASK = 0o077
"""Of every server we start: Prefect makes its database readable to all users of the machine."""

_GO, _HERE, _ELSEWHERE = "go", "here", "elsewhere"  # what command and server tell each other
_ANSWERS_WITHIN_S = 1.0
_STOP_S = 5.0  # as long as Prefect gives its own
_NOT_STARTED, _BEGINNINGS = 3, 3
"""The exit status if the application could not start, and how often the process is started.

Another command may be changing the same database: one of the two then fails at a migration.
"""
_CALLED = {
    "PREFECT_API_URL": "",
    "PREFECT_SERVER_EPHEMERAL_ENABLED": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
"""Prefect's settings for a server that no command begins: ephemeral, without analytics."""


# --- login ---


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


def without_login(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the logins, for processes that do not use the engine."""
    return {name: value for name, value in environment.items() if name not in (LOGIN, SERVER_LOGIN)}


# --- server, for the process that needs it ---


@dataclass
class _Server:
    """The server that this process began."""

    listening: socket.socket
    port: int
    environment: dict[str, str]
    login: str
    serves: bool = False

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.start()

    def start(self) -> None:
        """Start its process, in a group of its own: no Ctrl-C at the terminal reaches it."""
        self.serves = False
        # `let_serve` makes the folder that Prefect misses
        quiet = ("-W", "ignore:Failed to create the Prefect home")
        self.process = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-P", *quiet, "-m", __name__, str(self.listening.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[self.listening.fileno()],
            process_group=0,
            env=self.environment,
            umask=UMASK,
        )


_servers: list[_Server] = []  # one at most
_one_at_a_time = threading.Lock()


def begin(home: Path, **settings: str) -> None:
    """Start the process that may become the server, unless one runs.

    Args:
        home: HOME; the server writes only there.
        settings: Prefect's settings, which replace those of the environment.
    """
    if _servers and _servers[-1].process.poll() is None:
        return
    _stop()
    listening, login = socket.create_server(("127.0.0.1", 0)), new_login()
    port = int(listening.getsockname()[1])
    own = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    profiles = os.environ.get("PREFECT_PROFILES_PATH") or str(own / "profiles.toml")
    environment = {
        **os.environ,
        "PREFECT_PROFILES_PATH": profiles,  # they apply although the server has its own folder
        **settings,
        "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # saves two seconds; none is used
        **server_environment(home.absolute() / "prefect" / "temporary", port, login),
    }
    _servers.append(_Server(listening, port, environment, login))
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
        make_private_folder(Path(server.environment["PREFECT_HOME"]))
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
    server, until, left = _servers[-1], time.monotonic() + timeout_s, _BEGINNINGS
    while time.monotonic() < until:
        if answers(server.port, _ANSWERS_WITHIN_S):
            server.listening.close()  # so that connections are refused once the server has died
            return
        ended = server.process.poll()
        if ended is not None:
            left -= 1
            if ended != _NOT_STARTED or not left:
                break
            server.start()
            let_serve()
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
    database = Path(os.environ["PREFECT_HOME"]) / DATABASE
    write = None if database.exists() else begin_database()
    import uvicorn  # noqa: PLC0415 - slow, so after the line that the command waits for
    from prefect.server.api.server import create_app  # noqa: PLC0415 - the same

    app = create_app(ephemeral=True, final=True)
    if sys.stdin.readline().strip() == _GO:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on"))
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
        if write is not None:
            write(database)
        server.run([listening])
        sys.exit(0 if server.started else _NOT_STARTED)


def _end_with_stdin(server: uvicorn.Server) -> None:
    """End the server once the process that began it is gone, however it ended."""
    sys.stdin.read()
    server.should_exit = True
    time.sleep(_STOP_S)
    os._exit(0)


def begin_database() -> Callable[[Path], None]:
    """Start a process that makes a database; return a function that waits for it and writes it.

    A server runs Prefect's migrations through its event loop, with a hop to another thread for each
    of 34,000 statements: half the time of a first start. Here the same migrations run on a
    connection without a loop, three times as fast, while the rest of the server loads. If that
    fails, for instance with a later Prefect, nothing is written and the server runs them itself.

    A file that exists by then is not replaced. Call this before the process has threads: it forks.
    """
    import multiprocessing  # noqa: PLC0415 - the command needs none

    from prefect.server.database import alembic_commands, orm_models  # noqa: F401, PLC0415 - for it

    forks = multiprocessing.get_context("fork")
    received, sent = forks.Pipe(duplex=False)
    forks.Process(target=_make_database, args=(received, sent), daemon=True).start()
    sent.close()

    def write(database: Path) -> None:
        with received, suppress(EOFError, OSError, OutputError):  # the server then makes its own
            write_private_once(database, received.recv_bytes())

    return write


def _make_database(received: Connection, sent: Connection) -> None:
    """Send the bytes of a database with all of Prefect's migrations."""
    received.close()  # so that sending fails once the server is gone
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the server reports errors itself
    import sqlalchemy  # noqa: PLC0415 - loaded by now, as what follows
    from alembic.runtime.environment import EnvironmentContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415
    from prefect.server.database.alembic_commands import alembic_config  # noqa: PLC0415
    from prefect.server.database.dependencies import provide_database_interface  # noqa: PLC0415

    warnings.simplefilter("ignore")
    config, interface = alembic_config(), provide_database_interface()
    script = ScriptDirectory.from_config(config)
    script.version_locations = [str(interface.orm.versions_dir)]
    memory = sqlalchemy.create_engine("sqlite://", poolclass=sqlalchemy.StaticPool)

    def to_newest(revision: str, _: object) -> Sequence[object]:
        return script._upgrade_revs("head", revision)  # noqa: SLF001 - as alembic's own command

    with EnvironmentContext(config, script, fn=to_newest) as environment, memory.connect() as made:
        environment.configure(made, target_metadata=interface.Base.metadata, render_as_batch=True)
        with environment.begin_transaction():
            environment.run_migrations()
        raw = cast("sqlite3.Connection", made.connection.driver_connection)
        sent.send_bytes(raw.serialize())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _serve(given)
