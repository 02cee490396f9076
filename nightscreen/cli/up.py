"""`nightscreen up`: all that one machine needs, started by one command and ended with it.

The Prefect server, the deployments of `prefect.yaml`, the inbox, the portal where it is configured,
and the desk; each is a process whose lines come out under its name. Ctrl-C ends them in good order:
what takes work first, the server last. Killed outright, `guardian` ends them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.error import URLError
from urllib.request import urlopen

import typer

from nightscreen.files.local_engine import LOGIN_FILE, RunningEngine, announcing
from nightscreen.files.private_files import make_private_folder
from nightscreen.schemas.errors import NightscreenError, UsageError
from nightscreen.tasks.engine_login import (
    LOGIN,
    UMASK,
    client_environment,
    new_login,
    server_environment,
    without_login,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import FrameType

    from nightscreen.config.settings import Settings

ENGINE_PORT = 4200
FLOWS = "flows"
_READY_WITHIN_S = 600.0
"""A first start makes the server's database; on a very busy machine that takes minutes."""
_ENDS_WITHIN_S = 60.0
_AGAIN_AFTER_S = 5.0
_MOST_STARTS = 5
_SOUND_AFTER_S = 600.0
"""A process that ran for this long did start: its end counts as the first one."""
_LOOK_S = 0.2
_DEMO_ROWS = 500
_ENGINE = {
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("up", epilog="Example: nightscreen up --demo")(up)


def up(
    demo: Annotated[
        bool, typer.Option("--demo", help="Start the simulator with made-up customers.")
    ] = False,
    output: Annotated[
        Path, typer.Option(help="Folder of the demo; emptied of what an earlier demo left.")
    ] = Path("nightscreen-demo"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the Prefect server; 0 takes a free one.")
    ] = ENGINE_PORT,
    desk_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the desk; 0 takes a free one.")
    ] = 8090,
) -> None:
    """Start everything on this machine, until Ctrl-C."""
    from nightscreen.cli import guardian

    stop = threading.Event()

    def heed(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, heed)
    group = guardian.begin()
    with ExitStack() as stack:
        if demo:
            _start_demo(output, stack)
        settings = _settings(demo=demo)
        tell = stack.enter_context(announcing(settings.home))
        services = Services(group, stop)
        stack.callback(services.end)
        engine = _engine(services, settings, port)
        if engine is None:
            return
        tell(engine.url, engine.login)
        _start_others(services, settings, engine, desk_port)
        _say(f"Everything runs; {_where_pages_are(settings, engine)}. Ctrl-C ends it.")
        if demo:
            _say(f"Try: cd {Path.cwd()} && cp customers.csv inbox/tonight.csv")
        services.watch()
    if services.failed:
        raise NightscreenError(f"{services.failed} ended too often; its lines above say why")


def _say(text: str) -> None:
    sys.stdout.write(f"{'up':<8}| {text}\n")
    sys.stdout.flush()


@dataclass
class Service:
    """One process that is kept running.

    Attributes:
        needed: everything ends where it does.
        environment: what it is given beside the present one; a login of an engine only here.
        umask: of the files it makes; -1 is the present one.
    """

    name: str
    command: Sequence[str]
    needed: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    umask: int = -1
    process: subprocess.Popen[str] | None = None
    starts: int = 0
    started_at: float = 0.0
    ended_at: float | None = None


