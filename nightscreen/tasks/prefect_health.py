"""Check the Prefect server: its health, its login, workers and late runs; nothing is changed.

The doctor uses it, and flows before they take work from a server. `/health` needs no login, so
whether the server requires one is tested on another route.
"""

from __future__ import annotations

import asyncio
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
    from prefect.client.orchestration import PrefectClient
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
    url = str(PREFECT_API_URL.value())
    with get_client(sync_client=True) as client:
        if client.api_healthcheck() is not None:
            raise SettingsError(
                f"the Prefect server {url} cannot be reached: {_START}; nothing was asked"
            )
        try:
            client.api_version()
        except PrefectHTTPStatusError as error:
            if error.response.status_code in _REFUSALS:
                raise SettingsError(
                    f"the Prefect server {url} refuses the login: {_LOGIN}; nothing was asked"
                ) from None


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
        findings = asyncio.run(_look())
    except ConnectionError as error:
        return _away(url, f"cannot be reached ({error})", _START)
    except PrefectHTTPStatusError as error:
        status = error.response.status_code
        if status in _REFUSALS:
            return _away(url, "refuses the login", _LOGIN)
        return _away(url, f"lives, but answers with {status}", _LOG)
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the engine is reported in words
        return _away(url, f"lives, but does not answer ({type(error).__name__})", _LOG)
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


def _away(url: str, trouble: str, first: str) -> tuple[HealthFinding]:
    return (HealthFinding("engine", WRONG, f"the Prefect server {url} {trouble}", Remedy(first)),)


async def _look() -> list[HealthFinding]:
    """Check the work pools and schedules of our deployments.

    Raises:
        ConnectionError: the server cannot be reached.
        Exception: it runs, but a request failed.
    """
    settings = {"timeout": TIMEOUT_S}
    async with asyncio.timeout(2 * TIMEOUT_S), get_client(httpx_settings=settings) as client:
        away = await client.api_healthcheck()
        if away is not None:
            raise ConnectionError(type(away).__name__)
        ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
        deployments = await client.read_deployments(deployment_filter=ours)
        pools = sorted({each.work_pool_name for each in deployments if each.work_pool_name})
        workers = [await _pool(client, name) for name in pools]
        late = [await _newest_run(client, each) for each in deployments]
        return [*workers, *(finding for finding in late if finding is not None)]


async def _pool(client: PrefectClient, name: str) -> HealthFinding:
    workers = await client.read_workers_for_work_pool(name)
    alive = sum(each.status == WorkerStatus.ONLINE for each in workers)
    if alive:
        return HealthFinding("worker", OK, f"{alive} of work pool {name} alive")
    return HealthFinding(
        "worker",
        WARNING,
        f"no worker of work pool {name} is alive: scheduled runs do not start",
        Remedy("", f"prefect worker start --pool {name}"),
    )


async def _newest_run(
    client: PrefectClient, deployment: DeploymentResponse
) -> HealthFinding | None:
    """Report a deployment whose newest due run is late, crashed or failed; None if it is well."""
    due = FlowRunFilterExpectedStartTime(before_=datetime.now(UTC))
    which = FlowRunFilterDeploymentId(any_=[deployment.id])
    runs = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(deployment_id=which, expected_start_time=due),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=1,
    )
    state = runs[0].state if runs else None
    late = state is not None and state.name == "Late"
    if state is None or not (late or state.type in {StateType.CRASHED, StateType.FAILED}):
        return None
    at, pool = runs[0].expected_start_time, deployment.work_pool_name
    since = f" of {at:%Y-%m-%d %H:%M} UTC" if at is not None else ""
    problem = "has not started" if late else f"is {str(state.name).casefold()}"
    remedy = Remedy("look at its log in Prefect's pages")
    if late:
        start = Remedy("start what serves it: nightscreen up")
        remedy = Remedy("", f"prefect worker start --pool {pool}") if pool else start
    says = f"the newest run of {deployment.name}{since} {problem}"
    return HealthFinding(SCHEDULE, WARNING, says, remedy)
