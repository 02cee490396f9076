"""`nightscreen desk`, `desk user` and `portal`: serve web pages, manage users of the desk."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path  # noqa: TC003 - Typer reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from nightscreen.cli.command import command, group
from nightscreen.cli.context import require_consent, settings_of_command
from nightscreen.cli.engine import set_engine_defaults
from nightscreen.cli.output import say
from nightscreen.cli.runs import hand_to_deployment
from nightscreen.config.parameters import SCREEN_FLOW, ScreenBatch
from nightscreen.config.settings import is_loopback
from nightscreen.desk.accounts import Accounts
from nightscreen.desk.users import password_link
from nightscreen.journal import journal_of
from nightscreen.journal.audit import Audit
from nightscreen.ops.vitals import read_vitals
from nightscreen.portal.app import serve
from nightscreen.runs.approval import waits_in_inbox
from nightscreen.schemas.errors import UsageError
from nightscreen.schemas.users import Role

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nightscreen.config.settings import Settings
    from nightscreen.journal.runs import RunRecord
    from nightscreen.schemas.api_runs import ApiRunParameters
    from nightscreen.schemas.approvals import Approval


PORT = 8090  # as in deploy/; not 8080, the portal's
DEPLOYMENT = "screen-batch/adhoc"

desk_app = group("desk", "Web pages for analysts, approvers and auditors.", no_args_is_help=False)
user_app = group("desk user", "Users of the desk.")
desk_app.add_typer(user_app, name="user")

HostOption = Annotated[
    str, typer.Option(help="Address to listen on; https is added by a proxy in front.")
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name as it appears in the audit.")
]


@desk_app.callback(invoke_without_command=True, epilog="Example: nightscreen desk --port 8090")
def desk(
    typed: typer.Context,
    host: HostOption = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = PORT,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where runs started at the desk write their results. Default: OUTPUT, or out."
        ),
    ] = None,
) -> None:
    """Serve the desk until stopped; the first start prints the link that makes the first user."""
    if typed.invoked_subcommand is not None:
        return
    from nightscreen.desk.app import application
    from nightscreen.desk.context import WRITE_WAIT_S, Context
    from nightscreen.web.guard import origin_of
    from nightscreen.web.serve import listening, serve_app

    settings = settings_of_command()
    behind = "keep this port behind it" if settings.desk_url else "name it in NIGHTSCREEN_DESK_URL"
    _warn_of_http(host, "desk", behind)
    results = (output or settings.output).absolute()
    with (
        journal_of(settings, busy_timeout_s=WRITE_WAIT_S) as journal,
        listening(host, port) as (listener, at),
    ):
        names = ("127.0.0.1", "localhost", "[::1]")
        local = {at, *(f"http://{name}:{urlsplit(at).port}" for name in names)}
        proxied = origin_of(settings.desk_url)
        starter = EngineStarter(settings)
        starter.prepare()
        origins = frozenset({proxied} if proxied else local)
        context = Context(journal, settings, starter, origins, results)
        token = context.accounts.first_link()
        first = "" if token is None else f"\nfirst user: {password_link(settings, token, at)}"
        serve_app(
            application(context),
            listener,
            f"desk listening on {proxied or at}{first}",
            proxies=settings.desk_proxies,
            takes_files=True,
        )


def _warn_of_http(host: str, pages: str, behind: str) -> None:
    """Warn that pages cross the network unencrypted, unless only this machine reaches them."""
    if not is_loopback(host):
        say(
            f"Other machines reach {host}, and the {pages} does not serve https: passwords and "
            f"customer data would cross the network unencrypted. Let them reach only a proxy that "
            f"does, and {behind}."
        )


class EngineStarter:
    """Starts runs through the Prefect server's deployment, or in a separate process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def prepare(self) -> None:
        """Load Prefect's client if a server is known, so that the first run starts at once."""
        set_engine_defaults()
        if "PREFECT_API_URL" in os.environ:
            import prefect.deployments  # noqa: F401 - loaded for later

    def start(self, parameters: ScreenBatch) -> None:
        """Start a run, or resume the run that the parameters name.

        Raises:
            UsageError: the Prefect server does not answer, or has no such deployment.
        """
        set_engine_defaults()
        from prefect.settings import PREFECT_API_URL

        if PREFECT_API_URL.value():
            _run_deployment(parameters)
            return
        if parameters.run:
            from nightscreen.cli.preflight import check_before_engine

            check_before_engine(parameters, self._settings)
        self._start("screen_batch:screen_batch", parameters)

    def _start(self, path: str, parameters: ScreenBatch | ApiRunParameters) -> None:
        """Start a flow in a process of its own."""
        given = parameters.model_dump_json(exclude_defaults=True)
        log = self._settings.home.absolute() / "desk.runs.log"
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as to:
            child = subprocess.Popen(  # noqa: S603 - one of our own commands
                [sys.executable, "-m", "nightscreen.cli.engine", path],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=to,
                start_new_session=True,  # it outlives the desk; Ctrl-C there does not reach it
            )
        if child.stdin is not None:
            child.stdin.write(given.encode())
            child.stdin.close()

    def resume(self, run: RunRecord, approval: Approval, given: Mapping[str, str]) -> None:
        """Resume a run through the deployment that started it, the inbox watch, or here.

        Raises:
            NightscreenError: the Prefect server does not answer, or the run cannot be resumed.
        """
        waits = waits_in_inbox(run, self._settings)
        if hand_to_deployment(run, approval, given, waits_in_inbox=waits) is not None or waits:
            return
        if run.flow == SCREEN_FLOW:
            self.start(ScreenBatch.model_validate(given))
            return
        from nightscreen.cli.flows import KINDS  # a second to load

        kind = KINDS[run.flow]
        parameters = kind.check(kind.form.model_validate(given), self._settings)
        self._start(f"people:{run.flow}", parameters)

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


