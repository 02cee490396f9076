"""A server of the engine that outlives the commands of a test session, which costs ten seconds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.command import surroundings

if TYPE_CHECKING:
    from collections.abc import Iterator

_PATIENCE_S = 90.0


@dataclass(frozen=True)
class Engine:
    """A server of the engine that outlives the runs; its database and logs are in `folder`."""

    folder: Path
    url: str


@contextmanager
def running_engine(folder: Path) -> Iterator[Engine]:
    """Run a server whose database and logs are in a folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    prefect = str(Path(sys.executable).with_name("prefect"))
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [prefect, "server", "start", "--host", "127.0.0.1", "--port", str(port)],
            cwd=folder,
            env={
                **surroundings(folder),
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                "PREFECT_SERVER_LOGGING_LEVEL": "DEBUG",
                "DO_NOT_TRACK": "1",
            },
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _wait_for(port)
        yield Engine(folder, f"http://127.0.0.1:{port}/api")
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(_PATIENCE_S)


def _wait_for(port: int) -> None:
    end = time.monotonic() + _PATIENCE_S
    while time.monotonic() < end:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/api/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
        finally:
            connection.close()
    raise TimeoutError("the engine's server did not start")
