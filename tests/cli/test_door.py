"""The engine's door: without its login no Prefect server of ours does, makes or tells anything.

No work is taken from a server of others that has none; no login goes where it should not.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from nightscreen.cli.up import run_processes
from nightscreen.files.local_engine import running_engine
from nightscreen.schemas.errors import NightscreenError
from nightscreen.tasks import temporary_server
from tests.cli.command import COMMAND, NOBODY_LISTENS, SERVICE, nightscreen, surroundings
from tests.cli.test_up import MARK, PATIENCE_S, bearing, started, until
from tests.services import EngineServer, answering, free_port, start_engine_server

NOBODY = 65534  # the uid of a user who owns nothing
MORNING = "/deployments/name/morning-summary/morning"
ORDER = {"parameters": {"parameters": {"yes": True}}, "job_variables": {}}
"""What would start a run that spends."""


class Running(NamedTuple):
    """An `up` with everything that it may start."""

    home: Path
    url: str
    login: str
    mark: str
    log: Path
    env: dict[str, str]
    folder: Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Start everything: engine, served flows, inbox, portal, desk; no service answers."""
    folder = tmp_path_factory.mktemp("up")
    folder.chmod(0o755)  # whoever is another user gets as far as HOME itself
    env = surroundings(
        folder,
        **SERVICE,
        NIGHTSCREEN_HOME="home",
        NIGHTSCREEN_CONSENT_URL=NOBODY_LISTENS,
        NIGHTSCREEN_CLIENT_ID="sandbox-client",
        NIGHTSCREEN_REDIRECT_URI=f"http://127.0.0.1:{free_port()}/back",
        PREFECT_API_AUTH_STRING="user:of-another-server",
    )
    env.pop("PREFECT_API_URL", None)
    up = (COMMAND, "up", "--port", "0", "--desk-port", "0")
    with started(*up, folder=folder, env=env) as (process, mark, log):
        said = (
            "Everything runs",
            "desk listening on",
            "serving screen-batch",
            "portal listening",
        )
        until(lambda: process.poll() is not None or all(words in log.read_text() for words in said))
        assert process.poll() is None, log.read_text()
        found = running_engine(folder / "home")
        assert found is not None
        until(lambda: asked(found.url, "GET", MORNING, found.login)[0] == 200)
        yield Running(folder / "home", found.url, found.login, mark, log, env, folder)


def asked(
    url: str, method: str, path: str, login: str | None = None, body: object = None
) -> tuple[int, Any]:
    """Ask an engine by bare HTTP; return status and document.

    Prefect answers 503 while its database is locked, and has done nothing then: it is asked again.
    """
    user, _, password = (login or "").partition(":")
    given: dict[str, Any] = {"auth": None if login is None else (user, password), "timeout": 60}
    given |= {} if body is None else {"json": body}
    end = time.monotonic() + PATIENCE_S
    while True:
        answer = httpx.request(method, url + path, trust_env=False, **given)
        if answer.status_code != httpx.codes.SERVICE_UNAVAILABLE or time.monotonic() > end:
            break
        time.sleep(0.2)
    with suppress(ValueError):
        return answer.status_code, answer.json()
    return answer.status_code, None


@pytest.mark.engine
def test_nothing_is_listed_made_started_or_read_without_the_login(running: Running) -> None:
    """By bare HTTP, and by a websocket; what tells that it lives is the one exception.

    A browser asks first: only Prefect's own pages on this machine may call.
    """
    deployment = asked(running.url, "GET", MORNING, running.login)[1]
    own = f"/deployments/{deployment['id']}"
    asking: list[tuple[str, str, Any]] = [
        ("POST", "/deployments/filter", {}),
        ("POST", "/deployments/", {"name": "theirs", "flow_id": deployment["flow_id"]}),
        ("POST", f"{own}/create_flow_run", ORDER),
        ("PATCH", own, {"pull_steps": []}),
        ("DELETE", own, None),
        *(("POST", f"/{each}/filter", {}) for each in ("flow_runs", "logs", "events")),
        ("POST", "/automations/filter", {}),
        ("POST", "/work_pools/", {"name": "theirs", "type": "process"}),
        ("POST", "/variables/", {"name": "theirs", "value": "1"}),
        ("GET", "/admin/settings", None),
        ("GET", "/admin/version", None),
    ]
    for login in (None, "nightscreen:", "user:of-another-server"):
        for method, path, body in asking:
            assert asked(running.url, method, path, login, body)[0] == 401, path
        for path in ("/events/out", "/events/in", "/logs/out", "/work_pools/x/workers/connect"):
            assert not listened(running.url, path, login or "nothing"), path
    assert asked(running.url, "GET", "/health")[0] == 200
    assert asked(running.url, "POST", "/deployments/count", running.login, {})[1] > 5
    assert listened(running.url, "/logs/out", running.login)
    page = f"http://localhost:{httpx.URL(running.url).port}"
    for origin, mine in (("http://127.0.0.1:9", False), (page, True)):
        asks = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = httpx.options(f"{running.url}/deployments/filter", headers=asks, trust_env=False)
        allowed = answer.headers.get("Access-Control-Allow-Origin")
        assert (allowed == origin) is mine, allowed
        assert allowed != "*"


