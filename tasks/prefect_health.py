"""What can be seen of the engine from outside a run: its server, the work pool, workers, late runs.

For the doctor. Nothing is started or changed; whatever is wrong is reported in words.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from prefect import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateName,
)
from prefect.client.schemas.objects import WorkerStatus
from prefect.settings import PREFECT_API_URL

from nightscreen.steps.ops.health_checks import OK, WARNING, HealthFinding
from nightscreen.steps.ops.suggestions import Remedy

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

TIMEOUT_S = 8.0
TAG = "nightscreen"
FLOW = "screen-batch"


def look_at_engine() -> tuple[HealthFinding, ...]:
    """Look at the server that runs would use, and at the pools of our deployments."""
    url = PREFECT_API_URL.value()
    if not url:
        says = "PREFECT_API_URL is not set: each run starts a temporary server of its own"
        return (HealthFinding("engine", OK, says),)
    try:
        return asyncio.run(_look(url))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the engine is reported in words
        return (_unreachable(url, type(error).__name__),)


def _unreachable(url: str, why: str) -> HealthFinding:
    return HealthFinding(
        "engine",
        WARNING,
        f"the Prefect server {url} cannot be reached ({why})",
        Remedy("start it with prefect server start, or correct PREFECT_API_URL", ""),
    )


async def _look(url: str) -> tuple[HealthFinding, ...]:
    async with asyncio.timeout(TIMEOUT_S), get_client(httpx_settings={"timeout": 5}) as client:
        trouble = await client.api_healthcheck()
        if trouble is not None:
            return (_unreachable(url, type(trouble).__name__),)
        deployments = await client.read_deployments(
            deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
        )
        pools = sorted({each.work_pool_name for each in deployments if each.work_pool_name})
        found = [HealthFinding("engine", OK, f"the Prefect server {url} answers")]
        found += [await _pool(client, name) for name in pools]
        return (*found, *await _late(client, pools))


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


async def _late(client: PrefectClient, pools: list[str]) -> list[HealthFinding]:
    """Tell of runs whose time has come and that have not started."""
    runs = await client.read_flow_runs(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])),
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(name=FlowRunFilterStateName(any_=["Late"]))
        ),
    )
    if not runs:
        return []
    pool = pools[0] if pools else TAG
    first = min(each.expected_start_time for each in runs if each.expected_start_time is not None)
    return [
        HealthFinding(
            "schedule",
            WARNING,
            f"{len(runs)} runs have not started, the first since {first:%Y-%m-%d %H:%M} UTC",
            Remedy("", f"prefect worker start --pool {pool}"),
        )
    ]