def _run_deployment(parameters: ScreenBatch) -> None:
    import httpx
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound

    given = parameters.model_dump(exclude_defaults=True)
    try:
        run_deployment(DEPLOYMENT, parameters={"parameters": given}, timeout=0, tags=["desk"])
    except ObjectNotFound:
        raise UsageError(
            f"the Prefect server has no deployment {DEPLOYMENT}; make it with: prefect "
            "--no-prompt deploy --all"
        ) from None
    except (OSError, httpx.HTTPError):
        raise UsageError("the Prefect server does not answer; see docs/deploy.md") from None


@command("desk user add ada --role analyst", of=user_app, view="link-of-user")
def add(
    name: NameArgument,
    role: Annotated[
        list[str],
        typer.Option(help="analyst, approver, auditor, privacy or administrator; may be repeated."),
    ],
) -> dict[str, str]:
    """Add a user; prints a link to set the password, which works once within a day."""
    try:
        roles = [Role(each) for text in role for each in text.split(",")]
    except ValueError:
        raise UsageError("--role: choose among " + ", ".join(Role)) from None
    settings = settings_of_command()
    with journal_of(settings) as journal:
        token = Accounts(journal).add(name, roles)
        Audit(journal).write_by_command("user added", name=name, roles=roles)
    return _linked(settings, name, token)


@command("desk user reset ada", of=user_app, view="link-of-user")
def reset(
    name: NameArgument,
    second_factor: Annotated[
        bool, typer.Option("--second-factor", help="Remove the second factor, too.")
    ] = False,
) -> dict[str, str]:
    """End a user's password and sessions; prints a link to set a new password."""
    settings = settings_of_command()
    with journal_of(settings) as journal:
        accounts, audit = Accounts(journal), Audit(journal)
        token = accounts.reset(name)
        audit.write_by_command("user reset", name=name)
        if second_factor:
            accounts.set(name, second="")
            audit.write_by_command("second factor removed", name=name)
    return _linked(settings, name, token)


def _linked(settings: Settings, name: str, token: str) -> dict[str, str]:
    link = password_link(settings, token, f"http://127.0.0.1:{PORT}")
    return {"name": name, "link": link, "token": token}


@command("portal --port 8080")
def portal(
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port; 0 takes a free one. Default: that of a portal address on this machine, "
            "else 8080.",
        ),
    ] = None,
) -> None:
    """Serve the web pages customers meet: consent, callback, one-time password."""
    settings = settings_of_command()
    _warn_of_http(host, "portal", "keep this port behind it")
    if settings.redirect_uri or settings.consent_url or settings.client_id:
        require_consent(settings)
    with journal_of(settings) as journal:
        serve(journal, settings, host=host, port=port)
