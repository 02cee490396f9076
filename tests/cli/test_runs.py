"""Whole runs from the command line: strange addresses, refused keys, kills, and what is listed."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nightscreen.sandbox.batch import make_batch
from nightscreen.sandbox.process import SandboxProcess
from tests.cli.command import COMMAND, NOBODY_LISTENS, Ended, nightscreen, surroundings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services import EngineServer

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 40
ERROR = b'{"status":"error","message":"Not here"}'


@contextmanager
def _server(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """Answer everything alike, and note what was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(self.command)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - named by the library

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def env(tmp_path: Path, engine_server: EngineServer) -> dict[str, str]:
    """Return an environment with a running engine, and a batch in the working directory."""
    make_batch(tmp_path / "batch.csv", rows=ROWS, seed=3, damage_pct=0)
    return surroundings(tmp_path, NIGHTSCREEN_API_KEY="sandbox-key", **engine_server.client)


def _screen(folder: Path, env: dict[str, str], url: str, *arguments: str) -> Ended:
    return nightscreen(
        "screen",
        "batch.csv",
        *arguments,
        cwd=folder,
        env={**env, "NIGHTSCREEN_BASE_URL": url},
        patience_s=90,
    )


def _runs(folder: Path, env: dict[str, str]) -> list[dict[str, str]]:
    listed: list[dict[str, str]] = nightscreen(
        "runs", "list", "--json", cwd=folder, env=env
    ).document["runs"]
    return listed


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (404, b"<html>Not Found</html>", {}),
        (404, ERROR, {"Content-Type": "application/json"}),
        (302, b"", {"Location": "https://elsewhere.example/login"}),
    ],
    ids=["foreign 404", "unknown route", "redirect"],
)
def test_a_wrong_address_is_told_after_a_second_witness(
    status: int, body: bytes, headers: dict[str, str], tmp_path: Path, env: dict[str, str]
) -> None:
    """It answers, but not as the service does: a settings error after two calls, not forty."""
    with _server(status, body, **headers) as (url, asked):
        ended = _screen(tmp_path, env, url)
    assert ended.status == 2
    assert len(asked) == 2
    (line,) = (each for each in ended.err.splitlines() if each.startswith("nightscreen: "))
    assert url in line
    assert "NIGHTSCREEN_BASE_URL" in line
    assert "Traceback" not in ended.err


def test_a_wrong_address_leaves_nothing_behind(tmp_path: Path, env: dict[str, str]) -> None:
    """No folder, no run that looks as if it had been killed."""
    with _server(404, b"<html>Not Found</html>") as (url, _):
        _screen(tmp_path, env, url)
    assert _runs(tmp_path, env) == []
    assert not list((tmp_path / "out").glob("*"))


@pytest.mark.parametrize(("status", "message"), [(401, b"Invalid"), (403, b"Forbidden")])
def test_a_refused_key_stops_the_run_resumably(
    status: int, message: bytes, tmp_path: Path, env: dict[str, str]
) -> None:
    """Nothing was spent; the summary says what to check and how to go on."""
    body = b'{"status":"error","message":"%s"}' % message
    with _server(status, body, **{"Content-Type": "application/json"}) as (url, asked):
        ended = _screen(tmp_path, env, url)
    assert ended.status == 3
    assert len(asked) <= 6
    assert "check NIGHTSCREEN_API_KEY" in ended.out
    (run,) = _runs(tmp_path, env)
    assert (run["state"], run["stop_reason"]) == ("stopped", "auth")
    assert f"nightscreen screen --run {run['run_id']}" in ended.out


def test_silence_is_an_outage_that_names_the_address(tmp_path: Path, env: dict[str, str]) -> None:
    """Nobody listens: the run gives up, and can be resumed."""
    ended = _screen(tmp_path, env, NOBODY_LISTENS)
    assert ended.status == 3
    assert NOBODY_LISTENS in ended.out
    assert _runs(tmp_path, env)[0]["stop_reason"] == "outage"


