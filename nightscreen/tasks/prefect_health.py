"""What can be seen of the engine from outside a run: its server, the work pool, workers, late runs.

For the doctor, and before work is taken from a server. Nothing is started or changed; whatever is
wrong is reported in words. `/health` answers anybody: whether a server has a login, and whether it
is ours, is asked of a route that wants one.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
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
    from collections.abc import Sequence

    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

TIMEOUT_S = 25.0
"""On SQLite a server that has a lot to do answers after ten seconds; a run waits for a minute."""
TAG = "nightscreen"
_LATE = "Late"
_PLANNED_WITHIN = timedelta(minutes=2)
"""The scheduler looks at new deployments every few seconds, and at all of them once a minute."""
_AT_ONCE = 8
"""Questions at once: more than the connections a server still has open to a database file that was
removed under it, by which it would answer some as if nothing had happened."""


_REFUSALS = (401, 403)


def answers_anybody(url: str) -> bool:
    """Return whether a server takes a route that wants a login, asked without one.

    Only 401 and 403 show that it wants one: a fault shows nothing.
    """
    try:
        with (
            temporary_settings({PREFECT_CLIENT_CUSTOM_HEADERS: {}}),  # some hold a login
            SyncPrefectClient(url, httpx_settings={"timeout": TIMEOUT_S}) as client,
        ):
            return bool(client.api_version())
    except PrefectHTTPStatusError as error:
        return error.response.status_code not in _REFUSALS
    except Exception:  # noqa: BLE001 - whatever it did, it did not answer
        return False


def require_engine(*, takes_work: bool = False, open_engine: bool = False) -> None:
    """Refuse a server that is away or refuses our login, and work from one that has no login.

    Args:
        takes_work: this process will do what the server says.
        open_engine: a server without a login is taken all the same.

    Raises:
        SettingsError: saying what to do.
    """
    url = str(PREFECT_API_URL.value())
    with get_client(sync_client=True) as client:
        if client.api_healthcheck() is not None:
            raise SettingsError(
                f"the Prefect server {url} cannot be reached: start it with prefect server "
                "start, or correct PREFECT_API_URL; nothing was asked"
            )
        try:
            client.api_version()
        except PrefectHTTPStatusError as error:
            if error.response.status_code in _REFUSALS:
                raise SettingsError(f"{_refuses(url)}: {_LOGIN}; nothing was asked") from None
    if takes_work and not open_engine and answers_anybody(url):
        raise SettingsError(f"{_is_open(url)}: {_TO_CLOSE}")


def _refuses(url: str) -> str:
    return f"the Prefect server {url} refuses the login"


_LOGIN = "set PREFECT_API_AUTH_STRING to the login of the Prefect server, see docs/deploy.md"


def _is_open(url: str) -> str:
    return (
        f"the Prefect server {url} answers without a login, so that whoever reaches it can run "
        "programs here"
    )


_TO_CLOSE = (
    "start it with PREFECT_SERVER_API_AUTH_STRING and set PREFECT_API_AUTH_STRING here, see "
    "docs/deploy.md, or set NIGHTSCREEN_OPEN_ENGINE=yes"
)


def look_at_engine() -> tuple[HealthFinding, ...]:
    """Look at the server that runs would use, and at the pools of our deployments."""
    url = PREFECT_API_URL.value()
    if not url:
        says = "PREFECT_API_URL is not set: each run starts a temporary server of its own"
        return (HealthFinding("engine", OK, says),)
    try:
        found = asyncio.run(_look(url))
        return (*found, _door(url)) if found[0].standing == OK else found
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the engine is reported in words
        return (_unreachable(url, type(error).__name__),)


def _door(url: str) -> HealthFinding:
    """Return whether the server answers anybody, and whether somebody allowed it."""
    if not answers_anybody(url):
        return HealthFinding("login", OK, "the Prefect server refuses whoever has none")
    try:
        allowed = read_settings().open_engine
    except SettingsError:  # the doctor reports what is wrong with them
        allowed = False
    if allowed:
        return HealthFinding("login", OK, f"{_is_open(url)}, as NIGHTSCREEN_OPEN_ENGINE allows")
    return HealthFinding("login", WRONG, _is_open(url), Remedy(_TO_CLOSE, ""))


def _unreachable(url: str, why: str) -> HealthFinding:
    return HealthFinding(
        "engine",
        WRONG,
        f"the Prefect server {url} cannot be reached ({why})",
        Remedy("start it with prefect server start, or correct PREFECT_API_URL", ""),
    )


def _without_database(url: str, how: str) -> HealthFinding:
    says = f"the Prefect server {url} lives, but asked about deployments it {how}"
    first = "look at the server's log: its database is away or overloaded, or of another version"
    return HealthFinding("engine", WRONG, says, Remedy(first, ""))


async def _look(url: str) -> tuple[HealthFinding, ...]:
    settings = {"timeout": TIMEOUT_S}
    async with asyncio.timeout(2 * TIMEOUT_S), get_client(httpx_settings=settings) as client:
        trouble = await client.api_healthcheck()
        if trouble is not None:
            return (_unreachable(url, type(trouble).__name__),)
        ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
        try:
            asked = (client.read_deployments(deployment_filter=ours) for _ in range(_AT_ONCE))
            async with asyncio.timeout(TIMEOUT_S):
                deployments, *_ = await asyncio.gather(*asked)
        except PrefectHTTPStatusError as error:
            if error.response.status_code in _REFUSALS:
                return (HealthFinding("engine", WRONG, _refuses(url), Remedy(_LOGIN, "")),)
            return (_without_database(url, f"answers with {error.response.status_code}"),)
        except Exception as error:  # noqa: BLE001 - the server lives, so whatever it is lies behind it
            return (_without_database(url, f"does not answer ({type(error).__name__})"),)
        pools = sorted({each.work_pool_name for each in deployments if each.work_pool_name})
        found = [HealthFinding("engine", OK, f"the Prefect server {url} answers")]
        found += [await _pool(client, name) for name in pools]
        return (*found, *await look_at_schedules(client, deployments))


async def _pool(client: PrefectClient, name: str) -> HealthFinding:
    """Return whether somebody takes runs out of a work pool."""
    workers = await client.read_workers_for_work_pool(name)
    alive = [each.name for each in workers if each.status == WorkerStatus.ONLINE]
    if alive:
        return HealthFinding("worker", OK, f"{len(alive)} of work pool {name} alive")
    return HealthFinding(
        "worker",
        WARNING,
        f"no worker of work pool {name} is alive: scheduled runs do not start",
        Remedy("", f"prefect worker start --pool {name}"),
    )


async def _runs(
    client: PrefectClient,
    deployment: DeploymentResponse,
    when: FlowRunFilterExpectedStartTime | None = None,
) -> list[FlowRun]:
    """Return the newest run of a deployment, in a list; of all times where none is said."""
    return await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[deployment.id]), expected_start_time=when
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=1,
    )


def _is_planned(deployment: DeploymentResponse, now: datetime) -> bool:
    """Return whether the server should have planned a run by now."""
    is_on = not deployment.paused and any(each.active for each in deployment.schedules)
    touched = deployment.updated or deployment.created
    return is_on and touched is not None and now - touched > _PLANNED_WITHIN


async def look_at_schedules(
    client: PrefectClient, deployments: Sequence[DeploymentResponse]
) -> list[HealthFinding]:
    """Report each deployment whose newest run is late, crashed or failed, of whatever flow.

    A late run is one whose time has come. Of runs still to come all that counts is whether there
    is one, where a schedule is on.
    """
    found = []
    for deployment in deployments:
        now = datetime.now(UTC)
        runs = await _runs(client, deployment, FlowRunFilterExpectedStartTime(before_=now))
        if not runs and _is_planned(deployment, now) and not await _runs(client, deployment):
            says = f"{deployment.name} has a schedule that is on, and no run of it is planned"
            first = "the server does not schedule: start it with prefect server start"
            found.append(HealthFinding(SCHEDULE, WARNING, says, Remedy(first, "")))
        state = runs[0].state if runs else None
        if state is None:
            continue
        late = state.name == _LATE
        if late or state.type in {StateType.CRASHED, StateType.FAILED}:
            at = runs[0].expected_start_time
            since = f" of {at:%Y-%m-%d %H:%M} UTC" if at is not None else ""
            word = "has not started" if late else f"is {str(state.name).casefold()}"
            pool = deployment.work_pool_name
            command = f"prefect worker start --pool {pool}" if late and pool else ""
            first = "" if command else "look at its log in Prefect's pages"
            if late and not command:
                first = "start what serves it: nightscreen up"
            says = f"the newest run of {deployment.name}{since} {word}"
            found.append(HealthFinding(SCHEDULE, WARNING, says, Remedy(first, command)))
    return found
