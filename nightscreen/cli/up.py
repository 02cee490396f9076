"""`nightscreen up`: run everything on one machine; `nightscreen init`.

It starts the Prefect server, the deployments of `prefect.yaml`, the inbox, the portal if it is
configured, and the desk. Each is a process; its output lines are printed with its name. Ctrl-C ends
them in order, the server last. If `up` itself is killed, `reaper` ends them.
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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli import reaper
from nightscreen.cli.command import command
from nightscreen.cli.context import settings_of_command
from nightscreen.cli.engine import ENGINE_DEFAULTS
from nightscreen.files.local_engine import LOGIN_FILE, RunningEngine, announcing
from nightscreen.files.private_files import make_private_folder, write_private, write_private_once
from nightscreen.runs.run import require_service
from nightscreen.schemas.errors import NightscreenError, UsageError
from nightscreen.schemas.shipped import PACKAGE, template
from nightscreen.tasks.temporary_server import (
    LOGIN,
    UMASK,
    answers,
    client_environment,
    make_server_folder,
    new_login,
    server_environment,
    without_login,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nightscreen.config.settings import Settings

FLOWS = "flows"
_READY_WITHIN_S = 600.0
"""A server loads for minutes on a very busy machine, more where it has to migrate its database."""
# runs settle their calls in flight; a run killed after that can be resumed
_ENDS_WITHIN_S = 60.0
AGAIN_AFTER_S = 5.0  # a pause, so that a process that ends at once is not restarted constantly
MOST_ENDS = 5  # in a row, a choice: a process that ends so often cannot start; all is ended
SOUND_AFTER_S = 600.0  # a process that ran this long did start; its end counts as the first
_ANSWERS_WITHIN_S = 2.0  # a server that still starts is slow to answer
_LOOK_S = 0.2  # how often to look for the end of a run, or the server's first answer
_DEMO_ROWS = 500  # customers per night: all nights are screened in about a minute
_DEMO_WALLET_NAIRA = "12000"  # what two weeks of such nights cost, and a few nights more
_DEMO_OVERRIDE_ABOVE = "50000"
_ENGINE = {
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    # a run that waits for the one before it begins soon after, and not up to half a minute later
    "PREFECT_DEPLOYMENT_CONCURRENCY_SLOT_WAIT_SECONDS": "1",
}


INITIAL_FILES = {
    ".env": template(".env.example"),
    "prefect.yaml": template("prefect.yaml"),
    "work_pool.json": PACKAGE / "flows" / "work_pool.json",
}
"""Files that `init` writes, and what they are copied from."""


@command("init --output nights", view="init")
def init(
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path(),
) -> dict[str, Any]:
    """Write settings and deployments to fill in."""
    make_private_folder(output, ours=False)
    written = {
        name: write_private_once(output / name, source.read_bytes())
        for name, source in INITIAL_FILES.items()
    }
    return {"written": written}


@command("up --demo")
def up(
    demo: Annotated[
        bool, typer.Option("--demo", help="Start the simulator with fictional customers.")
    ] = False,
    output: Annotated[
        Path, typer.Option(help="Folder of the demo; files of an earlier demo are removed.")
    ] = Path("nightscreen-demo"),
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the Prefect server; 0 takes a free one.")
    ] = 4200,
    desk_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the desk; 0 takes a free one.")
    ] = 8090,
) -> None:
    """Start everything on this machine, until Ctrl-C."""
    processes = reaper.begin()
    with ExitStack() as stack:
        if demo:
            start_demo(output, stack)
        settings = settings_of_command()
        if demo:
            desk_port = _port_to_listen_on(desk_port, "--desk-port")  # the users' links name it
            _seed_demo(settings, f"http://127.0.0.1:{desk_port}")
        else:
            require_service(settings, quote_only=False)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: stop.set())
        tell = stack.enter_context(announcing(settings.home))
        services = Services(processes, stop)
        stack.callback(services.end)
        engine = _engine(services, settings, port)
        if engine is None:
            return
        tell(engine.url, engine.login)
        _start_others(services, settings, engine, desk_port)
        pages = f"Prefect's pages are at {engine.url.removesuffix('/api')}"
        if engine.login:  # never the login itself
            own = settings.engine_pages.split(",")[0] or engine.url.removesuffix("/api")
            file = (settings.home / LOGIN_FILE).absolute()
            pages = f"Prefect's pages are at {own}, their login is in {file}"
        _say(f"Everything runs; {pages}. Ctrl-C ends it.")
        if demo:
            _say(f"Try: cd {Path.cwd()} && cp customers.csv inbox/tonight.csv")
        stop.wait()
    if services.failed:
        raise NightscreenError(f"{services.failed} ended too often; its lines above say why")


def _say(text: str, name: str = "up") -> None:
    sys.stdout.write(f"{name:<8}| {text}\n")
    sys.stdout.flush()


@dataclass
class Service:
    """One process; a thread restarts it when it ends, until everything is to end."""

    name: str  # printed before its output lines
    command: Sequence[str]  # program and arguments
    needed: bool = False  # if it ends, everything ends
    # added to the present environment; a Prefect server's login is passed only here
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    umask: int = -1  # of the files it makes; -1 keeps the present one
    ends_within_s: float = _ENDS_WITHIN_S
    process: subprocess.Popen[str] = field(init=False)

    def begin(self, group: int) -> subprocess.Popen[str]:
        """Start the process in a process group."""
        self.process = subprocess.Popen(  # noqa: S603 - our own programs
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**without_login(os.environ), "PYTHONUNBUFFERED": "1", **self.environment},
            umask=self.umask,
            process_group=group,
            text=True,
            errors="replace",
        )
        return self.process

    def supervise(self, services: Services, process: subprocess.Popen[str]) -> None:
        """Print its output; restart it when it ends, at most `MOST_ENDS` times in a row."""
        ends, began = 0, time.monotonic()
        while True:
            for line in process.stdout or ():
                if line.strip():
                    _say(line.rstrip(), self.name)
            status = process.wait()
            if services.stop.is_set():
                return
            _say(f"{self.name} has ended with status {status}")
            ends = 1 if time.monotonic() - began > SOUND_AFTER_S else ends + 1
            if self.needed or ends >= MOST_ENDS:
                services.failed = self.name
                services.stop.set()
            if services.stop.wait(AGAIN_AFTER_S):
                return
            process, began = self.begin(services.group), time.monotonic()


@dataclass
class Services:
    """The processes, in the order in which they were started."""

    group: int  # their process group
    stop: threading.Event  # set when everything is to end
    failed: str = ""  # the service that ended too often
    _all: list[Service] = field(default_factory=list)

    def start(self, service: Service) -> None:
        """Start a service, and keep it running."""
        self._all.append(service)
        arguments = (self, service.begin(self.group))
        threading.Thread(target=service.supervise, args=arguments, daemon=True).start()

    def end(self) -> None:
        """End everything: inbox, pages and runs first, then the flows, the server last."""
        self.stop.set()
        running = [service for service in self._all if service.process.poll() is None]
        if running:
            _say("Ending: runs settle what is in flight ...")
        flows = [service for service in running if service.name == FLOWS]
        needed = [service for service in running if service.needed]
        others = [service for service in running if service not in (*flows, *needed)]
        runs = {pid for flow in flows for pid in run_processes(flow.process.pid)}
        for pid in runs:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        _end(others, signal.SIGTERM)
        until = time.monotonic() + _ENDS_WITHIN_S
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in runs):
            time.sleep(_LOOK_S)
        _end(flows, signal.SIGINT)
        _end(needed, signal.SIGTERM)


def _end(services: Sequence[Service], number: signal.Signals) -> None:
    """Ask processes to end; kill those that do not in time."""
    for service in services:
        service.process.send_signal(number)  # does nothing where it has ended
    since = time.monotonic()
    for service in services:
        try:
            service.process.wait(max(0.0, since + service.ends_within_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            service.process.kill()
            service.process.wait()


def run_processes(flows: int) -> set[int]:
    """Return the process ids of runs under way: grandchildren of the process of the flows."""
    return {run for child in _children_of(flows) for run in _children_of(child)}


def _children_of(parent: int) -> set[int]:
    children = set()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                children.add(int(process.name))
    return children


def start_demo(output: Path, stack: ExitStack) -> None:
    """Start the simulator; point this process and its children at it and the demo's folder.

    The caller's limits apply too, also to commands typed in the demo's folder.
    """
    from nightscreen.cli import demo
    from nightscreen.sandbox.process import SandboxProcess

    limits = {"NIGHTSCREEN_OVERRIDE_ABOVE": _DEMO_OVERRIDE_ABOVE} | demo.limits_set()
    folder = demo.prepare_folder(output.absolute())
    sandbox = stack.enter_context(SandboxProcess(balance=_DEMO_WALLET_NAIRA))
    demo.use_simulator(sandbox.url, sandbox.api_key, folder, limits)
    os.environ["NIGHTSCREEN_INBOX"] = str(folder / "inbox")
    os.environ["NIGHTSCREEN_OUTPUT"] = str(folder / "out")
    (folder / "inbox").mkdir(mode=0o700, exist_ok=True)
    own = {"BASE_URL": sandbox.url, "API_KEY": sandbox.api_key, "HOME": "home"}
    _write_settings(folder / ".env", {f"NIGHTSCREEN_{name}": own[name] for name in own} | limits)
    os.chdir(folder)  # relative paths of deployments are the demo's
    _say(f"The simulator runs at {sandbox.url}; nothing here costs real money.")


def _seed_demo(settings: Settings, desk: str) -> None:
    """Make two weeks of sample data; print the links of the desk's users."""
    from nightscreen.cli import demo
    from nightscreen.cli.demo_office import NIGHTS, USERS, seed_demo
    from nightscreen.desk.users import password_link

    _say(f"Screening {NIGHTS} nights of fictional customers; this takes about a minute ...")
    tokens = seed_demo(Path.cwd(), settings, _DEMO_ROWS, seed=demo.SEED, damage_pct=demo.DAMAGE_PCT)
    for name, token in tokens.items():
        roles = " and ".join(USERS[name])
        _say(f"{name} ({roles}) sets a password at {password_link(settings, token, desk)}")


