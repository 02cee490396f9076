"""Check the Prefect server: its health, its login, workers and late runs; nothing is changed.

The doctor uses it, and flows before they take work from a server. `/health` needs no login, so
whether the server requires one is tested on another route.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterExpectedStartTime,
)
from prefect.client.schemas.objects import StateType, WorkerStatus
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CUSTOM_HEADERS, temporary_settings

from nightscreen.config.settings import read_settings
from nightscreen.ops.doctor import OK, SCHEDULE, WARNING, WRONG, HealthFinding, Remedy
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

TIMEOUT_S = 25.0
"""A busy server on SQLite may take ten seconds to answer; a run waits for a minute."""
TAG = "nightscreen"
_REFUSALS = (401, 403)  # HTTP: no valid login, or one without the right
_START = "start it with prefect server start, or correct PREFECT_API_URL"
_LOGIN = "set PREFECT_API_AUTH_STRING to the login of the Prefect server, see docs/deploy.md"
_CLOSE = (
    "start it with PREFECT_SERVER_API_AUTH_STRING and set PREFECT_API_AUTH_STRING here, see "
    "docs/deploy.md, or set NIGHTSCREEN_OPEN_ENGINE=yes"
)
_LOG = "look at the server's log: its database is away or overloaded, or of another version"
_OPEN = (
    "the Prefect server {} answers without a login, so that whoever reaches it can run programs "
    "here"
)


def answers_anybody(url: str) -> bool:
    """Return whether a server answers a request without a login.

    Only 401 and 403 count as a refusal; any other error response does not.
    """
    try:
        with (
            temporary_settings({PREFECT_CLIENT_CUSTOM_HEADERS: {}}),  # some hold a login
            SyncPrefectClient(url, httpx_settings={"timeout": TIMEOUT_S}) as client,
        ):
            return bool(client.api_version())
    except PrefectHTTPStatusError as error:
        return error.response.status_code not in _REFUSALS
    except Exception:  # noqa: BLE001 - whatever went wrong, it did not answer
        return False


def require_engine() -> None:
    """Refuse a server that cannot be reached or refuses the login.

    Raises:
        SettingsError: the text says what to do.
    """
    try:
        with get_client(sync_client=True) as client:
            _greet(client)
    except Exception as error:  # noqa: BLE001 - a server that is only slow is asked again later
        trouble, remedy = _trouble(error)
        if remedy != _LOG:
            text = f"the Prefect server {PREFECT_API_URL.value()} {trouble}: {remedy}"
            raise SettingsError(f"{text}; nothing was asked") from None


def refuse_open_engine(*, allowed: bool) -> None:
    """Refuse a server that needs no login, unless that is allowed.

    Raises:
        SettingsError: the text says what to do.
    """
    url = str(PREFECT_API_URL.value())
    if not allowed and answers_anybody(url):
        raise SettingsError(f"{_OPEN.format(url)}: {_CLOSE}")


def look_at_engine() -> tuple[HealthFinding, ...]:
    """Check the server that runs would use, its login, and our deployments."""
    url = PREFECT_API_URL.value()
    if not url:
        says = "PREFECT_API_URL is not set: each run starts a temporary server of its own"
        return (HealthFinding("engine", OK, says),)
    try:
        with get_client(httpx_settings={"timeout": TIMEOUT_S}, sync_client=True) as client:
            _greet(client)
            findings = _deployed(client)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the engine is reported in words
        trouble, remedy = _trouble(error)
        says = f"the Prefect server {url} {trouble}"
        return (HealthFinding("engine", WRONG, says, Remedy(remedy)),)
    if not answers_anybody(url):
        login = HealthFinding("login", OK, "the Prefect server requires one")
    else:
        allowed = False
        with suppress(SettingsError):  # the doctor reports it separately
            allowed = read_settings().open_engine
        says = _OPEN.format(url)
        login = HealthFinding("login", WRONG, says, Remedy(_CLOSE))
        if allowed:
            login = HealthFinding("login", OK, f"{says}, as NIGHTSCREEN_OPEN_ENGINE allows")
    return (HealthFinding("engine", OK, f"the Prefect server {url} answers"), *findings, login)


def _greet(client: SyncPrefectClient) -> None:
    """Make two requests: one that needs no login, one that does."""
    away = client.api_healthcheck()
    if away is not None:
        raise ConnectionError(type(away).__name__)
    client.api_version()


def _trouble(error: Exception) -> tuple[str, str]:
    """Return what an error says of the server, and what to do."""
    if isinstance(error, ConnectionError):
        return f"cannot be reached ({error})", _START
    if not isinstance(error, PrefectHTTPStatusError):
        return f"lives, but does not answer ({type(error).__name__})", _LOG
    status = error.response.status_code
    if status in _REFUSALS:
        return "refuses the login", _LOGIN
    return f"lives, but answers with {status}", _LOG


def _deployed(client: SyncPrefectClient) -> list[HealthFinding]:
    """Check the work pools and schedules of our deployments."""
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    deployments = client.read_deployments(deployment_filter=ours)
    findings = []
    for pool in sorted({each.work_pool_name for each in deployments if each.work_pool_name}):
        workers = client.read_workers_for_work_pool(pool)
        alive = sum(each.status == WorkerStatus.ONLINE for each in workers)
        if alive:
            finding = HealthFinding("worker", OK, f"{alive} of work pool {pool} alive")
        else:
            says = f"no worker of work pool {pool} is alive: scheduled runs do not start"
            start = Remedy("", f"prefect worker start --pool {pool}")
            finding = HealthFinding("worker", WARNING, says, start)
        findings.append(finding)
    due = FlowRunFilterExpectedStartTime(before_=datetime.now(UTC))
    for deployment in deployments:
        which = FlowRunFilterDeploymentId(any_=[deployment.id])
        newest = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(deployment_id=which, expected_start_time=due),
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=1,
        )
        findings += [_schedule(deployment, run) for run in newest if _went_wrong(run)]
    return findings


def _went_wrong(run: FlowRun) -> bool:
    failed = {StateType.CRASHED, StateType.FAILED}
    return run.state is not None and (run.state.name == "Late" or run.state.type in failed)


def _schedule(deployment: DeploymentResponse, run: FlowRun) -> HealthFinding:
    """Report a deployment whose newest due run is late, crashed or failed."""
    at, pool, name = run.expected_start_time, deployment.work_pool_name, str(run.state_name)
    since = f" of {at:%Y-%m-%d %H:%M} UTC" if at is not None else ""
    problem, remedy = f"is {name.casefold()}", Remedy("look at its log in Prefect's pages")
    if name == "Late":
        start = Remedy("start what serves it: nightscreen up")
        problem = "has not started"
        remedy = Remedy("", f"prefect worker start --pool {pool}") if pool else start
    says = f"the newest run of {deployment.name}{since} {problem}"
    return HealthFinding(SCHEDULE, WARNING, says, remedy)
