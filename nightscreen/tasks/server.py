"""Requests to the Prefect server besides a run's states: its health, artifacts, tags, resuming.

They hold no personal data, because Prefect stores them in plain text. `report.page` makes the texts
of artifacts. A run never fails because the server refuses one.

The doctor and flows check a server: whether it answers, requires a login, and has live workers;
nothing is changed. `/health` needs no login, so whether the server requires one is tested on
another route.
"""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from prefect import get_client
from prefect.artifacts import acreate_markdown_artifact
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
from prefect.context import FlowRunContext
from prefect.deployments import arun_deployment
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_CUSTOM_HEADERS, temporary_settings

from nightscreen.config.settings import read_settings
from nightscreen.ops.doctor import OK, SCHEDULE, WARNING, WRONG, HealthFinding, Remedy
from nightscreen.report.page import quote_markdown, summary_markdown
from nightscreen.runs.screening_run import ScreeningRun
from nightscreen.schemas.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping

    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

    from nightscreen.calling.run import Run
    from nightscreen.journal.runs import RunRecord

T = TypeVar("T")
_NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")
_MOST_LETTERS = 60  # a choice; the end of a key, which says what the artifact shows, is kept
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


async def tried(
    request: Coroutine[Any, Any, T], warning: str = "the Prefect server gave no answer"
) -> T | None:
    """Return the result of a request; None if it fails, logged without the error's text."""
    task = asyncio.get_running_loop().create_task(request)
    await asyncio.wait([task])
    if task.cancelled() or (error := task.exception()) is None:
        return None if task.cancelled() else task.result()
    logging.getLogger(__name__).warning("%s: %s", warning, type(error).__name__)
    return None


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, object]) -> AsyncIterator[None]:
    """Run work in the background while the body runs; cancel it at the end and wait for it."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def show_quote(run: ScreeningRun, quote: dict[str, Any]) -> None:
    """Show what a run is expected to cost, before it is approved."""
    text, about = quote_markdown(quote), f"What run {run.run_id} is expected to cost"
    await _show(text, f"{run.batch}-quote", about)


async def show_report(run: Run, report: Mapping[str, Any]) -> None:
    """Show how a run ended, and what to do next."""
    folder, about = str(run.folder.path.absolute()), f"How run {run.run_id} ended, what to do next"
    flow = "" if isinstance(run, ScreeningRun) else f"-{run.flow}"
    await _show(summary_markdown(report, folder), f"{run.batch}{flow}-summary", about)


async def _show(text: str, key: str, about: str) -> None:
    """Make an artifact; those of a batch share a key, so that Prefect lists them together."""
    slug = _NOT_IN_KEYS.sub("-", key.casefold())[-_MOST_LETTERS:].strip("-")
    await tried(acreate_markdown_artifact(text, key=slug, description=about))


async def tag_run(*tags: str | None) -> None:
    """Add tags to the current flow run, so that Prefect's pages can filter by them."""
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    if run is None:
        return

    async def tag() -> None:
        async with get_client() as client:
            current = (await client.read_flow_run(run.id)).tags
            merged = dict.fromkeys([*current, *(tag for tag in tags if tag)])
            await client.update_flow_run(run.id, tags=list(merged))

    await tried(tag())


async def is_cancelled() -> bool:
    """Return whether a person cancelled this flow run of a worker.

    Prefect's runner cancels with a signal, as a machine going down does, so the server is asked.
    """
    if deployment.id is None:
        return False
    async with get_client() as client:
        state = (await client.read_flow_run(UUID(flow_run.id))).state
    return state is not None and state.is_cancelling()