def typed(pid: int) -> list[bytes]:
    """Return the words that a process was started with."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def listened(url: str, path: str, login: str) -> bool:
    """Return whether a websocket of the engine lets somebody in."""
    from websockets.exceptions import WebSocketException  # noqa: PLC0415 - only here
    from websockets.sync.client import connect  # noqa: PLC0415 - as above
    from websockets.typing import Subprotocol  # noqa: PLC0415 - as above

    address = url.replace("http", "ws") + path
    with (
        suppress(WebSocketException, OSError),
        connect(address, subprotocols=[Subprotocol("prefect")], proxy=None) as socket,
    ):
        socket.send(json.dumps({"type": "auth", "token": login}))
        return bool(json.loads(socket.recv(30)).get("type") == "auth_success")
    return False


@pytest.mark.engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may be another user")
def test_another_user_of_the_machine_gets_nothing(running: Running) -> None:
    """Neither by curl, nor from the files, nor from what processes were started with."""
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl on this machine")
    script = """
    home=$1 curl=$2 url=$3; shift 3
    "$curl" -s -o /dev/null -w '%{http_code}\\n' -X POST -d '{}' "$url"
    for pid in "$@"; do cat "/proc/$pid/environ" 2>/dev/null || echo closed; done
    ls "$home" 2>/dev/null || echo closed
    """
    pids = sorted(bearing(running.mark))
    ended = subprocess.run(
        [
            *("/bin/sh", "-c", script, "sh", str(running.home), curl),
            *(f"{running.url}/deployments/filter", *map(str, pids)),
        ],
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        check=False,
    )
    assert ended.stdout.split() == ["401", *["closed"] * len(pids), "closed"], ended.stderr


@pytest.mark.engine
def test_the_login_goes_to_those_who_need_it_alone(running: Running) -> None:
    """In no argument list, in no log, in no file but its own; not to the portal."""
    secret = running.login.partition(":")[2]
    having = {}
    for pid in bearing(running.mark):
        assert not any(secret.encode() in word for word in typed(pid))
        environment = Path(f"/proc/{pid}/environ").read_bytes()
        having[b" ".join(typed(pid)).decode()] = secret.encode() in environment

    def has(word: str) -> list[bool]:
        return [holds for line, holds in having.items() if word in line]

    assert has("nightscreen.cli portal") == [False]
    for word in ("server start", "flows.served", "nightscreen.cli inbox", "nightscreen.cli desk"):
        assert any(has(word)), word
    portal = next(pid for pid in bearing(running.mark) if b"portal" in typed(pid))
    given = Path(f"/proc/{portal}/environ").read_bytes()
    assert b"AUTH_STRING" not in given, "not even the login of another server"
    assert secret not in running.log.read_text()
    assert str(running.home.absolute() / "engine.login") in running.log.read_text()
    holders = []
    for file in running.folder.rglob("*"):
        if file.is_file():
            if file.is_relative_to(running.home):
                assert file.stat().st_mode & 0o077 == 0, file
            if secret.encode() in file.read_bytes():
                holders.append(file.name)
    assert holders == ["engine.login"]


@pytest.mark.engine
def test_a_run_that_dies_has_crashed_and_takes_nothing_with_it(running: Running) -> None:
    """Each is a process of its own under a limit of memory; the next one is screened as ever."""
    found = asked(running.url, "GET", MORNING, running.login)[1]
    served = b"nightscreen.flows.served"
    (flows,) = [pid for pid in bearing(running.mark) if served in typed(pid)]

    def start() -> str:
        path = f"/deployments/{found['id']}/create_flow_run"
        return str(asked(running.url, "POST", path, running.login, {})[1]["id"])

    def state(run: str) -> str:
        return str(asked(running.url, "GET", f"/flow_runs/{run}", running.login)[1]["state_type"])

    def limited() -> set[int]:
        limits = set()
        for pid in run_processes(flows):
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
                (most,) = [line.split()[3] for line in lines if line.startswith("Max data size")]
                limits |= {pid} - ({pid} if most == "unlimited" else set())
        return limits

    first = start()
    until(lambda: bool(limited()))
    for pid in limited():
        os.kill(pid, signal.SIGKILL)
    until(lambda: state(first) == "CRASHED")
    second = start()
    until(lambda: state(second) in {"COMPLETED", "FAILED", "CRASHED"})
    assert state(second) == "COMPLETED", running.log.read_text()[-3000:]


@pytest.fixture
def strange() -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything with 200; what it was sent as a login."""
    heard: list[str] = []

    def anybody(asked: BaseHTTPRequestHandler, _body: bytes) -> tuple[int, bytes]:
        heard.append(asked.headers.get("Authorization", ""))
        if "csrf-token" in asked.path:  # it has none
            return 404, b"[]"
        return 200, b'"3.8.8"' if "version" in asked.path else b"[]"

    with answering(anybody) as address:
        yield f"{address}/api", heard


