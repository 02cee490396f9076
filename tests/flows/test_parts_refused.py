"""Several workers where no part could ever begin: refused in one line, before anything is begun."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from prefect.client.schemas.objects import DeploymentStatus, WorkPoolStatus
from prefect.exceptions import ObjectNotFound
from prefect.settings import PREFECT_API_URL, temporary_settings

from nightscreen.config.parameters import ScreenBatch
from nightscreen.config.settings import read_settings
from nightscreen.runs.screening_run import open_screening
from nightscreen.schemas.errors import NightscreenError, SettingsError
from nightscreen.tasks import temporary_server
from nightscreen.tasks.workers import DEPLOYMENT, require_worker_available, worker_problem
from tests.screening import World, customer

if TYPE_CHECKING:
    from pathlib import Path

    from prefect.client.orchestration import PrefectClient

READY, PAUSED, NOT_READY = WorkPoolStatus.READY, WorkPoolStatus.PAUSED, WorkPoolStatus.NOT_READY


@dataclass
class Server:
    """The part of the engine's API that is asked whether parts could begin."""

    pool: str | None = "nights"  # the pool of the deployment; None where a process serves it
    status: WorkPoolStatus | None = READY  # how that pool stands, None where there is no such pool
    deployed: bool = True  # whether the deployment is there
    served: bool = False  # whether a process serves it

    async def read_deployment_by_name(self, name: str) -> Any:  # noqa: ANN401 - a document
        """Return a deployment."""
        if not self.deployed or name != DEPLOYMENT:
            raise ObjectNotFound(Exception())
        status = DeploymentStatus.READY if self.served else DeploymentStatus.NOT_READY
        return SimpleNamespace(work_pool_name=self.pool, status=status)

    async def read_work_pool(self, work_pool_name: str) -> Any:  # noqa: ANN401 - a document
        """Return a work pool."""
        if self.status is None or work_pool_name != self.pool:
            raise ObjectNotFound(Exception())
        return SimpleNamespace(status=self.status)


REASONS: list[tuple[Server, str]] = [
    (Server(), ""),
    (Server(deployed=False), "prefect --no-prompt deploy --all"),
    (Server(status=None), "prefect --no-prompt deploy --all"),
    (Server(status=PAUSED), "prefect work-pool resume nights"),
    (Server(status=NOT_READY), "prefect worker start --pool nights"),
    (Server(pool=None, served=True), ""),
    (Server(pool=None), "start one"),
]


async def test_each_reason_says_what_to_type() -> None:
    """One line, with the command that mends it; nothing where a part could begin."""
    for server, word in REASONS:
        why = await worker_problem(cast("PrefectClient", server))
        assert word in why, (server, word)
        assert bool(why) == bool(word), (server, word)
        assert "\n" not in why, (server, word)


async def test_a_resumed_run_is_refused_as_well(world: World) -> None:
    """What a run was begun with counts when it is resumed, unless it is told otherwise."""
    settings = read_settings(base_url="http://127.0.0.1:1", api_key="k", home=world.folder / "home")
    people = str(world.write([customer(1)]))
    begun = open_screening(ScreenBatch(input=people, output=str(world.folder), workers=2), settings)
    begun.close()
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        with pytest.raises(SettingsError, match="needs a Prefect server"):
            await require_worker_available(ScreenBatch(run=begun.run_id), settings)
        alone = ScreenBatch(run=begun.run_id, workers=1)
        await require_worker_available(alone, settings)


def test_a_temporary_server_that_dies_is_not_waited_for(tmp_path: Path) -> None:
    """One line says so at once, and how to see why."""
    temporary_server.begin(tmp_path)
    temporary_server._servers[-1].process.kill()
    temporary_server._servers[-1].process.wait()
    try:
        with pytest.raises(NightscreenError, match="did not start; nothing was asked"):
            temporary_server.wait(600)
    finally:
        temporary_server._stop()