async def resume_in_deployment(
    run: RunRecord, deployment_id: str, given: Mapping[str, str], *, waits_in_inbox: bool
) -> str | None:
    """Have the deployment that started a run resume it as given; return the deployment's name.

    None if no server is configured, the deployment is gone, or it does not take the run. The
    deployment of the inbox watch takes no run id: it looks for approved runs itself.

    Raises:
        SettingsError: the server cannot be reached.
    """
    if not PREFECT_API_URL.value():
        return None
    try:
        async with get_client() as client:
            starter = await client.read_deployment(UUID(deployment_id))
            flow = await client.read_flow(starter.flow_id)
        takes_run = flow.name == run.flow.replace("_", "-")
        if not takes_run and not waits_in_inbox:
            return None
        arguments = {"parameters": dict(given)} if takes_run else {}
        await arun_deployment(starter.id, parameters=arguments, timeout=0)
    except ObjectNotFound:
        return None
    except Exception as error:  # noqa: BLE001 - whatever the engine raises, the approval stands
        raise SettingsError(
            f"the Prefect server of PREFECT_API_URL did not take it ({type(error).__name__}): see "
            "that it runs"
        ) from None
    return f"{flow.name}/{starter.name}"


# --- its health ---


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
            _require_health(client.api_healthcheck())
            client.api_version()  # needs a login
    except Exception as error:  # noqa: BLE001 - a server that is only slow is asked again later
        trouble, remedy = _trouble(error)
        if remedy != _LOG or isinstance(error, TimeoutError):
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
        findings = asyncio.run(_look())
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


def _require_health(away: Exception | None) -> None:
    """Raise an error unless the server is well, given what its client's `api_healthcheck` found.

    Raises:
        ConnectionError: the server cannot be reached.
        TimeoutError: it accepts connections and does not answer.
    """
    if type(away).__name__ == "ReadTimeout":  # of the library that Prefect uses
        raise TimeoutError
    if away is not None:
        raise ConnectionError(type(away).__name__)


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


async def _look() -> list[HealthFinding]:
    """Check the server, and the work pools and schedules of our deployments.

    Prefect's client repeats requests that time out, so all of them together have a time limit.
    """
    settings = {"timeout": TIMEOUT_S}
    async with asyncio.timeout(2 * TIMEOUT_S), get_client(httpx_settings=settings) as client:
        _require_health(await client.api_healthcheck())
        return await _deployed(client)


async def _deployed(client: PrefectClient) -> list[HealthFinding]:
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    deployments = await client.read_deployments(deployment_filter=ours)
    findings = []
    for pool in sorted({each.work_pool_name for each in deployments if each.work_pool_name}):
        workers = await client.read_workers_for_work_pool(pool)
        alive = sum(each.status == WorkerStatus.ONLINE for each in workers)
        if alive:
            finding = HealthFinding("worker", OK, f"{alive} of work pool {pool} alive")
        else:
            says = f"no worker of work pool {pool} is alive: scheduled runs do not start"
            start = Remedy("", f"prefect worker start --pool {pool}")
            finding = HealthFinding("worker", WARNING, says, start)
        findings.append(finding)
    due = FlowRunFilterExpectedStartTime(before_=datetime.now(UTC))
    for each in deployments:
        which = FlowRunFilterDeploymentId(any_=[each.id])
        newest = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(deployment_id=which, expected_start_time=due),
            sort=FlowRunSort.EXPECTED_START_TIME_DESC,
            limit=1,
        )
        findings += [_schedule(each, run) for run in newest if _went_wrong(run)]
    return findings


def _went_wrong(run: FlowRun) -> bool:
    failed = {StateType.CRASHED, StateType.FAILED}
    return run.state is not None and (run.state.name == "Late" or run.state.type in failed)


def _schedule(of: DeploymentResponse, run: FlowRun) -> HealthFinding:
    """Report a deployment whose newest due run is late, crashed or failed."""
    at, pool, name = run.expected_start_time, of.work_pool_name, str(run.state_name)
    since = f" of {at:%Y-%m-%d %H:%M} UTC" if at is not None else ""
    problem, remedy = f"is {name.casefold()}", Remedy("look at its log in Prefect's pages")
    if name == "Late":
        start = Remedy("start what serves it: nightscreen up")
        problem = "has not started"
        remedy = Remedy("", f"prefect worker start --pool {pool}") if pool else start
    says = f"the newest run of {of.name}{since} {problem}"
    return HealthFinding(SCHEDULE, WARNING, says, remedy)