def _write_settings(file: Path, settings: Mapping[str, str]) -> None:
    """Write a `.env`, so that commands typed in the demo's folder use the demo's settings."""
    quoted = (value.replace("\\", "\\\\").replace("'", "\\'") for value in settings.values())
    lines = (f"{name}='{value}'\n" for name, value in zip(settings, quoted, strict=True))
    write_private(file, "".join(lines).encode())


def _engine(services: Services, settings: Settings, port: int) -> RunningEngine | None:
    """Return the configured Prefect server, or start one; None if stopped meanwhile.

    Raises:
        UsageError: the port is taken, or the server does not start.
        SettingsError: the configured server is away, refuses the login, or needs none.
    """
    for name, value in {**_ENGINE, **ENGINE_DEFAULTS}.items():
        os.environ.setdefault(name, value)
    configured = os.environ.get("PREFECT_API_URL")
    if configured:
        from nightscreen.tasks.server import refuse_open_engine, require_engine

        require_engine()
        refuse_open_engine(allowed=settings.open_engine)
        _say(f"The Prefect server at {configured} is used.")
        return RunningEngine(configured, "")
    folder = make_server_folder((settings.home / "prefect").absolute())
    os.environ["PREFECT_HOME"] = str(folder)
    port = _port_to_listen_on(port, "--port")
    engine = RunningEngine(f"http://127.0.0.1:{port}/api", new_login())
    command_ = [sys.executable, "-m", "prefect", "server", "start"]
    server = Service(
        "engine",
        [*command_, "--host", "127.0.0.1", "--port", str(port)],
        needed=True,
        environment=server_environment(folder, port, engine.login, settings.engine_pages),
        umask=UMASK,
    )
    _say(f"Starting the Prefect server at {engine.url.removesuffix('/api')} ...")
    services.start(server)
    until = time.monotonic() + _READY_WITHIN_S
    while not services.stop.wait(_LOOK_S):
        if answers(port, _ANSWERS_WITHIN_S):
            return engine
        if time.monotonic() > until:
            raise UsageError(f"the Prefect server does not answer after {_READY_WITHIN_S:.0f} s")
    if services.failed:
        raise UsageError("the Prefect server did not start; its lines above say why")
    return None