class Services:
    """The processes, in the order in which they were started.

    Args:
        group: process group they are put in.
        stop: set where everything is to end.
    """

    def __init__(self, group: int, stop: threading.Event) -> None:
        self._group = group
        self.stop = stop
        self._all: list[Service] = []
        self.failed = ""

    def start(self, service: Service) -> None:
        """Start a process and pass its lines on under its name."""
        if service not in self._all:
            self._all.append(service)
        service.starts += 1
        service.started_at, service.ended_at = time.monotonic(), None
        service.process = subprocess.Popen(  # noqa: S603 - our own programs
            service.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**without_login(os.environ), "PYTHONUNBUFFERED": "1", **service.environment},
            umask=service.umask,
            process_group=self._group,
            text=True,
            errors="replace",
        )
        threading.Thread(target=_pass_on, args=(service.name, service.process), daemon=True).start()

    def watch(self) -> None:
        """Start again whatever ends, until everything is to end."""
        while not self.stop.wait(_LOOK_S):
            for service in self._all:
                self._look_at(service)

    def _look_at(self, service: Service) -> None:
        status = None if service.process is None else service.process.poll()
        if status is None:
            return
        if service.ended_at is None:
            service.ended_at = time.monotonic()
            if service.ended_at - service.started_at > _SOUND_AFTER_S:
                service.starts = 0
            _say(f"{service.name} has ended with status {status}")
        if service.needed or service.starts >= _MOST_STARTS:
            self.failed = service.name
            self.stop.set()
        elif time.monotonic() - service.ended_at >= _AGAIN_AFTER_S:
            self.start(service)

    def end(self) -> None:
        """End everything: first what takes work, then the runs, the server last."""
        running = [
            service for service in self._all if service.process and service.process.poll() is None
        ]
        if running:
            _say("Ending: runs settle what is in flight ...")
        flows = [service for service in running if service.name == FLOWS]
        others = [service for service in running if not service.needed and service not in flows]
        for service in others:
            _signal(service, signal.SIGTERM)
        runs = {pid for flow in flows if flow.process for pid in _children_of(flow.process.pid)}
        for pid in runs:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + _ENDS_WITHIN_S
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in runs):
            time.sleep(_LOOK_S)
        _end_all(others, until)
        for part, number in (
            (flows, signal.SIGINT),
            ([service for service in running if service.needed], signal.SIGTERM),
        ):
            for service in part:
                _signal(service, number)
            _end_all(part, time.monotonic() + _ENDS_WITHIN_S)


def _signal(service: Service, number: signal.Signals) -> None:
    if service.process is not None and service.process.poll() is None:
        with suppress(ProcessLookupError):
            service.process.send_signal(number)


def _end_all(services: Sequence[Service], until: float) -> None:
    for process in filter(None, (service.process for service in services)):
        try:
            process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _children_of(parent: int) -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.add(int(process.name))
    return found


