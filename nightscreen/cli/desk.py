"""`nightscreen desk`: the pages for analysts, approvers and auditors, and who may use them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nightscreen.cli.common_options import JsonOption  # noqa: TC001 - Typer reads the annotation when it runs
from nightscreen.cli.env_settings import settings_of_command
from nightscreen.cli.journal_context import made_journal
from nightscreen.cli.output import print_json
from nightscreen.files.heartbeat import read_vitals
from nightscreen.schemas.errors import UsageError

if TYPE_CHECKING:
    from nightscreen.config.parameters import ScreenBatch
    from nightscreen.config.settings import Settings
    from nightscreen.desk.accounts import Role
    from nightscreen.schemas.approvals import Approval

PORT = 8090
DEPLOYMENT = "screen-batch/adhoc"

desk_app = typer.Typer(help="The pages for analysts, approvers and auditors.")
user_app = typer.Typer(help="Users of the desk.", no_args_is_help=True)
desk_app.add_typer(user_app, name="user")

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name as it appears in the audit.")
]
RoleOption = Annotated[
    list[str],
    typer.Option(
        "--role", help="analyst, approver, auditor, privacy or administrator; repeat it for more."
    ),
]


def register(app: typer.Typer) -> None:
    """Add `desk` to the console command."""
    app.add_typer(desk_app, name="desk")


@desk_app.callback(invoke_without_command=True, epilog="Example: nightscreen desk --port 8090")
def desk(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on; https is added by a proxy in front.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where runs started at the desk put their results. Default: OUTPUT, or out."
        ),
    ] = None,
) -> None:
    """Serve the desk until stopped; the first start prints the link that makes the first user."""
    if context.invoked_subcommand is not None:
        return
    from urllib.parse import urlsplit

    from nightscreen.desk.app import application
    from nightscreen.desk.seat import WRITE_WAIT_S, Seat
    from nightscreen.desk.users import password_link
    from nightscreen.portal.config import origin_of
    from nightscreen.portal.server import UploadProtocol, is_open_to_others, serve_app

    settings = settings_of_command()
    if is_open_to_others(host):
        behind = (
            "keep this port behind it" if settings.desk_url else "name it in NIGHTSCREEN_DESK_URL"
        )
        typer.echo(
            f"Other machines reach {host}, and the desk does not serve https: passwords and "
            "customer data would cross the network in clear. Let them reach only a proxy, and "
            f"{behind}.",
            err=True,
        )
    keep_at = (output or settings.output).absolute()
    with made_journal(settings, busy_timeout_s=WRITE_WAIT_S) as journal:
        seats: list[Seat] = []

        def build(at: str) -> Any:  # noqa: ANN401 - an ASGI application
            origins = {origin_of(settings.desk_url)} if settings.desk_url else set()
            if not origins:
                port_text = f":{urlsplit(at).port}"
                origins = {
                    at,
                    *(f"http://{name}{port_text}" for name in ("127.0.0.1", "localhost", "[::1]")),
                }
            starter = EngineStarter(settings)
            seats.append(Seat(journal, settings, starter, frozenset(origins), keep_at))
            return application(seats[0])

        def announce(at: str) -> str:
            token = seats[0].accounts.first_link()
            first = "" if token is None else f"\nfirst user: {password_link(settings, token, at)}"
            return f"desk listening on {origin_of(settings.desk_url) or at}{first}"

        serve_app(
            build,
            host=host,
            port=port,
            announce=announce,
            protocol=UploadProtocol,
            proxies=settings.desk_proxies,
        )


class EngineStarter:
    """Starts runs by the deployment of the engine's server, or in a separate process.

    Args:
        settings: those of the desk.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def start(self, parameters: ScreenBatch) -> None:
        """Start a run, or resume the one that the parameters name.

        Raises:
            UsageError: the engine's server does not answer, or the deployment is not there.
        """
        if _has_server():
            _run_deployment(parameters)
            return
        given = parameters.model_dump_json(exclude_defaults=True)
        log = self._settings.home.absolute() / "desk.runs.log"
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as to:
            child = subprocess.Popen(
                [sys.executable, "-m", "nightscreen.cli.desk_run"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=to,
                start_new_session=True,  # it outlives the desk; Ctrl-C there does not reach it
            )
        if child.stdin is not None:
            child.stdin.write(given.encode())
            child.stdin.close()

    def resume(self, approval: Approval, parameters: ScreenBatch, *, waits_in_inbox: bool) -> None:
        """Resume a run by the deployment that started it, by the watch of the inbox, or here.

        Raises:
            UsageError: the engine's server does not answer.
        """
        from nightscreen.cli.approve import hand_to_deployment

        handed = hand_to_deployment(approval, parameters, waits_in_inbox=waits_in_inbox)
        if handed is None and not waits_in_inbox:
            self.start(parameters)

    def stop(self, run_id: str, pid: int | None) -> None:
        """Ask a run to stop in good order: calls in flight settle, the report is written.

        Raises:
            UsageError: its process is not on this machine.
        """
        signs = read_vitals(self._settings.home, run_id) or {}
        if pid is None or (signs.get("host"), signs.get("pid")) != (socket.gethostname(), pid):
            raise UsageError(f"run {run_id} has no process on this machine; stop it in the engine")
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            raise UsageError(f"run {run_id} could not be reached; look again in a moment") from None


def _has_server() -> bool:
    from nightscreen.cli.screen import set_engine_defaults

    set_engine_defaults()
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


def _run_deployment(parameters: ScreenBatch) -> None:
    import httpx
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    given = parameters.model_dump(exclude_defaults=True)
    try:
        run_deployment(DEPLOYMENT, parameters={"parameters": given}, timeout=0, tags=["desk"])
    except ObjectNotFound:
        raise UsageError(
            f"the engine's server has no deployment {DEPLOYMENT}; make it with: prefect "
            "--no-prompt deploy --all"
        ) from None
    except (OSError, httpx.HTTPError):
        raise UsageError("the engine's server does not answer; see docs/deploy.md") from None


def _roles(given: list[str]) -> list[Role]:
    from nightscreen.desk.accounts import Role

    try:
        return [Role(name) for word in given for name in word.split(",")]
    except ValueError:
        raise UsageError("--role: choose among " + ", ".join(Role)) from None


@user_app.command("add", epilog="Example: nightscreen desk user add ada --role analyst")
def user_add(name: NameArgument, role: RoleOption, json_output: JsonOption = False) -> None:
    """Make a user; prints a link, good once and for a day, by which the password is set."""
    from nightscreen.desk.accounts import Accounts
    from nightscreen.journal.audit import Audit

    with made_journal(settings_of_command()) as journal:
        token = Accounts(journal).add(name, _roles(role))
        Audit(journal).write_by_command("user added", name=name, roles=_roles(role))
    _say_link(name, token, json_output=json_output)


@user_app.command("reset", epilog="Example: nightscreen desk user reset ada")
def user_reset(
    name: NameArgument,
    second_factor: Annotated[
        bool, typer.Option("--second-factor", help="Remove the second factor, too.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """End a user's password and sessions; prints a link by which another is set."""
    from nightscreen.desk.accounts import Accounts
    from nightscreen.journal.audit import Audit

    with made_journal(settings_of_command()) as journal:
        accounts, audit = Accounts(journal), Audit(journal)
        token = accounts.reset(name)
        audit.write_by_command("user reset", name=name)
        if second_factor:
            accounts.set_second(name)
            audit.write_by_command("second factor removed", name=name)
    _say_link(name, token, json_output=json_output)


def _say_link(name: str, token: str, *, json_output: bool) -> None:
    settings = settings_of_command()
    from nightscreen.desk.users import password_link

    link = password_link(settings, token, f"http://127.0.0.1:{PORT}")
    if json_output:
        print_json({"name": name, "link": link, "token": token})
    else:
        typer.echo(f"Hand this link to {name}; it sets a password, once, within a day:\n{link}")