def test_a_killed_run_is_listed_refuses_another_input_and_goes_on(
    tmp_path: Path, env: dict[str, str]
) -> None:
    """What was answered before the kill is not asked again."""
    with SandboxProcess() as sandbox:
        _kill_midway(tmp_path, env, sandbox)
        (run,) = _runs(tmp_path, env)
        assert run["state"] == "killed"
        assert run["resumable"]
        shown = nightscreen("runs", "show", run["run_id"], cwd=tmp_path, env=env)
        assert f"nightscreen screen --run {run['run_id']}" in shown.out
        make_batch(tmp_path / "other.csv", rows=5, seed=4)
        there = {**env, "NIGHTSCREEN_BASE_URL": sandbox.url}
        other = nightscreen("screen", "other.csv", "--run", run["run_id"], cwd=tmp_path, env=there)
        assert (other.status, other.out) == (2, "")
        assert "is not the input of run" in other.err
        dearer = ("--run", run["run_id"], "--purpose", "origination")
        changed = nightscreen("screen", *dearer, cwd=tmp_path, env=there)
        assert (changed.status, changed.out) == (2, "")
        assert "--purpose: run" in changed.err
        again = nightscreen("screen", "--run", run["run_id"], "--json", cwd=tmp_path, env=there)
        assert (again.status, again.document["state"]) == (0, "completed")
        assert again.document["run_id"] == run["run_id"]
    assert [each["state"] for each in _runs(tmp_path, env)] == ["completed"]


def _kill_midway(folder: Path, env: dict[str, str], sandbox: SandboxProcess) -> None:
    """Screen until a dozen calls were answered, then kill."""
    sandbox.post("/_sandbox/latency", {"kind": "fixed", "ms": 200})
    child = subprocess.Popen(
        [COMMAND, "screen", "batch.csv"],
        cwd=folder,
        env={**env, "NIGHTSCREEN_BASE_URL": sandbox.url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while sandbox.totals()["totals"]["requests"] < 12:
        assert child.poll() is None
        time.sleep(0.02)
    child.kill()
    child.wait()
    sandbox.post("/_sandbox/latency", {"kind": "none"})


def test_the_quote_and_the_run_agree_on_calls(tmp_path: Path, env: dict[str, str]) -> None:
    """A quote asks nothing and leaves no run; the run then makes as many calls."""
    with SandboxProcess() as sandbox:
        there = {**env, "NIGHTSCREEN_BASE_URL": sandbox.url}
        quoted = nightscreen(
            "screen", "batch.csv", "--quote-only", "--json", cwd=tmp_path, env=there
        ).document
        assert sandbox.totals()["totals"]["requests"] == 0
        assert _runs(tmp_path, env) == []
        assert not (tmp_path / "out").exists()
        report = _screen(tmp_path, env, sandbox.url, "--json").document
        assert sandbox.totals()["totals"]["requests"] == quoted["calls"]
        assert report["cost"]["quoted"] == quoted["quoted"]
        assert report["rows"] == quoted["rows"]
        later = nightscreen("quote", "batch.csv", "--json", cwd=tmp_path, env=there).document
    assert later["calls"] == 0
    assert later["saved_by_reuse"] == report["cost"]["total"]


def _has_loaded(process: Path, library: str) -> bool:
    """Return whether a process has a compiled library in its memory."""
    return library in (process / "maps").read_text(encoding="utf-8", errors="replace")


def _has_a_server(process: Path) -> bool:
    """Return whether a server of a process's own has begun its database."""
    return (process / "cwd" / ".nightscreen" / "prefect" / "temporary" / "prefect.db").exists()


BEGINNINGS: dict[str, Callable[[Path], bool]] = {
    "the command itself": partial(_has_loaded, library="_ctypes"),
    "reading the file": partial(_has_loaded, library="libarrow"),
    "loading the engine": partial(_has_loaded, library="_pendulum"),
    "starting the temporary server": _has_a_server,
}
"""Moments of a start, each by what can be seen of it from outside, however slow the machine is."""


@pytest.mark.parametrize("moment", BEGINNINGS)
def test_an_interrupt_before_anything_is_asked_ends_in_one_line(
    moment: str, tmp_path: Path, env: dict[str, str]
) -> None:
    """While checking, while the temporary server starts: no traceback, nothing spent."""
    own = {name: value for name, value in env.items() if name != "PREFECT_API_URL"}
    child = subprocess.Popen(
        [COMMAND, "screen", "batch.csv"],
        cwd=tmp_path,
        env={**own, "NIGHTSCREEN_BASE_URL": NOBODY_LISTENS},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not BEGINNINGS[moment](Path(f"/proc/{child.pid}")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 3, err
    assert err.splitlines()[-1].startswith("nightscreen: stopped before anything was asked")
    assert "Traceback" not in out + err