def _pass_on(name: str, process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if line.strip():
            sys.stdout.write(f"{name:<8}| {line.rstrip()}\n")
            sys.stdout.flush()


def _settings(*, demo: bool) -> Settings:
    from nightscreen.cli.env_settings import settings_of_command
    from nightscreen.cli.preflight import check_service

    settings = settings_of_command()
    if not demo:
        check_service(settings)
    return settings


def _start_demo(output: Path, stack: ExitStack) -> None:
    """Start the simulator, and set this process and all it starts to it and to made-up people.

    The caller's limits hold here too, also for commands typed in the demo's folder.
    """
    from nightscreen.cli.demo import DAMAGE_PCT, SEED, limits_set, point_at, prepare_folder
    from nightscreen.files.private_files import write_private
    from nightscreen.sandbox.batch import make_batch
    from nightscreen.sandbox.process import SandboxProcess

    limits = limits_set()
    folder = prepare_folder(output.absolute(), keep=False)
    file = folder / "customers.csv"
    make_batch(file, rows=_DEMO_ROWS, seed=SEED, damage_pct=DAMAGE_PCT)
    sandbox = stack.enter_context(SandboxProcess(balance="5000000"))
    point_at(sandbox.url, sandbox.api_key, folder, limits)
    os.environ["NIGHTSCREEN_INBOX"] = str(folder / "inbox")
    os.environ["NIGHTSCREEN_OUTPUT"] = str(folder / "out")
    (folder / "inbox").mkdir(mode=0o700, exist_ok=True)
    write_private(folder / ".env", _demo_settings(sandbox.url, sandbox.api_key, limits).encode())
    os.chdir(folder)  # relative paths of deployments are the demo's
    _say(f"The simulator runs at {sandbox.url}; nothing here costs real money.")


def _demo_settings(url: str, api_key: str, limits: Mapping[str, str]) -> str:
    """Return a `.env` under which commands typed in the demo's folder join in."""
    places = {"NIGHTSCREEN_BASE_URL": url, "NIGHTSCREEN_API_KEY": api_key}
    lines = {**places, "NIGHTSCREEN_HOME": "home", **limits}
    quoted = (value.replace("\\", "\\\\").replace("'", "\\'") for value in lines.values())
    return "".join(f"{name}='{value}'\n" for name, value in zip(lines, quoted, strict=True))


def _engine(services: Services, settings: Settings, port: int) -> RunningEngine | None:
    """Start the Prefect server unless one is configured; return which, None when stopped.

    Raises:
        UsageError: the port cannot be had, or the server does not start.
        SettingsError: the one that is configured is away, refuses us, or answers anybody.
    """
    from nightscreen.cli.screen import ENGINE_DEFAULTS

    for name, value in {**_ENGINE, **ENGINE_DEFAULTS}.items():
        os.environ.setdefault(name, value)
    configured = os.environ.get("PREFECT_API_URL")
    if configured:
        from nightscreen.tasks.prefect_health import require_engine

        require_engine(takes_work=True, open_engine=settings.open_engine)
        _say(f"The Prefect server at {configured} is used.")
        return RunningEngine(configured, "")
    folder = make_private_folder((settings.home / "prefect").absolute())
    os.environ["PREFECT_HOME"] = str(folder)
    port = _free_port(port)
    engine = RunningEngine(f"http://127.0.0.1:{port}/api", new_login())
    command = [sys.executable, "-m", "prefect", "server", "start"]
    server = Service(
        "engine",
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        needed=True,
        environment=server_environment(folder, port, engine.login, settings.engine_pages),
        umask=UMASK,
    )
    _say(f"Starting the Prefect server at {engine.url.removesuffix('/api')} ...")
    services.start(server)
    until = time.monotonic() + _READY_WITHIN_S
    while not services.stop.wait(_LOOK_S):
        if _answers(engine.url):
            return engine
        if server.process is not None and server.process.poll() is not None:
            raise UsageError("the Prefect server did not start; its lines above say why")
        if time.monotonic() > until:
            raise UsageError(f"the Prefect server does not answer after {_READY_WITHIN_S:.0f} s")
    return None


def _where_pages_are(settings: Settings, engine: RunningEngine) -> str:
    """Return where Prefect's pages are, and the login they ask for; never the login itself."""
    if not engine.login:
        return f"Prefect's pages are at {engine.url.removesuffix('/api')}"
    pages = settings.engine_pages.split(",")[0] or engine.url.removesuffix("/api")
    file = (settings.home / LOGIN_FILE).absolute()
    return f"Prefect's pages are at {pages}, their login is in {file}"


def _free_port(port: int) -> int:
    try:
        with socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise UsageError(
            f"--port: {port} cannot be had ({error.strerror}); choose another, or 0 for a free one"
        ) from None


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}/health", timeout=2) as answer:  # noqa: S310 - our own server
            return bool(answer.status == 200)  # noqa: PLR2004 - OK
    except (URLError, OSError):
        return False


def _start_others(
    services: Services, settings: Settings, engine: RunningEngine, desk_port: int
) -> None:
    """Start what takes work, and the pages; the portal has no business with the engine."""
    own = [sys.executable, "-m", "nightscreen.cli"]
    if engine.login:
        ours = client_environment(engine.url, engine.login)
    else:
        ours = {name: os.environ[name] for name in (LOGIN,) if name in os.environ}
    served = [sys.executable, "-m", "nightscreen.flows.served"]
    services.start(Service(FLOWS, served, environment=ours))
    services.start(Service("inbox", [*own, "inbox"], environment=ours))
    if settings.redirect_uri or settings.portal_url:
        services.start(Service("portal", [*own, "portal"]))
    desk = [*own, "desk", "--port", str(desk_port)]
    services.start(Service("desk", desk, environment=ours))