@pytest.mark.engine
def test_a_server_of_others_never_hears_our_login(
    running: Running, strange: tuple[str, list[str]]
) -> None:
    """Named in PREFECT_API_URL while an `up` of this HOME runs; a proxy hears it neither."""
    url, heard = strange
    env = {name: value for name, value in running.env.items() if "AUTH" not in name}
    nightscreen("doctor", cwd=running.folder, env=env | {"PREFECT_API_URL": url})
    assert heard
    assert set(heard) == {""}
    heard.clear()
    proxy = url.removesuffix("/api")
    env |= {"HTTP_PROXY": proxy, "http_proxy": proxy, "ALL_PROXY": proxy, "NO_PROXY": "x.example"}
    ended = nightscreen("doctor", "--json", cwd=running.folder, env=env)
    found = {each["name"]: each for each in ended.document["findings"]}
    assert found["engine"]["standing"] == "ok"
    assert set(heard) <= {""}


def test_no_work_is_taken_from_a_server_without_a_login(
    tmp_path: Path, strange: tuple[str, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither `up` nor the process that serves flows takes any: one line says what to do."""
    env = surroundings(tmp_path, **SERVICE, PREFECT_API_URL=strange[0])
    up = (COMMAND, "up", "--desk-port", "0")
    refused = subprocess.run(up, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    with temporary_settings({PREFECT_API_URL: strange[0]}), pytest.raises(SystemExit) as served:
        runpy.run_module("nightscreen.flows.served", run_name="__main__")
    ends = [(refused.returncode, refused.stderr), (served.value.code, capsys.readouterr().err)]
    for status, said in ends:
        assert status == 2, said
        assert "NIGHTSCREEN_OPEN_ENGINE=yes" in said
        assert "Traceback" not in said


@pytest.mark.engine
@pytest.mark.long
def test_a_run_of_a_server_without_a_login_does_nothing(tmp_path: Path) -> None:
    """Also where Prefect's own worker starts it: what it was asked to do is anybody's wish."""
    home = tmp_path / "home"
    (tmp_path / "engine").mkdir()
    port = free_port()
    server = start_engine_server(tmp_path / "engine", port, login="")
    url = f"http://127.0.0.1:{port}/api"
    env = surroundings(
        tmp_path, **SERVICE, PREFECT_API_URL=url, NIGHTSCREEN_HOME=str(home), NO_COLOR="1"
    )
    prefect = [sys.executable, "-m", "prefect"]
    root = Path(__file__).resolve().parents[2]
    try:
        for words in (("work-pool", "create", "nightscreen", "--type", "process"), ()):
            command = [*prefect, "--no-prompt", *(words or ("deploy", "--name", "purge"))]
            subprocess.run(command, cwd=root, env=env, check=True, capture_output=True)
        found = asked(url, "GET", "/deployments/name/purge/purge")[1]
        path = f"/deployments/{found['id']}/create_flow_run"
        run = asked(url, "POST", path, None, {})[1]["id"]
        once = [*prefect, "worker", "start", "--pool", "nightscreen", "--run-once"]
        subprocess.run(once, cwd=tmp_path, env=env, check=True, capture_output=True)
        state = asked(url, "GET", f"/flow_runs/{run}")[1]["state"]
        assert state["type"] == "FAILED"
        assert "NIGHTSCREEN_OPEN_ENGINE=yes" in state["message"]
        assert not (home / "journal.sqlite").exists()
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


CALLED = """
import asyncio, json, os, sys, urllib.error, urllib.request
import prefect  # as whoever calls a flow may have
from nightscreen.flows.housekeeping import purge
from nightscreen.tasks import temporary_server
from prefect import get_client
from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

async def both():
    return await asyncio.gather(purge(), purge())

asyncio.run(both())
(server,) = temporary_server._servers
try:
    status = urllib.request.urlopen(server.url + "/admin/version").status
except urllib.error.HTTPError as error:
    status = error.code
with temporary_settings({PREFECT_API_URL: sys.argv[1]}):
    with get_client(sync_client=True) as client:
        client.api_version()
words = open(f"/proc/{server.process.pid}/cmdline").read()
print(json.dumps({"login": server.login, "status": status, "words": words, "own": [
    name for name, value in os.environ.items() if server.login in value]}), flush=True)
sys.stdin.read()
"""
"""What calls a flow from Python, and what it tells of its server."""


@pytest.mark.long
@pytest.mark.engine
def test_a_flow_that_is_called_from_python_has_a_server_with_a_login(
    tmp_path: Path, strange: tuple[str, list[str]]
) -> None:
    """Two processes at once share a HOME, each with its own login; it goes to no proxy either."""
    proxy = strange[0].removesuffix("/api")
    env = surroundings(tmp_path, **SERVICE, NIGHTSCREEN_HOME="home", HTTP_PROXY=proxy)
    env.pop("PREFECT_API_URL", None)
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", CALLED, strange[0]],
            cwd=tmp_path,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = [json.loads(caller.stdout.readline()) for caller in callers if caller.stdout]
    for caller in callers:
        caller.communicate()
    assert [each["status"] for each in told] == [401, 401]
    assert len({each["login"] for each in told}) == 2
    assert not any(each["login"] in each["words"] for each in told)
    assert [each["own"] for each in told] == [[], []]
    assert set(strange[1]) == {""}
    databases = [*tmp_path.rglob("prefect.db")]
    assert databases
    for file in (tmp_path / "home").rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, file
    assert all(file.is_relative_to(tmp_path / "home") for file in databases)


def test_a_temporary_server_that_dies_is_not_waited_for(tmp_path: Path) -> None:
    temporary_server.begin(tmp_path)
    temporary_server._servers[-1].process.kill()
    temporary_server._servers[-1].process.wait()
    try:
        with pytest.raises(NightscreenError, match="did not start; nothing was asked"):
            temporary_server.wait(600)
    finally:
        temporary_server._stop()


BEGINS_TWICE = """
from nightscreen.cli.engine import begin_engine
from nightscreen.tasks import temporary_server

begin_engine()
(first,) = temporary_server._servers
first.process.wait()
begin_engine()
assert temporary_server._servers == [first]
assert temporary_server.let_serve() is None
"""


def test_where_a_profile_names_a_server_one_process_finds_it_out(tmp_path: Path) -> None:
    """It ends at once, and no second one is started to find out the same."""
    profiles = tmp_path / "profiles.toml"
    named = 'active = "own"\n[profiles.own]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n'
    profiles.write_text(named, "utf-8")
    env = surroundings(
        tmp_path, **SERVICE, NIGHTSCREEN_HOME="home", PREFECT_PROFILES_PATH=str(profiles)
    )
    env.pop("PREFECT_API_URL", None)
    env.pop("PREFECT_SERVER_EPHEMERAL_ENABLED", None)
    command = [sys.executable, "-c", BEGINS_TWICE]
    subprocess.run(command, check=True, cwd=tmp_path, env=env, timeout=PATIENCE_S)


@pytest.mark.engine
def test_the_database_of_our_servers_is_the_one_that_prefect_makes(
    tmp_path: Path, engine_server: EngineServer
) -> None:
    """The same tables and version; one that is there already stays as it is."""

    def found(database: Path) -> tuple[set[tuple[str, ...]], list[tuple[str]]]:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
            tables = opened.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
            # Constraints stand in the order of a set, another one each time.
            lines = {(*of, *sorted(re.split(r",?\s*\n", sql or ""))) for *of, sql in tables}
            return lines, opened.execute("SELECT version_num FROM alembic_version").fetchall()

    made = temporary_server.make_server_folder(tmp_path / "home") / "prefect.db"
    assert found(made) == found(engine_server.folder / "prefect.db")
    made.write_text("kept")
    temporary_server.make_server_folder(tmp_path / "home")
    assert made.read_text() == "kept"


BEGINS_SERVER = """
import sys
from pathlib import Path
from nightscreen.tasks import temporary_server

temporary_server.begin(Path(sys.argv[1]))
if sys.argv[2] == "serves":
    temporary_server.let_serve()
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("state", ["loads", "serves"])
def test_a_killed_command_leaves_no_process(tmp_path: Path, state: str) -> None:
    mark = secrets.token_hex(8)
    command = [sys.executable, "-c", BEGINS_SERVER, str(tmp_path / "home"), state]
    env = {**surroundings(tmp_path), MARK: mark}
    env.pop("PREFECT_API_URL", None)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdin=pipe, stdout=pipe) as begun:
        until(lambda: len(bearing(mark)) == 2)
        if begun.stdout:
            begun.stdout.readline()
        begun.kill()
        until(lambda: not bearing(mark))
    assert state == "serves" or not [*tmp_path.rglob("*.db")]