def _port_to_listen_on(port: int, option: str) -> int:
    """Return the port, or any free port for 0.

    Raises:
        UsageError: the port is taken.
    """
    try:
        with socket.create_server(("127.0.0.1", port)) as listener:
            return int(listener.getsockname()[1])
    except OSError as error:
        raise UsageError(
            f"{option}: cannot listen on 127.0.0.1:{port} ({error.strerror}); choose another port, "
            "or 0 for a free one"
        ) from None


def _start_others(
    services: Services, settings: Settings, engine: RunningEngine, desk_port: int
) -> None:
    """Start the flows, the inbox and the pages; the portal gets no login for the engine."""
    ours = {name: os.environ[name] for name in (LOGIN,) if name in os.environ}
    if engine.login:
        ours = client_environment(engine.url, engine.login)
    python = [sys.executable, "-m"]
    others = [
        Service(FLOWS, [*python, "nightscreen.flows.served"], environment=ours),
        Service("inbox", [*python, "nightscreen.cli", "inbox"], environment=ours),
    ]
    if settings.redirect_uri or settings.portal_url:
        from nightscreen.portal.app import end_within_s

        portal = [*python, "nightscreen.cli", "portal"]
        within_s = end_within_s(settings) + _ENDS_WITHIN_S
        others.append(Service("portal", portal, ends_within_s=within_s))
    desk = [*python, "nightscreen.cli", "desk", "--port", str(desk_port)]
    others.append(Service("desk", desk, environment=ours))
    for service in others:
        services.start(service)
