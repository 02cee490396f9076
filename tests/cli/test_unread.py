"""The command on several nights, against a service on a socket whose answers cannot all be read."""

from __future__ import annotations

import csv
import json
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command import nightscreen, surroundings
from tests.screening import customer
from tests.shifted import sitecustomize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services import EngineServer

pytestmark = pytest.mark.engine

DAY_S = 24 * 3600
ODD = {
    2: (b"<html>Please sign in</html>", {"Content-Type": "text/html"}),
    5: (b"", {}),
    8: (b"\x0b\x02\x80nothing\x03", {"Content-Encoding": "br"}),
    11: (b'{"status":"success","data":"' + b"x" * 1_100_000 + b'"}', {}),
}
"""Whole 200s without a readable cost, by the number of the customer."""


@dataclass
class Service:
    """Answers bank account lookups, each of which it charges, and counts them.

    Attributes:
        charged: how often each account was charged.
        odd: bodies and headers in place of a record, by account.
    """

    charged: Counter[str] = field(default_factory=Counter)
    odd: dict[str, tuple[bytes, dict[str, str]]] = field(default_factory=dict)

    def answer(self, asked: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        """Charge a lookup and return its body and headers."""
        account = asked["account_number"]
        self.charged[account] += 1
        data = {"account_number": account, "account_name": "MADE UP", "bvn": ""}
        meta = {"cost": 10, "balance": 100_000 - 10 * self.charged.total()}
        body = {"status": "success", "data": data, "meta": meta}
        return self.odd.get(account, (json.dumps(body).encode(), {}))


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """Serve on loopback; give the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body, headers = service.answer(asked)
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def night_of(
    folder: Path, engine: EngineServer, address: str, **more: str
) -> Callable[..., dict[str, Any]]:
    """Return what screens the batch by the command, some days from now, and gives its report."""
    shifted = Path(sitecustomize.__file__).parent

    def night(days: float = 0, status: int = 0) -> dict[str, Any]:
        env = surroundings(
            folder,
            **engine.client,
            NIGHTSCREEN_BASE_URL=address,
            NIGHTSCREEN_API_KEY="made-up-key",
            **more,
        )
        if days:
            env |= {sitecustomize.SHIFT: str(days * DAY_S), "PYTHONPATH": str(shifted)}
        ended = nightscreen(
            *("screen", "in.csv", "--checks", "bank_account", "--yes", "--json"),
            cwd=folder,
            env=env,
        )
        assert ended.status == status, ended.err
        document: dict[str, Any] = ended.document
        return document

    return night


def write_batch(folder: Path, number: int) -> list[str]:
    """Write customers; return their accounts."""
    rows = [customer(each) for each in range(1, number + 1)]
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return [row["account_number"] for row in rows]


def test_what_is_charged_and_never_readable_is_bought_twice_in_three_nights(
    engine_server: EngineServer, tmp_path: Path
) -> None:
    """The others are answered once; every night completes and may be published."""
    accounts = write_batch(tmp_path, 12)
    service = Service(odd={accounts[number - 1]: odd for number, odd in ODD.items()})
    with listening(service) as address:
        night = night_of(tmp_path, engine_server, address)
        for days in range(3):
            report = night(days)
            assert (report["state"], report["publishable"]) == ("completed", True)
            part = report["checks"]["bank_account"]
            assert (part["in_doubt"], part["paid"] + part["reused"]) == (len(ODD), 8)
    assert {service.charged[account] for account in service.odd} == {2}
    assert service.charged.total() == 2 * len(ODD) + 8
