"""A real S3 interface on this machine, in memory, for tests of places that are no folders."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

from fsspec import get_filesystem_class

BUCKET = "nightscreen-test"
_PATIENCE_S = 60.0


@contextmanager
def object_store() -> Iterator[dict[str, str]]:
    """Run one with an empty bucket; give the environment by which its driver finds it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    get_filesystem_class("s3").clear_instance_cache()  # an earlier one asks elsewhere
    try:
        _make_bucket(port)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.terminate()
        server.wait()


def _make_bucket(port: int) -> None:
    end = time.monotonic() + _PATIENCE_S
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return
        finally:
            connection.close()
